//! `GET /mcp/v1/resources/subscribe?uri=…`: updates of a resource as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::{Request, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use marquetry_protocol::server::Watch;
use serde_json::json;

use super::{super::peer_of, McpV1, error::Problem, events, params::required};

pub(super) async fn subscribe(
    State(api): State<Arc<McpV1>>,
    request: Request<Body>,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let Some((_, uri)) = pairs.find(|(name, _)| name == "uri") else {
        return required("uri").response();
    };
    match api.server.watch(peer_of(&request), &uri).await {
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
    let changes = stream::unfold(watch, move |watch| {
        let event = event.clone();
        async move {
            let next = match tokio::time::timeout(events::KEEP_ALIVE, watch.changed()).await {
                Ok(true) => event,
                Ok(false) => return None,
                Err(_) => events::KEEP_ALIVE_COMMENT,
            };
            Some((next, watch))
        }
    });
    // The first comment tells the client that it is subscribed.
    let subscribed = stream::iter([Bytes::from_static(b": subscribed\n\n")]);
    let body = subscribed.chain(changes).map(Ok::<_, Infallible>);
    events::response(Body::from_stream(body))
}
