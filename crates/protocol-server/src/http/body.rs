//! The body of an answer: all at once, or a stream of server-sent events.

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt::Write as _,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, Sleep},
};
use tokio_util::sync::{DropGuard, WaitForCancellationFutureOwned};

use super::{connection::Connection, replay::Log};
use crate::{
    event_id::EventId,
    outgoing::{Kind as MessageKind, Outgoing, counted},
};

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
    first: Option<Outgoing>,
    messages: Option<mpsc::Receiver<Outgoing>>,
    /// What is ready to leave: whole events, but a long message is a piece of its own.
    ready: VecDeque<Bytes>,
    keep_alive: Interval,
    probe: Option<Probe>,
    /// Keeps what was sent, for a client whose connection breaks.
    log: Option<Arc<Log>>,
    /// When it ends, whatever is still to come.
    deadline: Option<Pin<Box<Sleep>>>,
    end: BodyEnd,
}

/// How a stream ends.
#[derive(Default)]
pub(super) struct BodyEnd {
    /// Tells the producers that the reader is gone.
    pub(super) _on_drop: Option<DropGuard>,
    /// It ends with the first answer, even if the request is still referenced.
    pub(super) until_answered: bool,
}

/// Finds out whether a client that has shut down its writing side still reads: a connection that is gone breaks when
/// something is written to it.
struct Probe {
    half_closed: Pin<Box<WaitForCancellationFutureOwned>>,
    started: bool,
}

/// A comment line now and then keeps proxies from closing a stream that is merely quiet.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often a client is probed that has shut down its writing side.
const PROBE: Duration = Duration::from_secs(1);

