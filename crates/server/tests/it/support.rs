//! A server under test, agents that connect to it, and plain HTTP.

use std::{fmt::Debug, future::Future, net::SocketAddr, path::Path, time::Duration};

use marquetry::{App, Config};
use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientError, ClientOptions, HttpTarget, RevisionChoice},
    types::CallToolParams,
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server on a free port.
pub(crate) struct Running {
    pub(crate) app: App,
    pub(crate) address: SocketAddr,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Starts a server and waits for its upstreams.
    pub(crate) async fn start(toml: &str) -> Self {
        let running = Self::start_at_once(toml).await;
        within(running.app.ready()).await;
        running
    }

    /// Starts a server without waiting for its upstreams.
    pub(crate) async fn start_at_once(toml: &str) -> Self {
        Self::of(Config::from_toml(toml, "test.toml").unwrap_or_else(|error| panic!("{error}")))
            .await
    }

    /// Starts a server of any configuration, without waiting for its upstreams. Its database is
    /// empty unless the configuration names one: the tests must not depend on the database of the
    /// user who runs them.
    pub(crate) async fn of(mut config: Config) -> Self {
        config.knowledge.enabled &= config.knowledge.database.is_some();
        Self::serve(App::builder(config).start().await.unwrap()).await
    }

    /// Serves an app on a free port.
    pub(crate) async fn serve(app: App) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn({
            let app = app.clone();
            async move { app.serve(listener).await }
        });
        Self { app, address, serving }
    }

    pub(crate) async fn agent(&self) -> Client {
        self.agent_of(Revision::V2025_11_25).await
    }

    pub(crate) async fn agent_of(&self, revision: Revision) -> Client {
        self.agent_with(revision, ClientOptions::default()).await
    }

    pub(crate) async fn agent_with(&self, revision: Revision, options: ClientOptions) -> Client {
        self.agent_of_user(revision, options, None).await
    }

    /// Connects an agent, with this token if there is one.
    pub(crate) async fn agent_of_user(
        &self,
        revision: Revision,
        options: ClientOptions,
        token: Option<&str>,
    ) -> Client {
        let url = format!("http://{}/mcp", self.address);
        let bearer = token.map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
        let options = ClientOptions { revision: RevisionChoice::Only(revision), ..options };
        let target = HttpTarget { url, headers: bearer.into_iter().collect() };
        within(Client::http(target, options)).await.unwrap()
    }

    pub(crate) async fn stop(self) {
        within(self.app.shutdown()).await;
        within(self.serving).await.unwrap().unwrap();
    }

    /// Drops the server without shutting it down.
    pub(crate) async fn abort(self) {
        self.serving.abort();
        _ = self.serving.await;
    }

    /// Sends a request and reads the complete answer.
    pub(crate) async fn http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut request = (request + "\r\n").into_bytes();
        request.extend_from_slice(body);
        self.raw(&request).await
    }

    /// Sends bytes as they are and reads until the server closes.
    pub(crate) async fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may refuse before it has read everything.
        _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        within(stream.read_to_end(&mut bytes)).await.unwrap();
        Answer::parse(&bytes)
    }

    pub(crate) async fn post(&self, tool: &str, body: impl AsRef<[u8]>) -> Answer {
        self.http("POST", &format!("/api/tools/{tool}"), &[], body.as_ref()).await
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns status and error code, for tables.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let json = self.json();
        assert_eq!(json["success"], false, "{json}");
        (self.status, json["error"]["code"].as_str().unwrap().to_owned())
    }
}

/// Returns a TOML table with tokens for these users; [`token_of`] returns the token of a name.
pub(crate) fn users_toml(directory: &Path, names: &[&str]) -> String {
    let users = names.iter().map(|name| {
        let file = directory.join(name);
        std::fs::write(&file, token_of(name)).unwrap();
        format!("[auth.tokens.{name}]\nfile = '{}'\n", file.display())
    });
    users.collect()
}

pub(crate) fn token_of(name: &str) -> String {
    format!("hush-{name}-0123456789abcdef")
}

/// Waits for a future within a time limit.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("done within 20 s")
}

/// Repeats a check until it succeeds.
pub(crate) async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never: {what}");
}

/// Calls a tool.
pub(crate) async fn call(
    client: &Client,
    name: &str,
    arguments: Value,
) -> Result<Value, ClientError> {
    let params = CallToolParams::new(name, &arguments).unwrap();
    let result = within(client.call_tool_raw(&params, CallOptions::default())).await?;
    Ok(serde_json::from_str(result.get()).unwrap())
}

/// Calls a tool and returns the text of its first item.
pub(crate) async fn text_of(client: &Client, name: &str, arguments: Value) -> String {
    let result = call(client, name, arguments).await.unwrap();
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
}

/// Sends any request.
pub(crate) async fn ask(
    client: &Client,
    method: &str,
    params: Value,
) -> Result<Value, ClientError> {
    let params = to_raw_value(&params).unwrap();
    let result = within(client.request(method, Some(&params), CallOptions::default())).await?;
    Ok(serde_json::from_str(result.get()).unwrap())
}

/// Returns the names of all tools.
pub(crate) async fn tool_names(client: &Client) -> Vec<String> {
    let listed = ask(client, "tools/list", json!({})).await.unwrap();
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns code and message of the JSON-RPC error of a request, which must fail with one.
#[track_caller]
pub(crate) fn rpc_error<T: Debug>(outcome: Result<T, ClientError>) -> (i32, String) {
    match outcome {
        Err(ClientError::Rpc(error)) => (error.code, error.message),
        other => panic!("expected an error of the protocol: {other:?}"),
    }
}

/// Returns whether a process exists, by its entry in `/proc`; a process that was not reaped counts.
#[cfg(target_os = "linux")]
pub(crate) fn is_alive(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
