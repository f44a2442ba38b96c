//! A session at a gateway, and the load on it.

use std::{
    io::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use marquetry_scenarios::plain_http::{Exchange, exchange};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{
    super::{echo, http, measurement::Measurement},
    Row,
    server::RunningServer,
};
use crate::Failed;

/// Maximum time until a gateway answers and lists its upstream's tool.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    url: String,
    address: SocketAddr,
    headers: Vec<(String, String)>,
    /// Name of the upstream's tool at this gateway.
    tool: String,
}

impl Session {
    /// Opens a session once the gateway answers, and finds the upstream's tool.
    pub(super) async fn open(server: &RunningServer) -> Result<Self, Failed> {
        let address = server
            .url
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_suffix("/mcp"))
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| Failed::new(format!("{} is not the URL of a server", server.url)))?;
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Protocol-Version", echo::SESSIONS),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut session = Self { url: server.url.clone(), address, headers, tool: String::new() };
        let started = Instant::now();
        let answer = loop {
            match session.post(&echo::initialize()).await {
                Ok(answer) => break answer,
                Err(error) if started.elapsed() > READY_TIMEOUT => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        if let Some(id) = answer["headers"]["mcp-session-id"].as_str() {
            session.headers.push(("Mcp-Session-Id".to_owned(), id.to_owned()));
        }
        session.post(&echo::initialized()).await?;
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        while session.tool.is_empty() {
            let answer = message(&session.post(&list).await?)?;
            let tools = answer["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
            if let Some(name) = names.find(|name| name.ends_with("payload")) {
                name.clone_into(&mut session.tool);
            } else if started.elapsed() > READY_TIMEOUT {
                return Err(Failed::new(format!("the upstream's tool is not listed: {answer}")));
            } else {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(session)
    }

    async fn post(&self, body: &Value) -> Result<Value, Failed> {
        let request = Exchange {
            method: "POST".to_owned(),
            path: "/mcp".to_owned(),
            headers: self.headers.clone(),
            body: body.to_string().into_bytes(),
            ..Exchange::default()
        };
        let answer = exchange(self.address, request).await?;
        match answer["status"].as_u64() {
            Some(200..300) => Ok(answer),
            _ => Err(Failed::new(format!("answered {answer}"))),
        }
    }

    fn call(&self, bytes: usize, id: &Value) -> Value {
        let params = json!({ "name": self.tool, "arguments": { "bytes": bytes } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    }

    /// Checks an answer, and loads the gateway for `time`.
    pub(super) async fn measure(
        &self,
        server: &RunningServer,
        row: Row,
        time: Duration,
    ) -> Result<Measurement, Failed> {
        let answer = message(&self.post(&self.call(row.bytes, &json!(7))).await?)?;
        if answer["id"] != 7 || !answer["result"]["content"][0]["text"].is_string() {
            return Err(Failed::new(format!("answered {answer}")));
        }
        let (measurement, _) = http::measure_process(server.pid(), || self.load(row, time))?;
        Ok(measurement)
    }

    /// Calls the tool for `time`.
    pub(super) fn load(&self, row: Row, time: Duration) -> Result<http::Load, Failed> {
        let mut file = NamedTempFile::new()?;
        for (name, value) in &self.headers {
            writeln!(file, "{name}: {value}")?;
        }
        let call = self.call(row.bytes, &json!("@ID@")).to_string();
        write!(file, "\n{}", call.replacen("\"@ID@\"", "@ID@", 1))?;
        http::wrk(&self.url, file.path(), row.in_flight, time)
    }
}

/// Returns the message of an answer, which is JSON or an event.
fn message(answer: &Value) -> Result<Value, Failed> {
    match &answer["body"] {
        Value::String(events) => events
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .find_map(|data| serde_json::from_str(data.trim()).ok())
            .ok_or_else(|| Failed::new(format!("no message in {events}"))),
        body => Ok(body.clone()),
    }
}
