//! `GET /mcp/v1/resources/subscribe?uri=…`: updates of a resource as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::{Request, Response},
};
use bytes::Bytes;
use futures_util::stream;
use marquetry_protocol::server::Watch;
use serde_json::json;

use super::{super::peer_of, McpV1, error::Problem, events, params::required};

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
        Ok(watch) => updates(watch, &uri),
        Err(error) => Problem::from(error).response(),
    }
}

/// Streams the updates of a resource until the client disconnects, its token expires or the server
/// stops.
fn updates(watch: Watch, uri: &str) -> Response<Body> {
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
            let next = match tokio::time::timeout(events::KEEP_ALIVE, watch.changed()).await {
                Ok(true) => event,
                Ok(false) => return None,
                Err(_) => events::ALIVE,
            };
            Some((Ok(next), (watch, None)))
        }
    });
    events::response(Body::from_stream(stream))
}
