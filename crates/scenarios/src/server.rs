//! The server that scenarios run against, behind one trait.

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

/// A server that scenarios run against. Each case starts it anew.
#[async_trait]
pub trait TestedServer: Send + Sync {
    /// The transports, revisions and stores that it offers.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The program that serves an upstream of a scenario over stdio, and its first arguments; the last one is the file
    /// that [`serve_upstream`](crate::serve_upstream) reads. None for servers without upstreams.
    fn upstream_program(&self) -> Option<(PathBuf, Vec<String>)> {
        None
    }

    /// Starts it for one case.
    async fn start(&self, start: Start<'_>) -> Result<Box<dyn RunningServer>, StartError>;
}

/// What a case starts its server with.
#[derive(Debug)]
#[non_exhaustive]
pub struct Start<'a> {
    /// What the scenario gives.
    pub given: &'a Given,
    /// The transport, the revision and the store.
    pub cell: Cell,
    /// A folder of the case's own, gone with it.
    pub folder: &'a Path,
    /// The scenario's upstreams, which run, as the `mcpServers` of an `mcp.json` name them.
    pub upstreams: Map<String, Value>,
}

impl Start<'_> {
    /// Refuses what only Marquetry itself can be given; for other servers.
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

/// A server that runs for one case.
#[async_trait]
pub trait RunningServer: Send + Sync {
    /// The connection for the scenario's agent; called once.
    async fn connect(&mut self) -> Result<Connection, StartError>;

    /// Where `http` steps go. None for servers without HTTP.
    fn http_address(&self) -> Option<SocketAddr> {
        None
    }

    /// What the server says of its own health, when it is not well; for reports of failures.
    async fn complaint(&self) -> Option<Value> {
        None
    }

    /// The bodies of the requests that its chat model got.
    fn model_requests(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Ends it in good order. The error says how it ended otherwise.
    async fn end(self: Box<Self>) -> Result<(), String>;
}

/// How the agent reaches a server.
#[non_exhaustive]
pub enum Connection {
    /// Lines of JSON-RPC: what the server writes, and what it reads.
    Pipes {
        /// What the server writes.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// What the server reads.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
    },
    /// Streamable HTTP, or HTTP+SSE at an address where nothing else is spoken.
    Http {
        /// The address of the endpoint.
        url: String,
    },
}

impl Connection {
    /// A connection over a pair of pipes.
    pub fn pipes(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::Pipes { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// A connection to an endpoint.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into() }
    }
}

/// Why a server was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The case cannot run against this server; it is skipped, and said to be.
    #[error("{0}")]
    Skip(String),
    /// The case fails.
    #[error("the server: {0}")]
    Failed(String),
    /// The case fails.
    #[error(transparent)]
    Io(#[from] io::Error),
}
