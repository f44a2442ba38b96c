//! The body of an answer: all at once, or a stream of server-sent events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::DropGuard;

use crate::server::outgoing::Outgoing;

/// The body of an answer.
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Events(Box<Events>),
}

struct Events {
    /// Sent before all, as it is.
    preamble: Option<Bytes>,
    /// What was there when the stream was opened: it leaves together with the head.
    first: Option<Bytes>,
    messages: mpsc::Receiver<Outgoing>,
    keep_alive: Interval,
    /// Tells those who produce that nobody reads any more.
    _on_drop: Option<DropGuard>,
}

/// A comment line now and then keeps proxies from closing a stream that is merely quiet.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

impl ResponseBody {
    /// A body that is there already.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    pub(super) fn events(
        first: Option<Bytes>,
        messages: mpsc::Receiver<Outgoing>,
        on_drop: Option<DropGuard>,
    ) -> Self {
        let mut keep_alive =
            tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(Kind::Events(Box::new(Events {
            preamble: None,
            first,
            messages,
            keep_alive,
            _on_drop: on_drop,
        })))
    }
}

impl ResponseBody {
    /// A stream that starts with `preamble`, whole events already.
    pub(super) fn named_events(
        preamble: Bytes,
        messages: mpsc::Receiver<Outgoing>,
        on_drop: DropGuard,
    ) -> Self {
        let mut body = Self::events(None, messages, Some(on_drop));
        if let Kind::Events(events) = &mut body.0 {
            events.preamble = Some(preamble);
        }
        body
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Events(events) => {
                events.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl Events {
    /// The events that are ready, in one piece.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        const AT_ONCE: usize = 64 << 10;
        let mut piece = BytesMut::new();
        if let Some(preamble) = self.preamble.take() {
            piece.extend_from_slice(&preamble);
        }
        if let Some(first) = self.first.take() {
            append(&mut piece, &first);
        }
        while piece.len() < AT_ONCE {
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => append(&mut piece, &message.bytes),
                Poll::Ready(None) if piece.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if piece.is_empty() {
            if self.keep_alive.poll_tick(cx).is_pending() {
                return Poll::Pending;
            }
            return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
        }
        self.keep_alive.reset();
        Poll::Ready(Some(piece.freeze()))
    }
}

/// One event. Our messages have no line feed in them (see [`crate::envelope`]), so that one `data` line holds them.
fn append(out: &mut BytesMut, message: &[u8]) {
    out.reserve(message.len() + 8);
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(message);
    out.extend_from_slice(b"\n\n");
}
