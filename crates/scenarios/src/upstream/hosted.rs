//! Upstreams from the runner's side: starts, controls, inspects and stops them.

use std::{
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use marquetry_protocol::server::{
    Server,
    http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Journal, Offer, Spec, ToolSpec, child::Command, server::Behaviour};

/// Time limit for the start of an upstream and for each of its commands.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// An upstream that the gateway starts as a child process.
pub(crate) struct StdioUpstream {
    spec_file: PathBuf,
    spec: Spec,
    journal: Journal,
    /// The control connection of the running child.
    running: watch::Receiver<Option<Arc<tokio::sync::Mutex<UnixStream>>>>,
    accept: JoinHandle<()>,
    /// The program that serves a specification, and its first arguments.
    program: (PathBuf, Vec<String>),
}

impl StdioUpstream {
    /// Creates the files of the upstream in `folder`.
    pub(crate) fn new(
        name: &str,
        offer: Offer,
        folder: &Path,
        program: (PathBuf, Vec<String>),
    ) -> io::Result<Self> {
        let control = folder.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&control)?;
        let (connections, running) = watch::channel(None);
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = connections.send(Some(Arc::new(tokio::sync::Mutex::new(stream))));
            }
        });
        let journal = folder.join(format!("{name}.calls"));
        let spec =
            Spec { name: name.to_owned(), journal: journal.clone(), control: Some(control), offer };
        let spec_file = folder.join(format!("{name}.json"));
        fs::write(&spec_file, serde_json::to_vec(&spec)?)?;
        Ok(Self { spec_file, spec, journal: Journal::open(journal)?, running, accept, program })
    }

    /// Returns the program and the arguments that start it.
    pub(crate) fn command(&self) -> (PathBuf, Vec<String>) {
        let (program, mut arguments) = self.program.clone();
        arguments.push(self.spec_file.to_string_lossy().into_owned());
        (program, arguments)
    }

    /// Ends the running child at once, without an answer.
    pub(crate) async fn crash(&self) -> io::Result<()> {
        self.send(&Command::Crash).await
    }

    /// Replaces its tools, which it announces.
    pub(crate) async fn set_tools(&mut self, tools: Vec<ToolSpec>) -> io::Result<()> {
        self.spec.offer.tools.clone_from(&tools);
        // For the child that is started after a crash.
        fs::write(&self.spec_file, serde_json::to_vec(&self.spec)?)?;
        self.send(&Command::Tools(tools)).await
    }

    pub(crate) fn calls(&self) -> io::Result<Vec<Value>> {
        self.journal.calls()
    }

    /// Waits until the last child has exited. Its control connection closes then.
    pub(crate) async fn has_ended(self) -> io::Result<()> {
        let Some(stream) = self.running.borrow().clone() else { return Ok(()) };
        let mut stream = stream.lock().await;
        match timeout(TIME_LIMIT, stream.read_u8()).await {
            Ok(Err(_)) => Ok(()),
            Ok(Ok(_)) => Err(io::Error::other("sent something without a command")),
            Err(_) => Err(io::Error::other("is still running")),
        }
    }

    async fn send(&self, command: &Command) -> io::Result<()> {
        let carried_out = timeout(TIME_LIMIT, async {
            let mut running = self.running.clone();
            let stream = running
                .wait_for(Option::is_some)
                .await
                .map_err(io::Error::other)?
                .clone()
                .ok_or_else(|| io::Error::other("it was never started"))?;
            let mut stream = stream.lock().await;
            let mut line = serde_json::to_vec(command)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            // A blank line after the command, or the end of the connection of a child that crashed.
            match stream.read_u8().await {
                Err(_) if !matches!(command, Command::Crash) => Err(io::Error::other("it ended")),
                _ => Ok(()),
            }
        });
        carried_out
            .await
            .map_err(|_| io::Error::other("it did not carry out the command in time"))?
    }
}

impl Drop for StdioUpstream {
    /// Closes the control connection, at which the child exits.
    fn drop(&mut self) {
        self.accept.abort();
    }
}

/// An upstream at a loopback address, inside this process.
pub(crate) struct HttpUpstream {
    url: String,
    behaviour: Behaviour,
    server: Server,
    journal: Arc<Journal>,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

impl HttpUpstream {
    /// Starts it, with its journal in `folder`.
    pub(crate) async fn start(name: &str, offer: Offer, folder: &Path) -> io::Result<Self> {
        let journal = Arc::new(Journal::open(folder.join(format!("{name}.calls")))?);
        let behaviour = Behaviour::new(name.to_owned(), offer, journal.clone(), None);
        let server = Server::new(behaviour.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let endpoint = HttpEndpoint::new(server.clone(), HttpOptions::default());
        let stop = CancellationToken::new();
        let options =
            ServeOptions { shutdown_grace: Duration::from_millis(100), ..ServeOptions::default() };
        let serve = serve(listener, endpoint).with_options(options).until(stop.clone());
        let task = tokio::spawn(serve.into_future());
        Ok(Self { url, behaviour, server, journal, stop, task })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Replaces its tools, which it announces.
    pub(crate) fn set_tools(&self, tools: Vec<ToolSpec>) {
        self.behaviour.set_tools(tools);
        self.server.notifier().tools_changed();
    }

    pub(crate) fn calls(&self) -> io::Result<Vec<Value>> {
        self.journal.calls()
    }

    pub(crate) async fn end(self) {
        self.server.close_streams();
        self.stop.cancel();
        let _ = self.task.await;
    }
}
