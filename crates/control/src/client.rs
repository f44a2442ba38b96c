//! Finds running servers, and sends them commands.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use crate::Answer;

/// Time for an answer. A reload may run programs for secrets.
const ANSWER_TIME: Duration = Duration::from_mins(1);
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// A server that has a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningServer {
    /// Its process id.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// Returns the servers with a socket in a folder, by their process ids. Sockets of servers that
/// have ended are removed. A folder that does not exist has none.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn servers(folder: &Path) -> io::Result<Vec<RunningServer>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut servers = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "sock") {
            continue;
        }
        let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let Some(pid) = pid else { continue };
        match std::os::unix::net::UnixStream::connect(&path) {
            Ok(_) => servers.push(RunningServer { pid, path }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                _ = fs::remove_file(&path);
            }
            // It has just ended, or is another user's.
            Err(_) => {}
        }
    }
    servers.sort_by_key(|server| server.pid);
    Ok(servers)
}

/// Sends a command, and returns the answer.
///
/// # Errors
///
/// Returns an error if the server has ended, or does not answer within 60 s.
pub async fn ask(server: &RunningServer, command: &str) -> io::Result<Answer> {
    let asked = async {
        let mut stream = UnixStream::connect(&server.path).await?;
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
        serde_json::from_slice(&answer).map_err(io::Error::from)
    };
    timeout(ANSWER_TIME, asked)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it did not answer within 60 s"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[tokio::test]
    async fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Server::bind(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn a_command_is_answered_and_ended_servers_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("control");
        assert_eq!(servers(&folder).unwrap(), []);
        let server = Server::bind(&folder).unwrap();
        let path = server.path().to_owned();
        let serving = tokio::spawn(server.serve(async |command| {
            Answer::failed(command).with_warnings(vec!["w".to_owned()]).of_server("s")
        }));
        // Of a server that was killed, and what is no socket of ours.
        drop(std::os::unix::net::UnixListener::bind(folder.join("1.sock")).unwrap());
        fs::write(folder.join("x.sock"), "").unwrap();
        let found = servers(&folder).unwrap();
        assert_eq!(found, [RunningServer { pid: std::process::id(), path: path.clone() }]);
        assert!(!folder.join("1.sock").exists() && folder.join("x.sock").exists());
        let want = Answer::failed("reload").with_warnings(vec!["w".to_owned()]).of_server("s");
        assert_eq!(ask(&found[0], "reload").await.unwrap(), want);
        // A client that sends too much gets what its beginning means.
        let long = "x".repeat(5_000);
        let answered = ask(&found[0], &long).await;
        assert!(answered.is_err() || answered.unwrap().message.len() == 1_024);
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert!(!path.exists());
    }
}
