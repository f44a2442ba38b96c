//! The error of a command: its exit status and message.

use std::fmt::{self, Display};

use marquetry_knowledge::{ErrorCode, Failure, KnowledgeError};
use marquetry_rag::{IndexError, PipelineError, RecordError, RecordStoreError, StoreError};

/// Why a command failed: exit status and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryCommandError {
    /// The exit status: 1 if something failed while running, 2 if the arguments or settings are
    /// wrong.
    pub code: u8,
    /// The message for standard error, without "error: ". It may contain control characters of file
    /// names.
    pub message: String,
}

impl LibraryCommandError {
    /// Creates the error of a failure at run time.
    pub(crate) fn new(problem: impl Display) -> Self {
        Self { code: 1, message: problem.to_string() }
    }

    /// Creates the error of wrong arguments or settings.
    pub(crate) fn usage(problem: impl Display) -> Self {
        Self { code: 2, message: problem.to_string() }
    }
}

impl Display for LibraryCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LibraryCommandError {}

impl From<Failure> for LibraryCommandError {
    /// Errors that do not depend on the database are errors of the command line.
    fn from(failure: Failure) -> Self {
        match failure.code {
            ErrorCode::InvalidParams | ErrorCode::LimitExceeded => Self::usage(failure.message),
            _ => Self::new(failure.message),
        }
    }
}

impl From<KnowledgeError> for LibraryCommandError {
    fn from(error: KnowledgeError) -> Self {
        Self::new(error)
    }
}

impl From<StoreError> for LibraryCommandError {
    fn from(error: StoreError) -> Self {
        Self::new(error)
    }
}

impl From<PipelineError> for LibraryCommandError {
    fn from(error: PipelineError) -> Self {
        Self::new(error)
    }
}

impl From<RecordStoreError> for LibraryCommandError {
    fn from(error: RecordStoreError) -> Self {
        Self::new(error)
    }
}

impl From<IndexError> for LibraryCommandError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Records(error) => error.into(),
            error => Self::new(error),
        }
    }
}

impl From<RecordError> for LibraryCommandError {
    /// Errors that do not depend on the database are errors of the command line.
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::UnknownType { .. }
            | RecordError::Uri { .. }
            | RecordError::Invalid { .. }
            | RecordError::Limit { .. } => Self::usage(error),
            error => Self::new(error),
        }
    }
}
