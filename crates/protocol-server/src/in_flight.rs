//! The requests in flight of one client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_protocol_wire::{RequestId, RpcError};
use tokio_util::sync::CancellationToken;

use super::fair::{ReturnableSlot, Slot};

/// Bytes of a client's reason that are kept. It is a sentence for people.
const MAX_REASON: usize = 1 << 10;

/// The requests in flight.
pub(super) struct InFlight {
    calls: Mutex<HashMap<RequestId, Entry>>,
    max: usize,
}

/// One request in flight.
struct Entry {
    cancel: CancellationToken,
    /// The client's reason for the cancellation.
    reason: Option<Box<str>>,
}

impl InFlight {
    /// Creates an empty set for at most `max` requests.
    pub(super) fn new(max: usize) -> Self {
        Self { calls: Mutex::default(), max }
    }

    /// Adds a request until the guard is dropped. The guard also holds the request's slot among
    /// those of all clients.
    ///
    /// # Errors
    /// Returns an error if too many requests are in flight, or if the id is in flight already: with
    /// two answers for one id, one request would wait for ever.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &RequestId,
        slot: Option<Slot>,
    ) -> Result<InFlightGuard, RpcError> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= self.max {
            return Err(RpcError::too_many_requests(format!(
                "more than {} requests of one connection or session are in flight (max_in_flight)",
                self.max
            )));
        }
        if calls.contains_key(id) {
            return Err(RpcError::invalid_request(format!(
                "a request with the id {id:?} is already in flight"
            )));
        }
        let cancel = CancellationToken::new();
        calls.insert(id.clone(), Entry { cancel: cancel.clone(), reason: None });
        let slot = ReturnableSlot::new(slot);
        Ok(InFlightGuard { table: self.clone(), id: id.clone(), cancel, slot })
    }

    /// Cancels a request for the client's reason. Unknown or answered ones are ignored (the
    /// notification may cross the answer).
    pub(super) fn cancel(&self, id: &RequestId, reason: Option<&str>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = calls.get_mut(id) {
            // The first cancellation counts: the handler may already have read its reason.
            if !entry.cancel.is_cancelled() {
                entry.reason =
                    reason.map(|reason| reason[..reason.floor_char_boundary(MAX_REASON)].into());
            }
            entry.cancel.cancel();
        }
    }

    /// Returns the client's reason for the cancellation of a request that is in flight.
    pub(super) fn cancel_reason(&self, id: &RequestId) -> Option<Box<str>> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(id)?.reason.clone()
    }

    /// Cancels all requests.
    pub(super) fn cancel_all(&self) {
        for entry in self.calls.lock().unwrap_or_else(PoisonError::into_inner).values() {
            entry.cancel.cancel();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_kept_while_the_request_is_in_flight() {
        let table = Arc::new(InFlight::new(2));
        let id = RequestId::from(7);
        table.cancel(&id, Some("nothing is in flight"));
        let guard = table.enter(&id, None).unwrap();
        assert_eq!(table.cancel_reason(&id), None);
        table.cancel(&id, Some("the user pressed Stop"));
        table.cancel(&id, Some("again"));
        assert!(guard.cancel.is_cancelled());
        assert_eq!(table.cancel_reason(&id).as_deref(), Some("the user pressed Stop"));
        drop(guard);
        assert_eq!(table.cancel_reason(&id), None, "the id may be used again");

        let guard = table.enter(&id, None).unwrap();
        table.cancel(&id, None);
        table.cancel(&id, Some("too late"));
        assert_eq!(table.cancel_reason(&id), None);
        drop(guard);
        let _guard = table.enter(&id, None).unwrap();
        table.cancel(&id, Some(&"ü".repeat(MAX_REASON)));
        assert_eq!(table.cancel_reason(&id).unwrap().len(), MAX_REASON);
    }
}
