//! `/mcp/v1/sampling/createMessage` as a stream of events.

use std::time::Duration;

use marquetry_llm::{ProviderAnswer, ScriptedProvider};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{Running, until, within};

const PATH: &str = "/mcp/v1/sampling/createMessage";

async fn server(base_url: &str, settings: &str) -> Running {
    let toml = format!(
        "{settings}\n[knowledge]\ndatabase = 'unused.db'\n[knowledge.chat]\nprovider = 'custom'\nmodel = 'm'\nbase_url = '{base_url}'\nretries = 0\n"
    );
    Running::start(&toml).await
}

fn question() -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}], "maxTokens": 50})
}

fn streamed() -> Value {
    let mut params = question();
    params["stream"] = json!(true);
    params
}

/// A stream of events that is read bit by bit.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    async fn start(server: &Running, params: &Value, headers: &str) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = params.to_string();
        let request = format!(
            "POST {PATH} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    async fn read_until(&mut self, wanted: &str) {
        let mut buffer = [0; 4096];
        while !self.text.contains(wanted) {
            let count = within(self.stream.read(&mut buffer)).await.unwrap();
            assert!(count > 0, "the stream ended: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    /// Reads to the end, and returns names and data of all events.
    async fn all(mut self) -> Vec<(String, Value)> {
        let mut bytes = Vec::new();
        within(self.stream.read_to_end(&mut bytes)).await.unwrap();
        self.text.push_str(&String::from_utf8_lossy(&bytes));
        let mut events = Vec::new();
        let mut name = "";
        for line in self.text.lines() {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event;
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
        events
    }
}

fn deltas(events: &[(String, Value)]) -> Vec<&str> {
    let deltas = events.iter().filter(|(name, _)| name == "delta");
    deltas.map(|(_, data)| data["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pieces_arrive_before_the_result() {
    let provider = ScriptedProvider::start([]).await.unwrap();
    let server = server(&provider.base_url(), "").await;
    const ANSWER: &str = "<think>a secret</think>So: it is <mcp:context type=\"metrics\">{\"secret\":1}</mcp:context>true, as I said.";
    provider.push(ProviderAnswer::text(ANSWER).paced(Duration::from_millis(150)));
    let mut events = Events::start(&server, &streamed(), "").await;
    events.read_until("event: delta").await;
    assert!(!events.text.contains("event: result"), "{}", events.text);
    assert!(events.text.contains("content-type: text/event-stream\r\n"), "{}", events.text);
    assert!(events.text.contains("x-accel-buffering: no\r\n"), "{}", events.text);
    let events = events.all().await;
    let (name, result) = events.last().unwrap();
    assert_eq!(name, "result");
    assert_eq!(result["content"]["text"], "So: it is true, as I said.");
    assert_eq!(events.iter().filter(|(name, _)| name != "delta").count(), 1, "{events:?}");
    let deltas = deltas(&events);
    assert!(deltas.len() > 2 && deltas.iter().all(|text| !text.contains("secret")), "{deltas:?}");
    assert_eq!(deltas.concat(), "So: it is true, as I said.");

    // The same result as without a stream.
    provider.push(ProviderAnswer::text(ANSWER));
    let whole = server.http("POST", PATH, &[], question().to_string().as_bytes()).await;
    assert_eq!((whole.status, &whole.json()), (200, result));
    server.stop().await;
}

#[tokio::test]
async fn accept_asks_for_a_stream_and_the_parameter_overrules_it() {
    let provider = ScriptedProvider::start([]).await.unwrap();
    let server = server(&provider.base_url(), "").await;
    let mut params = question();
    for (stream, accept, want) in [
        (Value::Null, "text/event-stream", "text/event-stream"),
        (Value::Null, "application/json, text/event-stream", "application/json"),
        (json!(false), "text/event-stream", "application/json"),
        (json!(true), "application/json", "text/event-stream"),
    ] {
        params["stream"] = stream.clone();
        provider.push(ProviderAnswer::text("Because."));
        let body = params.to_string();
        let answer = server.http("POST", PATH, &[("Accept", accept)], body.as_bytes()).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(want)),
            "{stream} {accept}"
        );
        assert!(answer.body.contains("Because."));
    }
    params["stream"] = json!("yes");
    let refused = server.http("POST", PATH, &[], params.to_string().as_bytes()).await;
    let want = json!({"code": "invalid_params", "message": "stream must be true or false"});
    assert_eq!((refused.status, refused.json()), (400, want));
    server.stop().await;
}

#[tokio::test]
async fn a_failure_is_a_status_before_the_stream_and_an_event_in_it() {
    let provider = ScriptedProvider::start([]).await.unwrap();
    let server = server(&provider.base_url(), "").await;
    let empty = json!({"messages": [], "maxTokens": 1, "stream": true});
    let refused = server.http("POST", PATH, &[], empty.to_string().as_bytes()).await;
    assert_eq!((refused.status, &refused.json()["message"]), (400, &json!("messages is empty")));
    provider.push(ProviderAnswer::error(401, [], "no"));
    let events = Events::start(&server, &streamed(), "").await.all().await;
    assert_eq!(events.len(), 1, "{events:?}");
    let (name, error) = &events[0];
    assert_eq!((name.as_str(), &error["code"]), ("error", &json!("internal")));
    assert!(error["message"].as_str().unwrap().contains("the model gave no answer"), "{error}");
    // An answer that breaks off.
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "Because"}}]});
    provider.push(ProviderAnswer::events(&[piece], false));
    let events = Events::start(&server, &streamed(), "").await.all().await;
    assert_eq!(events.last().unwrap().0, "error", "{events:?}");
    server.stop().await;
}

/// A provider that writes a first piece and then nothing; it reports when its client has gone.
async fn silent_provider() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let piece = json!({"choices": [{"index": 0, "delta": {"content": "Because"}}]});
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{head}data: {piece}\n\n").as_bytes()).await.unwrap();
        while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    });
    (url, serving)
}

#[tokio::test]
async fn a_client_that_goes_ends_the_work_of_the_model() {
    let (url, provider) = silent_provider().await;
    let server = server(&url, "").await;
    let mut events = Events::start(&server, &streamed(), "").await;
    events.read_until("Because").await;
    assert!(!provider.is_finished());
    drop(events);
    within(provider).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_stream_is_in_flight_until_its_end() {
    let (url, provider) = silent_provider().await;
    let server = server(&url, "limits.max_in_flight_total = 1\nlimits.queue_ms = 0").await;
    let mut events = Events::start(&server, &streamed(), "").await;
    events.read_until("Because").await;
    let ping = async || server.http("POST", "/mcp/v1/ping", &[], b"{}").await.status;
    assert_eq!(ping().await, 429);
    drop(events);
    until("the slot is free", async || ping().await == 200).await;
    within(provider).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_a_stream_with_an_error() {
    let (url, _provider) = silent_provider().await;
    let server = server(&url, "server.shutdown_grace_ms = 200").await;
    let mut events = Events::start(&server, &streamed(), "").await;
    events.read_until("Because").await;
    server.stop().await;
    let events = events.all().await;
    assert_eq!(events.last().unwrap().0, "error", "{events:?}");
}
