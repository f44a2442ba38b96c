//! Checks whether a log is whole.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::chain::{ChainEnd, LineHash, LineHead, MAX_EVENT_BYTES, OwnEvent};

/// Longer lines are not from this crate.
const MAX_LINE_BYTES: u64 = MAX_EVENT_BYTES as u64 + 1_024;

/// A log in which no line was changed, removed or inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The files, the oldest first.
    pub files: Vec<PathBuf>,
    /// Number of the first line. After rotations it is more than 1: the lines before were removed
    /// with their files.
    pub first_seq: u64,
    /// Number of the last line.
    pub last_seq: u64,
    /// Hash of the last line.
    pub last_hash: LineHash,
    /// Incomplete lines that a crash has left, and that the log has recorded.
    pub torn: u64,
    /// Bytes of an incomplete line at the end. The next start of the log records it.
    pub torn_bytes: u64,
    /// Events that the log itself counted as missing, because its queue was full or the file could
    /// not be written.
    pub missing_events: u64,
    /// A line to look for; see [`Self::has_line`].
    sought: Option<(u64, Option<LineHash>)>,
}

/// Where and why a log is not whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A file cannot be read.
    #[error("{} cannot be read: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The problem, for people.
        problem: String,
    },
    /// No file has a line.
    #[error("there are no lines")]
    Empty,
    /// A line does not continue the line before.
    #[error("{}:{line}: {problem}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Number of the line in the file, from 1 on.
        line: u64,
        /// The problem.
        problem: LineProblem,
    },
    /// Lines are missing before the first line of a file: a whole file, or the end of one.
    #[error("lines {from} to {to} are missing before {}: a file is missing, or the end of one was removed", path.display())]
    Missing {
        /// The first missing line.
        from: u64,
        /// The last missing line.
        to: u64,
        /// The file after them.
        path: PathBuf,
    },
    /// A file has lines that another file has, too, or belongs to another log.
    #[error("{} begins with line {seq}, which another file has, too: it is a copy, or of another log", path.display())]
    Repeated {
        /// The file.
        path: PathBuf,
        /// Number of its first line.
        seq: u64,
    },
    /// An expected line is not there.
    #[error(
        "line {seq} with the hash {hash} is not in the log: lines were removed at its end, or all were written anew"
    )]
    NotFound {
        /// Number of the line.
        seq: u64,
        /// Its hash.
        hash: LineHash,
    },
}

/// Why a line does not continue the line before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// It is no line of a log, and no crash that the log has recorded has left it.
    #[error("this is not a line of an audit log")]
    NotALine,
    /// It has more bytes than a line may have.
    #[error("the line is too long")]
    TooLong,
    /// Its number does not follow the one before.
    #[error("expected line {expected}, found line {found}: lines were removed, inserted or moved")]
    Number {
        /// The number after the line before.
        expected: u64,
        /// Its number.
        found: u64,
    },
    /// Its hash is not that of the line before.
    #[error("the hash is not that of the line before: one of the two lines was changed")]
    Hash,
    /// It records an incomplete line with other bytes than those before it.
    #[error("the incomplete line before is not the one that this line records")]
    Torn,
}

/// Checks a log: the file at `path`, and its rotated files.
///
/// # Errors
///
/// Returns an error for the first line that is broken, for lines that are missing, or for a file
/// that cannot be read.
pub fn verify_log(path: impl AsRef<Path>) -> Result<Verified, VerifyError> {
    let path = path.as_ref();
    let files = files_of(path).map_err(|error| unreadable(path, &error))?;
    if files.is_empty() {
        return Err(unreadable(path, &io::ErrorKind::NotFound.into()));
    }
    verify(&files)
}

/// Checks files of one log, in any order.
///
/// # Errors
///
/// Returns an error for the first line that is broken, for lines that are missing, or for a file
/// that cannot be read.
pub fn verify(files: &[impl AsRef<Path>]) -> Result<Verified, VerifyError> {
    verify_with(files, None)
}

