//! Hostile and faulty clients hardly affect the others (C3, C4, C11).

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use marquetry_protocol::{
    RpcError,
    server::{
        Handler, Limits, Principal, Reply, RequestContext, Server, ServerDescription,
        http::{
            Authenticator, Denial, HttpEndpoint, HttpOptions, LegacySseEndpoint, ServeOptions,
            serve,
        },
        serve_pipe,
    },
    types::{CallToolParams, CallToolResult},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::soon;

/// Tools: `echo`, `silent` (never answers; tells `gone` of its end), `slow` (300 ms), `minute` (60
/// s), `big` (8 MiB), `crowd` (another task of its own waits to say something when it answers),
/// `clings` (a task of its own holds its context for ever).
struct Subject {
    gone: mpsc::UnboundedSender<()>,
}

struct TellOnDrop(mpsc::UnboundedSender<()>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

const BIG: usize = 8 << 20;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        ServerDescription::default()
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let text = match &*params.name {
            "silent" => {
                let _tell = TellOnDrop(self.gone.clone());
                std::future::pending().await
            }
            "slow" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "slow".to_owned()
            }
            "minute" => {
                tokio::time::sleep(Duration::from_mins(1)).await;
                "minute".to_owned()
            }
            "big" => "x".repeat(BIG),
            "crowd" => {
                cx.progress(1.0, None, None).await;
                let cx = cx.clone();
                let mut more = Box::pin(async move { cx.progress(2.0, None, None).await });
                assert!(futures_util::poll!(&mut more).is_pending(), "the queue holds one");
                tokio::spawn(more);
                "crowd".to_owned()
            }
            "clings" => {
                let cling = cx.clone();
                cx.progress(1.0, None, None).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(cling);
                });
                "clings".to_owned()
            }
            _ => "echo".to_owned(),
        };
        CallToolResult::text(text).try_into()
    }
}

/// Believes what `Authorization` says.
struct Believer;

#[async_trait]
impl Authenticator for Believer {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Arc<Principal>, Denial> {
        match request.headers.get("authorization").and_then(|name| name.to_str().ok()) {
            Some(name) => Ok(Arc::new(Principal::new(None, name))),
            None => Err(Denial {
                status: StatusCode::UNAUTHORIZED,
                challenge: marquetry_protocol::auth::Challenge::new("Bearer"),
                message: "who are you?".to_owned(),
            }),
        }
    }
}

struct Site {
    address: SocketAddr,
    gone: mpsc::UnboundedReceiver<()>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _stop: DropGuard,
}

async fn site(limits: Limits, options: ServeOptions) -> Site {
    let (sender, gone) = mpsc::unbounded_channel();
    let server = Server::with_limits(Subject { gone: sender }, limits);
    let http = HttpOptions { authenticator: Some(Arc::new(Believer)), ..HttpOptions::default() };
    let endpoint = HttpEndpoint::new(server, http);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let serving = tokio::spawn(async move {
        serve(listener, endpoint).with_options(options).until(stopped).await.unwrap();
    });
    Site { address, gone, _stop: stop.clone().drop_guard(), stop, serving }
}

fn limits() -> Limits {
    Limits {
        max_in_flight_total: 8,
        max_in_flight_per_caller: 6,
        queue_time: Duration::from_millis(50),
        ..Limits::default()
    }
}

#[tokio::test]
async fn calls_of_one_to_a_silent_tool_leave_room_for_others() {
    let site = site(limits(), ServeOptions::default()).await;
    let session = site.open("ann").await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(site.send(&call("ann", "silent")).await);
    }
    // Some of the twenty were refused, with a reason.
    let mut refused = 0;
    for stream in &mut held {
        let answer = tokio::time::timeout(Duration::from_millis(300), answer(stream)).await;
        if let Ok((status, body)) = answer {
            assert!(status.contains("503"), "{status}");
            let why =
                "more than 6 requests are in flight for one caller (max_in_flight_per_caller)";
            assert_eq!(body["error"]["message"], why);
            refused += 1;
        }
    }
    assert_eq!(refused, 14);
    assert!(soon("an answer to another", site.ask("bob", "echo")).await.0.contains("200"));
    // Calls in a session count like other calls.
    let in_session = site.send(&session_call("ann", &session, "echo")).await;
    let (_, body) = soon("a refusal", answer(&mut { in_session })).await;
    assert!(body["error"]["message"].as_str().unwrap().contains("one caller"), "{body}");
}

