//! The HTTP client with servers that behave differently from ours. Each server here is a script.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use marquetry_protocol::{
    Revision, RpcError,
    client::{
        AuthorizationError, Authorizer, CallOptions, Client, ClientError, ClientHandler,
        ClientOptions, CloseReason, HttpTarget, Interaction, Network, ProtocolError, Refusal,
        RevisionChoice,
    },
    server::http::{RequestBody, serve},
    types::{CallToolParams, ClientCapabilities, ListRootsResult},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::soon;

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    path: String,
    pub(crate) session: Option<String>,
    last_event_id: Option<String>,
    authorization: Option<String>,
    pub(crate) headers: HeaderMap,
    /// Null when there was none.
    pub(crate) body: Value,
    at: Instant,
}

pub(crate) type Answer = Response<Full<Bytes>>;

/// A server that answers as `script` says, and the log of what it saw.
pub(crate) struct Script {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _stop: DropGuard,
}

#[tokio::test]
async fn a_broken_answer_is_taken_up_after_as_long_as_the_server_wants() {
    let server = script(|seen, log| match (&seen.last_event_id, rpc(seen)) {
        (_, "tools/call") => events("id: 7\nretry: 300\ndata:\n\n"),
        (Some(id), _) if id == "7" => {
            let call = log.iter().find(|seen| rpc(seen) == "tools/call").unwrap();
            events(&event(&result(call, json!({ "content": [] }))))
        }
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), json!({ "content": [] }));
    let called = server.find(|seen| rpc(seen) == "tools/call")[0].at;
    let resumed = &server.find(|seen| seen.last_event_id.is_some())[0];
    assert!(resumed.at - called >= Duration::from_millis(300), "{:?}", resumed.at - called);
    assert_eq!(resumed.session.as_deref(), Some("s1"));
}

/// C12: the client asks a proxy for a tunnel, with its credentials for the proxy.
#[tokio::test]
async fn servers_are_reached_by_a_proxy() {
    let server = script(|seen, log| match rpc(seen) {
        "tools/call" => answer(seen, json!({ "content": [] })),
        _ => session(seen, log),
    })
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let (asked, mut heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut ours, _) = listener.accept().await.unwrap();
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(ours.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                asked.send(head).unwrap();
                ours.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let mut theirs = TcpStream::connect(target).await.unwrap();
                _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
            });
        }
    });
    let network = Network::default().with_proxy(&format!("http://me:hush@{proxy}")).unwrap();
    let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
    let options = ClientOptions { network, ..options(Revision::V2025_11_25, 5) };
    let client = Client::http(target, options).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), json!({ "content": [] }));
    let head = heard.recv().await.unwrap();
    let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp");
    assert!(head.starts_with(&format!("CONNECT {address} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic bWU6aHVzaA=="), "{head}");
}

