//! Reading a request's body within limits of size and time.

use std::{borrow::Cow, time::Duration};

use axum::{
    body::Body,
    http::{Request, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::RestError;
use crate::config::Limits;

/// How much of a refused body is read and thrown away, so that the client gets to read the refusal instead of a reset connection.
const DRAINED_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The whole body of at most `limit` bytes, unless it is too slow.
pub(super) async fn read(
    request: Request<Body>,
    limit: usize,
    limits: &Limits,
) -> Result<Bytes, RestError> {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| {
        // Digits beyond what a number holds are too many all the same.
        length.to_str().ok().map(|length| length.parse().unwrap_or(u64::MAX))
    });
    let mut body = request.into_body();
    if announced.is_some_and(|length| length > limit as u64) {
        tokio::spawn(drain(body));
        return Err(RestError::BodyTooLarge);
    }
    let time = Duration::from_millis(limits.max_body_ms.get());
    let read = Limited::new(&mut body, limit).collect();
    match tokio::time::timeout(time, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            tokio::spawn(drain(body));
            Err(RestError::BodyTooLarge)
        }
        // A body that breaks off has nobody left to read the answer.
        Ok(Err(_)) => Err(RestError::InvalidJson),
        Err(_) => Err(RestError::BodyTimeout),
    }
}

async fn drain(body: Body) {
    let rest = Limited::new(body, DRAINED_BYTES).collect();
    // Whatever comes of it, the client has its answer.
    _ = tokio::time::timeout(DRAIN_TIME, rest).await;
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
