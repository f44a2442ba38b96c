//! The routes of the sandbox's own listener.

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use http::{HeaderValue, StatusCode, header};

use super::Views;

/// The document between the page and a View. Its script forwards messages, and stops a View that
/// floods it; it has no other rules.
const PROXY: &str = include_str!("../../page/sandbox.html");

/// The routes of the sandbox's own listener, another origin than the page's: `/view/{id}`. They
/// need no token, since an id is a secret that is valid for one request.
pub(crate) fn sandbox_router(views: Views) -> Router {
    Router::new().route("/view/{id}", get(frame)).fallback(async || gone()).with_state(views)
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
    let Ok(policy) = HeaderValue::from_str(sandbox.policy()) else { return gone() };
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn gone() -> Response {
    let mut response = Response::new(Body::from("no such View, or it was loaded before\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
