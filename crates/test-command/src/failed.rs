//! Failed commands.

use std::fmt::Display;

/// A failed command: exit status and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The exit status.
    pub code: u8,
    /// Empty if everything was printed already.
    pub message: String,
}

impl Failed {
    /// A test failed.
    pub const FAIL: u8 = 1;
    /// The arguments or the files are wrong.
    pub const USAGE: u8 = 2;
    /// A test could not be run or judged.
    pub const ERROR: u8 = 3;

    pub(crate) fn usage(problem: impl Display) -> Self {
        Self { code: Self::USAGE, message: problem.to_string() }
    }

    pub(crate) fn error(problem: impl Display) -> Self {
        Self { code: Self::ERROR, message: problem.to_string() }
    }

    /// Everything was printed already.
    pub(crate) fn printed(code: u8) -> Self {
        Self { code, message: String::new() }
    }
}
