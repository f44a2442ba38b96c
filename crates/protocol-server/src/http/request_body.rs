//! The body of a request, and whether it was read.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connection::{BodyWait, Connection};

/// The body of a request from [`serve`](super::serve).
///
/// While the client does not send the body, its connection counts as silent. If the body is not
/// read to its end, the connection is closed after the answer.
pub struct RequestBody {
    body: Incoming,
    connection: Arc<Connection>,
    wait: Option<BodyWait>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        connection.set_body_open(!body.is_end_stream());
        Self { body, connection, wait: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Pending => {
                if self.wait.is_none() {
                    self.wait = Some(self.connection.waits_for_body());
                }
            }
            Poll::Ready(frame) => {
                self.wait = None;
                if frame.is_none() || self.body.is_end_stream() {
                    self.connection.set_body_open(false);
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestBody")
    }
}
