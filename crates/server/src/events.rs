//! Server-sent events: responses, single events, and comments that keep a stream open.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use marquetry_protocol::server::http::ConnectionInfo;
use serde::Serialize;
use serde_json::json;

/// The media type of a stream of events.
pub(crate) const MEDIA_TYPE: &str = "text/event-stream";

/// Interval of comments on an idle stream, so that no proxy closes it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Interval of comments to a client that may have gone. Writing to it fails if it has, and the
/// stream is dropped.
const PROBE: Duration = Duration::from_millis(500);

/// The comment on an idle stream.
pub(crate) const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b": alive\n\n");

/// Returns a stream of events.
pub(crate) fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would buffer events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Returns an event with JSON data.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|error| {
        json!({"code": "internal", "message": error.to_string()}).to_string()
    });
    // JSON has no line breaks.
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Decides when an idle stream needs a comment: seldom while its client is connected, and often
/// once the client may have gone.
pub(crate) struct Heartbeat {
    /// The end of the client's writing side; [`None`] after it, and for an unknown connection.
    half_closed: Option<BoxFuture<'static, ()>>,
}

impl Heartbeat {
    /// Creates the heartbeat of a stream on this connection.
    pub(crate) fn new(connection: Option<ConnectionInfo>) -> Self {
        Self { half_closed: connection.map(|connection| connection.half_closed().boxed()) }
    }

    /// Waits until a comment is due. Cancel safe; each call begins a new interval.
    pub(crate) async fn due(&mut self) {
        let interval = if self.half_closed.is_some() { KEEP_ALIVE } else { PROBE };
        let end = async {
            match &mut self.half_closed {
                Some(half_closed) => half_closed.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end => self.half_closed = None,
            () = tokio::time::sleep(interval) => {}
        }
    }
}
