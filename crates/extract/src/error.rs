//! Why a document gives no text.

use std::time::Duration;

use crate::Stopped;

/// Why a document gives no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// It is larger than a limit of [`Limits`](crate::Limits) allows.
    #[error("the limit {limit} is {allowed}, the document has {found} or more")]
    Limit {
        /// The limit's name.
        limit: &'static str,
        /// What it allows.
        allowed: u64,
        /// What was found when it was noticed.
        found: u64,
    },
    /// It took longer than [`Limits::max_time`](crate::Limits::max_time).
    #[error("the limit max_time is {} seconds, the document takes longer", .0.as_secs_f64())]
    Time(Duration),
    /// The caller stopped the reading ([`Hint::stop`](crate::Hint::stop)).
    #[error("reading the document was stopped: its caller has gone")]
    Stopped,
    /// Too many documents that exceeded their time are still being read in the background; try again later.
    #[error("{0} documents are being read already")]
    Busy(usize),
    /// Nothing here reads such documents.
    #[error("{media_type} is not read")]
    Unsupported {
        /// What it is.
        media_type: String,
    },
    /// The document is declared as text, but its bytes are not.
    #[error("there is no text in it")]
    NoText,
    /// It cannot be read without a password.
    #[error("the document is encrypted, and needs a password")]
    Encrypted,
    /// It is damaged, or no such document.
    #[error("no valid {format}: {reason}")]
    Malformed {
        /// What it should be.
        format: &'static str,
        /// What is wrong, and where.
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
