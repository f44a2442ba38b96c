//! Why a token is refused.

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The token is invalid; the reason goes to the client.
    Invalid(&'static str),
    /// The issuer's keys are not available now.
    KeysUnavailable,
}
