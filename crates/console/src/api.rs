//! The routes of the data, below `/api/console/`.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use marquetry_approvals::{AnswerRefused, Decision};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Backend, Console, PageLimit, RestartError, ServerChange, Viewer,
    query::Id,
    saved::{SaveError, save},
    views,
};

struct Api {
    console: Console,
    backend: Arc<dyn Backend>,
}

/// Why a request has no answer.
enum ApiError {
    /// The data is for administrators.
    AdminOnly,
    /// The call or the message is no longer stored, or belongs to another principal.
    NotStored(&'static str),
    /// The answers of the tool are shown as they are.
    NotCaptured,
    /// The server has no upstream of that name.
    NoServer(String),
    /// The upstream cannot be restarted.
    Restart(RestartError),
    /// The server has no folder for scenarios.
    NoScenarios,
    /// The scenario was not saved.
    Save(SaveError),
    /// Too many pages read events.
    TooManyStreams(usize),
    /// The request has no viewer: it comes from another machine and is not authenticated.
    NoViewer,
    /// The login code is wrong, expired or already used.
    WrongCode,
    /// The request comes from a page of another origin.
    OtherOrigin,
    /// The answer to a question before a call was not taken.
    Answer(AnswerRefused),
    /// The body names no decision.
    NoDecision,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::AdminOnly => (
                StatusCode::FORBIDDEN,
                "this is shown to administrators: use a token with the scope \"admin\"".to_owned(),
            ),
            Self::NotStored(what) => (
                StatusCode::NOT_FOUND,
                format!("this {what} is no longer stored, or belongs to another user"),
            ),
            Self::NotCaptured => (
                StatusCode::CONFLICT,
                "no limit has a part in the answers of this tool: capture is off for it, or the tool is gone".to_owned(),
            ),
            Self::NoServer(name) => (StatusCode::NOT_FOUND, format!("no server is called {name:?}")),
            Self::Restart(error @ RestartError::Unknown(_)) => (StatusCode::NOT_FOUND, error.to_string()),
            Self::Restart(error) => (StatusCode::CONFLICT, error.to_string()),
            Self::NoScenarios => (
                StatusCode::NOT_FOUND,
                "this server has no folder for scenarios: set console.scenarios_directory".to_owned(),
            ),
            Self::Save(error) => (
                match error {
                    SaveError::Name(_) => StatusCode::BAD_REQUEST,
                    SaveError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    SaveError::Exists(_) => StatusCode::CONFLICT,
                    SaveError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
                },
                error.to_string(),
            ),
            Self::TooManyStreams(max) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("too many pages read events at a time; at most {max} do (console.max_streams)"),
            ),
            Self::NoViewer => (
                StatusCode::FORBIDDEN,
                "the console shows its data to browsers on this machine; for other machines, configure [auth]".to_owned(),
            ),
            Self::WrongCode => (
                StatusCode::FORBIDDEN,
                "the code of this link is wrong, was used or is older than 60 s; use a token, or start the server again".to_owned(),
            ),
            Self::Answer(refused @ AnswerRefused::NotFound) => {
                (StatusCode::NOT_FOUND, refused.to_string())
            }
            Self::Answer(refused) => (StatusCode::CONFLICT, refused.to_string()),
            Self::NoDecision => (
                StatusCode::BAD_REQUEST,
                "expected the member \"decision\" to be \"once\", \"session\", \"always\" or \"decline\"".to_owned(),
            ),
            Self::OtherOrigin => (
                StatusCode::FORBIDDEN,
                "the console answers its own page alone, and no page of another origin".to_owned(),
            ),
        };
        (status, Json(json!({"error": message}))).into_response()
    }
}

