//! The trait of servers that scenarios test.

mod command;
mod pipes;
mod url;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::{command::CommandServer, pipes::PipeServer, url::UrlServer};
use crate::language::{Cell, Given, Limits};

/// A server under test. Each case starts it again.
#[async_trait]
pub trait TestedServer: Send + Sync {
    /// Returns the transports, revisions and stores that it offers.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the program that serves an upstream of a scenario over stdio, with its first
    /// arguments. The runner adds the file that [`serve_upstream`](crate::serve_upstream) reads as
    /// the last argument. `None` for servers without upstreams.
    fn upstream_program(&self) -> Option<(PathBuf, Vec<String>)> {
        None
    }

    /// Starts the server for one case.
    async fn start(&self, start: Start<'_>) -> Result<Box<dyn RunningServer>, StartError>;
}

/// Input for the start of a server in one case.
#[derive(Debug)]
#[non_exhaustive]
pub struct Start<'a> {
    /// The part `given` of the scenario.
    pub given: &'a Given,
    /// The transport, the revision and the store.
    pub cell: Cell,
    /// Temporary directory of the case, removed after it.
    pub folder: &'a Path,
    /// The running upstreams of the scenario, in the form of `mcpServers` of an `mcp.json`.
    pub upstreams: Map<String, Value>,
}

impl Start<'_> {
    /// Refuses keys of `given` that only Marquetry supports. For other servers.
    pub(crate) fn check_is_plain(&self) -> Result<(), StartError> {
        let Given { config, agent: _, upstreams, model, store, seed, clock } = self.given;
        let said = [
            ("config", !config.is_empty()),
            ("upstreams", !upstreams.is_empty()),
            ("model", model.is_some()),
            ("store", !store.is_empty()),
            ("seed", seed.is_some()),
            ("clock", clock.is_some()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            None => Ok(()),
            Some((key, _)) => Err(StartError::Failed(format!(
                "`given.{key}` is for Marquetry itself; a server that is a command or a URL takes `given.agent` alone"
            ))),
        }
    }
}

/// A running server of one case.
#[async_trait]
pub trait RunningServer: Send + Sync {
    /// Returns the connection for the agent of the scenario. It is called once.
    async fn connect(&mut self) -> Result<Connection, StartError>;

    /// Returns the address for `http` steps. `None` for servers without HTTP.
    fn http_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns the server's health report if it is not healthy. Reports of failed cases show it.
    async fn complaint(&self) -> Option<Value> {
        None
    }

    /// Returns the bodies of the requests to its chat model.
    fn model_requests(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Shuts the server down.
    ///
    /// # Errors
    ///
    /// Returns an error if it did not shut down cleanly.
    async fn end(self: Box<Self>) -> Result<(), String>;
}

/// Connection of the agent to a server.
#[non_exhaustive]
pub enum Connection {
    /// A pair of pipes with lines of JSON-RPC.
    Pipes {
        /// Output of the server.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// Input of the server.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
    },
    /// Streamable HTTP, or HTTP+SSE if the server speaks only that.
    Http {
        /// The address of the endpoint.
        url: String,
    },
}

impl Connection {
    /// Creates a connection over a pair of pipes.
    pub fn pipes(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::Pipes { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// Creates a connection to an HTTP endpoint.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into() }
    }
}

/// Error of the start of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The case cannot run against this server. It is skipped and reported.
    #[error("{0}")]
    Skip(String),
    /// The case cannot be run.
    #[error("the server: {0}")]
    Failed(String),
    /// The case cannot be run.
    #[error(transparent)]
    Io(#[from] io::Error),
}