/// Longer messages are not copied into the piece that leaves.
const COPIED: usize = 16 << 10;

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

    /// A stream of one message, which is there already; kept in `log`, as by [`Self::logged`].
    pub(super) fn event(message: Outgoing, log: Option<&Log>, opening: bool) -> Self {
        let mut out = BytesMut::with_capacity(message.bytes.len() + 64);
        if let (Some(log), true) = (log, opening) {
            append_opening(&mut out, log);
        }
        let id = message.id.or_else(|| log.map(|log| log.append(&message.bytes)));
        append(&mut out, &message.bytes, id);
        if let Some(log) = log {
            log.end();
        }
        Self::whole(counted(out.freeze(), message.charged))
    }

    /// A stream of `first` and `messages`.
    pub(super) fn events(
        first: Option<Outgoing>,
        messages: mpsc::Receiver<Outgoing>,
        end: BodyEnd,
    ) -> Self {
        let mut keep_alive =
            tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(Kind::Events(Box::new(Events {
            preamble: None,
            first,
            messages: Some(messages),
            ready: VecDeque::new(),
            keep_alive,
            probe: None,
            log: None,
            deadline: None,
            end,
        })))
    }

    /// The same, which starts with `preamble`, whole events already.
    pub(super) fn after(mut self, preamble: impl Into<Bytes>) -> Self {
        if let Kind::Events(events) = &mut self.0 {
            events.preamble = Some(preamble.into());
        }
        self
    }

    /// The same, kept in `log`. It starts with the id of its opening, so that a client can come back that has seen
    /// nothing else yet (2025-11-25, "Sending Messages to the Server").
    pub(super) fn logged(mut self, log: Arc<Log>, opening: bool) -> Self {
        let mut first = BytesMut::new();
        append_opening(&mut first, &log);
        if let Kind::Events(events) = &mut self.0 {
            events.log = Some(log);
        }
        if opening { self.after(first) } else { self }
    }

    /// The same, which finds out whether a client that has shut down its writing side still reads.
    pub(super) fn probing(mut self, connection: Option<&Arc<Connection>>) -> Self {
        if let (Kind::Events(events), Some(connection)) = (&mut self.0, connection) {
            events.probe = Some(Probe {
                half_closed: Box::pin(connection.half_closed.clone().cancelled_owned()),
                started: false,
            });
        }
        self
    }

    /// The same, which ends after this time at the latest, where there is one.
    pub(super) fn within(mut self, time: Option<Duration>) -> Self {
        if let (Kind::Events(events), Some(time)) = (&mut self.0, time) {
            events.deadline = Some(Box::pin(tokio::time::sleep(time)));
        }
        self
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
    /// The events that are ready, in few pieces.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        const AT_ONCE: usize = 64 << 10;
        if let Some(piece) = self.ready.pop_front() {
            return Poll::Ready(Some(piece));
        }
        if self.deadline.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            self.end();
            return Poll::Ready(None);
        }
        if let Some(probe) = self.probe.as_mut().filter(|probe| !probe.started)
            && probe.half_closed.as_mut().poll(cx).is_ready()
        {
            probe.started = true;
            self.keep_alive = tokio::time::interval(PROBE);
            self.keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut piece = BytesMut::new();
        if let Some(preamble) = self.preamble.take() {
            piece.extend_from_slice(&preamble);
        }
        if let Some(first) = self.first.take() {
            self.take(&mut piece, first);
        }
        while piece.len() < AT_ONCE && self.ready.is_empty() {
            let Some(messages) = &mut self.messages else { break };
            match messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => self.take(&mut piece, message),
                Poll::Ready(None) => self.end(),
                Poll::Pending => break,
            }
        }
        if !piece.is_empty() {
            self.ready.push_back(piece.freeze());
        }
        if let Some(piece) = self.ready.pop_front() {
            if self.probe.as_ref().is_none_or(|probe| !probe.started) {
                self.keep_alive.reset();
            }
            return Poll::Ready(Some(piece));
        }
        if self.messages.is_none() {
            return Poll::Ready(None);
        }
        if self.keep_alive.poll_tick(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Bytes::from_static(b":\n\n")))
    }

    /// Makes an event of a message: in `piece`, or for a long one beside it.
    fn take(&mut self, piece: &mut BytesMut, message: Outgoing) {
        match message.kind {
            MessageKind::Notification | MessageKind::Answer(_) => {
                let is_answer = matches!(message.kind, MessageKind::Answer(_));
                let log = self.log.as_deref();
                let id = message.id.or_else(|| log.map(|log| log.append(&message.bytes)));
                if message.bytes.len() <= COPIED {
                    append(piece, &message.bytes, id);
                } else {
                    append_head(piece, id);
                    self.ready.push_back(std::mem::take(piece).freeze());
                    self.ready.push_back(message.into_counted_bytes());
                    piece.extend_from_slice(b"\n\n");
                }
                if is_answer && self.end.until_answered {
                    self.end();
                }
            }
            MessageKind::Close(come_back_after) => {
                // Without a log there would be nothing to come back for.
                if self.log.is_none() {
                    return;
                }
                let retry = format!("retry: {}\n\n", come_back_after.as_millis());
                piece.extend_from_slice(retry.as_bytes());
                self.hand_over();
            }
        }
    }

    /// What is still to come is kept for a client that comes back.
    fn hand_over(&mut self) {
        if let (Some(log), Some(messages)) = (self.log.take(), self.messages.take()) {
            log.take_over(messages, self.end.until_answered);
        }
    }

    fn end(&mut self) {
        self.messages = None;
        if let Some(log) = self.log.take() {
            log.end();
        }
    }
}

/// One event. Our messages have no line feed in them (see [`marquetry_protocol_wire::envelope`]), so that one `data` line holds them.
fn append(out: &mut BytesMut, message: &[u8], id: Option<EventId>) {
    out.reserve(message.len() + 64);
    append_head(out, id);
    out.extend_from_slice(message);
    out.extend_from_slice(b"\n\n");
}

fn append_head(out: &mut BytesMut, id: Option<EventId>) {
    if let Some(id) = id {
        _ = writeln!(out, "id: {id}");
    }
    out.extend_from_slice(b"data: ");
}

/// An event without a message, so that a client has an id to come back with.
fn append_opening(out: &mut BytesMut, log: &Log) {
    _ = write!(out, "id: {}\ndata:\n\n", log.opening());
}

impl Drop for Events {
    /// The connection broke before the end: what is still to come is kept.
    fn drop(&mut self) {
        if let (Some(log), Some(first)) = (self.log.clone(), self.first.take())
            && !matches!(first.kind, MessageKind::Close(_))
        {
            log.append(&first.bytes);
            if matches!(first.kind, MessageKind::Answer(_)) && self.end.until_answered {
                self.end();
            }
        }
        // Without a runtime no client can come back.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.hand_over();
        }
    }
}
