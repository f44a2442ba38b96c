//! An upstream over HTTP with scripted answers, valid or not.

use std::sync::{Arc, Mutex};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
    response::Response,
    routing::any,
};
use marquetry_protocol::server::http::{ServeOptions, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A result, or an error object.
pub(crate) type ScriptedAnswer = Result<Value, Value>;

/// The upstream; stopped when dropped.
pub(crate) struct Scripted {
    url: String,
    revision: &'static str,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    stop: CancellationToken,
}

impl Scripted {
    /// Starts an upstream with a revision and with tools, prompts and resources. `answer` returns
    /// the answer to each method, from its complete parameters.
    pub(crate) async fn start(
        revision: &'static str,
        answer: impl Fn(&str, &Value) -> ScriptedAnswer + Send + Sync + 'static,
    ) -> Self {
        Self::with(revision, move |method, params| match answer(method, params) {
            Ok(result) => format!(r#""result":{result}"#),
            Err(error) => format!(r#""error":{error}"#),
        })
        .await
    }

    /// As [`Self::start`], with results as text, which are sent unchanged.
    pub(crate) async fn raw(
        revision: &'static str,
        answer: impl Fn(&str, &Value) -> String + Send + Sync + 'static,
    ) -> Self {
        let result =
            move |method: &str, params: &Value| format!(r#""result":{}"#, answer(method, params));
        Self::with(revision, result).await
    }

    async fn with(
        revision: &'static str,
        answer: impl Fn(&str, &Value) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let router = axum::Router::new().route(
            "/mcp",
            any({
                let seen = seen.clone();
                move |request: Request| {
                    let seen = seen.clone();
                    let answer = answer.clone();
                    async move {
                        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
                            return reply(StatusCode::METHOD_NOT_ALLOWED, Body::empty());
                        };
                        if message.get("id").is_none() {
                            return reply(StatusCode::ACCEPTED, Body::empty());
                        }
                        let method = message["method"].as_str().unwrap();
                        seen.lock().unwrap().push((method.to_owned(), message["params"].clone()));
                        let said = match introduction(revision, method) {
                            Some(result) => format!(r#""result":{result}"#),
                            None => answer(method, &message["params"]),
                        };
                        let id = &message["id"];
                        let said = format!(r#"{{"jsonrpc":"2.0","id":{id},{said}}}"#);
                        reply(StatusCode::OK, said.into())
                    }
                }
            }),
        );
        let stop = CancellationToken::new();
        let service = hyper_util::service::TowerToHyperService::new(router);
        let options = ServeOptions { shutdown_grace: Default::default(), ..Default::default() };
        let serve = serve(listener, service).with_options(options).until(stop.clone());
        tokio::spawn(serve.into_future());
        Self { url, revision, seen, stop }
    }

    pub(crate) fn toml(&self, name: &str) -> String {
        let Self { url, revision, .. } = self;
        format!("[mcp_servers.{name}]\nurl = '{url}'\nrevision = '{revision}'\n")
    }

    /// Returns the parameters of every request of a method.
    pub(crate) fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(seen, _)| seen == method).map(|(_, params)| params.clone()).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn reply(status: StatusCode, body: Body) -> Response {
    let builder = Response::builder().status(status);
    builder.header("content-type", "application/json").body(body).unwrap()
}

fn introduction(revision: &str, method: &str) -> Option<Value> {
    let capabilities = json!({ "tools": {}, "prompts": {}, "resources": {} });
    let info = json!({ "name": "scripted", "version": "1" });
    match method {
        "server/discover" if revision == "2026-07-28" => Some(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "supportedVersions": [revision], "capabilities": capabilities,
            "_meta": { "io.modelcontextprotocol/serverInfo": info },
        })),
        "initialize" if revision != "2026-07-28" => Some(json!({
            "protocolVersion": revision, "capabilities": capabilities, "serverInfo": info,
        })),
        _ => None,
    }
}

/// Returns a JSON-RPC error.
pub(crate) fn error(code: i32, message: &str, data: Value) -> Value {
    json!({ "code": code, "message": message, "data": data })
}

/// The lists of every scripted upstream: its tools, no prompts, its resources and templates.
pub(crate) fn lists(
    method: &str,
    tools: &Value,
    resources: &Value,
    templates: &Value,
) -> Option<Value> {
    Some(match method {
        "tools/list" => json!({ "tools": tools }),
        "prompts/list" => json!({ "prompts": [{ "name": "greet" }] }),
        "resources/list" => json!({ "resources": resources }),
        "resources/templates/list" => json!({ "resourceTemplates": templates }),
        _ => return None,
    })
}

/// Returns a result with all members that 2026-07-28 requires of cacheable results.
pub(crate) fn complete(mut result: Value) -> Value {
    let more = json!({
        "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "1" } },
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    result
}
