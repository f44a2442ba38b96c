//! Finds indexed files that do not exist any more.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    location::path_of,
    walk::{Walked, key},
    writer::PreparedFile,
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
pub(super) struct MissingFile {
    pub(super) path: PathBuf,
    pub(super) uri: String,
}

/// The documents of files that a walk did not list.
#[derive(Default)]
pub(super) struct UnlistedFiles {
    pub(super) missing: Vec<MissingFile>,
    /// Number of files that exist, and that the walk left out as hidden or ignored.
    pub(super) excluded: u64,
}

/// Number of documents in one read. Each may have the pages of a long book.
const PAGE: usize = 100;

/// Returns the caller's documents of files at or below the named paths that the walk did not list.
///
/// Excluded files are counted only if every folder could be listed. Files below a named path that
/// does not exist itself are left out, because it may be on a disk that is not mounted.
pub(super) async fn find(
    pipeline: &Pipeline,
    caller: &Caller,
    scopes: &[Scope],
    walked: &Walked,
) -> Result<UnlistedFiles, StoreError> {
    let mut filter = Filter::default();
    filter.owners = vec![caller.user.clone()];
    let (key_of, value) = PreparedFile::ORIGIN;
    filter.metadata.insert(key_of.to_owned(), value.into());
    let named: Vec<&PathBuf> =
        scopes.iter().map(|scope| &scope.0).filter(|path| !is_absent(path)).collect();
    let mut unlisted = UnlistedFiles::default();
    let mut after: Option<String> = None;
    loop {
        let page = pipeline.store().documents(&filter, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(unlisted) };
        after = Some(last.uri.clone());
        for document in page {
            let source =
                document.metadata.get(PreparedFile::SOURCE).and_then(|source| source.as_str());
            let Some(Ok(path)) = source.map(|source| path_of(source.as_ref())) else { continue };
            if !named.iter().any(|scope| path.starts_with(scope))
                || walked.paths.contains(&key(&path))
            {
                continue;
            }
            if is_absent(&path) {
                unlisted.missing.push(MissingFile { path, uri: document.uri });
            } else {
                unlisted.excluded += u64::from(walked.complete);
            }
        }
    }
}

fn is_absent(path: &Path) -> bool {
    let kind = path.symlink_metadata().err().map(|error| error.kind());
    matches!(kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}
