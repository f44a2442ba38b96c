//! The body of a response of [`App::router`](super::App::router), which counts as in flight.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A body that counts as running until it was sent or dropped. It forwards the size hint of the
/// inner body, without which the response would lose its `Content-Length`.
pub(super) struct RoutedBody {
    pub(super) body: Body,
    pub(super) _in_flight: TaskTrackerToken,
}

impl HttpBody for RoutedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
