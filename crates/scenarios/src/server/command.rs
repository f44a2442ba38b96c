//! A server that is a command, over its standard input and output.

use std::{process::Stdio, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::Revision;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::{Connection, RunningServer, ServerSetup, ServerStartError, TestedServer};
use crate::language::{Limits, Transport};

/// Maximum time from the end of the server's input to its exit.
const END: Duration = Duration::from_secs(10);

/// A server that each case starts with a command, over standard input and output.
///
/// Its standard error is printed.
#[derive(Clone, Debug)]
pub struct CommandServer {
    program: String,
    arguments: Vec<String>,
    revisions: Vec<Revision>,
}

impl CommandServer {
    /// Creates a server that is started as `program`.
    pub fn new(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, revisions: vec![Revision::V2025_11_25] }
    }

    /// Starts the command for one case. For implementations of [`TestedServer`] that give the
    /// command a configuration of each case.
    ///
    /// # Errors
    ///
    /// Returns an error ([`ServerStartError::Failed`]) if the command cannot be started.
    pub fn start_command(&self) -> Result<Box<dyn RunningServer>, ServerStartError> {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| ServerStartError::Failed(format!("`{}`: {error}", self.program)))?;
        Ok(Box::new(Running { child }))
    }

    /// Sets the revisions that scenarios run with; only 2025-11-25 by default.
    #[must_use]
    pub fn with_revisions(mut self, revisions: Vec<Revision>) -> Self {
        self.revisions = revisions;
        self
    }
}

#[async_trait]
impl TestedServer for CommandServer {
    fn limits(&self) -> Limits {
        Limits::only(Transport::Stdio, self.revisions.clone())
    }

    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError> {
        setup.check_has_only_agent()?;
        self.start_command()
    }
}

struct Running {
    child: Child,
}

#[async_trait]
impl RunningServer for Running {
    async fn connect(&mut self) -> Result<Connection, ServerStartError> {
        let pipes = self.child.stdout.take().zip(self.child.stdin.take());
        let (reader, writer) =
            pipes.ok_or_else(|| ServerStartError::Failed("it is connected already".to_owned()))?;
        Ok(Connection::pipes(reader, writer))
    }

    async fn shut_down(mut self: Box<Self>) -> Result<(), String> {
        // The server's input has ended with the agent's connection.
        match timeout(END, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("the server ended with {status}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                _ = self.child.kill().await;
                let seconds = END.as_secs();
                Err(format!("the server did not end within {seconds} s of its input's end"))
            }
        }
    }
}
