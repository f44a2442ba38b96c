//! Failures of a log.

use std::{io, path::PathBuf};

/// Why a log cannot be opened, or an event is not in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file cannot be opened or read.
    #[error("the audit log {} cannot be opened: {problem}", path.display())]
    Open {
        /// The path of the log.
        path: PathBuf,
        /// The problem, for people.
        problem: String,
    },
    /// Another process, or another log of this process, has the file open.
    #[error("the audit log {} is in use by another process", path.display())]
    InUse {
        /// The path of the log.
        path: PathBuf,
    },
    /// The file has other contents than an audit log.
    #[error("{} exists and is not an audit log; name another file", path.display())]
    NotALog {
        /// The path of the log.
        path: PathBuf,
    },
    /// The event does not serialise as a JSON object.
    #[error("the event is not a JSON object for the log: {problem}")]
    NotAnObject {
        /// The problem, for people.
        problem: String,
    },
    /// The event is longer than a line may be.
    #[error("the event has {bytes} bytes, more than {max}")]
    TooLong {
        /// Bytes of the event.
        bytes: usize,
        /// Bytes that an event may have.
        max: usize,
    },
    /// The line cannot be written.
    #[error("the audit log cannot be written: {problem}")]
    Unwritable {
        /// The problem, for people.
        problem: String,
    },
    /// The log was closed.
    #[error("the audit log is closed")]
    Closed,
}

impl AuditError {
    pub(crate) fn open(path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Open { path: path.into(), problem: error.to_string() }
    }
}
