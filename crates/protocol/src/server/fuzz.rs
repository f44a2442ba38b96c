//! What the fuzz targets reach of the server.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json, value::RawValue};

use super::{
    Handler, Limits, Reply, RequestContext, Server, ServerDescription,
    http::{HttpEndpoint, HttpOptions, ResponseBody},
};
use crate::{
    Revision, RpcError,
    types::{
        CallToolParams, CallToolResult, ElicitParams, GetPromptParams, ListChanged,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LogLevel, ReadResourceParams, ResourcesCapability, ServerCapabilities, Tool,
    },
};

pub(crate) fn shape(
    method: &str,
    revision: Revision,
    result: Box<RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    super::reply::downgraded(method, revision, result)
}

/// Every request is answered, with a status that HTTP knows and a body that is what its type says.
///
/// The input is up to four requests with a line `--` between them. A request is a line with the method, header lines, an
/// empty line, and the body; `{session}` in a header is the id of a session that is open.
pub(crate) fn http(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("the system gives a runtime");
    runtime.block_on(async {
        let endpoint = endpoint();
        let session = open_session(&endpoint).await;
        for request in split(data, b"\n--\n").into_iter().take(4) {
            let Some(request) = parse(request, &session) else { continue };
            let answered = endpoint.handle(request);
            let response = tokio::time::timeout(Duration::from_secs(10), answered)
                .await
                .expect("every request is answered");
            check(response).await;
        }
        endpoint.close();
        let late = parse(b"GET\nhost: localhost\n\n", &session).expect("a request");
        assert_eq!(endpoint.handle(late).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

fn endpoint() -> HttpEndpoint {
    let limits = Limits {
        max_message_bytes: 4_096,
        max_in_flight: 4,
        max_sessions: 4,
        max_queued_messages: 2,
        question_timeout: Duration::from_millis(2),
        replay_bytes: 1_024,
        replay_total_bytes: 2_048,
        ..Limits::default()
    };
    let options = HttpOptions { stream_after: Duration::from_millis(1), ..HttpOptions::default() };
    HttpEndpoint::new(Server::with_limits(Subject, limits), options)
}

async fn open_session(endpoint: &HttpEndpoint) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "f", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let request = format!("POST\nhost: localhost\ncontent-type: application/json\n\n{message}");
    let request = parse(request.as_bytes(), "").expect("a request");
    let response = endpoint.handle(request).await;
    let id = response.headers().get("mcp-session-id").expect("a session");
    id.to_str().expect("text").to_owned()
}

fn parse(request: &[u8], session: &str) -> Option<Request<Full<Bytes>>> {
    let at = request.windows(2).position(|window| window == b"\n\n")?;
    let (head, body) = (&request[..at], &request[at + 2..]);
    let mut lines = split(head, b"\n").into_iter();
    let mut builder = Request::builder().method(lines.next()?).uri("/mcp");
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let value = line[at + 1..].trim_ascii();
        let value = if value == b"{session}" { session.as_bytes() } else { value };
        builder = builder.header(&line[..at], value);
    }
    builder.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

fn split<'a>(data: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(by.len()).position(|window| window == by) {
        parts.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    parts.push(rest);
    parts
}

async fn check(response: Response<ResponseBody>) {
    let (head, mut body) = response.into_parts();
    assert_ne!(head.status, StatusCode::INTERNAL_SERVER_ERROR);
    let kind = head.headers.get("content-type").map(|kind| kind.as_bytes().to_owned());
    let mut bytes = Vec::new();
    // A stream of announcements never ends: what is there is enough.
    let mut patience = 8;
    while patience > 0 {
        match body.frame().now_or_never() {
            Some(None) => break,
            Some(Some(frame)) => {
                let frame = frame.unwrap_or_else(|never| match never {});
                bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            None => {
                patience -= 1;
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
        }
        assert!(bytes.len() < 1 << 20, "an answer without end");
    }
    match kind.as_deref() {
        Some(b"application/json") => {
            serde_json::from_slice::<Value>(&bytes).expect("what is said to be JSON is JSON");
        }
        Some(b"text/event-stream") => {
            let events = String::from_utf8(bytes).expect("events are text");
            for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
                serde_json::from_str::<Value>(data).expect("an event is a message");
            }
        }
        _ => assert!(bytes.is_empty()),
    }
}

/// A server that does a little of everything.
struct Subject;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        let capabilities = ServerCapabilities {
            tools: Some(ListChanged { list_changed: true }),
            prompts: Some(ListChanged { list_changed: true }),
            resources: Some(ResourcesCapability { list_changed: true, subscribe: true }),
            logging: Some(Default::default()),
            ..ServerCapabilities::default()
        };
        ServerDescription { capabilities, ..ServerDescription::default() }
    }

    async fn list_tools(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tool = Tool { name: "echo".to_owned(), input_schema: schema(), ..Tool::default() };
        Ok(ListToolsResult { tools: vec![tool], ..ListToolsResult::default() })
    }

    fn input_schema(&self, tool: &str) -> Option<std::borrow::Cow<'_, Value>> {
        (tool == "echo").then(|| std::borrow::Cow::Owned(schema()))
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        match &*params.name {
            "say" => {
                for step in 0..6 {
                    cx.progress(f64::from(step), None, Some("on")).await;
                    cx.log(LogLevel::Error, None, "it").await;
                }
            }
            "ask" => {
                let form = ElicitParams::form("sure?", json!({ "type": "object" }));
                cx.elicit("q", &form).await?;
            }
            "wait" => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        let text = params.arguments.map_or_else(String::new, |it| it.get().to_owned());
        CallToolResult::text(text).try_into()
    }

    async fn list_resources(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        Ok(ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        Ok(ListResourceTemplatesResult::default())
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Err(RpcError::resource_not_found(&params.uri))
    }

    async fn subscribe(&self, _uri: &str, _cx: &RequestContext) -> Result<(), RpcError> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        Ok(ListPromptsResult::default())
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Err(RpcError::invalid_params(format!("no prompt {}", params.name)))
    }
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "string", "x-mcp-header": "A" } } })
}
