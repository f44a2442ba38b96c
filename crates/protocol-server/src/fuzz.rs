//! The functions of the fuzz targets in `fuzz/`, one for each. Compiled only for them and for the
//! test that replays their corpora.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, Feature, Revision, RpcError, nested_deeper_than,
    types::{
        CallToolParams, CallToolResult, ElicitParams, GetPromptParams, ListChanged,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LogLevel, ReadResourceParams, ResourcesCapability, ServerCapabilities, Tool,
    },
};
use serde_json::{Value, json, value::RawValue};

use super::{
    Handler, Limits, Reply, RequestContext, Server, ServerDescription,
    http::{HttpEndpoint, HttpOptions, ResponseBody},
};

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("http", http), ("shape", shape)];

/// Checks that every request gets an answer with a valid HTTP status and a body that matches its
/// type.
///
/// The input is up to four requests with a line `--` between them. A request is a line with the
/// method, header lines, an empty line, and the body; `{session}` in a header is the id of a
/// session that is open.
pub fn http(data: &[u8]) {
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
    let body = &request[at + 2..];
    let mut lines = split(&request[..at], b"\n").into_iter();
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
    // A stream of notifications never ends: its first part is enough.
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

/// A server that uses most features a little.
struct Subject;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged { list_changed: true });
        capabilities.prompts = Some(ListChanged { list_changed: true });
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: true });
        capabilities.logging = Some(Default::default());
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

/// Checks that every result can be converted for every revision, and then has only members of that
/// revision. The first byte selects the method.
pub fn shape(data: &[u8]) {
    const METHODS: [&str; 9] = [
        "initialize",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ];
    let Some((choice, json)) = data.split_first() else { return };
    if nested_deeper_than(json, DEFAULT_MAX_NESTING) {
        return;
    }
    let Ok(result) = serde_json::from_slice::<Box<RawValue>>(json) else { return };
    let method = METHODS[usize::from(*choice) % METHODS.len()];
    for revision in Revision::ALL {
        // A tool of 2024-10-07 can only fail with an error.
        let Ok(shaped) = crate::reply::downgraded(method, revision, result.clone()) else {
            continue;
        };
        match serde_json::from_str::<Value>(shaped.get()) {
            Ok(shaped) if shaped.is_object() => check_parts(method, revision, &shaped),
            Ok(_) => {}
            // A number that cannot be parsed passes as it is written.
            Err(error) => {
                assert!(serde_json::from_str::<Value>(result.get()).is_err(), "{error}");
            }
        }
    }
}

/// Asserts that a result has no parts that the revision lacks.
fn check_parts(method: &str, revision: Revision, result: &Value) {
    match method {
        "tools/call" => {
            check_absent(revision, result, Feature::StructuredContent, &["structuredContent"]);
            check_absent(revision, result, Feature::ContentList, &["content", "isError"]);
            for item in items(&result["content"]).chain(items(&result["toolResult"])) {
                check_content(revision, item);
            }
        }
        "prompts/get" => {
            for message in items(&result["messages"]) {
                check_content(revision, &message["content"]);
            }
        }
        "initialize" => {
            let info = &result["serverInfo"];
            check_absent(revision, info, Feature::Icons, &["icons", "websiteUrl"]);
        }
        _ => {
            let lists = ["tools", "prompts", "resources", "resourceTemplates"];
            let of_method = lists.iter().filter(|list| {
                **list == "resourceTemplates" && method == "resources/templates/list"
                    || method == format!("{list}/list")
            });
            for entry in of_method.flat_map(|list| items(&result[*list])) {
                check_absent(revision, entry, Feature::Icons, &["icons"]);
                check_absent(revision, entry, Feature::Titles, &["title", "_meta"]);
                if method == "tools/list" {
                    check_absent(revision, entry, Feature::StructuredContent, &["outputSchema"]);
                    check_absent(revision, entry, Feature::ToolAnnotations, &["annotations"]);
                }
            }
            if method.ends_with("/list") {
                check_absent(revision, result, Feature::Pagination, &["nextCursor"]);
            }
        }
    }
}

fn check_content(revision: Revision, item: &Value) {
    for (kind, feature) in [
        ("audio", Feature::Audio),
        ("resource_link", Feature::ResourceLinks),
        ("resource", Feature::EmbeddedResources),
    ] {
        assert!(revision.has(feature) || item["type"] != kind, "{revision}: {item}");
    }
    check_absent(revision, item, Feature::Titles, &["_meta"]);
}

fn check_absent(revision: Revision, value: &Value, feature: Feature, members: &[&str]) {
    for member in members.iter().filter(|_| !revision.has(feature)) {
        assert!(value.get(member).is_none(), "{revision}: {member} in {value}");
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
