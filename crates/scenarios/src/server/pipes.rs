//! A server in this process, over in-memory pipes.

use async_trait::async_trait;
use marquetry_protocol::Revision;
use tokio::{io::DuplexStream, task::JoinHandle};

use super::{Connection, RunningServer, ServerSetup, ServerStartError, TestedServer};
use crate::language::{Limits, Transport};

/// Size of the buffer in each direction, in bytes.
const BUFFER: usize = 64 << 10;

/// A server in this process: a function that serves one client over a pair of pipes.
pub struct PipeServer<F> {
    serve: F,
    revisions: Vec<Revision>,
}

impl<F> PipeServer<F>
where
    F: Fn(DuplexStream) -> JoinHandle<()> + Send + Sync,
{
    /// Creates a server that `serve` starts for each case. `serve` reads from and writes to the
    /// stream until its input ends.
    pub fn new(serve: F) -> Self {
        Self { serve, revisions: vec![Revision::V2025_11_25] }
    }

    /// Sets the revisions that scenarios run with; only 2025-11-25 by default.
    #[must_use]
    pub fn with_revisions(mut self, revisions: Vec<Revision>) -> Self {
        self.revisions = revisions;
        self
    }
}

#[async_trait]
impl<F> TestedServer for PipeServer<F>
where
    F: Fn(DuplexStream) -> JoinHandle<()> + Send + Sync,
{
    fn limits(&self) -> Limits {
        Limits::only(Transport::Stdio, self.revisions.clone())
    }

    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError> {
        setup.check_has_only_agent()?;
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        Ok(Box::new(Running { ours: Some(ours), serving: (self.serve)(theirs) }))
    }
}

struct Running {
    ours: Option<DuplexStream>,
    serving: JoinHandle<()>,
}

#[async_trait]
impl RunningServer for Running {
    async fn connect(&mut self) -> Result<Connection, ServerStartError> {
        let ours = self
            .ours
            .take()
            .ok_or_else(|| ServerStartError::Failed("it is connected already".to_owned()))?;
        let (reader, writer) = tokio::io::split(ours);
        Ok(Connection::pipes(reader, writer))
    }

    async fn shut_down(self: Box<Self>) -> Result<(), String> {
        self.serving.await.map_err(|error| format!("the server failed: {error}"))
    }
}
