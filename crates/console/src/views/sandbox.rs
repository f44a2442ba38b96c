//! The routes of the sandbox's own listener.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State},
    response::Response,
    routing::{get, post},
};
use http::{HeaderValue, StatusCode, header};

use super::{Views, blocked::Report};

/// The document between the page and a View. Its script forwards messages, and stops a View that
/// floods it; it has no other rules.
const PROXY: &str = include_str!("../../page/sandbox.html");

/// Largest report of a browser, in bytes: it repeats the policy.
const MAX_REPORT: usize = 128 << 10;

/// The routes of the sandbox's own listener, another origin than the page's: `/view/{id}`, which
/// serves the document once, and `/view/{id}/blocked`, to which the browser reports what the policy
/// has blocked. They need no token, since an id is a secret.
pub(crate) fn sandbox_router(views: Views) -> Router {
    Router::new()
        .route("/view/{id}", get(frame))
        .route("/view/{id}/blocked", post(blocked).layer(DefaultBodyLimit::max(MAX_REPORT)))
        .fallback(async || gone())
        .with_state(views)
}

/// Serves the document around a View, with the View's policy. A second request is refused: a View
/// that makes its frame load again gets nothing.
async fn frame(State(views): State<Views>, Path(id): Path<String>) -> Response {
    let Some(session) = views.take_frame(&id) else { return gone() };
    let sandbox = session.sandbox();
    let document = PROXY
        .replace("{{sandbox}}", sandbox.sandbox_attribute())
        .replace("{{allow}}", &sandbox.allow_attribute())
        .replace("{{max_messages}}", &session.max_messages().to_string())
        .replace("{{messages_per_second}}", &session.messages_per_second().to_string());
    let mut response = Response::new(Body::from(document));
    let headers = response.headers_mut();
    // The address is relative, because a proxy may serve Views under another path.
    let policy = format!("{}; report-uri {id}/blocked", sandbox.policy());
    let Ok(policy) = HeaderValue::from_str(&policy) else { return gone() };
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn blocked(State(views): State<Views>, Path(id): Path<String>, report: Bytes) -> StatusCode {
    match serde_json::from_slice::<Report>(&report) {
        Ok(report) => {
            views.blocked(&id, &report.into());
            StatusCode::NO_CONTENT
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

fn gone() -> Response {
    let mut response = Response::new(Body::from("no such View, or it was loaded before\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
