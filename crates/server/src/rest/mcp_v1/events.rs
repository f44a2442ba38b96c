//! Server-sent events: headers, and comments that keep a stream open.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use bytes::Bytes;

/// The media type of a stream of events.
pub(super) const MEDIA_TYPE: &str = "text/event-stream";

/// Interval of comments on an idle stream, so that no proxy closes it.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A comment on an idle stream.
pub(super) const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");

/// Returns a stream of events.
pub(super) fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would buffer events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
