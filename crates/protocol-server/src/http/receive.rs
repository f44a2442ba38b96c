//! The body of a request, within limits of size and time, counted among the bytes of all bodies.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use marquetry_protocol_wire::parsed_size;

use crate::{
    Peer, RequestMemory, Server,
    fair::{Full, Slot},
    in_place,
    outgoing::Outgoing,
};

/// A received body. Its bytes are counted until this is dropped.
#[derive(Debug)]
pub struct Received {
    bytes: Bytes,
    _slots: Vec<Slot>,
    /// Memory of its values.
    _memory: Option<RequestMemory>,
}

impl Received {
    /// Returns the complete body.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Why a body was not received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The body exceeds the limit.
    #[error("message is longer than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// The body ended too early, with the reason.
    #[error("the message did not arrive: {0}")]
    Broken(String),
    /// The body did not arrive in time.
    #[error("the message did not arrive in time")]
    Late,
    /// The limit on the bodies of all clients, or of this one, is exceeded.
    #[error(transparent)]
    Full(#[from] Full),
}

impl Server {
    /// Returns the bytes of an answer, which count as unsent for `peer` until their last part is
    /// dropped: for [`Limits::max_send_bytes`](crate::Limits::max_send_bytes).
    ///
    /// # Errors
    /// Returns an error if the limit of unsent bytes is exceeded.
    pub async fn count_unsent(&self, peer: &Peer, bytes: Bytes) -> Result<Bytes, Full> {
        let answer = Outgoing::notification(bytes);
        let charged = answer.charge(&self.shared.shares.sending, &peer.caller).await?;
        Ok(charged.into_counted_bytes())
    }

    /// Receives a body as [`Self::receive`] does, of a route that parses it as JSON: its values
    /// count for [`Limits::max_work_bytes`](crate::Limits::max_work_bytes), too.
    ///
    /// # Errors
    /// Returns an error as [`Self::receive`] does, or if the values take too much memory.
    pub async fn receive_json<B>(
        &self,
        peer: &Peer,
        body: B,
        max: usize,
        timeout: Duration,
    ) -> Result<Received, ReceiveError>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        /// Shorter bodies are not counted: the number of connections limits them.
        const FREE: usize = 8 << 10;
        let received = self.receive(peer, body, max, timeout).await?;
        let bytes = received.bytes();
        if bytes.len() <= FREE {
            return Ok(received);
        }
        let memory = self.memory_of(&peer.caller);
        memory.reserve_all(in_place(bytes.len(), || parsed_size(bytes))).await?;
        Ok(Received { _memory: Some(memory), ..received })
    }

    /// Receives a request's body of at most `max` bytes within `timeout`. Its bytes count for
    /// [`Limits::max_receive_bytes`](crate::Limits::max_receive_bytes), in total and for `peer`.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded, or the connection fails.
    pub async fn receive<B>(
        &self,
        peer: &Peer,
        body: B,
        max: usize,
        timeout: Duration,
    ) -> Result<Received, ReceiveError>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        /// Bytes of each body that are not counted: the number of connections limits them.
        const FREE: usize = 64 << 10;
        if body.size_hint().lower() > max as u64 {
            return Err(ReceiveError::TooLong { max });
        }
        let receiving = &self.shared.shares.receiving;
        let read = async {
            let mut body = std::pin::pin!(body);
            let mut first = Bytes::new();
            let mut whole = BytesMut::new();
            let mut counted = FREE;
            let mut slots = Vec::new();
            loop {
                // Converts the error into one that is `Send`.
                let frame = body.frame().await.map(|frame| {
                    frame.map_err(|error| ReceiveError::Broken(error.into().to_string()))
                });
                let Some(frame) = frame else { break };
                let data = frame?.into_data().unwrap_or_default();
                let length = first.len() + whole.len() + data.len();
                if length > max {
                    return Err(ReceiveError::TooLong { max });
                }
                if length > counted {
                    let more = (length - counted).max(FREE);
                    slots.push(receiving.enter(&peer.caller, more).await?);
                    counted += more;
                }
                // Most messages come in one piece, which needs no copy.
                if first.is_empty() && whole.is_empty() {
                    first = data;
                } else {
                    if whole.is_empty() {
                        whole.extend_from_slice(&std::mem::take(&mut first));
                    }
                    whole.extend_from_slice(&data);
                }
            }
            let bytes = if whole.is_empty() { first } else { whole.freeze() };
            Ok(Received { bytes, _slots: slots, _memory: None })
        };
        tokio::time::timeout(timeout, read).await.unwrap_or(Err(ReceiveError::Late))
    }
}
