//! The REST routes: diagram tools (seed 002), MCP as plain HTTP (seed 003), and contents of records
//! as files.

mod body;
mod error;
mod mcp_v1;
mod media;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header},
    routing::{get, post},
};
use indexmap::IndexMap;
use marquetry_config::sections::Limits;
use marquetry_gateway::{Gateway, ItemKind};
use marquetry_plantuml_tools::{
    DECODE, DecodeArguments, DiagramError, Diagrams, ENCODE, EncodeArguments,
};
use marquetry_protocol::server::{Peer, Principal, Server, http::Received};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{json, value::RawValue};

pub(crate) use self::{
    error::RestError,
    mcp_v1::{McpV1, refusal as mcp_v1_refusal, routes as mcp_v1_routes},
    media::routes as media_routes,
};
use crate::tools::listed;

/// State of the routes.
pub(crate) struct Rest {
    /// Knows which tools a caller may use.
    pub(crate) gateway: Arc<Gateway>,
    /// The MCP server, whose limits for one caller apply here, too.
    pub(crate) server: Server,
    pub(crate) diagrams: Diagrams,
    pub(crate) limits: Limits,
}

/// Returns whether the errors of a path have the body `{"code", "message"}`: those of `/mcp/v1` and
/// of contents of records.
pub(crate) fn has_flat_errors(path: &str) -> bool {
    media::is_media(path) || mcp_v1::is_mcp_v1(path)
}

/// Returns the routes `GET /api/tools` and `POST /api/tools/{name}`.
pub(crate) fn routes(rest: Arc<Rest>) -> Router {
    Router::new()
        .route("/api/tools", get(list_tools))
        .route("/api/tools/", post(async || RestError::ToolNameRequired.response()))
        .route("/api/tools/{*name}", post(call_tool))
        .with_state(rest)
}

/// Lists the tools, in the form of seed 002, scenario 1.
async fn list_tools(State(rest): State<Arc<Rest>>, request: Request<Body>) -> Response<Body> {
    let view = rest.gateway.view_of_peer(&peer_of(&request));
    let code_tools = rest.diagrams.code_tools();
    let shown = code_tools.iter().filter(|tool| view.lists_own(ItemKind::Tool, &tool.name));
    let tools = shown.map(listed).map(|tool| {
        json!({
            "id": tool.name,
            "name": tool.title.unwrap_or_default(),
            "description": tool.description,
            "inputSchema": tool.input_schema,
        })
    });
    json_response(StatusCode::OK, &json!({"tools": tools.collect::<Vec<_>>()}))
}

async fn call_tool(
    State(rest): State<Arc<Rest>>,
    path: Result<Path<String>, PathRejection>,
    request: Request<Body>,
) -> Response<Body> {
    let name = if let Ok(Path(name)) = path {
        name
    } else {
        // The path is not UTF-8 after decoding: no tool has that name.
        let path = request.uri().path();
        path.strip_prefix("/api/tools/").unwrap_or(path).to_owned()
    };
    let view = rest.gateway.view_of_peer(&peer_of(&request));
    let outcome = match name.as_str() {
        // A tool that needs further scopes can be called by MCP, which asks for them.
        name if !view.allows_own(ItemKind::Tool, name) => {
            Err(RestError::ToolNotFound(name.to_owned()))
        }
        ENCODE => encode(&rest, request).await,
        DECODE => decode(&rest, request).await,
        _ => Err(RestError::ToolNotFound(name)),
    };
    outcome.unwrap_or_else(|error| error.response())
}

async fn read(rest: &Rest, request: Request<Body>) -> Result<Received, RestError> {
    let peer = peer_of(&request);
    let limits = &rest.limits;
    body::read(&rest.server, &peer, request, limits.max_rest_body_bytes.get(), limits).await
}

/// Returns the sender of an authenticated request.
fn peer_of(request: &Request<Body>) -> Peer {
    let principal = request.extensions().get::<Arc<Principal>>().cloned();
    Peer::over_http(principal, request.extensions())
}

async fn encode(rest: &Rest, request: Request<Body>) -> Result<Response<Body>, RestError> {
    let body = read(rest, request).await?;
    let text = body::utf8(body.bytes());
    let members = members(text.text())?;
    let code: &RawValue = members.get("plantumlCode").copied().ok_or(DiagramError::Empty)?;
    if !code.get().starts_with('"') {
        return Err(DiagramError::Empty.into());
    }
    if text.was_broken() {
        return Err(DiagramError::EncodingFailed.into());
    }
    // The text is JSON, so an invalid string has a lone surrogate, which is not a character.
    let code = serde_json::from_str(code.get()).map_err(|_| DiagramError::EncodingFailed)?;
    let arguments = EncodeArguments {
        plantuml_code: code,
        format: argument(&members, "format", "\"svg\", \"png\" or \"txt\"")?,
        verbatim: argument(&members, "verbatim", "true or false")?,
    };
    Ok(success(&rest.diagrams.encode(&arguments)?))
}

async fn decode(rest: &Rest, request: Request<Body>) -> Result<Response<Body>, RestError> {
    let body = read(rest, request).await?;
    let text = body::utf8(body.bytes());
    let members = members(text.text())?;
    if text.was_broken() {
        return Err(DiagramError::Undecodable("it is not UTF-8".into()).into());
    }
    let code: Option<String> = argument(&members, "code", "a code or URL")?;
    let arguments = DecodeArguments { code: code.ok_or(DiagramError::NoCode)? };
    Ok(success(&rest.diagrams.decode(&arguments)?))
}

/// Returns the members of a body; none if there is no body, or no JSON object.
fn members(text: &str) -> Result<IndexMap<String, &RawValue>, RestError> {
    if text.trim().is_empty() {
        return Ok(IndexMap::new());
    }
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| RestError::InvalidJson)?;
    if !whole.get().starts_with('{') {
        return Ok(IndexMap::new());
    }
    // A lone surrogate in a member's name does not matter: no argument has such a name.
    Ok(serde_json::from_str(whole.get()).unwrap_or_default())
}

/// Returns an optional member; `null` counts as absent.
fn argument<T: DeserializeOwned + Default>(
    members: &IndexMap<String, &RawValue>,
    name: &str,
    expected: &str,
) -> Result<T, RestError> {
    match members.get(name).map(|value| value.get()) {
        None | Some("null") => Ok(T::default()),
        Some(value) => serde_json::from_str(value)
            .map_err(|_| DiagramError::Argument(format!("{name} must be {expected}")).into()),
    }
}

fn success(result: &impl Serialize) -> Response<Body> {
    json_response(StatusCode::OK, &json!({"success": true, "result": result}))
}

/// Returns whether `Accept` names a media type.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case(media_type))
}

/// Returns an answer with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    json_bytes_response(status, body.to_string())
}

/// Returns an answer whose body is JSON already.
fn json_bytes_response(status: StatusCode, json: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(json.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
