//! The socket of a server.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use marquetry_atomic_file as atomic_file;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};

use crate::Answer;

/// Time for a client to send its command.
const COMMAND_TIME: Duration = Duration::from_secs(5);
const MAX_COMMAND_BYTES: u64 = 1 << 10;
/// Clients that are answered at a time. Further ones wait.
const MAX_CLIENTS: usize = 8;

/// The socket of a server. It is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: SocketPath,
}

#[derive(Debug)]
struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

impl Server {
    /// Creates the folder, for this user alone, and the socket of this process in it. Needs a
    /// runtime of Tokio.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder belongs to another user, others can write it, or the socket
    /// cannot be created.
    pub fn bind(folder: &Path) -> io::Result<Self> {
        atomic_file::create_folder(folder)?;
        check_owner(folder)?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        // Of a killed server with the same process id.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(&path)?, path: SocketPath(path) })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path.0
    }

    /// Answers commands until the future is dropped.
    pub async fn serve<F>(self, answer: impl Fn(String) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer> + Send,
    {
        let answer = Arc::new(answer);
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        loop {
            let Ok(client) = clients.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let answer = answer.clone();
                    tokio::spawn(async move {
                        let _client = client;
                        if let Err(error) = serve_client(stream, &*answer).await {
                            tracing::debug!(%error, "a client of the control socket has left");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the control socket");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Refuses a folder in which another user could create or replace sockets.
fn check_owner(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    const GROUP_OR_WORLD: u32 = 0o022;
    let metadata = fs::metadata(folder)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_ours && metadata.mode() & GROUP_OR_WORLD == 0 {
        return Ok(());
    }
    let problem = format!("{}: another user owns it or can write it", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

async fn serve_client<F: Future<Output = Answer>>(
    mut stream: UnixStream,
    answer: &impl Fn(String) -> F,
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut command = String::new();
    let mut reader = BufReader::new(reader.take(MAX_COMMAND_BYTES));
    let read = timeout(COMMAND_TIME, reader.read_line(&mut command)).await;
    read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let answer = answer(command.trim_end().to_owned()).await;
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.shutdown().await
}
