//! What goes wrong while vectors are made.

#[cfg(feature = "remote")]
use std::time::Duration;

/// Why a model gave no vectors. No variant holds a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model gave more or fewer vectors than it was given texts.
    #[error("the model {model:?} gave {got} vectors for {wanted} texts")]
    Count {
        /// Which model.
        model: String,
        /// How many texts there were.
        wanted: usize,
        /// How many vectors came.
        got: usize,
    },
    /// The model gave vectors of a length that is not its own.
    #[error(
        "the model {model:?} gave a vector of {got} numbers, and should give {wanted}: \
         if it is another model now, index the documents again"
    )]
    Dimension {
        /// Which model.
        model: String,
        /// How many numbers a vector should have.
        wanted: usize,
        /// How many it has.
        got: usize,
    },
    /// The model gave a vector with infinity in it.
    #[error("the model {model:?} gave a vector with a value that is not a finite number")]
    NotFinite {
        /// Which model.
        model: String,
    },
    /// What was configured cannot work.
    #[error("the embedding model is not configured: {0}")]
    Config(String),
    /// A model of this machine's own failed, for want of memory, say.
    #[cfg(any(feature = "builtin-model", feature = "transformer"))]
    #[error("the model {model:?} failed: {reason}")]
    Compute {
        /// Which model.
        model: String,
        /// What happened.
        reason: String,
    },
    /// An endpoint did not do what it was asked.
    #[cfg(feature = "remote")]
    #[error("the embedding endpoint {endpoint} {failure}")]
    Endpoint {
        /// Where it is.
        endpoint: String,
        /// What happened.
        failure: EndpointFailure,
    },
}

/// What an endpoint did in the place of giving vectors. What it says is shortened, and never holds the key.
#[cfg(feature = "remote")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointFailure {
    /// It does not know the key, or does not let it do this.
    #[error("does not accept the key (status {status}): {message}")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// What it says.
        message: String,
    },
    /// Too many requests, also after waiting.
    #[error(
        "is asked too often (status 429): {message}; try again later, or with fewer requests at a time"
    )]
    RateLimited {
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It does not take the request: no such model, a text too long, a path that is not there.
    #[error("refuses the request (status {status}): {message}")]
    Refused {
        /// The status, of 400 and more.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It failed.
    #[error("fails (status {status}): {message}")]
    Failed {
        /// The status, of 500 and more.
        status: u16,
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It sends us elsewhere. Neither texts nor key follow.
    #[error(
        "redirects to {location:?} (status {status}), which is not followed: use that as base URL if it is right"
    )]
    Redirected {
        /// The status, of 300 and more.
        status: u16,
        /// Where to.
        location: String,
    },
    /// There is no connection, or it broke.
    #[error("cannot be reached: {0}; is it running, and the base URL right?")]
    Unreachable(String),
    /// No answer in time.
    #[error("gave no answer within {} s: ask for more time, or for fewer texts at once", .0.as_secs_f64())]
    Timeout(Duration),
    /// Its answer is longer than an answer may be.
    #[error("answers with more than {0} bytes (max_answer_bytes)")]
    TooLarge(usize),
    /// Its answer makes no sense.
    #[error("gave an answer that is none: {0}")]
    Malformed(String),
}

#[cfg(feature = "remote")]
impl EndpointFailure {
    /// Whether the same request may be answered a little later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Failed { .. } | Self::Unreachable(_))
    }

    /// How long the endpoint wants us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Failed { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
