//! Reads and parses the bodies of requests.

use std::{pin::pin, time::Duration};

use axum::body::Body;
use futures_util::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;

use super::{ApiError, Shared};

/// Maximum number of bytes of a body that is too long that [`discard`] reads.
const MAX_DISCARDED_BYTES: usize = 32 << 20;
/// Time limit of [`discard`].
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads and parses a body.
pub(super) async fn parse<T: DeserializeOwned>(
    shared: &Shared,
    body: Body,
    expected: &'static str,
) -> Result<T, ApiError> {
    let options = &shared.options;
    let reading = read(body.into_data_stream(), options.max_body_bytes, expected);
    let body = tokio::time::timeout(options.body_timeout, reading)
        .await
        .map_err(|_| ApiError::TooSlow(options.body_timeout))??;
    // serde would accept a list as the members of an object, in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::Body { expected, problem: "it is not a JSON object".to_owned() });
    }
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::Body { expected, problem: error.to_string() })
}

async fn read<B: AsRef<[u8]>>(
    chunks: impl Stream<Item = Result<B, axum::Error>>,
    limit: usize,
    expected: &'static str,
) -> Result<Vec<u8>, ApiError> {
    let mut chunks = pin!(chunks);
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| ApiError::Body { expected, problem: error.to_string() })?;
        let chunk = chunk.as_ref();
        if body.len() + chunk.len() > limit {
            drop(body);
            discard(chunks).await;
            return Err(ApiError::TooLong(limit));
        }
        body.extend_from_slice(chunk);
    }
    Ok(body)
}

/// Reads and drops the rest of a body, within limits. A connection that closes with unread input is
/// reset, and the client may lose the answer; a client that exceeds the limits does.
async fn discard<B: AsRef<[u8]>>(mut chunks: impl Stream<Item = Result<B, axum::Error>> + Unpin) {
    let discarding = async {
        let mut left = MAX_DISCARDED_BYTES;
        while let Some(Ok(chunk)) = chunks.next().await {
            left = left.saturating_sub(chunk.as_ref().len());
            if left == 0 {
                break;
            }
        }
    };
    _ = tokio::time::timeout(DISCARD_TIMEOUT, discarding).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;

    use super::*;

    /// Reads a body of `chunks` chunks of 1 MiB. Returns its length or error, and the number of
    /// chunks that were read.
    async fn take(chunks: usize, limit: usize) -> (Result<usize, String>, usize) {
        let taken = AtomicUsize::new(0);
        let chunk = vec![b'a'; 1 << 20];
        let body = stream::iter(0..chunks).map(|_| {
            taken.fetch_add(1, Ordering::Relaxed);
            Ok(&chunk)
        });
        let read = read(body, limit, "test").await;
        (read.map(|it| it.len()).map_err(|it| it.to_string()), taken.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_read_to_its_end_or_a_limit() {
        assert_eq!(take(2, 2 << 20).await, (Ok(2 << 20), 2));
        let error = "the body is longer than 1048576 bytes".to_owned();
        assert_eq!(take(5, 1 << 20).await, (Err(error.clone()), 5));
        assert_eq!(take(1_000, 1 << 20).await, (Err(error), 34));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_that_is_too_long_is_dropped() {
        let chunk = vec![0; 20];
        let slow = stream::iter([Ok(&chunk)]).chain(stream::pending());
        assert!(matches!(read(slow, 10, "test").await, Err(ApiError::TooLong(10))));
    }
}
