//! MCP as plain HTTP (seed 003, parts 3 and 11): each method has a path below `/mcp/v1/`. The body
//! of a POST has its parameters, and the body of the answer its result. The handlers are those of
//! MCP.

mod error;
mod params;
mod sampling;
mod watch;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{Request, Response, StatusCode},
    routing::{get, post},
};
use marquetry_chat::CHAT_TOOL;
use marquetry_config::sections::Limits;
use marquetry_gateway::{Gateway, ItemKind};
use marquetry_protocol::server::http::ConnectionInfo;
use marquetry_protocol::{
    ObjectText, RpcError, parsed_size,
    server::{Principal, Reply, RequestMemory, Server, in_place},
    types::{CallToolResult, ListResourcesResult, ReadResourceResult},
};
use serde::Deserialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

pub(super) use self::error::Problem;
pub(crate) use self::error::refusal;
use super::{body, json_bytes_response, json_response, peer_of};
use crate::{
    events,
    knowledge::{ERROR, Knowledge},
};

const BASE: &str = "/mcp/v1/";

/// The method whose answer can be a stream.
const CREATE_MESSAGE: &str = "sampling/createMessage";

/// Revision of `initialize` without `protocolVersion`; seed 003, part 8.
const REVISION: &str = "2024-11-05";

/// The methods with a path.
const METHODS: [&str; 11] = [
    "initialize",
    "ping",
    "resources/list",
    "resources/read",
    "resources/search",
    "resources/templates/list",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    CREATE_MESSAGE,
];

/// State of the routes.
pub(crate) struct McpV1 {
    pub(super) server: Server,
    pub(super) knowledge: Knowledge,
    /// Knows what a caller may use.
    pub(super) gateway: Arc<Gateway>,
    limits: Limits,
}

impl McpV1 {
    pub(crate) fn new(
        server: Server,
        knowledge: Knowledge,
        gateway: Arc<Gateway>,
        limits: Limits,
    ) -> Self {
        Self { server, knowledge, gateway, limits }
    }
}

/// Returns whether a path belongs to these routes.
pub(super) fn is_mcp_v1(path: &str) -> bool {
    path.starts_with(BASE)
}

/// Returns the routes `POST /mcp/v1/{method}`, `POST /mcp/v1/initialized` and `GET
/// /mcp/v1/resources/subscribe?uri=…`.
pub(crate) fn routes(api: Arc<McpV1>) -> Router {
    Router::new()
        .route("/mcp/v1/resources/subscribe", get(watch::subscribe))
        // Requests here have no session to initialize.
        .route("/mcp/v1/initialized", post(async || json_response(StatusCode::OK, &json!({}))))
        .route("/mcp/v1/{*method}", post(call))
        .with_state(api)
}

async fn call(
    State(api): State<Arc<McpV1>>,
    path: Result<Path<String>, PathRejection>,
    request: Request<Body>,
) -> Response<Body> {
    let method = if let Ok(Path(method)) = path {
        method
    } else {
        // The path is not UTF-8 after decoding: no method has that name.
        let path = request.uri().path();
        path.strip_prefix(BASE).unwrap_or(path).to_owned()
    };
    answer(&api, &method, request).await.unwrap_or_else(|problem| problem.response())
}

async fn answer(
    api: &McpV1,
    method: &str,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    if !METHODS.contains(&method) {
        return Err(RpcError::method_not_found(method).into());
    }
    let peer = peer_of(&request);
    let principal = request.extensions().get::<Arc<Principal>>().cloned();
    let limit = api.limits.max_request_bytes.get();
    let accepts_events = method == CREATE_MESSAGE && sampling::accepts_events(request.headers());
    let connection = request.extensions().get::<ConnectionInfo>().cloned();
    let received = body::read(&api.server, &peer, request, limit, &api.limits)
        .await
        .map_err(|error| Problem::of_body(&error, limit))?;
    let body = body::without_bom(received.bytes());
    let mut params = params::parse(method, body, api.limits.max_nesting.get())?;
    let is_stream =
        method == CREATE_MESSAGE && sampling::takes_stream(&mut params, accepts_events)?;
    // A request counts as in flight once its body has arrived.
    let call = api.server.direct_call(peer).await?;
    if is_stream && api.knowledge.is_enabled() {
        let view = api.gateway.view_of(principal.as_deref(), None);
        if !view.allows_own(ItemKind::Tool, CHAT_TOOL) {
            return Err(RpcError::method_not_found(method).into());
        }
        return sampling::start(api, params, principal.as_deref(), call, connection);
    }
    let result = if method == "resources/list" && params.contains_key("type") {
        list_of_type(api, principal.as_deref(), &params).await?.to_string()
    } else {
        let raw = match method {
            "initialize" => {
                add_required_members(&mut params);
                to_raw_value(&params)
            }
            // Without its member `stream`.
            CREATE_MESSAGE => to_raw_value(&params),
            _ if params.is_empty() => to_raw_value(&params),
            // As written: numbers may be longer than those of a parsed value.
            _ => serde_json::from_slice(body),
        };
        let raw: Box<RawValue> = raw.map_err(|error| RpcError::internal(error.to_string()))?;
        let reply = call.request(method, Some(&raw)).await?;
        reserve_values(&reply, call.memory()).await?;
        result(method, &reply)?
    };
    let body = call.answer(result.into_bytes()).await?;
    Ok(json_bytes_response(StatusCode::OK, body))
}

