//! Failures of calls.

use std::time::Duration;

/// Why a call of an endpoint failed. `Display` fits after the endpoint's name: "the endpoint cannot
/// be reached: …".
///
/// Messages of endpoints are shortened and never hold the key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointFailure {
    /// The endpoint rejects the key, or denies it this request.
    #[error("does not accept the key (status {status}): {message}")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// The endpoint's reason.
        message: String,
    },
    /// Too many requests, also after the retries.
    #[error(
        "limits the rate of requests (status 429): {message}; try again later, or with fewer requests at a time"
    )]
    RateLimited {
        /// The wait that the endpoint asks for.
        retry_after: Option<Duration>,
        /// The endpoint's reason.
        message: String,
    },
    /// The endpoint rejects the request: an unknown model, a text that is too long, an unknown
    /// path.
    #[error("refuses the request (status {status}): {message}")]
    Refused {
        /// A status of 400 to 499.
        status: u16,
        /// The endpoint's reason.
        message: String,
    },
    /// The endpoint failed.
    #[error("fails (status {status}): {message}; try again later")]
    Failed {
        /// 408, 409, or a status of 500 and more.
        status: u16,
        /// The wait that the endpoint asks for.
        retry_after: Option<Duration>,
        /// The endpoint's reason.
        message: String,
    },
    /// The endpoint answers with a redirect, which is not followed.
    #[error(
        "redirects to {location:?} (status {status}), which is not followed: if it is right, use it as base URL"
    )]
    Redirected {
        /// A status of 300 to 399.
        status: u16,
        /// The header `Location`.
        location: String,
    },
    /// The connection failed.
    #[error("cannot be reached: {0}; check that it runs, and the base URL")]
    Unreachable(String),
    /// The connection broke in the middle of an answer.
    #[error("broke off in the middle of its answer: {0}; try again later")]
    BrokenOff(String),
    /// The time limit passed.
    #[error("did not answer within {} s: send less at a time, or use a faster model", .0.as_secs_f64())]
    Timeout(Duration),
    /// The answer is longer than the limit, in bytes.
    #[error("sent an answer of more than {0} bytes")]
    TooLarge(usize),
    /// The answer cannot be parsed, or breaks the rules of its interface.
    #[error("sent an invalid answer: {0}")]
    Malformed(String),
}

impl EndpointFailure {
    /// Returns whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Failed { .. }
                | Self::Unreachable(_)
                | Self::BrokenOff(_)
        )
    }

    /// Returns the wait that the endpoint asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Failed { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