#[tokio::test]
async fn sessions_of_one_end_none_of_another() {
    let limits = Limits { max_sessions: 10, max_sessions_per_caller: 3, ..Limits::default() };
    let site = site(limits, ServeOptions::default()).await;
    let theirs = site.open("bob").await;
    let mut last = String::new();
    for _ in 0..30 {
        last = site.open("ann").await;
    }
    for (who, session) in [("bob", &theirs), ("ann", &last)] {
        let mut stream = site.send(&session_call(who, session, "echo")).await;
        let (status, _) = soon("an answer", answer(&mut stream)).await;
        assert!(status.contains("200"), "{who}: {status}");
    }
}

#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let options = ServeOptions { max_connections: 8, ..ServeOptions::default() };
    let site = site(Limits::default(), options).await;
    let mut silent = Vec::new();
    for i in 0..40 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        if i % 2 == 0 {
            // A head without its body counts as a silent connection, too.
            stream.write_all(head("ann", "echo", "").as_bytes()).await.unwrap();
            stream.write_all(b"content-length: 1000\r\n\r\n").await.unwrap();
        }
        silent.push(stream);
    }
    let started = Instant::now();
    let (status, _) = soon("an answer", site.ask("bob", "echo")).await;
    assert!(status.contains("200"), "{status}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn answers_to_slow_readers_are_bounded_and_dropped() {
    let limits = Limits {
        max_send_bytes: 20 << 20,
        queue_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let options = ServeOptions {
        write_timeout: Duration::from_secs(1),
        min_bytes_per_second: 1 << 20,
        ..ServeOptions::default()
    };
    let site = site(limits, options).await;
    let mut readers = Vec::new();
    for who in ["ann", "ann", "ann", "ann"] {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(site.address).await.unwrap();
        stream.write_all(call(who, "big").as_bytes()).await.unwrap();
        // Waits until the answer begins.
        stream.readable().await.unwrap();
        readers.push(stream);
    }
    let mut refused = readers.split_off(2);
    for stream in &mut refused {
        let (_, body) = soon("a refusal", answer(stream)).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("more than 20971520 bytes wait to be sent (max_send_bytes)"),
            "{message}"
        );
    }
    // These clients read slowly, and their connections are closed all the same.
    let drips = readers.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut buffer = [0; 256];
            let mut read = 0;
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return read,
                    Ok(bytes) => read += bytes,
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    });
    let drips: Vec<_> = drips.collect();
    let again = async {
        loop {
            let (_, body) = site.ask("bob", "big").await;
            if body["error"].is_null() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), again).await.expect("slow readers are cut");
    for drip in drips {
        drip.abort();
    }
}

#[tokio::test]
async fn bodies_that_arrive_are_bounded_together() {
    let limits = Limits {
        max_message_bytes: 450_000,
        max_receive_bytes: 1 << 20,
        max_receive_bytes_per_caller: 512 << 10,
        queue_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let site = site(limits, ServeOptions::default()).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(head("ann", "echo", "").as_bytes()).await.unwrap();
        stream.write_all(b"content-length: 400000\r\n\r\n").await.unwrap();
        stream.write_all(&vec![b' '; 399_000]).await.unwrap();
        held.push(stream);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let answers =
        held.iter_mut().map(|stream| tokio::time::timeout(Duration::from_secs(1), answer(stream)));
    let answers = futures_util::future::join_all(answers).await;
    let refused: Vec<_> = answers.into_iter().flatten().collect();
    let [(head, body)] = &refused[..] else { panic!("one of two is refused: {refused:?}") };
    assert!(head.contains("503") && head.contains("connection: close"), "{head}");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("max_receive_bytes_per_caller"), "{message}");
    assert!(soon("an answer", site.ask("bob", "echo")).await.0.contains("200"));
}

