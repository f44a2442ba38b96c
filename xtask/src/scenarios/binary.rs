//! The built program as a child of this process.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use marquetry_scenarios::Transport;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
    time::timeout,
};

use crate::{Failed, build_shared};

/// Time limit for the program to listen, and to exit.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Number of last lines of the program's output that the report of a failure shows.
const REPORTED_LINES: usize = 40;

/// A running program.
pub(crate) struct Binary {
    child: Child,
    pipes: Option<(ChildStdout, ChildStdin)>,
    address: Option<SocketAddr>,
    output: Arc<Mutex<Vec<String>>>,
}

/// Builds the program for debugging.
pub(crate) fn build() -> Result<PathBuf, Failed> {
    build_shared("--bin", "marquetry")
}

impl Binary {
    /// Starts the program with a configuration file. Over HTTP, waits until it listens.
    pub(crate) async fn start(
        program: &Path,
        transport: Transport,
        config: &Path,
    ) -> Result<Self, String> {
        let is_http = transport != Transport::Stdio;
        let mut command = Command::new(program);
        if is_http {
            command.args(["serve", "--listen", "127.0.0.1:0"]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
        } else {
            command.arg("stdio");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        command.arg("--config").arg(config).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;

        let output = Arc::new(Mutex::new(Vec::new()));
        let (found, mut address) = watch::channel(None);
        if let Some(stderr) = child.stderr.take() {
            let output = output.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(stderr).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Some(address) = listening_address(&line) {
                        let _ = found.send(Some(address));
                    }
                    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                    output.push(line);
                    let excess = output.len().saturating_sub(REPORTED_LINES);
                    output.drain(..excess);
                }
            });
        }
        let pipes = child.stdout.take().zip(child.stdin.take());
        let mut binary = Self { child, pipes, address: None, output };
        if is_http {
            let listening = timeout(TIMEOUT, address.wait_for(Option::is_some)).await;
            binary.address = match listening {
                Ok(Ok(address)) => *address,
                _ => {
                    return Err(format!(
                        "the server did not listen; its output:\n{}",
                        binary.output()
                    ));
                }
            };
        }
        Ok(binary)
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.address.ok_or_else(|| io::Error::other("the server does not serve HTTP"))
    }

    /// Takes the program's standard output and input.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdout, ChildStdin)> {
        self.pipes.take()
    }

    /// Stops the program, with SIGTERM over HTTP, and waits until it has exited. Over stdio the end
    /// of its input stops it, so the caller must have dropped the pipes.
    pub(crate) async fn stop(mut self) -> Result<(), String> {
        if self.address.is_some()
            && let Some(id) = self.child.id()
        {
            let status = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
            status.map_err(|error| format!("kill: {error}"))?;
        }
        match timeout(TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => {
                Err(format!("the server exited with {status}; its output:\n{}", self.output()))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let _ = self.child.kill().await;
                Err(format!(
                    "the server did not exit after SIGTERM; its output:\n{}",
                    self.output()
                ))
            }
        }
    }

    /// Returns the last lines of the program's standard error.
    fn output(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

/// Returns the address in the log line about the listener; `None` for other lines.
pub(crate) fn listening_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(" listens on http://")?;
    rest.split_once("/mcp")?.0.parse().ok()
}
