//! Reads request bodies within limits of size, time and total memory.

use std::{borrow::Cow, time::Duration};

use axum::{body::Body, http::Request};
use marquetry_protocol::server::{
    Peer, Server,
    fair::Full,
    http::{ReceiveError, Received},
};

use marquetry_config::sections::Limits;

use super::RestError;

/// Reads a body of at most `limit` bytes. They count against `limits.max_receive_bytes` until the
/// result is dropped.
pub(super) async fn read(
    server: &Server,
    peer: &Peer,
    request: Request<Body>,
    limit: usize,
    limits: &Limits,
) -> Result<Received, RestError> {
    let time = Duration::from_millis(limits.max_body_ms.get());
    server.receive_json(peer, request.into_body(), limit, time).await.map_err(|error| match error {
        ReceiveError::TooLong { .. } => RestError::BodyTooLarge,
        ReceiveError::Late => RestError::BodyTimeout,
        ReceiveError::Full(full @ Full::TooLarge { .. }) => RestError::BodyTakesMemory(format!(
            "the values of the body take too much memory: {full}"
        )),
        ReceiveError::Full(full) => RestError::Busy(full.to_string()),
        // The connection broke: the client does not read the answer.
        _ => RestError::InvalidJson,
    })
}

/// Returns a body without the byte order mark that some clients send before JSON (RFC 8259, section
/// 8.1, lets parsers ignore it).
pub(super) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body)
}

/// A body as text, with replacement characters for invalid UTF-8.
pub(super) struct BodyText<'b>(Cow<'b, str>);

/// Decodes a body. Invalid UTF-8 is replaced, so that the JSON around it can still be parsed.
pub(super) fn utf8(body: &[u8]) -> BodyText<'_> {
    BodyText(String::from_utf8_lossy(without_bom(body)))
}

impl BodyText<'_> {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether the body was not UTF-8.
    pub(super) fn was_broken(&self) -> bool {
        matches!(self.0, Cow::Owned(_))
    }
}
