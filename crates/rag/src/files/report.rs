//! What became of files.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::FileProblem;

/// What happens while files are indexed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileEvent<'a> {
    /// So many files were counted, before anything else was done ([`FileOptions::count`](crate::FileOptions::count)).
    /// There may be others by the time that they are read.
    Counted(u64),
    /// A file was found.
    Found,
    /// All files were found.
    Listed,
    /// A file is done with; what is to be kept of it may still be on its way.
    Done {
        /// Which.
        path: &'a std::path::Path,
        /// What became of it.
        outcome: FileOutcome<'a>,
    },
}

/// What became of a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FileOutcome<'a> {
    /// It is new, and has so many chunks.
    Indexed(u64),
    /// It was there before, with another content or cut in another way, and has so many chunks now.
    Changed(u64),
    /// It is as it was.
    Unchanged,
    /// It was not indexed.
    Refused(&'a FileProblem),
    /// It is not there any more, and was removed from the index, or would be.
    Removed,
}

/// A file that was not indexed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub problem: FileProblem,
}

/// What became of all files together.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IndexReport {
    /// How many files are new.
    pub indexed: u64,
    /// How many were there before and are not what they were.
    pub changed: u64,
    /// How many are as they were.
    pub unchanged: u64,
    /// How many chunks the new and changed ones have.
    pub chunks: u64,
    /// How many bytes the new and changed ones have.
    pub bytes: u64,
    /// Those that could not be indexed though they should, the first [`Self::MAX_NAMED`] of them.
    pub failures: Vec<Refused>,
    /// How many could not.
    pub failed: u64,
    /// Those that are no documents, the first [`Self::MAX_NAMED`] of them.
    pub skips: Vec<Refused>,
    /// How many of them there are, by [`FileProblem::code`].
    pub skipped: BTreeMap<&'static str, u64>,
    /// What was indexed before and is not there any more, the first [`Self::MAX_NAMED`] of it.
    pub gone: Vec<PathBuf>,
    /// How many of that were removed.
    pub removed: u64,
    /// How many of that were not, since nobody asked for it.
    pub left: u64,
    /// Whether it was stopped before all was done.
    pub stopped: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl IndexReport {
    /// How many files are named of each sort.
    pub const MAX_NAMED: usize = 1_000;

    pub(super) fn refuse(&mut self, path: PathBuf, problem: FileProblem) {
        let named = if problem.is_failure() {
            self.failed += 1;
            &mut self.failures
        } else {
            *self.skipped.entry(problem.code()).or_default() += 1;
            &mut self.skips
        };
        if named.len() < Self::MAX_NAMED {
            named.push(Refused { path, problem });
        }
    }

    /// Puts what was refused in order once all is known.
    pub(super) fn end(&mut self, started: Instant) {
        let by_path = |left: &Refused, right: &Refused| left.path.cmp(&right.path);
        self.failures.sort_by(by_path);
        self.skips.sort_by(by_path);
        self.elapsed = started.elapsed();
    }

    /// How many files were looked at.
    pub fn files(&self) -> u64 {
        self.indexed
            + self.changed
            + self.unchanged
            + self.failed
            + self.skipped.values().sum::<u64>()
    }
}