/// Adds members that `initialize` requires and callers of seed 003 leave out.
fn add_required_members(params: &mut Map<String, Value>) {
    params.entry("protocolVersion").or_insert(REVISION.into());
    params.entry("clientInfo").or_insert(json!({"name": "unknown", "version": "0"}));
}

/// Reserves the memory of a result as a value.
async fn reserve_values(reply: &Reply, memory: &RequestMemory) -> Result<(), RpcError> {
    /// Shorter results are not counted: the number of requests limits them.
    const FREE: usize = 8 << 10;
    let text = reply.get().get();
    if text.len() <= FREE {
        return Ok(());
    }
    let size = in_place(text.len(), || parsed_size(text.as_bytes()));
    let reserved = memory.reserve(size, memory.usual_wait()).await;
    reserved.map_err(|full| RpcError::too_many_requests(format!("{full}; call again later")))
}

/// Converts a result to the form of this facade; a failed tool call becomes an error. Values stay
/// as they are written, such as numbers of any length.
fn result(method: &str, reply: &Reply) -> Result<String, Problem> {
    let text = reply.get().get();
    if method == "tools/call" {
        let failed: CallToolResult = serde_json::from_str(text).unwrap_or_default();
        if failed.is_error()
            && let Some(problem) = Problem::of_upstream(&failed)
        {
            return Err(problem);
        }
        let code = failed.meta.as_ref().and_then(|meta| meta.get(ERROR)?.get("code")?.as_str());
        if let Some(problem) = code.filter(|_| failed.is_error()).and_then(|code| {
            let message = failed.content.first().and_then(|item| item.as_text());
            Problem::of_tool(code, message.unwrap_or_default())
        }) {
            return Err(problem);
        }
    }
    let described = (method == "resources/read").then(|| described_record(reply.get())).flatten();
    Ok(described.unwrap_or_else(|| text.to_owned()))
}

/// Adds URI, name and type of a read record beside its contents; seed 003, part 12.
fn described_record(result: &RawValue) -> Option<String> {
    let read: ReadResourceResult = serde_json::from_str(result.get()).ok()?;
    let first = read.contents.first()?;
    let mut object = ObjectText::of(result)?;
    object.set("uri", json!(first.uri).to_string());
    object.set("mimeType", json!(first.mime_type).to_string());
    if let Some(name) = first.meta.as_ref().and_then(Knowledge::record_name) {
        object.set("name", name.to_string());
    }
    Some(object.write())
}

/// Returns `resources/list` for a `type`, which MCP does not have.
async fn list_of_type(
    api: &McpV1,
    principal: Option<&Principal>,
    params: &Map<String, Value>,
) -> Result<Value, Problem> {
    #[derive(Deserialize)]
    struct ListParams {
        #[serde(rename = "type")]
        kind: String,
        cursor: Option<String>,
    }
    let ListParams { kind, cursor } = serde_json::from_value(Value::Object(params.clone()))
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let limit = api.limits.list_page_size.get();
    let page = api.knowledge.resources_of_type(kind, cursor.as_deref(), limit, principal).await;
    let (mut resources, next_cursor) = page?;
    let view = api.gateway.view_of(principal, None);
    resources.retain(|resource| view.lists_own(ItemKind::Resource, &resource.uri));
    Ok(json!(ListResourcesResult { resources, next_cursor }))
}
