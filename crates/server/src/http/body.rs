//! Receives the bodies of requests to routes that other crates define, and counts those of answers,
//! within the limits of this server.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _, to_bytes},
    extract::{Request, State},
    http::{Response, StatusCode, header},
    middleware::Next,
};
use marquetry_config::sections::Limits;
use marquetry_protocol::server::{
    Peer, Principal, Server,
    fair::Full,
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
        let received = self.server.receive_json(&peer, body, self.max_bytes, self.timeout).await?;
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

/// Counts the body of an answer as unsent for its reader until the last part of it is sent: a
/// client that reads slowly must not make the server hold one answer after the other. Streams are
/// left: they make each part when the reader has taken the one before.
pub(super) async fn count_answer(
    State(server): State<Server>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let principal = request.extensions().get::<Arc<Principal>>().cloned();
    let peer = Peer::over_http(principal, request.extensions());
    counted(&server, &peer, next.run(request).await).await
}

async fn counted(server: &Server, peer: &Peer, response: Response<Body>) -> Response<Body> {
    let Some(1..) = response.body().size_hint().exact() else { return response };
    let (head, body) = response.into_parts();
    let bytes = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let problem = json!({"error": error.to_string()});
            return json_response(StatusCode::INTERNAL_SERVER_ERROR, &problem);
        }
    };
    match server.count_unsent(peer, bytes).await {
        Ok(bytes) => Response::from_parts(head, Body::from(bytes)),
        Err(full) => {
            tracing::warn!(%full, "an answer was dropped: clients read too slowly");
            json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": full.to_string()}))
        }
    }
}

fn refusal(error: &ReceiveError) -> Response<Body> {
    let status = match error {
        ReceiveError::TooLong { .. } | ReceiveError::Full(Full::TooLarge { .. }) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        ReceiveError::Late => StatusCode::REQUEST_TIMEOUT,
        ReceiveError::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = json_response(status, &json!({"error": error.to_string()}));
    // The rest of the body stays unread; the server must not parse it as the next request.
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::Extensions;
    use marquetry_protocol::server::{Handler, Limits as ServerLimits, ServerDescription};

    use super::*;

    struct Nothing;

    impl Handler for Nothing {
        fn describe(&self) -> ServerDescription {
            ServerDescription::default()
        }
    }

    const ANSWER: usize = 1 << 20;

    async fn answer(server: &Server) -> Response<Body> {
        let peer = Peer::over_http(None, &Extensions::new());
        counted(server, &peer, Response::new(Body::from(vec![b'x'; ANSWER]))).await
    }

    #[tokio::test]
    async fn answers_count_until_their_reader_has_them() {
        let limits = ServerLimits {
            max_send_bytes: ANSWER * 3 / 2,
            queue_time: Duration::ZERO,
            ..ServerLimits::default()
        };
        let server = Server::with_limits(Nothing, limits);
        let first = answer(&server).await;
        assert_eq!(first.status(), StatusCode::OK);
        let bytes = to_bytes(first.into_body(), usize::MAX).await.unwrap();
        assert_eq!(bytes.len(), ANSWER);
        let rest = bytes.slice(ANSWER - 1..);
        drop(bytes);
        assert_eq!(answer(&server).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(rest);
        assert_eq!(answer(&server).await.status(), StatusCode::OK);
    }
}
