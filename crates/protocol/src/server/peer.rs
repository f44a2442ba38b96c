//! Who sends a message.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Caller, Principal};

/// The sender of a message, as far as limits and calls need to know.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) principal: Option<Arc<Principal>>,
    /// Whom the limits count.
    pub(super) caller: Caller,
    /// Cancelled when a shutdown no longer waits for calls: each then gets an error for its answer.
    pub(super) cut: CancellationToken,
}

impl Peer {
    /// The client of a pipe.
    pub(super) fn local() -> Self {
        Self { principal: None, caller: Caller::Local, cut: CancellationToken::new() }
    }
}
