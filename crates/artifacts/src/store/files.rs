//! The files of a directory store: what its other modules share.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cap_std::fs::{Dir, DirEntry};

use super::StoreError;
use crate::name::ArtifactName;

/// How often a directory that does not become empty is removed.
const MAX_REMOVALS: u32 = 10;

/// Options of a [`DirectoryStore`](super::DirectoryStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryOptions {
    /// Wait at each put until the disk has it, so that it survives a power failure. Default true. An artifact is
    /// whole or absent after a killed process in either case.
    pub durable: bool,
    /// The largest artifact that is taken, in bytes. Default 1 GiB.
    pub max_artifact_bytes: u64,
    /// Bytes that all artifacts of all scopes may take on the disk. Each file counts in blocks of 4 KiB; each version
    /// costs two blocks more for its directories, and so does each scope. Default 10 GiB. Several processes may exceed
    /// it by a sixteenth each.
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
pub(super) struct Inner {
    pub(super) root: Dir,
    pub(super) options: DirectoryOptions,
    /// Held while the directory is looked through: only threads for blocking work may wait for it.
    pub(super) quota: Mutex<Quota>,
    /// What all versions are charged, as far as is known; changed only under the lock `quota`.
    pub(super) charged: AtomicU64,
    /// Whether a path was passed over that cannot be read or removed.
    pub(super) has_passed_over: AtomicBool,
    /// Versions that were removed to make room.
    pub(super) evicted: AtomicU64,
    /// From a name's directory to the name: always the same, so it never goes stale.
    pub(super) known: Mutex<HashMap<String, ArtifactName>>,
    /// With the process's own part, makes names in `tmp` that nobody else makes.
    pub(super) temporary: AtomicU64,
    pub(super) process: u64,
    /// Tests stop a put here.
    #[cfg(test)]
    pub(super) stop_at: Mutex<Option<Stop>>,
}

/// What is known of the bytes on the disk beside how many they are, which [`Inner`] has.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// Whether the directory was looked through.
    pub(super) is_counted: bool,
    /// What was written since it was looked through: other processes may have written as much.
    pub(super) written: u64,
}

#[cfg(test)]
/// What happens to a put at one of its steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// The process is killed: nothing more is done.
    Dies(&'static str),
    /// The step fails.
    Fails(&'static str),
}

impl Inner {
    /// What the store is charged, as far as it was looked through. Never waits, so that any thread may ask.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// The names of the directories in a directory; none when there is no such directory. Files that other programs leave
    /// there, such as `.DS_Store`, do not count.
    pub(super) fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        self.entries_that(path, |entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    /// The names of a directory's entries; none when there is no such directory.
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

/// Removes a directory that others may still write to, in a few tries; what stays is removed when the store is opened
/// another time.
fn removed(mut remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..MAX_REMOVALS {
        match remove() {
            // A put that had found its place just before the place was moved here. It came before the delete, then.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    Ok(())
}

/// The number of a version by its directory. Only the spelling that we write counts: `01` and `+1` are another's. And
/// the last number of all leaves none for a next one.
pub(super) fn number_of(entry: &str) -> Option<u64> {
    let number = entry.parse::<u64>().ok().filter(|number| *number < u64::MAX);
    number.filter(|number| number.to_string() == entry)
}

/// Whether there is nothing at a path, or something on the way to it that is no directory.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
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
