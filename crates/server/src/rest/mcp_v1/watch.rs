//! `GET /mcp/v1/resources/subscribe?uri=…`: updates of a resource as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, Request, Response, header},
};
use bytes::Bytes;
use futures_util::stream;
use marquetry_protocol::server::Watch;
use serde_json::json;

use super::{super::peer_of, McpV1, error::Problem, params::required};

/// Interval of comments on an idle stream, so that no proxy closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn subscribe(
    State(site): State<Arc<McpV1>>,
    request: Request<Body>,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let Some((_, uri)) = pairs.find(|(name, _)| name == "uri") else {
        return required("uri").response();
    };
    match site.server.watch(peer_of(&request), &uri).await {
        Ok(watch) => events(watch, &uri),
        Err(error) => Problem::from(error).response(),
    }
}

/// Streams the updates of a resource until the client disconnects, its token expires or the server stops.
fn events(watch: Watch, uri: &str) -> Response<Body> {
    let updated = json!({
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": uri},
    });
    let event = Bytes::from(format!("event: resource/updated\ndata: {updated}\n\n"));
    // The first comment tells the client that it is subscribed.
    let first = Bytes::from_static(b": subscribed\n\n");
    let stream = stream::unfold((watch, Some(first)), move |(watch, first)| {
        let event = event.clone();
        async move {
            if let Some(first) = first {
                return Some((Ok::<_, Infallible>(first), (watch, None)));
            }
            let next = match tokio::time::timeout(KEEP_ALIVE, watch.changed()).await {
                Ok(true) => event,
                Ok(false) => return None,
                Err(_) => Bytes::from_static(b": alive\n\n"),
            };
            Some((Ok(next), (watch, None)))
        }
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would buffer events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
