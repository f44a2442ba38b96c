//! Receives the bodies of requests to routes that other crates define, within the limits of this
//! server.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode, header},
    middleware::Next,
};
use marquetry_config::sections::Limits;
use marquetry_protocol::server::{
    Peer, Principal, Server,
    http::{ReceiveError, Received},
};
use serde_json::json;

use crate::rest::json_response;

/// Receives the bodies of a group of routes. Every body that the server holds is counted for its
/// sender by [`Server::receive`]; the endpoints of MCP and REST call that themselves.
#[derive(Clone)]
pub(super) struct BodyReceiver {
    server: Server,
    max_bytes: usize,
    timeout: Duration,
}

impl BodyReceiver {
    /// Receives bodies of at most `max_bytes`.
    pub(super) fn new(server: &Server, limits: &Limits, max_bytes: usize) -> Self {
        let timeout = Duration::from_millis(limits.max_body_ms.get());
        Self { server: server.clone(), max_bytes, timeout }
    }

    async fn receive(&self, request: Request) -> Result<(Request, Received), ReceiveError> {
        let (head, body) = request.into_parts();
        let principal = head.extensions.get::<Arc<Principal>>().cloned();
        let peer = Peer::over_http(principal, &head.extensions);
        let received = self.server.receive(&peer, body, self.max_bytes, self.timeout).await?;
        let body = Body::from(received.bytes().clone());
        Ok((Request::from_parts(head, body), received))
    }
}

/// Receives the body of a request before its route does. Its bytes are counted until the answer
/// begins.
pub(super) async fn receive_body(
    State(receiver): State<BodyReceiver>,
    request: Request,
    next: Next,
) -> Response<Body> {
    match receiver.receive(request).await {
        Ok((request, _counted)) => next.run(request).await,
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &ReceiveError) -> Response<Body> {
    let status = match error {
        ReceiveError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        ReceiveError::Late => StatusCode::REQUEST_TIMEOUT,
        ReceiveError::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = json_response(status, &json!({"error": error.to_string()}));
    // The rest of the body stays unread; the server must not parse it as the next request.
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}
