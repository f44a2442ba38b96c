//! Problems of files.

use std::{io, path::PathBuf, time::Duration};

use crate::{ChunkError, EmbedError, ExtractError, PipelineError, RecordError, StoreError};

/// The reason why a file was not indexed. Indexing continues with the other files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The path does not exist.
    #[error("there is no such file or directory")]
    Missing,
    /// The path is outside of [`FileOptions::within`](crate::FileOptions::within).
    #[error("outside of the folders that may be indexed ({})", list(.0))]
    Outside(Vec<PathBuf>),
    /// The URI does not name a file of this machine.
    #[error("not a file URI of this machine: {0}")]
    Uri(&'static str),
    /// The path is a symbolic link, whose target may be anywhere.
    #[error("a symbolic link; index its target by the target's path")]
    Link,
    /// The path is a device, pipe or socket.
    #[error("a {0}, not a file")]
    Special(&'static str),
    /// The file belongs to the database that holds the index.
    #[error("a part of the database itself")]
    Database,
    /// The document is empty.
    #[error("there is no text in it")]
    NoText,
    /// The document has content, and none of it was read as text.
    #[error("no text was found in it: {0}")]
    Unread(String),
    /// The file changed while it was read.
    #[error("it changed while it was read; index it again")]
    Changing,
    /// The file was removed after its folder was listed.
    #[error("it no longer exists")]
    Vanished,
    /// Reading takes longer than [`ExtractLimits::max_time`](crate::ExtractLimits::max_time).
    #[error("reading takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// The extractor panicked.
    #[error("reading was cancelled")]
    Panic,
    /// The file cannot be opened or read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The text could not be extracted.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The text could not be cut into chunks.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The chunks could not be embedded.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The record of the file was refused.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The file has changed since it was indexed, and its new content could not be indexed.
    #[error("{0}; its earlier index entries are kept")]
    Kept(Box<Self>),
    /// The store refused the file.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FileProblem {
    /// Returns whether this is a failure; otherwise the file is empty, or of a kind that is not
    /// indexed.
    pub fn is_failure(&self) -> bool {
        !matches!(
            self,
            Self::Link
                | Self::Special(_)
                | Self::Database
                | Self::NoText
                | Self::Vanished
                | Self::Extract(ExtractError::NoText | ExtractError::Unsupported { .. })
        )
    }

    /// Returns one word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Outside(_) => "outside",
            Self::Uri(_) => "uri",
            Self::Link => "link",
            Self::Special(_) => "special",
            Self::Database => "database",
            Self::NoText => "no_text",
            Self::Unread(_) => "unread",
            Self::Extract(ExtractError::NoText) => "binary",
            Self::Changing => "changing",
            Self::Vanished => "vanished",
            Self::Time(_)
            | Self::Extract(ExtractError::Time(_))
            | Self::Chunk(ChunkError::Time(_)) => "time",
            Self::Panic => "panic",
            Self::Unreadable(_) => "unreadable",
            Self::Extract(ExtractError::Limit { .. }) => "limit",
            Self::Extract(ExtractError::Unsupported { .. }) => "unsupported",
            Self::Extract(ExtractError::Encrypted) => "encrypted",
            Self::Extract(ExtractError::Malformed { .. }) => "malformed",
            Self::Extract(_) => "extract",
            Self::Chunk(_) => "chunk",
            Self::Embed(_) => "embed",
            Self::Kept(problem) => problem.code(),
            Self::Record(_) => "record",
            Self::Store(_) => "store",
        }
    }
}

impl From<PipelineError> for FileProblem {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Chunk(error) => Self::Chunk(error),
            PipelineError::Embed(error) => Self::Embed(error),
            PipelineError::Store(error) => Self::Store(error),
        }
    }
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Vanished,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}
