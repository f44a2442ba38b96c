//! The child process: serves one upstream on standard input and output.

use std::{fs, io, path::Path, process, sync::Arc};

use marquetry_protocol::server::{Server, serve_pipe};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    Journal, Spec, ToolSpec,
    server::{Behaviour, CRASHED},
};

/// A command from the runner to a running upstream: a JSON object on one line. The upstream answers
/// with a blank line after it has carried out the command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Command {
    Crash,
    Tools(Vec<ToolSpec>),
}

/// Serves the upstream that the file describes on standard input and output, until its input ends.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or standard input or output fails.
pub async fn serve(spec: &Path) -> io::Result<()> {
    let spec: Spec = serde_json::from_slice(&fs::read(spec)?)?;
    let journal = Arc::new(Journal::open(spec.journal)?);
    let (garbage, lines) = mpsc::unbounded_channel();
    let behaviour = Behaviour::new(spec.name, spec.offer, journal, Some(garbage));
    let server = Server::new(behaviour.clone());
    if let Some(control) = spec.control {
        let control = UnixStream::connect(control).await?;
        tokio::spawn(obey(control, behaviour, server.clone()));
    }
    let (written, writer) = tokio::io::duplex(1 << 20);
    let relay = tokio::spawn(relay(written, lines));
    serve_pipe(&server, tokio::io::stdin(), writer, CancellationToken::new()).await?;
    // Drops the last sender of garbage, so that `relay` ends.
    drop(server);
    relay.await.map_err(io::Error::other)?
}

/// Executes commands of the runner, and exits when the runner has ended.
async fn obey(control: UnixStream, behaviour: Behaviour, server: Server) {
    let (reader, mut writer) = control.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Command::Crash) => process::exit(CRASHED),
            Ok(Command::Tools(tools)) => {
                behaviour.set_tools(tools);
                server.notifier().tools_changed();
            }
            Err(error) => eprintln!("upstream: invalid command from the runner: {error}"),
        }
        if writer.write_all(b"\n").await.is_err() {
            break;
        }
    }
    process::exit(0);
}

/// Copies messages to standard output line by line, with garbage lines between them.
async fn relay(
    written: impl AsyncRead + Unpin,
    mut garbage: mpsc::UnboundedReceiver<String>,
) -> io::Result<()> {
    let mut messages = BufReader::new(written);
    let mut out = tokio::io::stdout();
    let mut line = Vec::new();
    loop {
        tokio::select! {
            // Bytes that were read before the other branch won stay in `line`.
            read = messages.read_until(b'\n', &mut line) => {
                if read? == 0 && line.is_empty() {
                    return Ok(());
                }
                out.write_all(&line).await?;
                line.clear();
            }
            Some(text) = garbage.recv() => out.write_all(format!("{text}\n").as_bytes()).await?,
        }
        out.flush().await?;
    }
}
