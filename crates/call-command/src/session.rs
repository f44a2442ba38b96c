//! The connection of a command: to the server that its program runs, or to a URL.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use marquetry_protocol::{
    client::{Client, ClientError, ClientOptions, HttpTarget},
    types::{ClientCapabilities, ElicitationCapability, Implementation, JsonObject},
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadHalf, WriteHalf};

use crate::{CallCommandError, EXIT_UNREACHABLE, EXIT_USAGE, RemoteArgs, questions::Questions};

/// Bytes that wait in the pipe to a server in this process.
const PIPE_BYTES: usize = 64 << 10;

/// A connection to the server whose tools a command lists or calls.
pub struct Session {
    pub(crate) client: Client,
    pub(crate) bar: ProgressBar,
    down: Vec<DownServer>,
    hidden: usize,
}

/// A server behind the connection that is not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownServer {
    pub(crate) name: String,
    pub(crate) problem: String,
}

impl Session {
    /// Connects to a server in this process. `serve` serves one client, whose messages come from
    /// its first argument and go to its second one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not answer the handshake.
    pub async fn of<F>(
        serve: impl FnOnce(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) -> F,
    ) -> Result<Self, CallCommandError>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(theirs);
        tokio::spawn(serve(reader, writer));
        Self::over_pipe(ours).await
    }

    /// Connects over a pipe.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not answer the handshake.
    pub async fn over_pipe(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, CallCommandError> {
        let bar = bar();
        let (reader, writer) = tokio::io::split(stream);
        let client = Client::connect(reader, writer, options(&bar)).await;
        let client = client.map_err(|error| unreachable(&error.to_string()))?;
        bar.set_message("waiting for servers");
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { client, bar, down: Vec::new(), hidden: 0 })
    }

    /// Connects to the URL that the arguments name; [`None`] if they name none.
    ///
    /// # Errors
    ///
    /// Returns an error if a header is invalid, or the server cannot be reached.
    pub async fn to_url(remote: &RemoteArgs) -> Result<Option<Self>, CallCommandError> {
        let Some(url) = remote.url() else { return Ok(None) };
        let bar = bar();
        let headers = remote.headers()?;
        let target = HttpTarget { url: url.to_owned(), headers };
        let client = Client::http(target, options(&bar)).await;
        let client = client.map_err(|error| match error {
            ClientError::Params { problem } => CallCommandError::new(EXIT_USAGE, problem),
            error => connection_error(&error),
        })?;
        Ok(Some(Self { client, bar, down: Vec::new(), hidden: 0 }))
    }

    /// Tells which servers behind the connection are not running, from the report of `/healthz`.
    pub fn set_health(&mut self, report: &Value) {
        let upstreams = report["upstreams"].as_array().into_iter().flatten();
        let down = upstreams.filter(|upstream| {
            !matches!(upstream["state"].as_str(), Some("ready" | "disabled" | "suspect"))
        });
        self.down = down
            .map(|upstream| DownServer {
                name: upstream["name"].as_str().unwrap_or_default().to_owned(),
                problem: upstream["problem"].as_str().unwrap_or("it is starting").to_owned(),
            })
            .collect();
    }

    /// Sets how many tools of servers the policy hides from this command.
    pub fn set_hidden_tools(&mut self, count: usize) {
        self.hidden = count;
    }

    /// Returns a clause about the tools that the policy hides, if there are any.
    pub(crate) fn hidden_tools(&self) -> Option<String> {
        let tools = match self.hidden {
            0 => return None,
            1 => "1 tool".to_owned(),
            many => format!("{many} tools"),
        };
        Some(format!(
            "[policy] hides {tools} of servers from the caller \"local\", who runs this command; \
             \"marquetry policy explain\" names the rule"
        ))
    }

    pub(crate) fn down_server(&self, name: &Value) -> Option<&DownServer> {
        self.down.iter().find(|down| name == &*down.name)
    }

    pub(crate) fn down(&self) -> &[DownServer] {
        &self.down
    }
}

impl Drop for Session {
    /// Clears the line before an error is printed.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

pub(crate) fn unreachable(problem: &str) -> CallCommandError {
    CallCommandError::new(EXIT_UNREACHABLE, problem)
}

/// Returns the failure of a request that has no answer, with the option that helps.
pub(crate) fn connection_error(error: &ClientError) -> CallCommandError {
    let hint = match error {
        ClientError::Unauthorized(_) | ClientError::Authorization(_) => {
            "; give a valid token with --header \"Authorization: Bearer TOKEN\""
        }
        _ => "",
    };
    unreachable(&format!("{error}{hint}"))
}

/// Returns the progress line, which only a terminal shows.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

fn options(bar: &ProgressBar) -> ClientOptions {
    let mut elicitation = ElicitationCapability::default();
    elicitation.form = Some(JsonObject::new());
    elicitation.url = Some(JsonObject::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    ClientOptions {
        implementation: Implementation::new("marquetry-call", env!("CARGO_PKG_VERSION")),
        capabilities,
        handler: Arc::new(Questions::new(bar.clone())),
        // The server has its own limits, and Ctrl-C is at hand.
        request_timeout: Duration::from_hours(24),
        check_results: false,
        ..ClientOptions::default()
    }
}

impl RemoteArgs {
    /// Returns the headers by name.
    fn headers(&self) -> Result<BTreeMap<String, String>, CallCommandError> {
        let headers = self.header.iter().map(|header| {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                // The text may be a token.
                let problem = "--header: expected NAME: VALUE";
                CallCommandError::new(EXIT_USAGE, problem)
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        headers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_a_name() {
        let header = vec!["Authorization: Bearer a:b".to_owned()];
        let remote = RemoteArgs { url: None, header };
        assert_eq!(remote.headers().unwrap()["Authorization"], "Bearer a:b");
        let remote = RemoteArgs { url: None, header: vec!["hush".to_owned()] };
        let error = remote.headers().unwrap_err();
        assert_eq!((error.code, error.message.contains("hush")), (EXIT_USAGE, false));
    }

    #[tokio::test]
    async fn a_refused_request_names_the_option_for_a_token() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                _ = stream.read(&mut [0; 4096]).await;
                let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n\
                              Content-Length: 0\r\nConnection: close\r\n\r\n";
                _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let remote = RemoteArgs { url: Some(url), header: Vec::new() };
        let error = Session::to_url(&remote).await.err().unwrap();
        assert_eq!(error.code, EXIT_UNREACHABLE);
        let want = "; give a valid token with --header \"Authorization: Bearer TOKEN\"";
        assert!(error.message.ends_with(want), "{error:?}");
    }

    #[tokio::test]
    async fn a_closed_pipe_is_unreachable() {
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        drop(theirs);
        let error = Session::over_pipe(ours).await.err().unwrap();
        assert_eq!(error.code, EXIT_UNREACHABLE);
    }
}
