//! The directory of a store, as its other modules share it.

use std::{
    collections::{HashMap, HashSet},
    io::{self, ErrorKind, Write as _},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cap_std::fs::{Dir, DirEntry, OpenOptions};

use super::StoreError;
use crate::name::ArtifactName;

/// Attempts to remove a directory that does not become empty.
const MAX_REMOVALS: u32 = 10;

/// Options of a [`DirectoryStore`](super::DirectoryStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryOptions {
    /// Waits at each put until the artifact is on the disk, so that it survives a power failure.
    /// Default true. In either case an artifact is complete or absent after the process is killed.
    pub durable: bool,
    /// Largest artifact that is accepted, in bytes. Default 1 GiB.
    pub max_artifact_bytes: u64,
    /// Bytes that all artifacts of all scopes may take on the disk. Each file counts in blocks of 4
    /// KiB; each version costs two blocks more for its directories, and so does each scope. Default
    /// 10 GiB. Several processes may exceed it by a sixteenth each.
    pub max_total_bytes: u64,
}

impl DirectoryOptions {
    /// Sets [`durable`](Self::durable).
    #[must_use]
    pub fn with_durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }

    /// Sets [`max_artifact_bytes`](Self::max_artifact_bytes).
    #[must_use]
    pub fn with_max_artifact_bytes(self, max_artifact_bytes: u64) -> Self {
        Self { max_artifact_bytes, ..self }
    }

    /// Sets [`max_total_bytes`](Self::max_total_bytes).
    #[must_use]
    pub fn with_max_total_bytes(self, max_total_bytes: u64) -> Self {
        Self { max_total_bytes, ..self }
    }
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            durable: true,
            max_artifact_bytes: 1024 * 1024 * 1024,
            max_total_bytes: 10 * 1024 * 1024 * 1024,
        }
    }
}

#[derive(Debug)]
pub(super) struct SharedDirectory {
    pub(super) root: Dir,
    /// Path of `root`, for the log.
    pub(super) path: PathBuf,
    pub(super) options: DirectoryOptions,
    /// Locked during a scan of the directory: only threads of the blocking pool may wait for it.
    pub(super) quota: Mutex<Quota>,
    /// Bytes that all known versions are charged. Changed only under the lock `quota`.
    pub(super) charged: AtomicU64,
    /// A path that cannot be read or removed was logged.
    pub(super) has_passed_over: AtomicBool,
    /// The removal of the directory was logged.
    pub(super) has_logged_removal: AtomicBool,
    /// Number of evicted versions.
    pub(super) evicted: AtomicU64,
    /// Cache of names by their directories. Entries never change.
    pub(super) known: Mutex<HashMap<String, ArtifactName>>,
    /// Damaged versions that were logged, by their directories.
    pub(super) damaged: Mutex<HashSet<String>>,
    /// Counter that makes names in `tmp` unique together with `process`.
    pub(super) temporary: AtomicU64,
    pub(super) process: u64,
    /// Step at which tests stop a put.
    #[cfg(test)]
    pub(super) stop_at: Mutex<Option<Stop>>,
}

/// State of the quota, beside the number of bytes in [`SharedDirectory`].
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// The directory was scanned.
    pub(super) is_counted: bool,
    /// Bytes that were written since the scan. Other processes may have written as many.
    pub(super) written: u64,
}

#[cfg(test)]
/// Failure of a put at one of its steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// The process is killed: no further step runs.
    Dies(&'static str),
    /// The step fails.
    Fails(&'static str),
}

impl SharedDirectory {
    /// Returns the bytes that the store is charged, as of the last scan. It never waits, so any
    /// thread may call it.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Returns the names of the directories in a directory; none without a directory. Files of
    /// other programs, such as `.DS_Store`, are ignored.
    pub(super) fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        self.entries_that(path, |entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    /// Returns the names of a directory's entries; none without a directory.
    pub(super) fn entries(&self, path: &str) -> io::Result<Vec<String>> {
        self.entries_that(path, |_| true)
    }

    fn entries_that(&self, path: &str, keep: fn(&DirEntry) -> bool) -> io::Result<Vec<String>> {
        let entries = match self.root.read_dir(path) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if keep(&entry) {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    pub(super) fn quota(&self) -> MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a directory under `tmp`.
    pub(super) fn remove(&self, temporary: &str) -> io::Result<()> {
        removed(|| self.root.remove_dir_all(temporary))
    }

    pub(super) fn temporary(&self) -> String {
        format!("tmp/{:016x}-{}", self.process, self.temporary.fetch_add(1, Ordering::Relaxed))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests stop here")]
    pub(super) fn step(&self, _step: &'static str) -> Result<(), StoreError> {
        Ok(())
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests ask here")]
    pub(super) fn is_stopped(&self) -> bool {
        false
    }

    #[cfg(test)]
    pub(super) fn step(&self, step: &'static str) -> Result<(), StoreError> {
        match *self.stop_at.lock().unwrap() {
            Some(Stop::Dies(stop) | Stop::Fails(stop)) if stop == step => {
                Err(StoreError::Backend("stopped".to_owned()))
            }
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.stop_at.lock().unwrap(), Some(Stop::Dies(_)))
    }
}

/// Removes a directory that others may still write to, in a few attempts. Remaining files are
/// removed when the store is opened again.
fn removed(mut remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..MAX_REMOVALS {
        match remove() {
            // A put found the directory just before it was moved here. It counts as done before the
            // delete.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    Ok(())
}

/// Parses the version number of a directory name. Other spellings such as `01` and `+1` are no
/// versions. Neither is the largest number, since none could follow.
pub(super) fn number_of(entry: &str) -> Option<u64> {
    let number = entry.parse::<u64>().ok().filter(|number| *number < u64::MAX);
    number.filter(|number| number.to_string() == entry)
}

/// Returns whether nothing exists at a path, or a part of the path is not a directory.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns options with which a new file is for its owner alone. The directory of the store may be
/// an older one that others can read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes a file that is for its owner alone if it is new.
pub(super) fn write_private(directory: &Dir, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut options = private_file();
    options.write(true).create(true).truncate(true);
    directory.open_with(path, &options)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_never_becomes_empty_is_left() {
        let mut tries = 0;
        let left = removed(|| {
            tries += 1;
            Err(ErrorKind::DirectoryNotEmpty.into())
        });
        assert!(left.is_ok());
        assert_eq!(tries, MAX_REMOVALS);
        let denied = removed(|| Err(ErrorKind::PermissionDenied.into()));
        assert_eq!(denied.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
