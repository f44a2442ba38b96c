//! What a client learns of a connection beside the answers to its requests.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

/// A notification from the server, cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// Its method.
    pub method: Arc<str>,
    /// Its parameters.
    pub params: Option<Arc<RawValue>>,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// Grows from message to message.
    pub progress: f64,
    /// What it grows towards, if known.
    #[serde(default)]
    pub total: Option<f64>,
    /// In words.
    #[serde(default)]
    pub message: Option<String>,
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// We closed it.
    Asked,
    /// The server ended it; for a child process with how it ended.
    Ended(String),
    /// The server has forgotten our HTTP session, and there is no other, with the reason.
    SessionEnded(String),
    /// The server sent something that made going on impossible.
    Broken(String),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("closed by us"),
            Self::Ended(how) => f.write_str(how),
            Self::SessionEnded(why) => {
                write!(f, "server has ended the session, and there is no other: {why}")
            }
            Self::Broken(why) => f.write_str(why),
        }
    }
}