#[tokio::test]
async fn redirects_that_keep_the_request_are_followed_within_the_origin() {
    let server = script(|seen, log| match (&*seen.path, rpc(seen)) {
        ("/mcp", "tools/call") => redirect(StatusCode::TEMPORARY_REDIRECT, "/v2/mcp/?a=1"),
        ("/v2/mcp/?a=1", _) => redirect(StatusCode::PERMANENT_REDIRECT, "../here"),
        ("/v2/here", _) => answer(seen, json!({ "content": [] })),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), json!({ "content": [] }));
    let arrived = &server.find(|seen| seen.path == "/v2/here")[0];
    assert_eq!((&arrived.method, arrived.session.as_deref()), (&Method::POST, Some("s1")));

    let server = script(|seen, log| match rpc(seen) {
        "tools/call" => redirect(StatusCode::TEMPORARY_REDIRECT, "http://127.0.0.1:9/mcp"),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let error = call(&client).await.unwrap_err().to_string();
    assert!(error.ends_with("redirects to an address that is of another origin"), "{error}");
}

fn redirect(status: StatusCode, location: &str) -> Answer {
    Response::builder().status(status).header("location", location).body(Full::default()).unwrap()
}

#[tokio::test]
async fn a_stream_with_nothing_new_is_given_up_after_some_attempts() {
    let server = script(|seen, log| match (&seen.last_event_id, rpc(seen)) {
        (_, "tools/call") => events("id: 7\nretry: 60\ndata:\n\n"),
        (Some(_), _) => events(": nothing\n\n"),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 3).await.unwrap();
    let error = call(&client).await.unwrap_err().to_string();
    assert!(error.ends_with("3 attempts to resume it brought no new event"), "{error}");
    let called = server.find(|seen| rpc(seen) == "tools/call")[0].at;
    let resumed = server.find(|seen| seen.last_event_id.is_some());
    assert_eq!(resumed.len(), 3);
    // 60, 120 and 240 ms.
    assert!(resumed[2].at - called >= Duration::from_millis(420), "{:?}", resumed[2].at - called);
    assert!(!client.is_closed());
}

#[tokio::test]
async fn a_stream_that_the_server_no_longer_has_is_not_asked_for_again() {
    let server = script(|seen, log| match (&seen.last_event_id, rpc(seen)) {
        (_, "tools/call") => events("id: 7\nretry: 60\ndata:\n\n"),
        (Some(_), _) => status(StatusCode::BAD_REQUEST),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 3).await.unwrap();
    let error = call(&client).await.unwrap_err().to_string();
    assert!(error.ends_with("the server refused to resume it: HTTP status 400"), "{error}");
    assert_eq!(server.find(|seen| seen.last_event_id.is_some()).len(), 1);
}

#[tokio::test]
async fn announcements_resume_after_the_last_one() {
    let server = script(|seen, log| match (&seen.method, &seen.last_event_id) {
        (&Method::GET, None) => events(&format!("id: 1\nretry: 100\n{}", event(&changed("a")))),
        (&Method::GET, Some(id)) if id == "1" => {
            events(&format!("id: 2\nretry: 100\n{}", event(&changed("b"))))
        }
        (&Method::GET, _) => status(StatusCode::METHOD_NOT_ALLOWED),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let mut told = client.notifications();
    // The first notification may have come before the client listened.
    loop {
        let told = soon("an announcement", told.recv()).await.unwrap();
        assert_eq!(&*told.method, "notifications/resources/updated");
        if told.params.unwrap().get().contains(r#""b""#) {
            break;
        }
    }
    assert_eq!(server.find(|seen| seen.last_event_id.as_deref() == Some("1")).len(), 1);
}

#[tokio::test]
async fn a_forgotten_session_is_renewed_and_brought_up_to_date() {
    let server = script(|seen, log| match (rpc(seen), seen.session.as_deref()) {
        ("initialize", _) => session(seen, log),
        ("resources/subscribe" | "logging/setLevel", Some(_)) => answer(seen, json!({})),
        ("tools/call", Some("s1")) => status(StatusCode::NOT_FOUND),
        ("tools/call", Some("s2")) => answer(seen, json!({ "content": [] })),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    client.subscribe("test://one").await.unwrap();
    let mut told = client.notifications();
    let (one, two) = tokio::join!(call(&client), call(&client));
    assert_eq!((one.unwrap(), two.unwrap()), (json!({ "content": [] }), json!({ "content": [] })));
    let opened = server.find(|seen| rpc(seen) == "initialize");
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[1].session, None);
    assert_eq!(opened[0].body["params"], opened[1].body["params"]);
    let in_new = |method: &str| {
        server.find(|seen| rpc(seen) == method && seen.session.as_deref() == Some("s2")).len()
    };
    assert_eq!(in_new("notifications/initialized"), 1);
    assert_eq!(in_new("resources/subscribe"), 1);
    let told = soon("an announcement", told.recv()).await.unwrap();
    assert_eq!(&*told.method, "notifications/tools/list_changed");
    assert!(!client.is_closed());
}

/// If the call that finds its session gone is cancelled, the new session is opened completely all
/// the same.
#[tokio::test]
async fn a_session_is_renewed_completely_even_if_the_call_is_cancelled() {
    let server = script(|seen, log| match (rpc(seen), seen.session.as_deref()) {
        ("resources/subscribe", Some(_)) => answer(seen, json!({})),
        ("tools/call", Some("s1")) => status(StatusCode::NOT_FOUND),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    client.subscribe("test://one").await.unwrap();
    let second_one_asked_for = async {
        while server.find(|seen| rpc(seen) == "initialize").len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = second_one_asked_for => {}
        _ = call(&client) => panic!("it has to be left before its end"),
    }
    let is_whole = async {
        let is_new = |seen: &Seen| seen.session.as_deref() == Some("s2");
        while server.find(|seen| rpc(seen) == "resources/subscribe" && is_new(seen)).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the subscription in the new session", is_whole).await;
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_closes_the_connection() {
    for refuses_to_open in [true, false] {
        let server = script(move |seen, log| match (rpc(seen), seen.session.as_deref()) {
            ("tools/call" | "ping", _) => status(StatusCode::NOT_FOUND),
            ("initialize", _) if refuses_to_open && opened(log) > 0 => {
                status(StatusCode::SERVICE_UNAVAILABLE)
            }
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        let Err(ClientError::Closed(CloseReason::SessionEnded(why))) = call(&client).await else {
            panic!("the call must say that the session is lost")
        };
        if refuses_to_open {
            assert!(why.contains("503"), "{why}");
        } else {
            assert_eq!(why, "it forgets sessions at once");
        }
        assert!(client.is_closed());
        assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), 2);
    }
}

/// The server means the request, not the session.
#[tokio::test]
async fn a_request_that_is_not_found_in_a_new_session_fails_alone() {
    let forgets_s2 = Arc::new(AtomicBool::new(false));
    let forgets = forgets_s2.clone();
    let server = script(move |seen, log| match rpc(seen) {
        _ if seen.session.as_deref() == Some("s2") && forgets.load(Ordering::Relaxed) => {
            status(StatusCode::NOT_FOUND)
        }
        "tools/call" => status(StatusCode::NOT_FOUND),
        "resources/read" => {
            let error = json!({ "code": -32002, "message": "no such resource" });
            let answer = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error });
            let mut answer = body(&answer);
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
        "ping" => answer(seen, json!({})),
        "tools/list" => answer(seen, json!({ "tools": [] })),
        _ => session(seen, log),
    })
    .await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let error = call(&client).await.unwrap_err();
    assert!(matches!(error, ClientError::Http { status: 404, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "server answered with HTTP status 404: it refuses this request, and its session goes on"
    );
    let error = client.read_resource("test://none").await.unwrap_err();
    assert!(matches!(&error, ClientError::Rpc(error) if error.code == -32_002), "{error}");
    assert!(call(&client).await.is_err());
    assert!(!client.is_closed());
    assert_eq!(client.list_tools().await.unwrap(), []);
    // Only the first such request opens another session.
    assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), 2);
    forgets_s2.store(true, Ordering::Relaxed);
    assert_eq!(client.list_tools().await.unwrap(), []);
    assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), 3);
}

/// Without an answer to the ping, it is unknown whether the server means the request or the
/// session.
#[tokio::test]
async fn only_an_answer_to_the_ping_proves_that_the_session_exists() {
    for refusal in [400, 403, 408, 429, 501, 503] {
        let server = script(move |seen, log| match rpc(seen) {
            "tools/call" => status(StatusCode::NOT_FOUND),
            "ping" if log.iter().any(|seen| rpc(seen) == "ping") => {
                let error = json!({ "code": -32601, "message": "no such method" });
                let mut answer =
                    body(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error }));
                *answer.status_mut() = StatusCode::BAD_REQUEST;
                answer
            }
            "ping" => status(StatusCode::from_u16(refusal).unwrap()),
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        let unknown = format!(
            "server answered with HTTP status 404: it refuses this request, and a ping of the session with HTTP status {refusal}"
        );
        let goes_on = "server answered with HTTP status 404: it refuses this request, and its session goes on";
        for (message, opened) in [(unknown.as_str(), 2), (goes_on, 3), (goes_on, 3)] {
            assert_eq!(call(&client).await.unwrap_err().to_string(), message);
            assert_eq!(server.find(|seen| rpc(seen) == "initialize").len(), opened, "{refusal}");
        }
        assert!(!client.is_closed());
    }
}

/// A server under load might refuse the new session, too, which would end the calls of all users.
#[tokio::test]
async fn a_session_of_unknown_status_is_renewed_unless_the_server_is_overloaded() {
    for (refusal, is_renewed) in
        [(400, true), (405, true), (408, false), (429, false), (503, false)]
    {
        let has_lost_s2 = Arc::new(AtomicBool::new(false));
        let has_lost = has_lost_s2.clone();
        let server = script(move |seen, log| match rpc(seen) {
            method if seen.session.as_deref() == Some("s2") && has_lost.load(Ordering::Relaxed) => {
                let refusal = if method == "ping" { refusal } else { 404 };
                status(StatusCode::from_u16(refusal).unwrap())
            }
            "tools/call" => status(StatusCode::NOT_FOUND),
            "ping" => answer(seen, json!({})),
            "tools/list" => answer(seen, json!({ "tools": [] })),
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        // The server means the request by a 404, as the ping tells.
        assert!(call(&client).await.is_err());
        has_lost_s2.store(true, Ordering::Relaxed);
        assert_eq!(client.list_tools().await.is_ok(), is_renewed, "{refusal}");
        let opened = server.find(|seen| rpc(seen) == "initialize").len();
        assert_eq!(opened, if is_renewed { 3 } else { 2 }, "{refusal}");
        assert!(!client.is_closed());
    }
}

/// Only a server that has forgotten the session gets another one because of the stream of
/// notifications.
#[tokio::test]
async fn a_stream_that_is_not_found_any_more_renews_a_lost_session_alone() {
    for has_session in [true, false] {
        let server = script(move |seen, log| match (&seen.method, rpc(seen)) {
            (&Method::GET, _) if seen.session.as_deref() == Some("s2") => {
                status(StatusCode::METHOD_NOT_ALLOWED)
            }
            (&Method::GET, _) if log.iter().any(|seen| seen.method == Method::GET) => {
                status(StatusCode::NOT_FOUND)
            }
            (&Method::GET, _) => events(&event(&changed("a"))),
            (_, "ping") if has_session => answer(seen, json!({})),
            (_, "ping") => status(StatusCode::NOT_FOUND),
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        let streams = |wanted| {
            let server = &server;
            async move {
                while server.find(|seen| seen.method == Method::GET).len() < wanted {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        soon("another try", streams(3)).await;
        let opened = server.find(|seen| rpc(seen) == "initialize").len();
        assert_eq!(opened, if has_session { 1 } else { 2 });
        assert!(!client.is_closed());
    }
}

#[tokio::test]
async fn a_session_ends_with_its_last_client() {
    let deleted = |seen: &Seen| seen.method == Method::DELETE;
    let server = script(session).await;
    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    let other = client.clone();
    drop(client);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.find(deleted).len(), 0);
    drop(other);
    soon("the end of the session", async {
        while server.find(deleted).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;

    let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
    client.close().await;
    assert_eq!(server.find(deleted).len(), 2);
    drop(client);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let ended: Vec<_> = server.find(deleted).into_iter().map(|seen| seen.session).collect();
    assert_eq!(ended, [Some("s1".to_owned()), Some("s2".to_owned())]);
}

#[tokio::test]
async fn batches_are_read_as_a_body_and_as_an_event() {
    for as_event in [true, false] {
        let server = script(move |seen, log| match rpc(seen) {
            "tools/call" => {
                let progress = json!({ "progressToken": seen.body["id"], "progress": 1 });
                let batch = json!([
                    { "jsonrpc": "2.0", "method": "notifications/progress", "params": progress },
                    result(seen, json!({ "content": [] })),
                ]);
                if as_event { events(&event(&batch)) } else { body(&batch) }
            }
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_03_26, 5).await.unwrap();
        let (sender, mut progress) = mpsc::channel(4);
        let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
        let params = CallToolParams::new("t", &json!({})).unwrap();
        let answer = soon("an answer", client.call_tool_raw(&params, options)).await.unwrap();
        assert_eq!(answer.get(), r#"{"content":[]}"#);
        assert_eq!(progress.recv().await.unwrap().progress, 1.0);
    }
}

/// In the URL, the connection pool would log them.
#[tokio::test]
async fn user_and_password_of_a_url_are_sent_in_a_header() {
    for (headers, want) in [
        (BTreeMap::new(), "Basic bWU6YUBi"),
        (BTreeMap::from([("authorization".to_owned(), "Bearer t".to_owned())]), "Bearer t"),
    ] {
        let server = script(session).await;
        let url = server.url.replace("http://", "http://me:a%40b@");
        let options = options(Revision::V2025_11_25, 5);
        let client = Client::http(HttpTarget { url, headers }, options).await.unwrap();
        let seen = server.find(|_| true);
        assert!(seen.iter().all(|seen| seen.authorization.as_deref() == Some(want)), "{want}");
        drop(client);
    }
}

#[tokio::test]
async fn an_invalid_answer_fails_its_call_as_a_body_and_as_an_event() {
    for as_event in [true, false] {
        let server = script(move |seen, log| match rpc(seen) {
            "tools/call" => {
                let id = &seen.body["id"];
                let invalid = format!(r#"{{"jsonrpc":"1.0","id":{id},"result":{{}}}}"#);
                if as_event {
                    events(&format!("data: {invalid}\n\n"))
                } else {
                    typed("application/json", invalid)
                }
            }
            _ => session(seen, log),
        })
        .await;
        let client = server.connect(Revision::V2025_11_25, 5).await.unwrap();
        let error = call(&client).await.unwrap_err();
        assert!(error.to_string().contains("member 'jsonrpc' must be"), "{error}");
    }
}

/// The server declares no notifications, but needs the stream for its questions.
#[tokio::test]
async fn there_is_a_stream_before_somebody_can_be_asked() {
    let server = script(session).await;
    let capabilities = ClientCapabilities::default().with_roots();
    let options = ClientOptions { capabilities, ..options(Revision::V2025_11_25, 5) };
    let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
    let _client = Client::http(target, options).await.unwrap();
    assert_eq!(server.find(|seen| seen.method == Method::GET).len(), 1);
}

#[tokio::test]
async fn a_stateless_server_is_asked_again_in_a_revision_that_it_names() {
    let server = script(|seen, _| {
        let first = rpc(seen) == "server/discover" && seen.body["id"] == 1;
        let error = json!({
            "code": -32022, "message": "unsupported",
            "data": { "supported": ["2099-01-01", "2026-07-28"], "requested": "2026-07-28" },
        });
        if first {
            let mut refused =
                body(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error }));
            *refused.status_mut() = StatusCode::BAD_REQUEST;
            refused
        } else { answer(
            seen,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {} }),
        ) }
    })
    .await;
    let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
    let client = Client::http(target, ClientOptions::default()).await.unwrap();
    assert_eq!(client.server().revision, Revision::V2026_07_28);
}

/// Has a new token after each request for authorization.
#[derive(Default)]
struct Tokens(Mutex<usize>);

#[async_trait]
impl Authorizer for Tokens {
    async fn sign(&self, request: &mut Parts) -> Result<(), AuthorizationError> {
        let token = format!("Bearer {}", self.0.lock().unwrap()).parse().unwrap();
        request.headers.insert("authorization", token);
        Ok(())
    }

    async fn authorize(&self, _: &Refusal, _: Interaction) -> Result<(), AuthorizationError> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
}

/// The call is still running. If it were sent again, it would run twice.
#[tokio::test]
async fn a_refusal_of_a_broken_answer_does_not_send_the_call_again() {
    for (refusals, authorizes) in [(1, true), (100, true), (100, false)] {
        let server = script(move |seen, log| match (&seen.last_event_id, rpc(seen)) {
            (_, "tools/call") => events("id: 7\nretry: 50\ndata:\n\n"),
            (Some(_), _)
                if log.iter().filter(|seen| seen.last_event_id.is_some()).count() < refusals =>
            {
                status(StatusCode::UNAUTHORIZED)
            }
            (Some(_), _) => {
                let call = log.iter().find(|seen| rpc(seen) == "tools/call").unwrap();
                events(&event(&result(call, json!({ "content": [] }))))
            }
            _ => session(seen, log),
        })
        .await;
        let mut options = options(Revision::V2025_11_25, 5);
        if authorizes {
            options.authorizer = Some(Arc::new(Tokens::default()));
        }
        let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
        let client = Client::http(target, options).await.unwrap();
        match call(&client).await {
            Ok(answer) if refusals == 1 => assert_eq!(answer, json!({ "content": [] })),
            Err(ClientError::Protocol(ProtocolError::ResumeRefused { refusal }))
                if refusals == 100 =>
            {
                assert!(refusal.starts_with("server "), "{refusal}");
            }
            other => panic!("{refusals} {authorizes}: {other:?}"),
        }
        assert_eq!(server.find(|seen| rpc(seen) == "tools/call").len(), 1);
        let resumed = server.find(|seen| seen.last_event_id.is_some()).len();
        let want = match (refusals, authorizes) {
            (1, _) => 2,
            (_, true) => 3,
            (_, false) => 1,
        };
        assert_eq!(resumed, want, "{refusals} {authorizes}");
    }
}

/// A task that asks `asks` times; its first `broken` updates are answered with status 503.
async fn asking_task(asks: usize, broken: usize) -> Script {
    script(move |seen, log| {
        let updates = || log.iter().filter(|seen| rpc(seen) == "tasks/update").count();
        let task = |status: &str, more: Value| {
            let mut task = json!({
                "resultType": "task", "taskId": "t", "status": status, "pollIntervalMs": 10, "ttlMs": 60_000,
                "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
            });
            task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            task
        };
        match rpc(seen) {
            "server/discover" => answer(
                seen,
                json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {
                        "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} },
                    },
                }),
            ),
            "tools/call" => answer(seen, task("working", json!({}))),
            "tasks/get" => {
                let answered = updates().saturating_sub(broken);
                let mut shown = if answered < asks { task(
                    "input_required",
                    json!({ "inputRequests": { format!("k{answered}"): { "method": "roots/list" } } }),
                ) } else { task("completed", json!({ "result": { "content": [] } })) };
                shown["resultType"] = "complete".into();
                answer(seen, shown)
            }
            "tasks/update" if updates() < broken => status(StatusCode::SERVICE_UNAVAILABLE),
            "tasks/update" | "tasks/cancel" => answer(seen, json!({ "resultType": "complete" })),
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        }
    })
    .await
}

struct Roots;

#[async_trait]
impl ClientHandler for Roots {
    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(serde_json::from_value(json!({ "roots": [] })).unwrap())
    }
}

async fn connect_with_tasks(server: &Script) -> Client {
    let mut options = options(Revision::V2026_07_28, 5);
    options.handler = Arc::new(Roots);
    options.max_rounds = 3;
    let target = HttpTarget { url: server.url.clone(), ..HttpTarget::default() };
    Client::http(target, options).await.unwrap()
}

#[tokio::test]
async fn answers_to_a_task_are_handed_in_again_where_that_failed() {
    let server = asking_task(1, 1).await;
    let client = connect_with_tasks(&server).await;
    assert_eq!(call(&client).await.unwrap(), json!({ "content": [] }));
    let updates = server.find(|seen| rpc(seen) == "tasks/update");
    assert_eq!(updates.len(), 2);
    for update in updates {
        assert_eq!(update.body["params"]["inputResponses"]["k0"]["roots"], json!([]));
    }
}

#[tokio::test]
async fn a_task_that_never_stops_asking_is_abandoned() {
    let server = asking_task(3, 0).await;
    let client = connect_with_tasks(&server).await;
    assert_eq!(call(&client).await.unwrap(), json!({ "content": [] }));
    let server = asking_task(usize::MAX, 0).await;
    let client = connect_with_tasks(&server).await;
    let error = call(&client).await.unwrap_err();
    assert!(matches!(error, ClientError::TooManyRounds(3)), "{error}");
    assert_eq!(server.find(|seen| rpc(seen) == "tasks/update").len(), 3);
}

/// Opens sessions `s1`, `s2`, …, accepts notifications and `DELETE`, and refuses all other
/// requests.
pub(crate) fn session(seen: &Seen, log: &[Seen]) -> Answer {
    let version = &seen.body["params"]["protocolVersion"];
    match (&seen.method, rpc(seen)) {
        (&Method::DELETE, _) => status(StatusCode::NO_CONTENT),
        (&Method::POST, "initialize") => {
            let mut opened_ = answer(
                seen,
                json!({
                    "protocolVersion": version, "capabilities": { "tools": {} },
                    "serverInfo": { "name": "script", "version": "1" },
                }),
            );
            let id = format!("s{}", opened(log) + 1);
            opened_.headers_mut().insert("mcp-session-id", id.parse().unwrap());
            opened_
        }
        (&Method::POST, _) if seen.body.get("id").is_none() => status(StatusCode::ACCEPTED),
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}

pub(crate) fn opened(log: &[Seen]) -> usize {
    log.iter().filter(|seen| rpc(seen) == "initialize").count()
}

pub(crate) fn rpc(seen: &Seen) -> &str {
    seen.body["method"].as_str().unwrap_or_default()
}

pub(crate) fn result(to: &Seen, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": to.body["id"], "result": result })
}

pub(crate) fn changed(uri: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
    })
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

pub(crate) fn answer(to: &Seen, with: Value) -> Answer {
    body(&result(to, with))
}

pub(crate) fn body(message: &Value) -> Answer {
    typed("application/json", message.to_string())
}

pub(crate) fn events(text: &str) -> Answer {
    typed("text/event-stream", text.to_owned())
}

fn typed(kind: &str, text: String) -> Answer {
    Response::builder().header("content-type", kind).body(Full::new(text.into())).unwrap()
}

pub(crate) fn status(status: StatusCode) -> Answer {
    Response::builder().status(status).body(Full::default()).unwrap()
}

/// Starts a server; `answers` is given each request and those before it.
pub(crate) async fn script(
    answers: impl Fn(&Seen, &[Seen]) -> Answer + Clone + Send + Sync + 'static,
) -> Script {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let log = log.clone();
        let answers = answers.clone();
        async move {
            let header = |name: &str| {
                request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
            };
            let mut seen = Seen {
                method: request.method().clone(),
                path: request.uri().to_string(),
                session: header("mcp-session-id"),
                last_event_id: header("last-event-id"),
                authorization: header("authorization"),
                headers: request.headers().clone(),
                body: Value::Null,
                at: Instant::now(),
            };
            let body = request.into_body().collect().await.unwrap().to_bytes();
            seen.body = serde_json::from_slice(&body).unwrap_or_default();
            let mut log = log.lock().unwrap();
            let answer = answers(&seen, &log);
            log.push(seen);
            Ok::<_, Infallible>(answer)
        }
    });
    let stop = CancellationToken::new();
    let serving = serve(listener, service).until(stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    Script { url, seen, _stop: stop.drop_guard() }
}

impl Script {
    pub(crate) async fn connect(
        &self,
        revision: Revision,
        max_reconnects: usize,
    ) -> Result<Client, ClientError> {
        let target = HttpTarget { url: self.url.clone(), ..HttpTarget::default() };
        Client::http(target, options(revision, max_reconnects)).await
    }

    pub(crate) fn find(&self, wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|seen| wanted(seen)).cloned().collect()
    }
}

pub(crate) fn options(revision: Revision, max_reconnects: usize) -> ClientOptions {
    ClientOptions {
        revision: RevisionChoice::Only(revision),
        request_timeout: Duration::from_secs(20),
        max_reconnects,
        ..ClientOptions::default()
    }
}

pub(crate) async fn call(client: &Client) -> Result<Value, ClientError> {
    let params = CallToolParams::new("t", &json!({})).unwrap();
    let answer = soon("an answer", client.call_tool_raw(&params, CallOptions::default())).await?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}
