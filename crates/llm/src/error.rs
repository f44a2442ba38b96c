//! Errors of chat models.

use std::time::Duration;

use marquetry_endpoint::EndpointFailure;

/// Why a model gave no answer. No variant holds a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// An option is missing or invalid.
    #[error("model is not configured: {0}")]
    Config(String),
    /// The call of the provider failed.
    #[error("provider {0}")]
    Provider(EndpointFailure),
    /// A model without a provider failed, for the given reason.
    #[error("{0}")]
    Model(String),
    /// A script has no further answer.
    #[error("the script has {0} answers, and got one more request")]
    ScriptEnded(usize),
}

impl From<EndpointFailure> for ChatError {
    fn from(failure: EndpointFailure) -> Self {
        Self::Provider(failure)
    }
}

impl ChatError {
    /// Returns whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Provider(failure) if failure.is_transient())
    }

    /// Returns the wait that the provider asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Provider(failure) => failure.retry_after(),
            Self::Config(_) | Self::Model(_) | Self::ScriptEnded(_) => None,
        }
    }
}