/// The routes that need no token: `POST /api/console/session`, which gives one for a code, and the
/// socket of Views, which a ticket opens.
pub(crate) fn open_router(console: Console) -> Router {
    let views = views::socket_router(console.views().clone());
    let session = post(async move |Json(Login { code }): Json<Login>| {
        let token = console.logins().redeem(&code).ok_or(ApiError::WrongCode)?;
        Ok::<_, ApiError>(([(header::CACHE_CONTROL, "no-store")], Json(json!({"token": token}))))
    });
    Router::new()
        .route("/api/console/session", session)
        .merge(views)
        .route_layer(from_fn(own_origin_alone))
}

/// Refuses requests of pages of other origins.
async fn own_origin_alone(request: Request, next: Next) -> Response {
    if is_own_page(&request) {
        with_json_error(next.run(request).await).await
    } else {
        ApiError::OtherOrigin.into_response()
    }
}

/// Converts axum's own errors, which are plain text, to the JSON form of all other errors.
async fn with_json_error(response: Response) -> Response {
    const MAX_BODY_BYTES: usize = 64 << 10;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !response.status().is_client_error() || !is_text {
        return response;
    }
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_BODY_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let error = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
    (status, Json(json!({"error": error}))).into_response()
}

/// Body of a login: the code to exchange for a token.
#[derive(Deserialize)]
struct Login {
    code: String,
}

/// The routes below `/api/console/`.
pub(crate) fn router(console: Console, backend: Arc<dyn Backend>) -> Router {
    let routes = Router::new()
        .route("/api/console/state", get(state))
        .route("/api/console/servers/{name}", get(server))
        .route("/api/console/servers/{name}/restart", post(restart))
        .route("/api/console/servers/{name}/{change}", post(change))
        .route("/api/console/calls", get(calls))
        .route("/api/console/savings", get(savings))
        .route("/api/console/calls/{id}", get(call))
        .route("/api/console/calls/{id}/with-limit", get(with_limit))
        .route("/api/console/calls/{id}/{part}", get(call_part))
        .route("/api/console/scenarios", post(save_scenario))
        .route("/api/console/messages", get(messages))
        .route("/api/console/messages/{id}", get(message))
        .route("/api/console/approvals/{id}", post(answer_approval))
        .route("/api/console/events", get(events))
        .with_state(Arc::new(Api { console: console.clone(), backend: backend.clone() }))
        .merge(views::router(console.clone(), console.views().clone(), backend));
    guarded(routes)
}

/// See [`Console::guarded`].
pub(crate) fn guarded(routes: Router) -> Router {
    routes.route_layer(from_fn(own_page_alone))
}

/// Refuses requests from pages of other origins, including other ports of this machine, and forbids
/// caching of the other responses.
async fn own_page_alone(request: Request, next: Next) -> Response {
    if !is_own_page(&request) {
        return ApiError::OtherOrigin.into_response();
    }
    if request.extensions().get::<Viewer>().is_none() {
        return ApiError::NoViewer.into_response();
    }
    let mut response = with_json_error(next.run(request).await).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Returns whether a request comes from the console's page or from a program. Every browser names
/// the origin of a request in `Origin`, and newer browsers also send `Sec-Fetch-Site`. In HTTP/2,
/// which proxies speak, the host is in `:authority`.
fn is_own_page<B>(request: &http::Request<B>) -> bool {
    fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        headers.get(name).map(|value| value.to_str().unwrap_or("?"))
    }
    let headers = request.headers();
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let is_same_site =
        text(headers, "sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
    let is_same_origin = text(headers, "origin").is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && host == authority.or(text(headers, "host"))
    });
    is_same_site && is_same_origin
}

/// Returns the overall state: the viewer, the servers (for administrators), counts of calls, open
/// questions, and the id of the last event, from which the stream continues.
async fn state(State(api): State<Arc<Api>>, Extension(viewer): Extension<Viewer>) -> Json<Value> {
    let position = api.console.events().position();
    let mut questions = api.console.questions().of(&viewer);
    questions.extend(api.console.approvals_of(&viewer));
    let mut state = json!({
        "viewer": {"owner": viewer.owner, "admin": viewer.is_admin},
        "position": position,
        "stats": api.console.calls().stats(&viewer),
        "questions": questions,
    });
    if viewer.is_admin {
        state["server"] = api.backend.state();
        state["scenarios"] = json!(api.console.options().scenarios_directory.is_some());
    }
    Json(state)
}

