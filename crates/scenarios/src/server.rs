//! Servers under test: how a case starts one, connects to it and shuts it down.

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
use crate::language::{Given, Limits, MatrixCell};

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
    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError>;
}

/// Input for the start of a server in one case.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerSetup<'a> {
    /// The part `given` of the scenario.
    pub given: &'a Given,
    /// The transport, the revision and the store.
    pub cell: MatrixCell,
    /// Temporary directory of the case, removed after it.
    pub folder: &'a Path,
    /// The running upstreams of the scenario, in the form of `mcpServers` of an `mcp.json`.
    pub upstreams: Map<String, Value>,
}

impl ServerSetup<'_> {
    /// Returns an error if `given` has a key besides `agent`: only Marquetry supports the others.
    pub(crate) fn check_has_only_agent(&self) -> Result<(), ServerStartError> {
        let Given { config, agent: _, upstreams, model, store, seed, clock } = self.given;
        let unsupported_keys = [
            ("config", !config.is_empty()),
            ("upstreams", !upstreams.is_empty()),
            ("model", model.is_some()),
            ("store", !store.is_empty()),
            ("seed", seed.is_some()),
            ("clock", clock.is_some()),
        ];
        for (key, is_set) in unsupported_keys {
            if is_set {
                return Err(ServerStartError::Failed(format!(
                    "`given.{key}` is for Marquetry itself; a server that is a command or a URL takes `given.agent` alone"
                )));
            }
        }
        Ok(())
    }
}

/// A running server of one case.
#[async_trait]
pub trait RunningServer: Send + Sync {
    /// Returns the connection for the agent of the scenario. The runner calls it once.
    async fn connect(&mut self) -> Result<Connection, ServerStartError>;

    /// Returns the address for `http` steps. `None` for servers without HTTP.
    fn http_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns the server's health report if it is not healthy. Reports of failed cases show it.
    async fn health_problem(&self) -> Option<Value> {
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
    async fn shut_down(self: Box<Self>) -> Result<(), String>;
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

/// Why a server of a case does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerStartError {
    /// The server does not support the case. It is skipped and reported.
    #[error("{0}")]
    Skip(String),
    /// The server did not start.
    #[error("the server: {0}")]
    Failed(String),
    /// A file or a connection failed before the server started.
    #[error(transparent)]
    Io(#[from] io::Error),
}
