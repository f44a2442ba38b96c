//! Walks the named folders, and finds indexed files that no longer exist.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::{DirEntry, WalkBuilder};
use tokio::sync::mpsc;

use super::{
    FileOptions,
    location::{self, Root, Target, special},
    problem::FileProblem,
    writer::PreparedFile,
};
use crate::{Caller, Filter, Pipeline, Stop, StoreError};

/// A file to read, below its root.
pub(super) struct ListedFile {
    pub(super) root: Arc<Root>,
    pub(super) relative: PathBuf,
    /// Length of the file when its folder was listed.
    pub(super) bytes: u64,
}

impl ListedFile {
    /// Returns the path without links.
    pub(super) fn path(&self) -> PathBuf {
        self.root.path.join(&self.relative)
    }
}

/// A file, or a path with the reason why it is not indexed.
pub(super) type WalkEntry = Result<ListedFile, (PathBuf, FileProblem)>;

/// The result of a walk.
#[derive(Default)]
pub(super) struct Walked {
    /// Every existing path that is not ignored, including unreadable files.
    pub(super) paths: HashSet<PathKey>,
    /// Whether every folder could be listed.
    pub(super) complete: bool,
}

/// The hash of a path. Hashes of a million paths fit into memory.
pub(super) type PathKey = [u8; 16];

pub(super) fn key(path: &Path) -> PathKey {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}

/// Sends every file below the targets once, and every other entry with the reason why it is not
/// indexed. Does not follow links. Ends early when the receiver is dropped.
pub(super) fn walk(
    targets: &[Target],
    options: &FileOptions,
    found: &mpsc::Sender<WalkEntry>,
) -> Walked {
    let mut walked = Walked { complete: true, ..Walked::default() };
    for target in targets {
        for entry in walker(target, options).build() {
            let listed = match entry {
                Ok(entry) => {
                    let Some(listed) = listed(&entry, target, options) else { continue };
                    if !walked.paths.insert(key(entry.path())) {
                        continue;
                    }
                    listed
                }
                Err(error) => {
                    walked.complete = false;
                    let path = path_of(&error).unwrap_or_else(|| target.path());
                    Err((path, problem_of(&error)))
                }
            };
            if found.blocking_send(listed).is_err() {
                walked.complete = false;
                return walked;
            }
        }
    }
    walked
}

/// Counts the entries that [`walk`] would send.
pub(super) fn count(targets: &[Target], options: &FileOptions, stop: &Stop) -> u64 {
    let mut paths: HashSet<PathKey> = HashSet::new();
    let mut failed = 0;
    for target in targets {
        for entry in walker(target, options).build() {
            if stop.check().is_err() {
                break;
            }
            match entry {
                Ok(entry) if is_folder(&entry) => {}
                Ok(entry) => _ = paths.insert(key(entry.path())),
                Err(_) => failed += 1,
            }
        }
    }
    paths.len() as u64 + failed
}

/// Returns whether an entry is a folder, or may be one.
fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_none_or(|kind| kind.is_dir())
}

fn walker(target: &Target, options: &FileOptions) -> WalkBuilder {
    let mut walker = WalkBuilder::new(target.path());
    walker
        .standard_filters(!options.ignored)
        // Ignore files above the named folder and the user's global git settings have no effect.
        .parents(false)
        .git_global(false)
        // `.gitignore` also applies in folders without a git repository.
        .require_git(false)
        .hidden(!options.hidden)
        .follow_links(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    walker
}

/// Returns an entry as a file to read, or with the reason why it is not read; `None` for folders.
fn listed(entry: &DirEntry, target: &Target, options: &FileOptions) -> Option<WalkEntry> {
    let path = entry.path();
    let kind = entry.file_type()?;
    if kind.is_dir() {
        return None;
    }
    if kind.is_symlink() {
        return Some(Err((path.to_owned(), FileProblem::Link)));
    }
    if let Some(what) = special(kind) {
        return Some(Err((path.to_owned(), FileProblem::Special(what))));
    }
    if options.except.iter().any(|except| except == path) {
        return Some(Err((path.to_owned(), FileProblem::Database)));
    }
    let relative = path.strip_prefix(&target.root.path).ok()?.to_owned();
    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
    Some(Ok(ListedFile { root: Arc::clone(&target.root), relative, bytes }))
}

fn problem_of(error: &ignore::Error) -> FileProblem {
    match error.io_error() {
        Some(io) if io.kind() == std::io::ErrorKind::NotFound => FileProblem::Vanished,
        // The error's message contains the path, which is shown already.
        Some(io) => std::io::Error::from(io.kind()).into(),
        None => FileProblem::Unreadable(error.to_string()),
    }
}

fn path_of(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
    }
}

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
pub(super) async fn find_unlisted(
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
            let Some(Ok(path)) = source.map(|source| location::path_of(source.as_ref())) else {
                continue;
            };
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
