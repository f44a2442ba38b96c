//! Ended sessions free everything: by `DELETE`, by expiry and by the end of the endpoint.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use marquetry_protocol_wire::{
    RpcError,
    types::{CallToolParams, CallToolResult},
};
use serde_json::{Value, json};

use super::{
    Authenticator, Denial, HttpEndpoint, HttpOptions, LegacySseEndpoint, response::Response,
    sessions::Session,
};
use crate::{Handler, Limits, Peer, Principal, Reply, RequestContext, Server, ServerDescription};

/// Answers at once, or never.
struct Subject;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        ServerDescription::default()
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        match &*params.name {
            "never" => std::future::pending::<()>().await,
            "later" => tokio::time::sleep(Duration::from_mins(1)).await,
            _ => {}
        }
        CallToolResult::text("x".repeat(100)).try_into()
    }

    async fn subscribe(&self, _: &str, _: &RequestContext) -> Result<(), RpcError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn delete_frees_a_session_with_all_that_it_kept() {
    let endpoint = endpoint();
    let (id, session) = open(&endpoint).await;
    assert_eq!(call(&endpoint, &id, "echo").await.status(), StatusCode::OK);
    let mut stream = get(&endpoint, &id).await;
    let mut waiting = call(&endpoint, &id, "never").await;
    let deleted = send(&endpoint, Method::DELETE, &id, Value::Null).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert!(ends(&mut stream).await && ends(&mut waiting).await);
    drop((stream, waiting));
    is_gone(&endpoint, &session).await;
    let late = call(&endpoint, &id, "echo").await;
    assert_eq!(late.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_goes_by_itself_and_one_at_work_stays() {
    let endpoint = endpoint();
    let (idle, idle_session) = open(&endpoint).await;
    assert_eq!(call(&endpoint, &idle, "echo").await.status(), StatusCode::OK);
    let (busy, busy_session) = open(&endpoint).await;
    let _waiting = call(&endpoint, &busy, "never").await;
    tokio::time::sleep(IDLE / 2).await;
    assert!(idle_session.upgrade().is_some());
    tokio::time::sleep(IDLE).await;
    assert!(idle_session.upgrade().is_none(), "no other request was needed");
    assert!(busy_session.upgrade().is_some());
    assert_eq!(call(&endpoint, &idle, "echo").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_closed_endpoint_has_ended_everything_and_answers_503() {
    let endpoint = endpoint();
    let (id, session) = open(&endpoint).await;
    let mut stream = get(&endpoint, &id).await;
    let mut waiting = call(&endpoint, &id, "never").await;
    let mut stateless = stateless(&endpoint, "tools/call").await;
    endpoint.close();
    assert!(
        ends(&mut stream).await && ends(&mut waiting).await && ends(&mut stateless).await,
        "streams end"
    );
    drop((stream, waiting, stateless));
    is_gone(&endpoint, &session).await;
    let late = send(&endpoint, Method::POST, &id, initialize()).await;
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// A stream ends when its token expires; a call that began before is still answered.
#[tokio::test(start_paused = true)]
async fn streams_without_end_end_with_their_token() {
    struct Visitor;
    #[async_trait]
    impl Authenticator for Visitor {
        async fn authenticate(&self, _: &http::request::Parts) -> Result<Arc<Principal>, Denial> {
            let expires = SystemTime::now() + Duration::from_secs(30);
            Ok(Arc::new(Principal::new(None, "visitor").until(expires)))
        }
    }
    let options = HttpOptions { authenticator: Some(Arc::new(Visitor)), ..HttpOptions::default() };
    let limits = Limits { session_idle: Duration::from_mins(10), ..Limits::default() };
    let endpoint = HttpEndpoint::new(Server::with_limits(Subject, limits.clone()), options.clone());
    let opened = send(&endpoint, Method::POST, "", initialize()).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let mut stream = get(&endpoint, &id).await;
    let mut listening = stateless(&endpoint, "subscriptions/listen").await;
    let mut call = call(&endpoint, &id, "later").await;
    let legacy = LegacySseEndpoint::new(Server::with_limits(Subject, limits), options, "/messages");
    let request = Request::get("/sse").header("host", "localhost").body(()).unwrap();
    let mut oldest = legacy.stream(&request).await;

    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(!ends(&mut stream).await && !ends(&mut listening).await, "their token holds");
    assert!(!ends(&mut oldest).await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(ends(&mut stream).await && ends(&mut listening).await && ends(&mut oldest).await);

    let soon = Principal::new(None, "visitor").until(SystemTime::now() + Duration::from_secs(30));
    let server = Server::new(Subject);
    let watch = server.watch(Peer::new(Some(Arc::new(soon)), None), "test://one").await.unwrap();
    let left = tokio::time::timeout(Duration::from_mins(1), watch.changed()).await;
    assert_eq!(left, Ok(false), "a watch of a facade ends with its token, too");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let body = call.body_mut().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("xxx"), "the call was let in in time");
}

const IDLE: Duration = Duration::from_mins(1);

fn endpoint() -> HttpEndpoint {
    let limits = Limits { session_idle: IDLE, ..Limits::default() };
    HttpEndpoint::new(Server::with_limits(Subject, limits), HttpOptions::default())
}

fn initialize() -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

async fn open(endpoint: &HttpEndpoint) -> (String, Weak<Session>) {
    let response = send(endpoint, Method::POST, "", initialize()).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let session = Arc::downgrade(&endpoint.session_of(&id).unwrap());
    (id, session)
}

/// Returns an answer as an event stream.
async fn call(endpoint: &HttpEndpoint, session: &str, tool: &str) -> Response {
    let message =
        json!({ "jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": { "name": tool } });
    send(endpoint, Method::POST, session, message).await
}

async fn get(endpoint: &HttpEndpoint, session: &str) -> Response {
    send(endpoint, Method::GET, session, Value::Null).await
}

async fn stateless(endpoint: &HttpEndpoint, method: &str) -> Response {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "name": "never", "notifications": {}, "_meta": meta } });
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", "never");
    endpoint.handle(request.body(Full::from(Bytes::from(message.to_string()))).unwrap()).await
}

async fn send(endpoint: &HttpEndpoint, method: Method, session: &str, message: Value) -> Response {
    let mut request = Request::builder()
        .method(method)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream");
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    endpoint.handle(request.body(Full::from(Bytes::from(message.to_string()))).unwrap()).await
}

/// Returns whether the body ends, in a time in which nothing else would end it.
async fn ends(response: &mut Response) -> bool {
    let all = async { while response.body_mut().frame().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(1), all).await.is_ok()
}

async fn is_gone(endpoint: &HttpEndpoint, session: &Weak<Session>) {
    // Cancelled tasks must be polled once more.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(session.upgrade().is_none(), "the session is still referenced");
    assert_eq!(endpoint.replay_bytes(), 0, "what it kept is still kept");
}
