//! Why there is no answer.

use std::time::Duration;

/// Why a model gave no answer. No variant holds a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// What was configured cannot work.
    #[error("model is not configured: {0}")]
    Config(String),
    /// The provider does not know the key, or does not let it do this.
    #[error("provider does not accept the key (status {status}): {message}")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// What the provider says.
        message: String,
    },
    /// Too many requests, also after waiting.
    #[error("provider is asked too often: {message}")]
    RateLimited {
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
        /// What the provider says.
        message: String,
    },
    /// The request is not one that the provider takes.
    #[error("provider refuses the request (status {status}): {message}")]
    Refused {
        /// The status, of 400 and more.
        status: u16,
        /// What the provider says.
        message: String,
    },
    /// The provider failed.
    #[error("provider fails (status {status}): {message}")]
    Failed {
        /// The status, of 500 and more.
        status: u16,
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
        /// What the provider says.
        message: String,
    },
    /// There is no connection, or it broke.
    #[error("provider cannot be reached: {0}")]
    Connection(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// An answer that does not end.
    #[error("the answer has more than {0} bytes (max_answer_bytes), and was given up")]
    TooLong(usize),
    /// An answer that makes no sense.
    #[error("answer is malformed: {0}")]
    Malformed(String),
    /// A script has no further answer.
    #[error("script ended: it has {0} answers, and was asked once more")]
    ScriptEnded(usize),
}

impl ChatError {
    /// Whether the same request may be answered a little later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Failed { .. } | Self::Connection(_))
    }

    /// How long the provider wants us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Failed { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
