//! Why a secret could not be read.

use std::time::Duration;

use crate::reference::ReferenceError;

/// Maximum size of a secret in bytes.
pub const MAX_BYTES: u64 = 64 << 10;

/// A secret that could not be read: its reference and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reference} {problem}")]
pub struct SecretError {
    /// The reference as it is shown.
    pub reference: String,
    /// The problem.
    pub problem: SecretProblem,
}

/// Why a secret could not be read. No variant has a part of its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretProblem {
    /// The reference is incomplete.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// This place of a setting takes no secrets, for this reason.
    #[error("cannot be used here: {0}")]
    NotHere(&'static str),
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    File(String),
    /// The path is that of a folder, a pipe or a device.
    #[error("is not a regular file")]
    NotAFile,
    /// Programs may not be started.
    #[error("is not run: {0}")]
    Refused(String),
    /// The program could not be started.
    #[error("cannot be run: {0}")]
    NotStarted(String),
    /// The program reported a failure.
    #[error("failed with {0}; run it in a terminal to see why")]
    Failed(String),
    /// The program or the keyring did not answer in time.
    #[error("gave no value within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The value is too long.
    #[error("has a value of more than {} KiB", MAX_BYTES >> 10)]
    TooLong,
    /// The value is empty.
    #[error("has an empty value")]
    Empty,
    /// The value is not UTF-8, or has a NUL.
    #[error("has a value that is not text")]
    NotText,
    /// The keyring cannot be used.
    #[error("cannot be read: {0}")]
    NoKeyring(String),
    /// The keyring has no such password.
    #[error("is not in the keyring; store it with `{0}`")]
    NotInKeyring(String),
}
