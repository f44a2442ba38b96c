//! Events of a connection besides the answers to requests.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

/// A notification from the server, cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// Method of the notification.
    pub method: Arc<str>,
    /// Parameters of the notification.
    pub params: Option<Arc<RawValue>>,
}

/// Progress of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// Grows from message to message.
    pub progress: f64,
    /// Final value, if known.
    #[serde(default)]
    pub total: Option<f64>,
    /// Message for people.
    #[serde(default)]
    pub message: Option<String>,
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client closed it.
    Asked,
    /// The server ended it.
    Ended(String),
    /// The child process of the server has exited.
    Exited {
        /// Its exit code; [`None`] if a signal has ended it.
        code: Option<i32>,
        /// The text for people, which has the exit status.
        how: String,
    },
    /// The server has dropped the HTTP session, and no other could be opened; with the reason.
    SessionEnded(String),
    /// The server sent something after which the connection cannot continue.
    Broken(String),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("closed by us"),
            Self::Ended(how) | Self::Exited { how, .. } => f.write_str(how),
            Self::SessionEnded(why) => {
                write!(f, "server has ended the session, and there is no other: {why}")
            }
            Self::Broken(why) => f.write_str(why),
        }
    }
}
