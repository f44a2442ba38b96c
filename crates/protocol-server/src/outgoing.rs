//! A message on its way to a client.

use std::time::Duration;

use bytes::Bytes;
use marquetry_protocol_wire::{RequestId, RpcError, envelope::write_error};
use tokio::sync::mpsc;

use super::{
    Caller,
    fair::{FairLimiter, Full, Place},
    in_flight::InFlightGuard,
};

/// A message on its way to a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Bytes,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "pipes do not ask"))]
    pub(super) kind: Kind,
    /// Its id in a stream of events, when it comes from a log of them.
    #[cfg(feature = "http")]
    pub(super) id: Option<super::event_id::EventId>,
    /// The requests that it answers: they are in flight until it is on its way, so that answers that nobody fetches
    /// count against the limit.
    pub(super) held: Vec<InFlightGuard>,
    /// Its bytes among those that wait to be sent, where they are many.
    pub(super) charged: Vec<Place>,
}

/// Messages of fewer bytes are not counted among those that wait to be sent: their number is bounded.
const CHARGED_FROM: usize = 16 << 10;

/// What a message is to the request that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It comes before the answer, or belongs to no request.
    Notification,
    /// It is the answer: a result, or an error with this code.
    Answer(Option<i32>),
    /// It is no message: the stream of events is to close before the answer, and the client to come back after this
    /// time.
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
        }
    }

    /// Counts the message among the bytes that wait to be sent, until it is dropped or its bytes have left.
    ///
    /// # Errors
    /// When there is no room for so many bytes.
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

    /// The bytes, which stay counted until the last part of them is gone.
    #[cfg(feature = "http")]
    pub(super) fn into_counted_bytes(self) -> Bytes {
        counted(self.bytes, self.charged)
    }

    /// Keeps a request in flight until the message is on its way.
    pub(super) fn holding(mut self, request: InFlightGuard) -> Self {
        self.held.push(request);
        self
    }

    /// One that was sent before.
    #[cfg(feature = "http")]
    pub(super) fn event(bytes: Bytes, id: super::event_id::EventId) -> Self {
        Self { id: Some(id), ..Self::new(bytes, Kind::Notification) }
    }

    pub(super) fn notification(bytes: impl Into<Bytes>) -> Self {
        Self::new(bytes.into(), Kind::Notification)
    }

    pub(super) fn close(come_back_after: Duration) -> Self {
        Self::new(Bytes::new(), Kind::Close(come_back_after))
    }

    pub(super) fn result(bytes: Vec<u8>) -> Self {
        Self::new(bytes.into(), Kind::Answer(None))
    }

    pub(super) fn error(id: Option<&RequestId>, error: &RpcError) -> Self {
        Self::new(write_error(id, error).into(), Kind::Answer(Some(error.code)))
    }
}

/// Bytes that stay counted until the last part of them is gone.
pub(super) fn counted(bytes: Bytes, charged: Vec<Place>) -> Bytes {
    struct Counted {
        bytes: Bytes,
        _charged: Vec<Place>,
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

/// A channel without a receiver: every send fails at once.
pub(super) fn nowhere() -> mpsc::Sender<Outgoing> {
    mpsc::channel(1).0
}
