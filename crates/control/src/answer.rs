//! The answer to a command.

use serde::{Deserialize, Serialize};

/// The answer of a server to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// Whether the command was carried out.
    pub is_done: bool,
    /// The outcome, or the problem.
    pub message: String,
    /// Warnings, one sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What tells this server from others, such as its address and its file.
    #[serde(default)]
    pub server: String,
}

impl Answer {
    /// Creates the answer to a command that was carried out.
    #[must_use]
    pub fn done(message: impl Into<String>) -> Self {
        Self { is_done: true, message: message.into(), warnings: Vec::new(), server: String::new() }
    }

    /// Creates the answer to a command that was not carried out.
    #[must_use]
    pub fn failed(problem: impl Into<String>) -> Self {
        Self { is_done: false, ..Self::done(problem) }
    }

    /// Adds warnings.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Sets what tells the server from others.
    #[must_use]
    pub fn of_server(self, server: impl Into<String>) -> Self {
        Self { server: server.into(), ..self }
    }
}
