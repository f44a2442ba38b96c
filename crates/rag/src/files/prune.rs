//! Finds indexed files that do not exist any more.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    keep::Prepared,
    location::path_of,
    walk::{Walked, key},
};
use crate::{Caller, Filter, Pipeline, StoreError};

/// A named path, below which indexed files are checked.
pub(super) struct Scope(PathBuf);

impl Scope {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }
}

/// A document whose file does not exist.
pub(super) struct Gone {
    pub(super) path: PathBuf,
    pub(super) uri: String,
}

/// The documents of files that a walk did not find.
#[derive(Default)]
pub(super) struct Unseen {
    pub(super) gone: Vec<Gone>,
    /// Number of files that exist, and that the walk left out as hidden or ignored.
    pub(super) excluded: u64,
}

/// Number of documents in one read. Each may have the pages of a long book.
const PAGE: usize = 100;

/// Returns the caller's documents of files at or below the named paths that the walk did not find.
///
/// Excluded files are counted only if every folder could be listed. Files below a named path that
/// does not exist itself are left out, because it may be on a disk that is not mounted.
pub(super) async fn find(
    pipeline: &Pipeline,
    caller: &Caller,
    scopes: &[Scope],
    walked: &Walked,
) -> Result<Unseen, StoreError> {
    let mut filter = Filter::default();
    filter.owners = vec![caller.user.clone()];
    let (key_of, value) = Prepared::ORIGIN;
    filter.metadata.insert(key_of.to_owned(), value.into());
    let named: Vec<&PathBuf> =
        scopes.iter().map(|scope| &scope.0).filter(|path| !is_absent(path)).collect();
    let mut unseen = Unseen::default();
    let mut after = None::<String>;
    loop {
        let page = pipeline.store().documents(&filter, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(unseen) };
        after = Some(last.uri.clone());
        for document in page {
            let source = document.metadata.get(Prepared::SOURCE).and_then(|source| source.as_str());
            let Some(Ok(path)) = source.map(|source| path_of(source.as_ref())) else { continue };
            if !named.iter().any(|scope| path.starts_with(scope))
                || walked.paths.contains(&key(&path))
            {
                continue;
            }
            if is_absent(&path) {
                unseen.gone.push(Gone { path, uri: document.uri });
            } else {
                unseen.excluded += u64::from(walked.complete);
            }
        }
    }
}

fn is_absent(path: &Path) -> bool {
    let kind = path.symlink_metadata().err().map(|error| error.kind());
    matches!(kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}