impl Verified {
    /// Checks that a line is in the log, by its number and hash, which were kept elsewhere. It
    /// reads the files again. A line that was removed with an old file is not found.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not in the log, or the log is no longer whole.
    pub fn has_line(&self, seq: u64, hash: LineHash) -> Result<(), VerifyError> {
        let found = verify_with(&self.files, Some(seq))?;
        match found.sought {
            Some((_, Some(of_line))) if of_line == hash => Ok(()),
            _ => Err(VerifyError::NotFound { seq, hash }),
        }
    }
}

fn verify_with(files: &[impl AsRef<Path>], sought: Option<u64>) -> Result<Verified, VerifyError> {
    let mut ordered = Vec::new();
    for path in files {
        let path = path.as_ref();
        let first = first_seq(path).map_err(|error| unreadable(path, &error))?;
        ordered.push((first, path));
    }
    // An empty file is the newest, just after a rotation.
    ordered.sort_by_key(|(first, path)| (first.unwrap_or(u64::MAX), path.to_owned()));
    let mut chain = ChainCheck { sought: sought.map(|seq| (seq, None)), ..ChainCheck::default() };
    for (index, (first, path)) in ordered.iter().enumerate() {
        if let (Some(first), Some(end)) = (first, chain.end) {
            if *first > end.seq + 1 {
                return Err(VerifyError::Missing {
                    from: end.seq + 1,
                    to: first - 1,
                    path: path.to_path_buf(),
                });
            }
            if *first <= end.seq {
                return Err(VerifyError::Repeated { path: path.to_path_buf(), seq: *first });
            }
        }
        chain.at.0 = index;
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let outcome = check_lines(&mut BufReader::new(file), &mut chain)
            .map_err(|error| unreadable(path, &error))?;
        outcome.map_err(|problem| broken(&ordered, chain.at, problem))?;
    }
    if chain.torn.is_ended {
        return Err(broken(&ordered, chain.torn.at, LineProblem::NotALine));
    }
    let Some((first_seq, end)) = chain.first_seq.zip(chain.end) else {
        return Err(VerifyError::Empty);
    };
    Ok(Verified {
        files: ordered.into_iter().map(|(_, path)| path.to_owned()).collect(),
        first_seq,
        last_seq: end.seq,
        last_hash: end.hash,
        torn: chain.torn_lines,
        torn_bytes: chain.torn.bytes,
        missing_events: chain.missing_events,
        sought: chain.sought,
    })
}

fn broken(
    files: &[(Option<u64>, &Path)],
    (file, line): (usize, u64),
    problem: LineProblem,
) -> VerifyError {
    VerifyError::Broken { path: files[file].1.to_owned(), line, problem }
}

fn unreadable(path: &Path, error: &io::Error) -> VerifyError {
    VerifyError::Unreadable { path: path.to_owned(), problem: error.to_string() }
}

/// Returns the existing files of a log: `path`, and its rotated files under the names that this
/// crate and logrotate give them (`PATH.1`, `PATH-20261128`). Compressed files are left out.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let found = entry.file_name();
        let Some(suffix) = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes()) else {
            continue;
        };
        if is_rotated_suffix(suffix) {
            files.push(path.with_file_name(&found));
        }
    }
    files.sort();
    Ok(files)
}

fn is_rotated_suffix(suffix: &[u8]) -> bool {
    match suffix {
        [] => true,
        [b'.' | b'-', digits @ ..] => {
            digits.first().is_some_and(u8::is_ascii_digit)
                && digits.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
        }
        _ => false,
    }
}

/// Returns the number of the first whole line of a file.
fn first_seq(path: &Path) -> io::Result<Option<u64>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    // A file may begin with the rest of a line that was not written completely.
    for _ in 0..16 {
        if read_line(&mut reader, &mut line)? == 0 {
            return Ok(None);
        }
        if let Some(head) = LineHead::of(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return Ok(Some(head.seq));
        }
    }
    Ok(None)
}

/// Reads a line with its end, or a part of a line that is too long.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    reader.take(MAX_LINE_BYTES + 1).read_until(b'\n', line)
}

