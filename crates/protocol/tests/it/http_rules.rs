//! The rules of Streamable HTTP apart from messages: statuses, headers, sessions.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use marquetry_protocol::server::Limits;
use serde_json::{Value, json};

use crate::support::{World, listening, soon};

const BOTH: &str = "application/json, text/event-stream";

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let world = listening(Limits::default()).await;
    let session = open(&world).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let with = |id: &str| vec![("mcp-session-id", id.to_owned())];

    assert_eq!(post(&world, &ping, with(&session)).await.0, StatusCode::OK);
    assert_eq!(post(&world, &ping, vec![]).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(post(&world, &ping, with("guessed")).await.0, StatusCode::NOT_FOUND);
    let mut strange = with(&session);
    strange.push(("mcp-protocol-version", "1999-01-01".to_owned()));
    assert_eq!(post(&world, &ping, strange).await.0, StatusCode::BAD_REQUEST);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&world, &note, with(&session)).await.0, StatusCode::ACCEPTED);

    let delete = |id: &str| {
        request(&world, Method::DELETE).header("mcp-session-id", id).body(Full::default()).unwrap()
    };
    assert_eq!(send(delete(&session)).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(send(delete(&session)).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(post(&world, &ping, with(&session)).await.0, StatusCode::NOT_FOUND);
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn stateless_errors_have_a_status() {
    let world = listening(Limits::default()).await;
    let call = |method: &str, version: &str, meta: Value| {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } });
        let headers =
            vec![("mcp-protocol-version", version.to_owned()), ("mcp-method", method.to_owned())];
        (body, headers)
    };
    let good = "2026-07-28";
    let cases = [
        (call("tools/list", good, meta(good)), StatusCode::OK, None),
        (call("no/such", good, meta(good)), StatusCode::NOT_FOUND, Some(-32601)),
        (call("initialize", good, meta(good)), StatusCode::NOT_FOUND, Some(-32601)),
        (
            call("tools/list", "2027-01-01", meta("2027-01-01")),
            StatusCode::BAD_REQUEST,
            Some(-32022),
        ),
        (call("tools/list", good, meta("2027-01-01")), StatusCode::BAD_REQUEST, Some(-32020)),
        (call("tools/list", "2025-11-25", meta(good)), StatusCode::BAD_REQUEST, Some(-32020)),
        (call("tools/list", good, json!({})), StatusCode::BAD_REQUEST, Some(-32602)),
        (
            call("tools/list", good, json!({ "io.modelcontextprotocol/protocolVersion": good })),
            StatusCode::BAD_REQUEST,
            Some(-32602),
        ),
    ];
    for ((body, headers), status, code) in cases {
        let (got, answer) = post(&world, &body, headers).await;
        assert_eq!((got, answer["error"]["code"].as_i64()), (status, code), "{body}");
    }
    for method in [Method::GET, Method::DELETE] {
        let request = request(&world, method)
            .header("mcp-protocol-version", good)
            .body(Full::default())
            .unwrap();
        assert_eq!(send(request).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn invalid_messages_are_refused() {
    let world = listening(Limits { max_message_bytes: 1_000, ..Limits::default() }).await;
    let raw = |body: &'static [u8]| {
        request(&world, Method::POST)
            .header("content-type", "application/json")
            .header("accept", BOTH)
            .body(Full::new(Bytes::from_static(body)))
            .unwrap()
    };
    for (body, code) in [
        (&b"{"[..], -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":true}", -32600),
    ] {
        let response = send(raw(body)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(json_of(response).await["error"]["code"], code);
    }
    let mut request_ = raw(b"{}");
    *request_.body_mut() = Full::new(Bytes::from(vec![b' '; 2_000]));
    let response = send(request_).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(json_of(response).await["error"]["message"], "message is longer than 1000 bytes");

    let mut request_ = raw(b"{}");
    request_.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(send(request_).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let mut request_ = raw(b"{}");
    request_.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    let response = send(request_).await;
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(
        json_of(response).await["error"]["message"],
        "content-encoding is not supported; send the message uncompressed"
    );
    let mut request_ = raw(b"{}");
    request_.headers_mut().insert("accept", "text/html".parse().unwrap());
    assert_eq!(send(request_).await.status(), StatusCode::NOT_ACCEPTABLE);
    let response = send(request(&world, Method::PUT).body(Full::default()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()["allow"], "GET, POST, DELETE");
}

#[tokio::test]
async fn web_pages_of_strangers_are_kept_out() {
    let world = listening(Limits::default()).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let (status, _) =
        post(&world, &ping, vec![("origin", "https://evil.example".to_owned())]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let mut rebound =
        Request::post(world.url()).header("host", "evil.example").body(Full::default()).unwrap();
    rebound.headers_mut().insert("content-type", "application/json".parse().unwrap());
    assert_eq!(send(rebound).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_answer_that_takes_long_becomes_a_stream_and_survives_its_connection() {
    let mut world = listening(Limits::default()).await;
    let session = open(&world).await;
    let wait = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "wait", "_meta": { "progressToken": "p" } } });
    let response =
        send(post_request(&world, &wait, vec![("mcp-session-id", session.clone())])).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let first = soon("progress", body.frame()).await.unwrap().unwrap().into_data().unwrap();
    let want = "id: 0-0\ndata:\n\nid: 0-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":0.0}}\n\n";
    assert_eq!(String::from_utf8_lossy(&first), want);
    drop(body);
    // The call continues without the connection until it is cancelled.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(world.cancelled.try_recv().is_err());
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(
        post(&world, &cancel, vec![("mcp-session-id", session)]).await.0,
        StatusCode::ACCEPTED
    );
    soon("cancellation", world.cancelled.recv()).await.unwrap();
}

#[tokio::test]
async fn an_answer_is_still_there_after_its_connection_broke() {
    let world = listening(Limits::default()).await;
    let session = open(&world).await;
    let slow = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "slow", "_meta": { "progressToken": "p" } } });
    let response =
        send(post_request(&world, &slow, vec![("mcp-session-id", session.clone())])).await;
    let mut body = response.into_body();
    let first = soon("progress", body.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("id: 0-1\n"));
    drop(body);

    // While the call goes on, and again long after it is over.
    for _ in 0..2 {
        let resumed = resume(&world, &session, "0-1").await;
        assert_eq!(resumed.status(), StatusCode::OK);
        let text = resumed.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.starts_with(
                "id: 0-2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\""
            ),
            "{text}"
        );
        assert!(
            text.contains("id: 0-3\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":"),
            "{text}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
    // Neither events of another session nor unknown events can be resumed.
    let other = open(&world).await;
    assert_eq!(resume(&world, &other, "0-1").await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(resume(&world, &session, "9-1").await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(resume(&world, &session, "nonsense").await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_handler_can_have_its_client_come_back_for_the_answer() {
    let world = listening(Limits::default()).await;
    let session = open(&world).await;
    let leave = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "leave", "_meta": { "progressToken": "p" } } });
    let response =
        send(post_request(&world, &leave, vec![("mcp-session-id", session.clone())])).await;
    let text = soon("the end", response.into_body().collect()).await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("id: 0-1\n") && text.ends_with("\n\nretry: 100\n\n"), "{text}");
    let resumed = resume(&world, &session, "0-1").await;
    let text = soon("the answer", resumed.into_body().collect()).await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(text.starts_with("id: 0-2\n") && text.contains("came back"), "{text}");
}

async fn resume(world: &World, session: &str, last: &str) -> Response<hyper::body::Incoming> {
    let request = request(world, Method::GET)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("last-event-id", last);
    send(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn clients_that_take_only_json_get_json() {
    let world = listening(Limits::default()).await;
    let session = open(&world).await;
    let count = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "count", "_meta": { "progressToken": 1 } } });
    let mut request = post_request(&world, &count, vec![("mcp-session-id", session)]);
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    let response = send(request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(json_of(response).await["result"]["content"][0]["text"], "3");
}

async fn open(world: &World) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = send(post_request(world, &body, vec![])).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

async fn post(world: &World, body: &Value, headers: Vec<(&str, String)>) -> (StatusCode, Value) {
    let response = send(post_request(world, body, headers)).await;
    (response.status(), json_of(response).await)
}

fn post_request(world: &World, body: &Value, headers: Vec<(&str, String)>) -> Request<Full<Bytes>> {
    let mut request = request(world, Method::POST)
        .header("content-type", "application/json")
        .header("accept", BOTH);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Full::new(body.to_string().into())).unwrap()
}

fn request(world: &World, method: Method) -> http::request::Builder {
    Request::builder().method(method).uri(world.url())
}

async fn send(request: Request<Full<Bytes>>) -> Response<hyper::body::Incoming> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    soon("a response", client.request(request)).await.unwrap()
}

async fn json_of(response: Response<hyper::body::Incoming>) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() }
}
