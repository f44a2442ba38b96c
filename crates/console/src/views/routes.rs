use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use marquetry_apps_ext::{
    host::{Event, RequestToken},
    types::HostContext,
};
use marquetry_protocol::{RequestId, RpcError, types::JsonObject};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{OpenError, OpenRequest, Views, mode};
use crate::{Backend, Console, Viewer};

/// How long a request for effects waits for some.
const POLL: Duration = Duration::from_secs(20);
/// What a request has around the message or the document in it, in bytes. The document is in JSON, which makes some texts twice as long.
const AROUND: usize = 1 << 20;

struct Api {
    console: Console,
    views: Views,
    backend: Arc<dyn Backend>,
}

/// What happened on the page: exactly one member.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Happened {
    /// The View, or its sandbox proxy, sent this.
    Message(Box<RawValue>),
    /// The View sent something that is too long to be passed on.
    TooLong {
        #[serde(default)]
        id: Option<RequestId>,
        bytes: usize,
    },
    PartialInput(String),
    Input(JsonObject),
    Result(Value),
    Cancelled(Option<String>),
    Context(Box<HostContext>),
    DisplayMode(Value),
    Answer {
        token: u64,
        #[serde(default)]
        result: Value,
        #[serde(default)]
        error: Option<RpcError>,
    },
    Progress {
        token: u64,
        params: JsonObject,
    },
    /// The user agreed to a message of the View.
    AddMessage {
        token: u64,
        content: Value,
    },
    CallAppTool {
        call: u64,
        name: String,
        #[serde(default)]
        arguments: JsonObject,
    },
    CancelAppCall {
        call: u64,
    },
    Ping {},
    Teardown {
        reason: String,
    },
    Gone {},
}

/// The routes below `/api/console/views`, without the checks that all routes of the data have.
pub(crate) fn router(console: Console, views: Views, backend: Arc<dyn Backend>) -> Router {
    let options = views.options();
    let most = options.limits.max_message_bytes.max(2 * options.max_html_bytes) + AROUND;
    Router::new()
        .route("/api/console/views", post(open))
        .route("/api/console/views/{id}", get(effects).post(happened))
        .route("/api/console/views/{id}/status", get(status))
        .route("/api/console/views/{id}/audit", get(audit))
        .route("/api/console/conversation", get(conversation))
        .layer(DefaultBodyLimit::max(most))
        .with_state(Arc::new(Api { console, views, backend }))
}

async fn open(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
    Json(request): Json<OpenRequest>,
) -> Response {
    let Some(server) = api.backend.server_of_tool(&request.tool) else {
        return refused(&OpenError::UnknownTool(request.tool));
    };
    // The checks before this have seen that it is the console's own origin.
    let origin = headers.get(header::ORIGIN).and_then(|it| it.to_str().ok());
    match api.views.open(request, server, &viewer, origin) {
        Ok(session) => {
            Json(session.description(api.console.sandbox_origin().as_deref())).into_response()
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &OpenError) -> Response {
    let status = match error {
        OpenError::UnknownTool(_) | OpenError::NoView(_) => StatusCode::NOT_FOUND,
        OpenError::Link { .. } | OpenError::Document(_) => StatusCode::UNPROCESSABLE_ENTITY,
        OpenError::TooMany(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}

fn not_open() -> Response {
    let error = "this View is not open any more, or is somebody else's";
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}

async fn happened(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    Json(happened): Json<Happened>,
) -> Response {
    let Some(session) = api.views.get(&id, &viewer) else { return not_open() };
    let conversation = api.views.conversation();
    let event = match happened {
        Happened::Message(message) => {
            let last = session.receive(message.get(), conversation);
            return Json(json!({ "last": last })).into_response();
        }
        Happened::TooLong { id, bytes } => Event::TooLong { id, bytes },
        Happened::PartialInput(text) => Event::PartialInput(text),
        Happened::Input(arguments) => Event::Input(arguments),
        Happened::Result(result) => Event::Result(result),
        Happened::Cancelled(reason) => Event::Cancelled(reason),
        Happened::Context(context) => Event::Context(context),
        Happened::DisplayMode(value) => match mode(&value) {
            Some(mode) => Event::DisplayMode(mode),
            None => {
                let error = "displayMode is not inline, fullscreen or pip";
                let body = Json(json!({ "error": error }));
                return (StatusCode::UNPROCESSABLE_ENTITY, body).into_response();
            }
        },
        Happened::Answer { token, result, error } => Event::Answer {
            token: RequestToken::from_number(token),
            answer: error.map_or(Ok(result), Err),
        },
        Happened::Progress { token, params } => {
            Event::Progress { token: RequestToken::from_number(token), params }
        }
        Happened::AddMessage { token, content } => {
            conversation.add_message(viewer.owner.as_deref(), session.tool(), &content);
            Event::Answer { token: RequestToken::from_number(token), answer: Ok(json!({})) }
        }
        Happened::CallAppTool { call, name, arguments } => {
            Event::CallAppTool { call, name, arguments }
        }
        Happened::CancelAppCall { call } => Event::CancelAppCall { call },
        Happened::Ping {} => Event::Ping,
        Happened::Teardown { reason } => Event::Teardown { reason },
        Happened::Gone {} => {
            session.handle(Event::Gone, conversation);
            api.views.remove(&id);
            return Json(json!({})).into_response();
        }
    };
    Json(json!({ "last": session.handle(event, conversation) })).into_response()
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
    /// The answer comes at once.
    #[serde(default)]
    now: bool,
}

/// Answers with the effects after a number, as soon as there are some.
async fn effects(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    Query(asked): Query<After>,
) -> Response {
    let Some(session) = api.views.get(&id, &viewer) else { return not_open() };
    let most = if asked.now { Duration::ZERO } else { POLL };
    let effects = session.effects(asked.after, most, api.views.conversation()).await;
    if effects["closed"] == json!(true) && effects["effects"] == json!([]) {
        api.views.remove(&id);
    }
    Json(effects).into_response()
}

async fn status(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
) -> Response {
    api.views.get(&id, &viewer).map_or_else(not_open, |it| Json(it.status()).into_response())
}

async fn audit(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
) -> Response {
    api.views.get(&id, &viewer).map_or_else(not_open, |it| Json(it.audit()).into_response())
}

async fn conversation(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
) -> Json<Value> {
    Json(api.views.conversation().show(viewer.owner.as_deref()))
}
