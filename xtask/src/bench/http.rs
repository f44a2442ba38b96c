//! Calls over HTTP, driven by `wrk`.

use std::{io::Write as _, net::SocketAddr, path::Path, process::Command, time::Duration};

use marquetry_scenarios::plain_http::{Exchange, exchange};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{
    echo,
    measurement::Measurement,
    peer::{Peer, Program},
};
use crate::{Failed, proc_stat, root};

/// A call, and the form of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) revision: &'static str,
    pub(super) answer: Answer,
    /// Length of the echoed text.
    pub(super) bytes: usize,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Json,
    Events,
}

impl Row {
    pub(super) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for bytes in echo::SIZES {
            for revision in [echo::SESSIONS, echo::STATELESS] {
                for answer in [Answer::Json, Answer::Events] {
                    rows.push(Self { revision, answer, bytes });
                }
            }
        }
        rows
    }

    /// Returns whether the peer has such a row. The floor has neither sessions nor event streams.
    pub(super) fn exists_for(self, peer: Peer) -> bool {
        peer != Peer::Floor || self.answer == Answer::Json
    }

    fn mode(self, peer: Peer) -> &'static str {
        match (peer, self.answer) {
            (Peer::Marquetry, _) => "http",
            (_, Answer::Json) => "json",
            (_, Answer::Events) => "sse",
        }
    }
}

const CONNECTIONS: usize = 32;

/// Starts the program, checks an answer, and loads it for `time`.
pub(super) async fn measure(
    program: &Program,
    row: Row,
    time: Duration,
) -> Result<Measurement, Failed> {
    let (running, url) = program.start_http(row.mode(program.peer))?;
    let server = Server::open(&url, program.peer, row).await?;
    server.check().await?;
    let file = server.load_file()?;
    wrk(&url, file.path(), CONNECTIONS, time / 5)?;
    let load = || wrk(&url, file.path(), CONNECTIONS, time);
    let (measurement, bytes) = measure_process(running.pid(), load)?;
    if bytes < measurement.requests * row.bytes as u64 {
        return Err(Failed::new("an answer to wrk lacks the echoed text"));
    }
    Ok(measurement)
}

/// Measures a process under load. Returns the bytes of its answers, too.
pub(super) fn measure_process(
    pid: u32,
    load: impl FnOnce() -> Result<Load, Failed>,
) -> Result<(Measurement, u64), Failed> {
    let before = proc_stat::cpu_time(pid)?;
    let load = load()?;
    let cpu = proc_stat::cpu_time(pid)?.saturating_sub(before);
    if load.failed > 0 {
        return Err(Failed::new(format!("wrk saw {} errors", load.failed)));
    }
    let measurement = Measurement {
        requests: load.requests,
        time: load.time,
        cpu,
        p50: load.p50,
        p99: load.p99,
        resident: proc_stat::resident(pid)?,
    };
    Ok((measurement, load.bytes))
}

/// Returns the mode in which a peer is started for [`open_session`].
pub(super) fn sessions_mode(peer: Peer) -> &'static str {
    SESSION.mode(peer)
}

/// Opens a session, which then stays idle.
pub(super) async fn open_session(url: &str, peer: Peer) -> Result<(), Failed> {
    let server = Server::open(url, peer, SESSION).await?;
    if server.headers.iter().any(|(name, _)| name == "Mcp-Session-Id") {
        Ok(())
    } else {
        Err(Failed::new(format!("{} did not open a session", peer.name())))
    }
}

const SESSION: Row = Row { revision: echo::SESSIONS, answer: Answer::Events, bytes: 16 };

/// A server that is ready for calls.
struct Server {
    address: SocketAddr,
    path: String,
    row: Row,
    /// Headers of each call.
    headers: Vec<(String, String)>,
}

