//! A test of all routes: each counts what its callers make the server hold.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Method, Request, request::Parts},
    routing::post,
};
use futures_util::stream;
use marquetry_protocol::server::{
    Principal,
    http::{Authenticator, Denial},
};
use tower_service::Service as _;

use crate::{App, Config};

/// Bytes of one caller for bodies, and memory for values.
const SHARE: usize = 100_000;

/// Bytes of each body that are not counted, and the frames on their way.
const UNCOUNTED: usize = (64 << 10) + 2 * FRAME;

const FRAME: usize = 16 << 10;

/// Everybody is the same administrator.
struct OneCaller;

#[async_trait]
impl Authenticator for OneCaller {
    async fn authenticate(&self, _: &Parts) -> Result<Arc<Principal>, Denial> {
        Ok(Arc::new(Principal::new(None, "ann").with_scopes(["admin"])))
    }
}

async fn app() -> App {
    let toml = format!(
        "knowledge.enabled = false\nprofiles.x = {{}}\n[limits]\nmax_request_bytes = {SHARE}\nmax_rest_body_bytes = {SHARE}\nmax_receive_bytes = {SHARE}\nmax_receive_bytes_per_caller = {SHARE}\nmax_work_bytes_per_caller = {SHARE}\nqueue_ms = 10\n"
    );
    let config = Config::from_toml(&toml, "test.toml").unwrap();
    let tests = Router::new().route("/api/test/run", post(async |_: Bytes| "taken"));
    let builder = App::builder(config).authenticator(OneCaller).admin_routes(tests);
    builder.start().await.unwrap()
}

/// Returns the paths of a router, with a value for each parameter.
fn paths(router: &Router) -> BTreeSet<String> {
    // Axum lists its routes for debugging only: `RouteId(0): "/healthz"`.
    let listed = format!("{router:?}");
    let routes = listed.split("RouteId(").filter_map(|it| it.split_once("): \"/"));
    let paths = routes.filter_map(|(_, path)| path.split('"').next());
    paths.map(|path| format!("/{}", with_values(path))).collect()
}

fn with_values(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{*method}" => "tools/call",
        "{*name}" => "encodePlantUML",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Sends a body; returns the status and the body of the answer, unless it is a stream.
async fn send(router: &Router, method: &Method, path: &str, body: Body) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer of-ann")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body)
        .unwrap();
    let answer = router.clone().call(request).await.unwrap();
    let status = answer.status().as_u16();
    let rest =
        tokio::time::timeout(Duration::from_millis(200), to_bytes(answer.into_body(), SHARE));
    let text = rest.await.ok().and_then(Result::ok).unwrap_or_default();
    (status, String::from_utf8_lossy(&text).into_owned())
}

/// Returns a body of `frames` frames, after which nothing comes, and how many bytes were taken.
fn endless(frames: usize) -> (Body, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let body = stream::unfold(0, move |sent| {
        let count = count.clone();
        async move {
            if sent == frames {
                std::future::pending::<()>().await;
            }
            count.fetch_add(FRAME, Relaxed);
            Some((Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; FRAME])), sent + 1))
        }
    });
    (Body::from_stream(body), taken)
}

const METHODS: [Method; 5] =
    [Method::POST, Method::GET, Method::PUT, Method::PATCH, Method::DELETE];

#[tokio::test]
async fn every_route_counts_the_bodies_that_it_takes() {
    let app = app().await;
    let router = app.router();
    let paths = paths(&router);
    for known in
        ["/mcp", "/messages", "/mcp/v1/tools/call", "/api/console/session", "/api/test/run"]
    {
        assert!(paths.contains(known), "{known} is not in {paths:?}");
    }
    // One body fills the share of its sender while it arrives.
    let (body, taken) = endless(SHARE / FRAME);
    let other = router.clone();
    let waiting = tokio::spawn(async move { send(&other, &Method::POST, "/mcp", body).await });
    while taken.load(Relaxed) < SHARE / FRAME * FRAME {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for path in &paths {
        for method in &METHODS {
            let (body, taken) = endless(64);
            let answer = send(&router, method, path, body);
            let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
            let taken = taken.load(Relaxed);
            assert!(
                taken <= UNCOUNTED,
                "{method} {path} takes {taken} bytes uncounted: {answer:?}"
            );
            assert!(answer.is_ok(), "{method} {path} waits for its body after {taken} bytes");
        }
    }
    waiting.abort();
    app.shutdown().await;
}

#[tokio::test]
async fn every_route_counts_the_values_that_it_parses() {
    let app = app().await;
    let router = app.router();
    let values = vec!["[]"; 5_000].join(",");
    let body = format!(r#"{{"name":"list_artifacts","arguments":{{"a":[{values}]}}}}"#);
    let mut refused = Vec::new();
    for path in paths(&router) {
        for method in &METHODS {
            let taken = Arc::new(AtomicUsize::new(0));
            let count = taken.clone();
            let bytes = Bytes::from(body.clone());
            let sent = stream::once(async move {
                count.store(bytes.len(), Relaxed);
                Ok::<_, std::io::Error>(bytes)
            });
            let (status, text) = send(&router, method, &path, Body::from_stream(sent)).await;
            if taken.load(Relaxed) == 0 {
                continue;
            }
            // Endpoints of MCP parse what a method needs, when it needs it.
            if ["/mcp", "/mcp/profiles/x", "/messages"].contains(&&*path) {
                continue;
            }
            assert_eq!(status, 413, "{method} {path}: {text}");
            refused.push(path.clone());
        }
    }
    for known in ["/mcp/v1/tools/call", "/api/console/session", "/api/test/run"] {
        assert!(refused.iter().any(|path| path == known), "{known} is not in {refused:?}");
    }
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}},{}"#,
        &format!("{body}}}")[1..]
    );
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "list_artifacts")
        .body(Body::from(call))
        .unwrap();
    let answer = router.clone().call(request).await.unwrap();
    let text = to_bytes(answer.into_body(), SHARE).await.unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("max_work_bytes_per_caller"), "{text}");
    app.shutdown().await;
}
