//! HTTP/2 with prior knowledge (C12).

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use marquetry_protocol::server::Limits;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::{World, listening, soon};

type Sender = SendRequest<Full<Bytes>>;

#[tokio::test]
async fn calls_share_a_connection_and_the_authority_is_the_host() {
    let mut world = listening(Limits::default()).await;
    let mut sender = connected(&world).await;
    let authority = world.address.unwrap().to_string();
    let (one, two) = tokio::join!(
        call(sender.clone(), &authority, "slow", json!({})),
        call(sender.clone(), &authority, "echo", json!({ "text": "x".repeat(300_000) })),
    );
    assert_eq!((one.status(), two.status()), (StatusCode::OK, StatusCode::OK));
    assert!(text(one).await.contains(r#""text":"done""#));
    assert!(text(two).await.contains(&"x".repeat(300_000)));

    let refused = call(sender.clone(), "evil.example", "echo", json!({})).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(text(refused).await.contains("host 'evil.example' is not allowed"));

    // A stream that the client resets cancels its call.
    let waiting = call(sender.clone(), &authority, "wait", json!({})).await;
    drop(waiting);
    soon("the cancellation", world.cancelled.recv()).await.unwrap();
    soon("room", sender.ready()).await.unwrap();
}

async fn connected(world: &World) -> Sender {
    let stream = TcpStream::connect(world.address.unwrap()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

async fn call(
    mut sender: Sender,
    authority: &str,
    tool: &str,
    arguments: Value,
) -> Response<hyper::body::Incoming> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = Request::post(format!("http://{authority}/mcp"))
        .version(Version::HTTP_2)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(Full::from(body.to_string()))
        .unwrap();
    soon("an answer", sender.send_request(request)).await.unwrap()
}

async fn text(response: Response<hyper::body::Incoming>) -> String {
    let body = soon("the body", response.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}
