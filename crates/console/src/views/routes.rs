//! The routes of Views.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, Query, State, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{OpenError, OpenRequest, Views};
use crate::{Backend, Console, Viewer};

/// Allowance for the envelope around the document in a request, in bytes. Escaping as JSON can
/// double the length of a document.
const ENVELOPE_BYTES: usize = 1 << 20;
/// Records in one answer.
const MAX_RECORDS: usize = 1_000;

struct Api {
    console: Console,
    views: Views,
    backend: Arc<dyn Backend>,
}

/// The routes below `/api/console/views`, without the checks that all routes of the data have.
pub(crate) fn router(console: Console, views: Views, backend: Arc<dyn Backend>) -> Router {
    let max = 2 * views.options().max_html_bytes + ENVELOPE_BYTES;
    Router::new()
        .route("/api/console/views", post(open))
        .route("/api/console/views/audit", get(audit))
        .route("/api/console/conversation", get(conversation))
        .layer(DefaultBodyLimit::max(max))
        .with_state(Arc::new(Api { console, views, backend }))
}

/// Opens a View. The answer has a ticket for its socket.
async fn open(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
    request: Result<Json<OpenRequest>, JsonRejection>,
) -> Response {
    let Json(mut request) = match request {
        Ok(request) => request,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let max = api.views.options().max_html_bytes;
            let error = format!("the View's document is larger than max_view_bytes ({max})");
            let body = Json(json!({ "error": error }));
            return (StatusCode::PAYLOAD_TOO_LARGE, body).into_response();
        }
        Err(rejection) => return rejection.into_response(),
    };
    // Records of its messages are filed under a call that the viewer has, and under no other.
    let calls = api.console.calls();
    request.call = request.call.filter(|call| calls.tool(call, &viewer).is_some());
    let Some(server) = api.backend.server_of_tool(&request.tool, &viewer) else {
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
        OpenError::TooMany(_) | OpenError::TooManyOfUser(_) | OpenError::Closed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        OpenError::Link { .. } | OpenError::Document(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}

#[derive(Deserialize)]
struct OfCall {
    call: Option<String>,
}

/// The newest records of messages of Views, of one call if it is named.
async fn audit(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
    Query(asked): Query<OfCall>,
) -> Json<Value> {
    Json(json!({ "records": api.views.audit().list(&viewer, asked.call.as_deref(), MAX_RECORDS) }))
}

async fn conversation(
    State(api): State<Arc<Api>>,
    Extension(viewer): Extension<Viewer>,
) -> Json<Value> {
    Json(api.views.conversation().show(viewer.owner.as_deref()))
}
