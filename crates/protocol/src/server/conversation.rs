//! What the messages of one client share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use super::{
    Principal,
    fair::{Place, ReturnablePlace},
    notifier::Listener,
    questions::Questions,
    subscriptions::Subscriptions,
};
use crate::{
    RequestId, Revision, RpcError,
    types::{ClientCapabilities, Implementation, LogLevel},
};

/// The messages of one pipe, of one HTTP session, or of all stateless HTTP requests.
pub(super) struct Conversation {
    /// Set by `initialize`, once.
    pub(super) session: OnceLock<SessionFacts>,
    pub(super) id: Option<Arc<str>>,
    /// Whose it is, where somebody looks.
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) number: ConversationId,
    pub(super) in_flight: Arc<InFlight>,
    /// What we ask the client.
    pub(super) questions: Arc<Questions>,
    /// The least important log messages that the client wants; all from `info` on until it says so.
    pub(super) log_level: Mutex<LogLevel>,
    /// Cancelled when the conversation ends, so that what would go on for ever does not.
    pub(super) ending: CancellationToken,
}

/// Tells the clients of a server apart: one pipe, one HTTP session, or one stateless HTTP request, which may be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConversationId(u64);

impl ConversationId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What `initialize` settles.
pub(super) struct SessionFacts {
    pub(super) revision: Revision,
    pub(super) client: Implementation,
    pub(super) capabilities: ClientCapabilities,
    /// The announcements that wait for the client.
    pub(super) listener: Arc<Listener>,
    pub(super) subscriptions: Arc<Subscriptions>,
}

impl Conversation {
    pub(super) fn new(id: Option<Arc<str>>, max_in_flight: usize) -> Self {
        let in_flight = Arc::new(InFlight { calls: Mutex::default(), most: max_in_flight });
        Self {
            session: OnceLock::new(),
            id,
            principal: None,
            number: ConversationId::next(),
            in_flight,
            questions: Arc::default(),
            log_level: Mutex::new(LogLevel::Info),
            ending: CancellationToken::new(),
        }
    }
}

impl Conversation {
    /// The same, which belongs to somebody.
    #[cfg(feature = "http")]
    pub(super) fn of(mut self, principal: Option<Arc<Principal>>) -> Self {
        self.principal = principal;
        self
    }

    /// Ends the conversation: what is in flight is cancelled, what waits for the client waits no more.
    pub(super) fn end(&self) {
        self.ending.cancel();
        self.in_flight.cancel_all();
        self.questions.give_up();
    }
}

/// The requests that are being answered.
pub(super) struct InFlight {
    calls: Mutex<HashMap<RequestId, CancellationToken>>,
    most: usize,
}

impl InFlight {
    /// Enters a request, until the guard is dropped, which holds the request's place among those of all clients.
    ///
    /// # Errors
    /// When the id is already in flight: two answers with one id would leave one caller waiting for ever. When too many
    /// requests are in flight.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &RequestId,
        place: Option<Place>,
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
        let place = ReturnablePlace::new(place);
        Ok(InFlightGuard { table: self.clone(), id: id.clone(), cancel, place })
    }

    /// Cancels a request; one that is unknown or answered is no error (the notification may cross the answer).
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(cancel) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            cancel.cancel();
        }
    }

    /// Cancels them all.
    pub(super) fn cancel_all(&self) {
        for cancel in self.calls.lock().unwrap_or_else(PoisonError::into_inner).values() {
            cancel.cancel();
        }
    }

    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "pipes do not ask"))]
    pub(super) fn is_idle(&self) -> bool {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A request's entry among those in flight.
pub(super) struct InFlightGuard {
    table: Arc<InFlight>,
    id: RequestId,
    pub(super) cancel: CancellationToken,
    /// Its place among the requests of all clients, once it has one.
    pub(super) place: Arc<ReturnablePlace>,
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
