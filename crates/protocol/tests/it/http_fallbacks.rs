//! HTTP servers that refuse in unusual ways: the client finds out what they mean.

use std::{
    collections::HashSet,
    future::{Future as _, poll_fn},
    io::Write as _,
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use marquetry_protocol::{
    Revision,
    client::{Client, ClientError, ClientOptions, HttpTarget},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    http_client::{
        Answer, Script, Seen, answer, body, call, changed, event, events, opened, options, result,
        rpc, script, session, status,
    },
    support::soon,
};

fn refusal(code: u16) -> Answer {
    status(StatusCode::from_u16(code).unwrap())
}

async fn connect(server: &Script) -> Client {
    let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
    soon("a connection", Client::http(target, ClientOptions::default())).await.unwrap()
}

#[tokio::test]
async fn any_answer_but_a_result_to_discover_leads_to_initialize() {
    for code in [200, 202, 204, 302, 400, 401, 403, 404, 405, 415, 422, 500, 501, 502, 503] {
        let server = script(move |seen, log| match rpc(seen) {
            "server/discover" => refusal(code),
            _ => session(seen, log),
        })
        .await;
        assert_eq!(connect(&server).await.server().revision, Revision::V2025_11_25, "{code}");
    }
    let server = script(|seen, log| match rpc(seen) {
        "server/discover" => body(&json!({ "status": "ok" })),
        _ => session(seen, log),
    })
    .await;
    connect(&server).await;
}

/// Answers calls in the newest session, and refuses those in a forgotten one.
fn forgetful(seen: &Seen, log: &[Seen], code: u16) -> Answer {
    let newest = format!("s{}", opened(log));
    let has_called = log.iter().any(|seen| rpc(seen) == "tools/call");
    match rpc(seen) {
        "tools/call" | "ping" if has_called && newest == "s1" => refusal(code),
        "tools/call" | "ping" if seen.session.as_deref() == Some(&newest) => {
            answer(seen, json!({ "content": [] }))
        }
        "tools/call" | "ping" => refusal(code),
        _ => session(seen, log),
    }
}

#[tokio::test]
async fn a_forgotten_session_is_recognised_behind_any_refusal() {
    for code in [400, 401, 403, 404, 405, 409, 410, 412, 422] {
        let server = script(move |seen, log| forgetful(seen, log, code)).await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        call(&client).await.unwrap();
        call(&client).await.unwrap_or_else(|error| panic!("{code}: {error}"));
        assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), 2, "{code}");
    }
}

#[tokio::test]
async fn a_refused_request_in_a_session_that_goes_on_fails_alone() {
    for (code, ping, sessions) in [(400, 200, 1), (401, 200, 1), (422, 503, 1), (400, 400, 2)] {
        let server = script(move |seen, log| match rpc(seen) {
            "tools/call" => refusal(code),
            "ping" if ping == 200 => answer(seen, json!({})),
            "ping" => refusal(ping),
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        for _ in 0..3 {
            let error = call(&client).await.unwrap_err().to_string();
            assert!(error.contains(&code.to_string()), "{error}");
        }
        assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), sessions, "{code}");
        assert!(!client.is_closed());
    }
}

