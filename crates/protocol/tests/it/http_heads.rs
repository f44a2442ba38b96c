//! The head of an HTTP request reaches the authenticator and the handler.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Full};
use marquetry_protocol::{
    auth::Challenge,
    server::{
        Principal, RequestContext, Server, Toolbox,
        http::{Authenticator, Denial, HttpEndpoint, HttpOptions},
    },
};
use serde_json::{Value, json};

/// Data that middleware adds to a request.
#[derive(Clone)]
struct Tenant(&'static str);

/// Accepts requests that have a [`Tenant`].
struct Tenants;

#[async_trait]
impl Authenticator for Tenants {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let tenant = request.extensions.get::<Tenant>().ok_or_else(|| Denial {
            status: StatusCode::UNAUTHORIZED,
            challenge: Challenge::new("Bearer"),
            message: "no tenant".to_owned(),
        })?;
        Ok(Arc::new(Principal::new(None, tenant.0)))
    }
}

fn endpoint() -> HttpEndpoint {
    let server = Toolbox::new("t", "1").tool("who", "", async |(): (), cx: RequestContext| {
        let tenant = cx.extension::<Tenant>().map(|tenant| tenant.0);
        let head = cx.http().expect("it came over HTTP");
        json!([tenant, cx.header("x-trace"), cx.header("x-other"), head.uri.path()]).to_string()
    });
    let options = HttpOptions { authenticator: Some(Arc::new(Tenants)), ..HttpOptions::default() };
    HttpEndpoint::new(Server::new(server), options)
}

fn call() -> http::request::Builder {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "who")
        .header("x-trace", "a1")
}

fn body() -> Full<Bytes> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "who", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    Full::new(call.to_string().into())
}

#[tokio::test]
async fn a_handler_sees_headers_and_extensions() {
    let request = call().extension(Tenant("red")).body(body()).unwrap();
    let response = endpoint().handle(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    let text =
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(text, r#"["red","a1",null,"/mcp"]"#);
}

#[tokio::test]
async fn an_authenticator_sees_extensions() {
    let response = endpoint().handle(call().body(body()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}