/// Checks the lines of a file, which continue those of the file before. An error is at
/// [`ChainCheck::at`].
pub(crate) fn check_lines(
    reader: &mut impl BufRead,
    chain: &mut ChainCheck,
) -> io::Result<Result<(), LineProblem>> {
    let mut line = Vec::new();
    chain.at.1 = 0;
    while read_line(reader, &mut line)? > 0 {
        chain.at.1 += 1;
        if let Err(problem) = chain.line(&line) {
            return Ok(Err(problem));
        }
    }
    Ok(Ok(()))
}

/// The state of a check, from line to line.
#[derive(Default)]
pub(crate) struct ChainCheck {
    first_seq: Option<u64>,
    /// The last whole line.
    pub(crate) end: Option<ChainEnd>,
    /// Bytes after it that are no line.
    torn: Torn,
    /// The position of the line that is checked: the file, and the line in it.
    at: (usize, u64),
    torn_lines: u64,
    missing_events: u64,
    /// The number of a line, and its hash once it was found.
    sought: Option<(u64, Option<LineHash>)>,
}

/// Bytes that are no line.
#[derive(Default)]
struct Torn {
    bytes: u64,
    hash: Sha256,
    /// Whether they have the end of a line. A crash leaves none.
    is_ended: bool,
    /// Where they begin: the file, and the line in it.
    at: (usize, u64),
}

impl ChainCheck {
    /// Checks a line, with its end if it has one.
    fn line(&mut self, with_end: &[u8]) -> Result<(), LineProblem> {
        if with_end.len() as u64 > MAX_LINE_BYTES {
            return Err(LineProblem::TooLong);
        }
        let line = with_end.strip_suffix(b"\n").unwrap_or(with_end);
        let Some(head) = LineHead::of(line) else {
            if self.torn.bytes == 0 {
                self.torn.at = self.at;
            }
            self.torn.is_ended |= with_end.ends_with(b"\n");
            self.torn.bytes += with_end.len() as u64;
            self.torn.hash.update(with_end);
            return Ok(());
        };
        let own = OwnEvent::of_line(line);
        if self.torn.bytes > 0 {
            let torn = std::mem::take(&mut self.torn);
            let recorded = own.as_ref().filter(|own| own.event == "log_torn");
            let Some(recorded) = recorded else {
                // Reported where they stand, not at the line after them.
                self.at = torn.at;
                return Err(LineProblem::NotALine);
            };
            let hash = LineHash(torn.hash.finalize().into());
            let is_of_these = recorded.torn_bytes == Some(torn.bytes)
                && recorded.torn_sha256 == Some(hash.to_string());
            if !is_of_these {
                return Err(LineProblem::Torn);
            }
            self.torn_lines += 1;
        } else if own.as_ref().is_some_and(|own| own.event == "log_torn" && self.end.is_some()) {
            // The incomplete line was removed.
            return Err(LineProblem::Torn);
        }
        match self.end {
            None if head.seq == 1 && head.prev != LineHash::NONE => return Err(LineProblem::Hash),
            None => self.first_seq = Some(head.seq),
            Some(end) if head.seq != end.seq.wrapping_add(1) => {
                let expected = end.seq.wrapping_add(1);
                return Err(LineProblem::Number { expected, found: head.seq });
            }
            Some(end) if head.prev != end.hash => return Err(LineProblem::Hash),
            Some(_) => {}
        }
        if let Some(own) = own.filter(|own| own.event == "log_incomplete") {
            let missing = own.dropped.unwrap_or(0).saturating_add(own.lost.unwrap_or(0));
            self.missing_events = self.missing_events.saturating_add(missing);
        }
        let hash = LineHash::of(line);
        if let Some((seq, found)) = &mut self.sought
            && *seq == head.seq
        {
            *found = Some(hash);
        }
        self.end = Some(ChainEnd { seq: head.seq, hash });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_those_of_this_crate_and_of_logrotate() {
        for (suffix, is_rotated) in [
            ("", true),
            (".1", true),
            (".12", true),
            ("-20261128", true),
            ("-20261128.1", true),
            (".lock", false),
            (".1.gz", false),
            ("-old", false),
            ("2", false),
            (".", false),
        ] {
            assert_eq!(is_rotated_suffix(suffix.as_bytes()), is_rotated, "{suffix}");
        }
    }
}