#[tokio::test]
async fn a_stopping_server_closes_its_port_first_and_answers_interrupted_requests() {
    let options =
        ServeOptions { shutdown_grace: Duration::from_millis(800), ..ServeOptions::default() };
    let site = site(Limits::default(), options).await;
    let mut slow = site.send(&call("ann", "slow")).await;
    let mut silent = site.send(&call("ann", "silent")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    site.stop.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(site.address).await.is_err(), "nobody is let in any more");
    let (_, body) = soon("the slow answer", answer(&mut slow)).await;
    assert_eq!(body["result"]["content"][0]["text"], "slow");
    let (_, body) = soon("the error", answer(&mut silent)).await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("shutting down"), "{message}");
    soon("the end", site.serving).await.unwrap();
}

#[tokio::test]
async fn a_pipe_that_ends_answers_interrupted_requests() {
    let (gone, _gone) = mpsc::unbounded_channel();
    let limits = Limits { shutdown_grace: Duration::from_millis(100), ..Limits::default() };
    let server = Server::with_limits(Subject { gone }, limits);
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let serving =
        tokio::spawn(async move { serve_pipe(&server, reader, writer, Default::default()).await });
    let (reader, mut writer) = tokio::io::split(ours);
    writer.write_all(format!("{}\n", message("silent")).as_bytes()).await.unwrap();
    writer.shutdown().await.unwrap();
    let mut line = String::new();
    soon("the error", BufReader::new(reader).read_line(&mut line)).await.unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("shutting down"), "{line}");
    soon("the end", serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_sends_no_more_still_gets_its_answer_and_one_that_is_gone_is_noticed() {
    let mut site = site(Limits::default(), ServeOptions::default()).await;
    for accept in ["application/json, text/event-stream", "application/json"] {
        let request = call("ann", "slow").replace("application/json, text/event-stream", accept);
        let mut stream = site.send(&request).await;
        stream.shutdown().await.unwrap();
        let mut all = String::new();
        soon("the end", stream.read_to_string(&mut all)).await.unwrap();
        assert!(all.contains(r#""text":"slow""#), "{accept}: {all}");
    }
    let stream = site.send(&call("ann", "silent")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    let noticed = tokio::time::timeout(Duration::from_secs(5), site.gone.recv());
    noticed.await.expect("its call is cancelled").unwrap();
}

/// The clock is paused while there is work, so that a minute takes no time.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_more_and_reads_no_events_waits_for_its_answer_as_long_as_its_call_runs()
 {
    let site = site(Limits::default(), ServeOptions::default()).await;
    let request =
        call("ann", "minute").replace("application/json, text/event-stream", "application/json");
    let mut stream = site.send(&request).await;
    stream.shutdown().await.unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).await.unwrap();
    assert!(all.contains(r#""text":"minute""#), "{all}");
}

/// After the end of its input, a client that is gone shows only by the reset of its connection.
#[tokio::test]
async fn a_client_that_sends_no_more_and_then_is_gone_is_noticed_without_an_event_stream() {
    let mut site = site(Limits::default(), ServeOptions::default()).await;
    let request =
        call("ann", "silent").replace("application/json, text/event-stream", "application/json");
    let mut stream = site.send(&request).await;
    stream.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(site.gone.try_recv().is_err(), "its call goes on");
    stream.set_zero_linger().unwrap();
    drop(stream);
    let noticed = tokio::time::timeout(Duration::from_secs(5), site.gone.recv());
    noticed.await.expect("its call is cancelled").unwrap();
}

fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// Each of many requests without a place may wait for [`Limits::queue_time`], but the cancellation
/// behind them must not.
#[tokio::test]
async fn a_cancellation_behind_many_requests_is_not_late() {
    let (gone, mut ended) = mpsc::unbounded_channel();
    let limits =
        Limits { max_in_flight_total: 12, queue_time: Duration::from_secs(1), ..Limits::default() };
    let server = Server::with_limits(Subject { gone }, limits);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(async move { serve_pipe(&server, reader, writer, Default::default()).await });
    let (reader, mut writer) = tokio::io::split(ours);
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let call = |id: u64, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } });
    let mut answers = BufReader::new(reader).lines();
    let mut lines = vec![initialize];
    lines.extend((100..112).map(|id| call(id, "silent")));
    for line in lines {
        writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        if line["id"] == 0 {
            soon("an answer", answers.next_line()).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut lines: Vec<Value> = (2..12).map(|id| call(id, "echo")).collect();
    // One that waits is cancelled as well, and never answered.
    lines.push(cancel(5));
    lines.extend((100..112).map(cancel));
    let started = Instant::now();
    for line in lines {
        writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    soon("the cancellation", ended.recv()).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    let mut ids = Vec::new();
    for _ in 0..9 {
        let answer = soon("an answer", answers.next_line()).await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [2, 3, 4, 6, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn a_stream_of_http_sse_ends_an_idle_session_of_its_caller_and_no_other_stream() {
    let limits = Limits { max_sessions_per_caller: 2, ..Limits::default() };
    let (gone, _gone) = mpsc::unbounded_channel();
    let server = Server::with_limits(Subject { gone }, limits);
    let http = HttpOptions { authenticator: Some(Arc::new(Believer)), ..HttpOptions::default() };
    let endpoint = HttpEndpoint::new(server.clone(), http.clone());
    let legacy = LegacySseEndpoint::new(server, http, "/messages");
    let open = async |who: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        let request =
            http::Request::post("/mcp").header("host", "localhost").header("authorization", who);
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        endpoint.handle(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
    };
    let stream = async |who: &str| {
        let request =
            http::Request::get("/sse").header("host", "localhost").header("authorization", who);
        legacy.stream(&request.body(()).unwrap()).await
    };
    let theirs = open("bob").await.headers()["mcp-session-id"].clone();
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(open("ann").await.headers()["mcp-session-id"].clone());
    }
    let streams = [stream("ann").await, stream("ann").await];
    assert_eq!(
        streams.each_ref().map(http::Response::status),
        [StatusCode::OK; 2],
        "idle sessions make room"
    );
    let left = async |who: &str, id: &http::HeaderValue| {
        let request =
            http::Request::delete("/mcp").header("host", "localhost").header("authorization", who);
        let request = request.header("mcp-session-id", id).body(Full::new(Bytes::new())).unwrap();
        endpoint.handle(request).await.status() == StatusCode::NO_CONTENT
    };
    let third = stream("ann").await;
    assert_eq!(third.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(third.headers().contains_key("retry-after"));
    let why = third.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&why).contains("max_sessions_per_caller"), "{why:?}");
    let after = open("ann").await;
    assert_eq!(
        after.status(),
        StatusCode::SERVICE_UNAVAILABLE,
        "streams that are open are not idle"
    );
    assert_eq!([left("ann", &ids[0]).await, left("ann", &ids[1]).await], [false, false]);
    assert!(left("bob", &theirs).await, "others lose nothing");
    drop(streams);
}

#[tokio::test]
async fn a_refusal_before_the_body_says_that_the_connection_closes() {
    let site = site(Limits::default(), ServeOptions::default()).await;
    // The body is larger than the socket buffers; the client sends it completely before it reads.
    let body = vec![b' '; 3 << 20];
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let sent = tokio::time::timeout(Duration::from_secs(5), stream.write_all(&body)).await;
    assert!(sent.is_ok(), "the server reads on, or resets");
    let (head, _) = soon("the refusal", answer(&mut stream)).await;
    assert!(head.contains("401") && head.contains("connection: close"), "{head}");
    // After a request whose body was read, the connection stays open.
    let (head, _) = site.ask("ann", "echo").await;
    assert!(!head.contains("connection: close"), "{head}");
}

#[tokio::test]
async fn an_answer_is_not_dropped_for_a_full_queue() {
    let limits = Limits { max_queued_messages: 1, ..Limits::default() };
    let site = site(limits, ServeOptions::default()).await;
    let mut stream = site.send(&call("ann", "crowd")).await;
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    let read = async {
        while !String::from_utf8_lossy(&all).contains(r#""text":"crowd""#) {
            let bytes = stream.read(&mut buffer).await.unwrap();
            assert!(bytes > 0, "ended without the answer: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..bytes]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), read).await.expect("the answer comes");
}

#[tokio::test]
async fn a_resumed_stream_ends_with_its_answer() {
    let site = site(Limits::default(), ServeOptions::default()).await;
    let session = site.open("ann").await;
    let mut stream = site.send(&session_call("ann", &session, "clings")).await;
    let mut start = [0; 1024];
    let bytes = soon("the stream", stream.read(&mut start)).await.unwrap();
    assert!(String::from_utf8_lossy(&start[..bytes]).contains("text/event-stream"));
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let resume = format!(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: ann\r\naccept: text/event-stream\r\n\
         mcp-session-id: {session}\r\nlast-event-id: 0-0\r\nconnection: close\r\n\r\n"
    );
    let mut stream = site.send(&resume).await;
    let mut all = String::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut all)).await;
    assert!(read.is_ok(), "the stream ends");
    assert!(all.contains(r#""text":"clings""#), "{all}");
}

impl Site {
    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, who: &str, tool: &str) -> (String, Value) {
        answer(&mut self.send(&call(who, tool)).await).await
    }

    async fn open(&self, who: &str) -> String {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let body = body.to_string();
        let head = session_head(who, "");
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let (head, _) = answer(&mut self.send(&request).await).await;
        let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_else(|| panic!("no session: {head}")).to_owned()
    }
}

fn message(tool: &str) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 7,
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "_meta": meta } })
}

fn head(who: &str, tool: &str, more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: {who}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: {tool}\r\n{more}"
    )
}

/// A stateless call.
fn call(who: &str, tool: &str) -> String {
    let body = message(tool).to_string();
    format!("{}content-length: {}\r\n\r\n{body}", head(who, tool, ""), body.len())
}

fn session_head(who: &str, more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: {who}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{more}"
    )
}

fn session_call(who: &str, session: &str, tool: &str) -> String {
    let params = json!({ "name": tool, "_meta": { "progressToken": 7 } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let body = body.to_string();
    let head = session_head(who, &format!("mcp-session-id: {session}\r\n"));
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// The head and the message of an answer: a JSON body, or the last message of a stream of events
/// that is chunked.
async fn answer(stream: &mut TcpStream) -> (String, Value) {
    let mut all: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        // Only the head is read again for each part: an answer may have megabytes.
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&all[..end]).into_owned();
            let body = &all[end + 4..];
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if let Some(length) = length {
                if body.len() >= length.parse::<usize>().unwrap() {
                    return (head, serde_json::from_slice(body).unwrap_or_default());
                }
            } else if body.ends_with(b"\r\n0\r\n\r\n") {
                let body = String::from_utf8_lossy(body);
                let last = body.lines().rev().find_map(|line| line.strip_prefix("data: {"));
                let last = format!("{{{}", last.unwrap_or_default());
                return (head, serde_json::from_str(&last).unwrap_or_default());
            }
        }
        let bytes = stream.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "the connection ended: {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..bytes]);
    }
}