async fn server(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if !viewer.is_admin {
        return Err(ApiError::AdminOnly);
    }
    api.backend.server(&name).map(Json).ok_or(ApiError::NoServer(name))
}

async fn restart(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if !viewer.is_admin {
        return Err(ApiError::AdminOnly);
    }
    api.backend.restart(&name).await.map_err(ApiError::Restart)?;
    Ok(Json(json!({"restarting": name, "said": "The server is restarting."})))
}

async fn change(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path((name, change)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    if !viewer.is_admin {
        return Err(ApiError::AdminOnly);
    }
    let change = match &*change {
        "enable" => ServerChange::Enable,
        "disable" => ServerChange::Disable,
        "reload" => ServerChange::Reload,
        _ => return Err(ApiError::NotStored("change")),
    };
    let said = api.backend.change(&name, change).await.map_err(ApiError::Restart)?;
    Ok(Json(json!({"said": said})))
}

/// An answer to a question before a call.
#[derive(Deserialize)]
struct Answer {
    decision: String,
}

/// Answers a question before a call of the viewer.
async fn answer_approval(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    Json(Answer { decision }): Json<Answer>,
) -> Result<Json<Value>, ApiError> {
    let decision = Decision::of_name(&decision).ok_or(ApiError::NoDecision)?;
    let id = id.parse().map_err(|_| ApiError::Answer(AnswerRefused::NotFound))?;
    // A decision from now on is written to a file.
    let answering =
        tokio::task::spawn_blocking(move || api.console.answer_approval(id, &viewer, decision));
    let said = answering.await.expect("answering does not panic, and is not cancelled");
    Ok(Json(json!({"said": said.map_err(ApiError::Answer)?})))
}

/// A scenario to save.
#[derive(Deserialize)]
struct NewScenario {
    /// The name of the file, without its ending.
    name: String,
    yaml: String,
}

async fn save_scenario(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Json(NewScenario { name, yaml }): Json<NewScenario>,
) -> Result<Json<Value>, ApiError> {
    if !viewer.is_admin {
        return Err(ApiError::AdminOnly);
    }
    let folder = api.console.options().scenarios_directory.clone().ok_or(ApiError::NoScenarios)?;
    let saved = tokio::task::spawn_blocking(move || save(&folder, &name, &yaml)).await;
    let file =
        saved.expect("saving does not panic, and is not cancelled").map_err(ApiError::Save)?;
    Ok(Json(json!({"file": file.display().to_string()})))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallsQuery {
    tool: Option<String>,
    before: Id,
    limit: PageLimit,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessagesQuery {
    q: Option<String>,
    call: Option<String>,
    before: Id,
    limit: PageLimit,
}

#[derive(Deserialize)]
struct EventsQuery {
    #[serde(default)]
    after: Id,
}

async fn calls(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Query(CallsQuery { tool, before, limit }): Query<CallsQuery>,
) -> Json<Value> {
    let tool = tool.as_deref();
    let before = before.0.as_deref();
    let max = limit.get().into();
    Json(json!({"calls": api.console.calls().list(&viewer, tool, before, max)}))
}

#[derive(Deserialize)]
#[serde(default)]
struct SavingsQuery {
    days: u32,
}

impl Default for SavingsQuery {
    fn default() -> Self {
        Self { days: 30 }
    }
}

/// Returns what answers kept from models, by day and tool.
async fn savings(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Query(SavingsQuery { days }): Query<SavingsQuery>,
) -> Json<Value> {
    Json(json!({"savings": api.backend.savings(&viewer, days)}))
}

async fn call(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    api.console.calls().get(&id, &viewer).map(Json).ok_or(ApiError::NotStored("call"))
}

/// Returns a part of a call: `said` is the answer of the upstream, `shown` the answer that the
/// model got. Both are the original JSON without secrets. `original` is `said` with its secrets,
/// which the View of a call gets from the page that made the call.
async fn call_part(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path((id, part)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let calls = api.console.calls();
    if part == "original" {
        let text = calls.said_to_page(&id, &viewer).ok_or(ApiError::NotStored("answer"))?;
        return Ok(json_text(text.to_string()));
    }
    let text = match part.as_str() {
        "said" => calls.upstream_answer(&id, &viewer),
        "shown" => calls.shown(&id, &viewer),
        _ => None,
    };
    let text = text.ok_or(ApiError::NotStored("answer"))?;
    Ok(json_text(calls.without_secrets(&id, &viewer, &text)))
}

/// JSON as it was written.
fn json_text(json: String) -> Response {
    let mut response = Response::new(Body::from(json));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[derive(Deserialize)]
struct LimitQuery {
    /// The limit in bytes.
    bytes: u64,
}

/// Returns the answer that the model would have got with another limit.
async fn with_limit(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    Query(LimitQuery { bytes }): Query<LimitQuery>,
) -> Result<Response, ApiError> {
    let calls = api.console.calls();
    let text = calls.upstream_answer(&id, &viewer).ok_or(ApiError::NotStored("answer"))?;
    let tool = calls.tool(&id, &viewer).ok_or(ApiError::NotStored("call"))?;
    let answer =
        RawValue::from_string(text.to_string()).map_err(|_| ApiError::NotStored("answer"))?;
    let shown =
        api.backend.shown_with_limit(&tool, answer, bytes).await.ok_or(ApiError::NotCaptured)?;
    Ok(json_text(calls.without_secrets(&id, &viewer, shown.get())))
}

async fn messages(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Query(MessagesQuery { q, call, before, limit }): Query<MessagesQuery>,
) -> Json<Value> {
    let query = q.as_deref().filter(|query| !query.is_empty());
    let log = api.console.messages();
    let call = call.as_deref();
    let before = before.0.as_deref();
    let max = limit.get().into();
    Json(json!({"messages": log.list(&viewer, query, call, before, max)}))
}

async fn message(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    api.console.messages().get(&id, &viewer).map(Json).ok_or(ApiError::NotStored("message"))
}

/// Streams the events that follow the one named by the query or by `Last-Event-ID`.
async fn events(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Query(EventsQuery { after: Id(after) }): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let events = api.console.events_shared();
    let max = api.console.options().max_streams;
    let slot = events.acquire_slot(&viewer).ok_or(ApiError::TooManyStreams(max))?;
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after = after.or(header);
    let calls = api.console.calls().clone();
    let stats = Box::new(move |viewer: &Viewer| calls.stats(viewer));
    let stream = events.stream(viewer, after.as_deref(), slot, stats);
    let mut response = Response::new(Body::from_stream(stream));
    let events = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, events);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_origins_and_other_ports_are_refused() {
        for (origin, site, want) in [
            (None, None, true),
            (None, Some("same-origin"), true),
            (Some("http://127.0.0.1:3001"), Some("same-origin"), true),
            (Some("http://127.0.0.1:3002"), None, false),
            (Some("http://localhost:3001"), None, false),
            (Some("null"), None, false),
            (None, Some("same-site"), false),
            (None, Some("cross-site"), false),
        ] {
            let http1 = http::Request::get("/").header("host", "127.0.0.1:3001");
            let http2 = http::Request::get("http://127.0.0.1:3001/");
            for mut request in [http1, http2] {
                for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
                    if let Some(value) = value {
                        request = request.header(name, value);
                    }
                }
                assert_eq!(is_own_page(&request.body(()).unwrap()), want, "{origin:?} {site:?}");
            }
        }
    }
}
