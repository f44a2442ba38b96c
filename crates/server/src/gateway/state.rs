//! What an upstream is doing.

use std::fmt;

use marquetry_protocol::client::Client;
use serde_json::{Value, json};

/// Where an upstream is in its life.
#[derive(Clone)]
pub(crate) enum State {
    /// The configuration says not to start it.
    Disabled,
    /// It is being started, for the first time or again.
    Starting,
    /// Calls go to it.
    Ready(Client),
    /// It failed, and will be started again.
    BackingOff { problem: String, retry_in_ms: u64 },
    /// It failed so often that it was given up.
    Failed { problem: String },
    /// The server is shutting down.
    Stopped,
}

impl State {
    /// The state's name in `/healthz` and logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::BackingOff { .. } => "backing_off",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// The state as `/healthz` shows it.
    pub(crate) fn report(&self) -> Value {
        match self {
            Self::BackingOff { problem, retry_in_ms } => {
                json!({"state": self.name(), "problem": problem, "retry_in_ms": retry_in_ms})
            }
            Self::Failed { problem } => json!({"state": self.name(), "problem": problem}),
            _ => json!({"state": self.name()}),
        }
    }
}

impl fmt::Display for State {
    /// Reads on after "upstream 'x' ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("is disabled"),
            Self::Starting => f.write_str("is starting; try again in a moment"),
            Self::Ready(_) => f.write_str("is ready"),
            Self::BackingOff { problem, retry_in_ms } => {
                let seconds = retry_in_ms.div_ceil(1_000);
                write!(f, "is down ({problem}) and is started again within {seconds} s")
            }
            Self::Failed { problem } => write!(f, "failed and is not started again ({problem})"),
            Self::Stopped => f.write_str("is stopped, as the whole server is shutting down"),
        }
    }
}
