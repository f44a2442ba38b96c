//! The requests in flight of one client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_protocol_wire::{RequestId, RpcError};
use tokio_util::sync::CancellationToken;

use super::fair::{ReturnableSlot, Slot};

/// The requests in flight.
pub(super) struct InFlight {
    calls: Mutex<HashMap<RequestId, CancellationToken>>,
    most: usize,
}

impl InFlight {
    /// Creates an empty set for at most `most` requests.
    pub(super) fn new(most: usize) -> Self {
        Self { calls: Mutex::default(), most }
    }

    /// Adds a request until the guard is dropped. The guard also holds the request's slot among those of all
    /// clients.
    ///
    /// # Errors
    /// If the id is in flight already: with two answers for one id, one request would wait for ever. If too many
    /// requests are in flight.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &RequestId,
        slot: Option<Slot>,
    ) -> Result<InFlightGuard, RpcError> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= self.most {
            return Err(RpcError::too_many_requests(format!(
                "more than {} requests of one connection or session are in flight (max_in_flight)",
                self.most
            )));
        }
        if calls.contains_key(id) {
            return Err(RpcError::invalid_request(format!(
                "a request with the id {id:?} is already in flight"
            )));
        }
        let cancel = CancellationToken::new();
        calls.insert(id.clone(), cancel.clone());
        let slot = ReturnableSlot::new(slot);
        Ok(InFlightGuard { table: self.clone(), id: id.clone(), cancel, slot })
    }

    /// Cancels a request. Unknown or answered ones are ignored (the notification may cross the answer).
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(cancel) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            cancel.cancel();
        }
    }

    /// Cancels all requests.
    pub(super) fn cancel_all(&self) {
        for cancel in self.calls.lock().unwrap_or_else(PoisonError::into_inner).values() {
            cancel.cancel();
        }
    }

    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uses it"))]
    pub(super) fn is_idle(&self) -> bool {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The entry of a request in flight.
pub(super) struct InFlightGuard {
    table: Arc<InFlight>,
    id: RequestId,
    pub(super) cancel: CancellationToken,
    /// Slot among the requests of all clients, if the request has one.
    pub(super) slot: Arc<ReturnableSlot>,
}

impl std::fmt::Debug for InFlightGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InFlightGuard({:?})", self.id)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.table.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
