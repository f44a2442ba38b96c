//! Errors of extraction.

use std::time::Duration;

use crate::Stopped;

/// Errors of extraction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// One of the [`Limits`](crate::Limits) is exceeded.
    #[error("the limit {limit} is {allowed}, the document has {found} or more")]
    Limit {
        /// The name of the limit.
        limit: &'static str,
        /// Value of the limit.
        allowed: u64,
        /// The number found, or a lower bound of it.
        found: u64,
    },
    /// Reading took longer than [`Limits::max_time`](crate::Limits::max_time).
    #[error("reading the document takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// The caller stopped the reading ([`Hint::stop`](crate::Hint::stop)).
    #[error("reading the document was stopped: the caller disconnected")]
    Stopped,
    /// Too many documents that exceeded their time are still being read in the background; try
    /// again later.
    #[error("{0} documents are being read already")]
    Busy(usize),
    /// No extractor reads documents of this media type.
    #[error("the format {media_type} is not supported")]
    Unsupported {
        /// The media type.
        media_type: String,
    },
    /// The document is declared as text, but its bytes are not text.
    #[error("it is declared as text, and its bytes are not text")]
    NoText,
    /// The document is encrypted.
    #[error("the document is encrypted, and needs a password")]
    Encrypted,
    /// The document is damaged, or does not have its declared format.
    #[error("invalid {format}: {reason}")]
    Malformed {
        /// Name of the format.
        format: &'static str,
        /// The reason, with its position.
        reason: String,
    },
}

impl From<Stopped> for ExtractError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Time(time) => Self::Time(time),
            Stopped::Now => Self::Stopped,
        }
    }
}