impl Server {
    /// Sends the messages before the first call.
    async fn open(url: &str, peer: Peer, row: Row) -> Result<Self, Failed> {
        let (host, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| Failed::new(format!("{url} is not an http:// URL with a path")))?;
        let address = host.parse().map_err(|error| Failed::new(format!("{host}: {error}")))?;
        let path = format!("/{path}");
        let accept = match (peer, row.answer) {
            // Our server answers in the form that the client accepts. rmcp gets the form at its
            // start, and requires that the client accepts both.
            (Peer::Marquetry, Answer::Events) => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        let mut headers = vec![
            header("Content-Type", "application/json"),
            header("Accept", accept),
            header("Mcp-Protocol-Version", row.revision),
        ];
        if row.revision == echo::STATELESS {
            headers.push(header("Mcp-Method", "tools/call"));
            headers.push(header("Mcp-Name", "echo"));
            return Ok(Self { address, path, row, headers });
        }
        let mut server = Self { address, path, row, headers };
        let answer = server.post(echo::initialize().to_string()).await?;
        if let Some(session) = answer["headers"]["mcp-session-id"].as_str() {
            server.headers.push(header("Mcp-Session-Id", session));
        }
        server.post(echo::initialized().to_string()).await?;
        Ok(server)
    }

    async fn post(&self, body: String) -> Result<Value, Failed> {
        let request = Exchange {
            method: "POST".to_owned(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: body.into_bytes(),
            ..Exchange::default()
        };
        let answer = exchange(self.address, request).await?;
        match answer["status"].as_u64() {
            Some(200..300) => Ok(answer),
            _ => Err(Failed::new(format!("answered {answer}"))),
        }
    }

    /// Checks that a call is answered in the form of the row.
    async fn check(&self) -> Result<(), Failed> {
        let call = echo::call(self.row.revision, self.row.bytes, &json!(7));
        let answer = self.post(call).await?;
        let kind = answer["headers"]["content-type"].as_str().unwrap_or_default();
        let message = match (&answer["body"], self.row.answer) {
            (Value::String(events), Answer::Events) if kind.starts_with("text/event-stream") => {
                events
                    .lines()
                    .filter_map(|line| line.strip_prefix("data:"))
                    .find_map(|data| serde_json::from_str(data).ok())
                    .unwrap_or_default()
            }
            (body, Answer::Json) if kind.starts_with("application/json") => body.clone(),
            _ => return Err(Failed::new(format!("the answer has another form: {answer}"))),
        };
        echo::check_answer(&message, self.row.bytes)
    }

    /// Writes the file for `bench/wrk.lua`.
    fn load_file(&self) -> Result<NamedTempFile, Failed> {
        let mut file = NamedTempFile::new()?;
        for (name, value) in &self.headers {
            writeln!(file, "{name}: {value}")?;
        }
        let call = echo::call(self.row.revision, self.row.bytes, &json!("@ID@"));
        write!(file, "\n{}", call.replacen("\"@ID@\"", "@ID@", 1))?;
        Ok(file)
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The counts that wrk prints.
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) time: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) failed: u64,
    pub(super) bytes: u64,
}

/// Sends the request of the file `load` over and over, one at a time on each connection.
pub(super) fn wrk(
    url: &str,
    load: &Path,
    connections: usize,
    time: Duration,
) -> Result<Load, Failed> {
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", &connections.to_string()])
        .args(["--duration", &format!("{}s", time.as_secs().max(1)), "--script"])
        .arg(root().join("bench/wrk.lua"))
        .args([url, "--"])
        .arg(load)
        .output()
        .map_err(|error| Failed::new(format!("wrk (apt-get install wrk): {error}")))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    parse_load(&stdout).ok_or_else(|| {
        Failed::new(format!("wrk: {stdout}{}", String::from_utf8_lossy(&output.stderr)))
    })
}

fn parse_load(output: &str) -> Option<Load> {
    let line = output.lines().find_map(|line| line.strip_prefix("DONE "))?;
    let numbers: Vec<u64> = line.split(' ').map_while(|number| number.parse().ok()).collect();
    let [requests, time, p50, p99, failed, bytes] = numbers[..] else { return None };
    let [time, p50, p99] = [time, p50, p99].map(Duration::from_micros);
    Some(Load { requests, time, p50, p99, failed, bytes })
}
