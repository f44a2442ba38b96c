//! A message on its way to a client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use marquetry_protocol_wire::{RequestId, RpcError, envelope::write_error};
use tokio::sync::mpsc;

use super::{
    Caller,
    fair::{FairLimiter, Full, Slot},
    in_flight::InFlightGuard,
};

/// A message on its way to a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Bytes,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uses it"))]
    pub(super) kind: Kind,
    /// The id of the event, if it comes from the log of a stream. Boxed, because few messages have
    /// one.
    #[cfg(feature = "http")]
    pub(super) id: Option<Box<super::event_id::EventId>>,
    /// The answered requests. They are in flight until the message is sent, so that unread answers
    /// count for the limit.
    pub(super) held: Vec<InFlightGuard>,
    /// Slots for unsent bytes in the limit of all clients, for a long message.
    pub(super) charged: Vec<Slot>,
    /// The scopes that the request needs, for an error that says so.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uses it"))]
    pub(super) scopes: Option<Arc<[String]>>,
}

/// Shorter messages are not counted as unsent bytes: their number is limited.
const CHARGED_FROM: usize = 16 << 10;

/// Role of a message for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message before the answer, or without a request.
    Notification,
    /// The answer: a result, or an error with this code.
    Answer(Option<i32>),
    /// Closes the event stream before the answer. The client should return after this time.
    Close(Duration),
}

impl Outgoing {
    fn new(bytes: Bytes, kind: Kind) -> Self {
        Self {
            bytes,
            kind,
            #[cfg(feature = "http")]
            id: None,
            held: Vec::new(),
            charged: Vec::new(),
            scopes: None,
        }
    }

    /// Counts the message as unsent bytes until it is dropped or its bytes are sent.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded.
    pub(super) async fn charge(
        mut self,
        sending: &FairLimiter,
        caller: &Caller,
    ) -> Result<Self, Full> {
        if self.bytes.len() >= CHARGED_FROM && self.charged.is_empty() {
            self.charged.push(sending.enter(caller, self.bytes.len()).await?);
        }
        Ok(self)
    }

    /// Returns the bytes, which are counted until their last part is dropped.
    #[cfg(feature = "http")]
    pub(super) fn into_counted_bytes(self) -> Bytes {
        counted(self.bytes, self.charged)
    }

    /// Keeps a request in flight until the message is sent.
    pub(super) fn holding(mut self, request: InFlightGuard) -> Self {
        self.held.push(request);
        self
    }

    /// Creates a message from a stored event.
    #[cfg(feature = "http")]
    pub(super) fn event(bytes: Bytes, id: super::event_id::EventId) -> Self {
        Self { id: Some(Box::new(id)), ..Self::new(bytes, Kind::Notification) }
    }

    pub(super) fn notification(bytes: impl Into<Bytes>) -> Self {
        Self::new(bytes.into(), Kind::Notification)
    }

    pub(super) fn close(retry_after: Duration) -> Self {
        Self::new(Bytes::new(), Kind::Close(retry_after))
    }

    pub(super) fn result(bytes: Vec<u8>) -> Self {
        Self::new(bytes.into(), Kind::Answer(None))
    }

    pub(super) fn error(id: Option<&RequestId>, error: &RpcError) -> Self {
        Self::new(write_error(id, error).into(), Kind::Answer(Some(error.code)))
    }
}

/// Returns bytes that are counted until their last part is dropped.
pub(super) fn counted(bytes: Bytes, charged: Vec<Slot>) -> Bytes {
    struct Counted {
        bytes: Bytes,
        _charged: Vec<Slot>,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    if charged.is_empty() {
        return bytes;
    }
    Bytes::from_owner(Counted { bytes, _charged: charged })
}

/// Returns a sender without a receiver: every send fails at once.
pub(super) fn detached() -> mpsc::Sender<Outgoing> {
    mpsc::channel(1).0
}
