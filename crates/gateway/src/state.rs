//! States of an upstream.

use std::fmt;

use marquetry_protocol::client::Client;
use serde_json::{Value, json};

use super::stderr::last_lines;

/// State of an upstream.
#[derive(Clone)]
pub enum UpstreamState {
    /// The configuration disables it.
    Disabled,
    /// The upstream starts, for the first time or again.
    Starting,
    /// The upstream answers calls.
    Ready(Client),
    /// The upstream failed, and restarts after a pause.
    BackingOff {
        /// Reason of the failure.
        problem: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
        /// Pause before the next start.
        retry_in_ms: u64,
    },
    /// The upstream failed too often, or its configuration is invalid. It is not started again.
    Failed {
        /// Reason of the failure.
        problem: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// The server is shutting down.
    Stopped,
}

impl UpstreamState {
    /// Returns the name of the state in `/healthz` and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::BackingOff { .. } => "backing_off",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the state as JSON for `/healthz`.
    #[must_use]
    pub fn report(&self) -> Value {
        match self {
            Self::BackingOff { problem, stderr, retry_in_ms } => {
                let mut report =
                    json!({"state": self.name(), "problem": problem, "retry_in_ms": retry_in_ms});
                report_stderr(&mut report, stderr);
                report
            }
            Self::Failed { problem, stderr } => {
                let mut report = json!({"state": self.name(), "problem": problem});
                report_stderr(&mut report, stderr);
                report
            }
            _ => json!({"state": self.name()}),
        }
    }

    /// Returns the last lines of standard error before the failure.
    #[must_use]
    pub fn stderr(&self) -> &[String] {
        match self {
            Self::BackingOff { stderr, .. } | Self::Failed { stderr, .. } => stderr,
            _ => &[],
        }
    }
}

fn report_stderr(report: &mut Value, lines: &[String]) {
    if !lines.is_empty() {
        report["stderr"] = json!(lines);
    }
}

impl fmt::Display for UpstreamState {
    /// Writes the end of a sentence that begins with "upstream 'x' ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("is disabled"),
            Self::Starting => f.write_str("is starting; try again in a moment"),
            Self::Ready(_) => f.write_str("is ready"),
            Self::BackingOff { problem, stderr, retry_in_ms } => {
                let seconds = retry_in_ms.div_ceil(1_000);
                let words = last_lines(stderr);
                write!(f, "is down ({problem}) and is started again within {seconds} s{words}")
            }
            Self::Failed { problem, stderr } => {
                write!(f, "failed and is not started again ({problem}){}", last_lines(stderr))
            }
            Self::Stopped => f.write_str("is stopped, as the whole server is shutting down"),
        }
    }
}
