//! The body of an answer: complete, or a stream of server-sent events.

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
    /// Sent first, unchanged.
    preamble: Option<Bytes>,
    /// The first message, sent together with the head.
    first: Option<Outgoing>,
    messages: Option<mpsc::Receiver<Outgoing>>,
    /// Data to send: complete events, and long messages as separate pieces.
    ready: VecDeque<Bytes>,
    keep_alive: Interval,
    probe: Option<Probe>,
    /// Stores sent events for a client whose connection breaks.
    log: Option<Arc<Log>>,
    /// Time at which the stream ends in any case.
    deadline: Option<Pin<Box<Sleep>>>,
    end: BodyEnd,
}

/// The end of a stream.
#[derive(Default)]
pub(super) struct BodyEnd {
    /// Notifies the producers that the reader has gone.
    pub(super) _on_drop: Option<DropGuard>,
    /// The stream ends with the first answer, even if the request is still referenced.
    pub(super) until_answered: bool,
}

/// Detects whether a client that has shut down its writing side still reads: a write to a broken
/// connection fails.
struct Probe {
    half_closed: Pin<Box<WaitForCancellationFutureOwned>>,
    started: bool,
}

/// Interval of comment lines, which keep proxies from closing an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Interval of probes of a client that has shut down its writing side.
const PROBE: Duration = Duration::from_secs(1);

/// Longer messages are sent without a copy.
const COPIED: usize = 16 << 10;

impl ResponseBody {
    /// Creates a complete body.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// Creates an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// Creates a stream of one complete message; stored in `log`, as by [`Self::logged`].
    pub(super) fn event(message: Outgoing, log: Option<&Log>, opening: bool) -> Self {
        let mut out = BytesMut::with_capacity(message.bytes.len() + 64);
        if let Some(log) = log.filter(|_| opening) {
            append_opening(&mut out, log);
        }
        let id =
            message.id.as_deref().copied().or_else(|| log.map(|log| log.append(&message.bytes)));
        append(&mut out, &message.bytes, id);
        if let Some(log) = log {
            log.end();
        }
        Self::whole(counted(out.freeze(), message.charged))
    }

    /// Creates a stream of `first` and `messages`.
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

    /// Starts the stream with `preamble`, which must be complete events.
    pub(super) fn after(mut self, preamble: impl Into<Bytes>) -> Self {
        if let Kind::Events(events) = &mut self.0 {
            events.preamble = Some(preamble.into());
        }
        self
    }

    /// Stores the events in `log`. The stream starts with the id of its opening, so that a client
    /// can return that has seen nothing else (2025-11-25, "Sending Messages to the Server").
    pub(super) fn logged(mut self, log: Arc<Log>, opening: bool) -> Self {
        let mut first = BytesMut::new();
        append_opening(&mut first, &log);
        if let Kind::Events(events) = &mut self.0 {
            events.log = Some(log);
        }
        if opening { self.after(first) } else { self }
    }

    /// Probes a client that has shut down its writing side.
    pub(super) fn probing(mut self, connection: Option<&Arc<Connection>>) -> Self {
        if let (Kind::Events(events), Some(connection)) = (&mut self.0, connection) {
            events.probe = Some(Probe {
                half_closed: Box::pin(connection.half_closed.clone().cancelled_owned()),
                started: false,
            });
        }
        self
    }

    /// Ends the stream after this time at the latest.
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
    /// Returns the events that are ready, in few pieces.
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

    /// Converts a message into an event: appended to `piece`, or as a separate piece if it is long.
    fn take(&mut self, piece: &mut BytesMut, message: Outgoing) {
        match message.kind {
            MessageKind::Notification | MessageKind::Answer(_) => {
                let is_answer = matches!(message.kind, MessageKind::Answer(_));
                let log = self.log.as_deref();
                let id = message
                    .id
                    .as_deref()
                    .copied()
                    .or_else(|| log.map(|log| log.append(&message.bytes)));
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
            MessageKind::Close(retry_after) => {
                // Without a log the client has nothing to return for.
                if self.log.is_none() {
                    return;
                }
                let retry = format!("retry: {}\n\n", retry_after.as_millis());
                piece.extend_from_slice(retry.as_bytes());
                self.hand_over();
            }
        }
    }

    /// Stores later messages for a client that returns.
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

/// Appends an event. Messages contain no line feed (see [`marquetry_protocol_wire::envelope`]), so
/// one `data` line is enough.
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

/// Appends an event without a message, whose id a client can return with.
fn append_opening(out: &mut BytesMut, log: &Log) {
    _ = write!(out, "id: {}\ndata:\n\n", log.opening());
}

impl Drop for Events {
    /// If the connection broke before the end, later messages are stored.
    fn drop(&mut self) {
        if let (Some(log), Some(first)) = (self.log.clone(), self.first.take())
            && !matches!(first.kind, MessageKind::Close(_))
        {
            log.append(&first.bytes);
            if matches!(first.kind, MessageKind::Answer(_)) && self.end.until_answered {
                self.end();
            }
        }
        // Without a runtime no client can return.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.hand_over();
        }
    }
}
