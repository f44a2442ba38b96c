//! The interface between the console and the program.

use async_trait::async_trait;
use marquetry_protocol::types::Tool;
use serde_json::{Value, value::RawValue};

use crate::Viewer;

/// Gives the console the state of the program, and carries out its requests. The program implements
/// it.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Returns the state of the server and its upstreams, for administrators: an object with
    /// `status`, `version`, and `upstreams`, each with at least `name` and `state`.
    fn state(&self) -> Value;

    /// Returns details of one upstream: its log, its revision, its lists now and at its last start.
    /// `None` if there is no such upstream.
    fn server(&self, name: &str) -> Option<Value>;

    /// Returns the tools that a viewer may use of the server that has a tool, given the name that
    /// agents use. `None` if there is no such tool, or the viewer may not use it.
    fn server_of_tool(&self, name: &str, viewer: &Viewer) -> Option<ServerTools> {
        let _ = (name, viewer);
        None
    }

    /// Returns the part of a tool's answer that the model would get with a limit of `limit` bytes.
    /// `None` if the tool's answers are not captured.
    async fn shown_with_limit(
        &self,
        tool: &str,
        said: Box<RawValue>,
        limit: u64,
    ) -> Option<Box<RawValue>> {
        let _ = (tool, said, limit);
        None
    }

    /// Returns what answers kept from models in the last `days` days, newest first: a list of
    /// objects with `day`, `tool`, `answers`, `bytes` and `tokens`. A viewer sees their own
    /// figures, and an administrator those of all.
    fn savings(&self, viewer: &Viewer, days: u32) -> Value {
        let _ = (viewer, days);
        Value::Array(Vec::new())
    }

    /// Switches an upstream on or off while the server runs, or reads its settings again. Returns a
    /// sentence about what was done.
    ///
    /// # Errors
    /// Returns an error if there is no such upstream, or its settings cannot be read.
    async fn change(&self, name: &str, change: ServerChange) -> Result<String, RestartError> {
        let _ = change;
        Err(RestartError::Unknown(name.to_owned()))
    }

    /// Ends the connection of an upstream and starts it again. Returns when the restart was
    /// ordered, not when it is over.
    ///
    /// # Errors
    /// Returns an error if there is no such upstream, or it cannot be started.
    async fn restart(&self, name: &str) -> Result<(), RestartError>;
}

/// The tools of the server that a View belongs to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerTools {
    /// The server's name.
    pub server: String,
    /// Each tool as the server describes it, with the name that agents use for it.
    pub tools: Vec<(Tool, String)>,
}

impl ServerTools {
    /// The tools of this server.
    #[must_use]
    pub fn new(server: impl Into<String>, tools: Vec<(Tool, String)>) -> Self {
        Self { server: server.into(), tools }
    }
}

/// Which lists of the server changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedLists {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources.
    Resources,
}

impl ChangedLists {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }
}

/// A change of one upstream while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerChange {
    /// Starts it, even if its entry disables it.
    Enable,
    /// Stops it; calls in flight finish.
    Disable,
    /// Reads its entry again. It starts again if its program, its URL or its secrets have changed.
    Reload,
}

/// Why an upstream is not restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// No upstream has the name.
    #[error("no server is called {0:?}")]
    Unknown(String),
    /// The upstream is in a state from which it is not started.
    #[error("server {name:?} cannot be restarted: it {why}")]
    Impossible {
        /// Its name.
        name: String,
        /// The end of the sentence.
        why: String,
    },
    /// The configuration cannot be read, for this reason.
    #[error("{0}")]
    NotReloaded(String),
}
