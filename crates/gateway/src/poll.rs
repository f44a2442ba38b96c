//! Polls a future once.

use std::{future::poll_fn, pin::pin, task::Poll};

/// Polls a future once; returns [`None`] if it is not ready.
pub(super) async fn polled_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|task| {
        Poll::Ready(match future.as_mut().poll(task) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}