#[tokio::test]
async fn a_session_stays_if_no_other_can_be_opened() {
    let server = script(|seen, log| match rpc(seen) {
        "tools/call" | "ping" => refusal(400),
        "initialize" if opened(log) > 0 => refusal(500),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    assert!(call(&client).await.unwrap_err().to_string().contains("400"));
    assert!(!client.is_closed());
    assert_eq!(server.find(|seen| rpc(seen) == "tools/call")[0].session.as_deref(), Some("s1"));
}

#[tokio::test]
async fn a_stream_that_is_refused_for_now_is_requested_again() {
    for code in [408, 429, 500, 502, 503, 504] {
        let server = script(move |seen, log| match seen.method {
            Method::GET if log.iter().any(|seen| seen.method == Method::GET) => {
                events(&event(&changed("a")))
            }
            Method::GET => refusal(code),
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        let told = client.notifications().recv().await.unwrap();
        assert_eq!(&*told.method, "notifications/resources/updated", "{code}");
    }
}

#[tokio::test]
async fn a_stream_that_does_not_exist_is_requested_once() {
    let server = script(session).await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(server.find(|seen| seen.method == Method::GET).len(), 1);
    drop(client);
}

/// Starts a server of the session era that closes the connection of the first list and of the first
/// call without an answer.
async fn server_that_closes() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let closed = Arc::new(Mutex::new(HashSet::new()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let closed = closed.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some(request) = posted(&mut stream).await {
                    let method = request["method"].as_str().unwrap_or_default().to_owned();
                    if method.starts_with("tools/") && closed.lock().unwrap().insert(method) {
                        return;
                    }
                    let result = json!({
                        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                        "serverInfo": { "name": "raw", "version": "1" }, "tools": [],
                    });
                    let body = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
                    let body = body.to_string();
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    url
}

/// Returns the body of the next request.
async fn posted(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn a_request_other_than_a_call_is_sent_again_if_its_connection_closes() {
    let target = HttpTarget { url: server_that_closes().await, ..HttpTarget::default() };
    let client = Client::http(target, options(Revision::V2025_11_25, 0)).await.unwrap();
    assert_eq!(soon("the list", client.list_tools()).await.unwrap(), []);
    assert!(matches!(call(&client).await, Err(ClientError::Io { .. })));
}

fn compressed(answer: Answer, text: &str) -> Answer {
    compressed_at(flate2::Compression::fast(), answer, text)
}

fn compressed_at(level: flate2::Compression, mut answer: Answer, text: &str) -> Answer {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(text.as_bytes()).unwrap();
    answer.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    *answer.body_mut() = encoder.finish().unwrap().into();
    answer
}

#[tokio::test]
async fn compressed_answers_are_requested_and_read() {
    for (words, is_stream) in [(3, false), (3, true), (3_000_000, false), (3_000_000, true)] {
        let server = script(move |seen, log| match rpc(seen) {
            "tools/call" => {
                assert_eq!(seen.headers["accept-encoding"], "gzip");
                let answer = result(seen, json!({ "words": "word ".repeat(words) }));
                if is_stream {
                    compressed(events(""), &event(&answer))
                } else {
                    compressed(body(&answer), &answer.to_string())
                }
            }
            _ => session(seen, log),
        })
        .await;
        let options =
            ClientOptions { max_message_bytes: 1 << 20, ..options(Revision::V2025_11_25, 5) };
        let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
        let client = Client::http(target, options).await.unwrap();
        let answer = call(&client).await;
        // The limit is one of the text, not of the compressed bytes.
        match answer {
            Ok(answer) => assert_eq!((answer["words"].as_str().unwrap().len(), words), (15, 3)),
            Err(error) => assert!(words > 3, "{error}"),
        }
    }
}

/// Compressed, these comments are 16 kilobytes, which arrive in two or three pieces. If each piece
/// was parsed in one go, the task would hold its thread, and its time limit could not end it.
#[tokio::test]
async fn a_compressed_stream_is_parsed_in_small_steps() {
    let best = flate2::Compression::best();
    let comments = compressed_at(best, events(""), &":\n".repeat(8 << 20));
    let server = script(move |seen, log| match rpc(seen) {
        "tools/call" => comments.clone(),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let mut call = pin!(call(&client));
    let mut longest = Duration::ZERO;
    let mut total = Duration::ZERO;
    let ended = poll_fn(|context| {
        let before = Instant::now();
        let polled = call.as_mut().poll(context);
        longest = longest.max(before.elapsed());
        total += before.elapsed();
        polled
    })
    .await;
    assert!(ended.is_err(), "the stream has no answer");
    assert!(longest < total / 4, "{longest:?} of {total:?}");
}

#[tokio::test]
async fn an_unknown_encoding_is_named() {
    let server = script(|seen, log| match rpc(seen) {
        "tools/call" => {
            let mut answer = answer(seen, json!({}));
            answer.headers_mut().insert("content-encoding", "br".parse().unwrap());
            answer
        }
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let error = call(&client).await.unwrap_err().to_string();
    assert!(error.contains("unknown content-encoding 'br'"), "{error}");
}

#[tokio::test]
async fn configured_headers_replace_those_of_the_client() {
    let server = script(|seen, log| match rpc(seen) {
        "tools/call" => answer(seen, json!({ "content": [] })),
        _ => session(seen, log),
    })
    .await;
    let headers = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("ACCEPT", "application/json, text/event-stream, */*"),
        ("User-Agent", "corp/1"),
        ("Mcp-Session-Id", "mine"),
        ("X-Team", "a"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let target = HttpTarget { url: server.url.clone(), headers };
    let client = Client::http(target, options(Revision::V2025_11_25, 5)).await.unwrap();
    call(&client).await.unwrap();
    for seen in server.find(|seen| seen.method == Method::POST) {
        for (name, want) in [
            ("content-type", "application/json; charset=utf-8"),
            ("accept", "application/json, text/event-stream, */*"),
            ("user-agent", "corp/1"),
            ("x-team", "a"),
        ] {
            let values: Vec<_> = seen.headers.get_all(name).iter().collect();
            assert_eq!(values, [want]);
        }
    }
    let called = server.find(|seen| rpc(seen) == "tools/call");
    assert_eq!(called[0].session.as_deref(), Some("s1"));
    let headers = [("Content-Length".to_owned(), "1".to_owned())].into();
    let target = HttpTarget { url: server.url.clone(), headers };
    let refused = Client::http(target, ClientOptions::default()).await.err().unwrap();
    assert_eq!(refused.to_string(), "header 'content-length': cannot be configured");
}
