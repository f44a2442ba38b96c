//! The body of an answer that is being sent.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connection::{Backlog, Busy, Connection};

/// A body that keeps its connection busy until it was sent. In HTTP/2, long parts are sent in
/// pieces, so that a client that does not read is noticed.
pub(super) struct PacedBody<B> {
    body: B,
    _busy: Busy,
    /// The connection, over HTTP/2.
    paced: Option<Arc<Connection>>,
    rest: Option<(Bytes, Backlog)>,
}

/// The longest piece in HTTP/2.
const PIECE: usize = 32 << 10;

impl<B> PacedBody<B> {
    pub(super) fn new(body: B, busy: Busy, paced: Option<Arc<Connection>>) -> Self {
        Self { body, _busy: busy, paced, rest: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let Some(connection) = &this.paced else { return Pin::new(&mut this.body).poll_frame(cx) };
        if this.rest.is_none() {
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = Some((data, connection.backlog())),
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return other,
            }
        }
        let Some((mut data, backlog)) = this.rest.take() else { return Poll::Pending };
        let piece = data.split_to(data.len().min(PIECE));
        connection.add_sent(piece.len());
        if !data.is_empty() {
            this.rest = Some((data, backlog));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.size_hint();
        let Some((rest, _)) = &self.rest else { return hint };
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest.len() as u64);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest.len() as u64);
        }
        whole
    }
}
