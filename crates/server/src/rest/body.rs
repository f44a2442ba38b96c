//! Reading a request's body within limits of size, time and bytes of all bodies.

use std::{borrow::Cow, time::Duration};

use axum::{body::Body, http::Request};
use marquetry_protocol::server::{
    Peer, Server,
    http::{ReceiveError, Received},
};

use super::RestError;
use crate::config::Limits;

/// The whole body of at most `limit` bytes, which count among those that arrive as long as it is kept.
pub(super) async fn read(
    server: &Server,
    peer: &Peer,
    request: Request<Body>,
    limit: usize,
    limits: &Limits,
) -> Result<Received, RestError> {
    let time = Duration::from_millis(limits.max_body_ms.get());
    server.receive(peer, request.into_body(), limit, time).await.map_err(|error| match error {
        ReceiveError::TooLong { .. } => RestError::BodyTooLarge,
        ReceiveError::Late => RestError::BodyTimeout,
        ReceiveError::Full(full) => RestError::Busy(full.to_string()),
        // The client of a body that breaks off does not read the answer.
        _ => RestError::InvalidJson,
    })
}

/// A body as text, perhaps with replacement characters where it was not UTF-8.
pub(super) struct BodyText<'b>(Cow<'b, str>);

/// The text of a body. One that is not UTF-8 is mended, so that what is JSON around the fault is known for that.
pub(super) fn utf8(body: &[u8]) -> BodyText<'_> {
    BodyText(String::from_utf8_lossy(body))
}

impl BodyText<'_> {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the body was not UTF-8.
    pub(super) fn was_broken(&self) -> bool {
        matches!(self.0, Cow::Owned(_))
    }
}
