//! Reports of indexing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::FileProblem;

/// Progress of indexing.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileEvent<'a> {
    /// The number of files, counted before the first is read
    /// ([`FileOptions::count`](crate::FileOptions::count)). The number may change until all files
    /// are read.
    Counted(u64),
    /// The walk found a file.
    Found,
    /// The walk is complete.
    Listed,
    /// A file is indexed, and a part of it was not read. [`Self::Done`] follows.
    Incomplete(&'a IncompleteFile),
    /// A file is finished. It may not be stored yet.
    Done {
        /// Path of the file.
        path: &'a Path,
        /// Whether the file itself was named, and not a folder above it.
        is_named: bool,
        /// Outcome of the file.
        outcome: FileOutcome<'a>,
    },
}

/// The outcome of one file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FileOutcome<'a> {
    /// The file is new, and has this number of chunks.
    Indexed(u64),
    /// The content or the chunk options changed; the file was indexed again, and has this number of
    /// chunks.
    Changed(u64),
    /// The file is unchanged since it was indexed.
    Unchanged,
    /// The file was not indexed.
    Refused(&'a FileProblem),
    /// The file does not exist any more; it was removed from the index, or in a dry run would be.
    Removed,
}

/// A file that was not indexed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason.
    pub problem: Arc<FileProblem>,
}

/// A file that was indexed without a part of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IncompleteFile {
    /// Path of the file.
    pub path: PathBuf,
    /// What the file shows and its indexed text does not have: the first ten reasons.
    pub losses: Vec<String>,
}

/// The report of a run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IndexReport {
    /// Number of new files.
    pub indexed: u64,
    /// Number of changed files.
    pub changed: u64,
    /// Number of unchanged files.
    pub unchanged: u64,
    /// Number of chunks of the new and changed files.
    pub chunks: u64,
    /// Size of the new and changed files, in bytes.
    pub bytes: u64,
    /// New and changed files of which a part was not read, in the order of their paths: the first
    /// [`Self::MAX_NAMED`].
    pub incomplete_files: Vec<IncompleteFile>,
    /// Number of new and changed files of which a part was not read.
    pub incomplete: u64,
    /// Files that failed, in the order of their paths: the first [`Self::MAX_NAMED`].
    pub failures: Vec<Refused>,
    /// Number of files that failed.
    pub failed: u64,
    /// Files that are not documents, in the order of their paths: the first [`Self::MAX_NAMED`].
    pub skips: Vec<Refused>,
    /// Numbers of files that are not documents, by [`FileProblem::code`].
    pub skipped: BTreeMap<&'static str, u64>,
    /// Indexed files that do not exist any more, at most [`Self::MAX_NAMED`].
    pub gone: Vec<PathBuf>,
    /// Number of files in `gone` that were removed from the index.
    pub removed: u64,
    /// Number of files in `gone` that stay in the index, because
    /// [`FileOptions::prune`](crate::FileOptions::prune) is off.
    pub left: u64,
    /// Number of indexed files that exist, and that this run left out as hidden or ignored. They
    /// stay in the index.
    pub excluded: u64,
    /// Whether the run was stopped early.
    pub stopped: bool,
    /// Duration of the run.
    pub elapsed: Duration,
}

impl IndexReport {
    /// Maximum length of each list of files.
    pub const MAX_NAMED: usize = 1_000;

    pub(super) fn refuse(&mut self, path: PathBuf, problem: Arc<FileProblem>) {
        let named = if problem.is_failure() {
            self.failed += 1;
            &mut self.failures
        } else {
            *self.skipped.entry(problem.code()).or_default() += 1;
            &mut self.skips
        };
        named.push(Refused { path, problem });
        // Sorting at twice the length takes little time for each file.
        if named.len() >= 2 * Self::MAX_NAMED {
            keep_first(named, |file| &file.path);
        }
    }

    pub(super) fn add_incomplete(&mut self, file: IncompleteFile) {
        self.incomplete += 1;
        self.incomplete_files.push(file);
        if self.incomplete_files.len() >= 2 * Self::MAX_NAMED {
            keep_first(&mut self.incomplete_files, |file| &file.path);
        }
    }

    /// Takes out a file that was not stored after all.
    pub(super) fn remove_incomplete(&mut self, path: &Path) {
        let before = self.incomplete_files.len();
        self.incomplete_files.retain(|file| file.path != path);
        self.incomplete -= (before - self.incomplete_files.len()) as u64;
    }

    /// Sorts and cuts the lists at the end of a run.
    pub(super) fn end(&mut self, started: Instant) {
        keep_first(&mut self.failures, |file| &file.path);
        keep_first(&mut self.skips, |file| &file.path);
        keep_first(&mut self.incomplete_files, |file| &file.path);
        self.elapsed = started.elapsed();
    }

    /// Returns the number of examined files.
    pub fn files(&self) -> u64 {
        self.indexed
            + self.changed
            + self.unchanged
            + self.failed
            + self.skipped.values().sum::<u64>()
    }
}

/// Keeps the first files in the order of their paths. Files end in any order, and the list of a run
/// is compared with that of the run before.
fn keep_first<T>(named: &mut Vec<T>, path: impl Fn(&T) -> &Path) {
    named.sort_by(|left, right| path(left).cmp(path(right)));
    named.truncate(IndexReport::MAX_NAMED);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the named files of a run whose files end in this order.
    fn named_files(order: impl Iterator<Item = usize>) -> Vec<PathBuf> {
        let mut report = IndexReport::default();
        for number in order {
            let path = PathBuf::from(format!("{number:05}"));
            report.refuse(path.clone(), FileProblem::Panic.into());
            report.refuse(path, FileProblem::NoText.into());
            assert!(report.failures.len() < 2 * IndexReport::MAX_NAMED);
        }
        report.end(Instant::now());
        assert!(report.failed == 5_000 && report.failures.len() == IndexReport::MAX_NAMED);
        report.failures.into_iter().chain(report.skips).map(|file| file.path).collect()
    }

    #[test]
    fn the_named_files_do_not_depend_on_the_order_in_which_files_end() {
        assert_eq!(named_files(0..5_000), named_files((0..5_000).rev()));
    }
}
