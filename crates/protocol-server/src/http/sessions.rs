//! The sessions of an HTTP endpoint.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use marquetry_protocol_callers::session_slots::{IdleSessions, SessionSlots};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::replay::Replay;
use crate::{
    Caller, Peer, Principal,
    conversation::Conversation,
    fair::{Full, Slot},
};

/// The open sessions. A session ends after a limited time without a request.
pub(super) struct Sessions {
    open: Mutex<HashMap<Arc<str>, Arc<Session>>>,
    /// Limits the sessions, in total and of one caller.
    slots: SessionSlots,
    idle: Duration,
}

/// A session.
pub(super) struct Session {
    pub(super) conversation: Arc<Conversation>,
    /// Stored events of its streams.
    pub(super) replay: Arc<Replay>,
    caller: Caller,
    /// Slot among the sessions, until the session ends.
    slot: Mutex<Option<Slot>>,
    last_used: Mutex<Instant>,
    /// The open GET stream, if there is one.
    stream: Mutex<Option<CancellationToken>>,
}

impl Sessions {
    pub(super) fn new(slots: SessionSlots, idle: Duration) -> Arc<Self> {
        let sessions = Arc::new(Self { open: Mutex::default(), slots: slots.clone(), idle });
        let weak = Arc::downgrade(&sessions);
        slots.register(weak);
        sessions
    }

    /// Adds a session.
    ///
    /// # Errors
    /// Returns an error as [`SessionSlots::enter`] does.
    pub(super) fn insert(
        &self,
        id: Arc<str>,
        conversation: Arc<Conversation>,
        caller: Caller,
        replay: Arc<Replay>,
    ) -> Result<(), Full> {
        let slot = self.slots.enter(&caller)?;
        let session = Session {
            conversation,
            replay,
            caller,
            slot: Mutex::new(Some(slot)),
            last_used: Mutex::new(Instant::now()),
            stream: Mutex::default(),
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(session));
        Ok(())
    }

    /// Returns the caller's session that was idle for the longest, and since when.
    fn longest_idle_of(
        open: &HashMap<Arc<str>, Arc<Session>>,
        caller: &Caller,
    ) -> Option<(Instant, Arc<str>)> {
        let idle =
            open.iter().filter(|(_, session)| session.caller == *caller && session.is_idle());
        idle.map(|(id, session)| (session.last_used(), id.clone())).min()
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for session in all.values() {
            session.end();
        }
    }

    /// Returns the session with that id, if it belongs to the principal, and was opened in the
    /// same profile: knowing the id is not enough.
    pub(super) fn get(&self, id: &str, sender: &Peer) -> Option<Arc<Session>> {
        let session = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        if !session.is_of(sender) {
            return None;
        }
        *session.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(session)
    }

    /// Ends a session: cancels its requests and closes its streams. Returns false if the principal
    /// has no session with that id.
    pub(super) fn end(&self, id: &str, sender: &Peer) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_theirs = open.get(id).is_some_and(|session| session.is_of(sender));
        let session = if is_theirs { open.remove(id) } else { None };
        drop(open);
        session.as_ref().inspect(|session| session.end()).is_some()
    }
}

impl Session {
    fn is_of(&self, sender: &Peer) -> bool {
        let owner = self.conversation.principal.as_deref();
        Principal::is_same(owner, sender.principal.as_deref())
            && self.conversation.profile == sender.profile
    }

    fn end(&self) {
        self.release_slot();
        self.conversation.end();
    }

    fn release_slot(&self) {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_ref().is_none_or(CancellationToken::is_cancelled)
            && self.conversation.in_flight.is_idle()
    }

    /// Opens the GET stream. Closes an open one: its client may have lost it unnoticed.
    pub(super) fn open_stream(&self) -> CancellationToken {
        let stream = CancellationToken::new();
        let old =
            self.stream.lock().unwrap_or_else(PoisonError::into_inner).replace(stream.clone());
        if let Some(old) = old {
            old.cancel();
        }
        stream
    }
}

impl IdleSessions for Sessions {
    fn end_expired(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let expired: Vec<_> = open
            .extract_if(|_, session| {
                session.is_idle() && session.last_used().elapsed() >= self.idle
            })
            .collect();
        // Frees memory after a peak of sessions.
        if open.len() < open.capacity() / 4 {
            let max = open.len() * 2;
            open.shrink_to(max);
        }
        drop(open);
        for (_, session) in &expired {
            session.end();
        }
        !expired.is_empty()
    }

    fn longest_idle(&self, caller: &Caller) -> Option<Instant> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self::longest_idle_of(&open, caller)?.0)
    }

    fn end_longest_idle(&self, caller: &Caller) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let longest_idle = Self::longest_idle_of(&open, caller);
        let session = longest_idle.and_then(|(_, id)| open.remove(&id));
        drop(open);
        if let Some(session) = session {
            session.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, http::replay::ReplayStore, limits::Shares};

    #[test]
    fn a_callers_own_longest_idle_session_makes_room() {
        let sessions = sessions(4, 2, Duration::from_mins(1));
        let ann = Arc::new(Principal::new(None, "ann"));
        for (id, of) in
            [("a", None), ("b", None), ("c", Some(&ann)), ("d", Some(&ann)), ("e", Some(&ann))]
        {
            insert(&sessions, id, of).unwrap();
        }
        let left = |id: &str, of: Option<&Arc<Principal>>| sessions.get(id, &peer(of)).is_some();
        assert_eq!(["c", "d", "e"].map(|id| left(id, Some(&ann))), [false, true, true]);
        assert_eq!(["b", "a"].map(|id| left(id, None)), [true, true], "others lose nothing");
        // The total limit is exceeded: one of the caller's own sessions ends.
        insert(&sessions, "f", None).unwrap();
        assert_eq!(["a", "b", "f"].map(|id| left(id, None)), [true, false, true]);
        assert_eq!(["d", "e"].map(|id| left(id, Some(&ann))), [true, true]);
        let bob = Arc::new(Principal::new(None, "bob"));
        let refused = insert(&sessions, "g", Some(&bob)).unwrap_err();
        assert_eq!(refused.to_string(), "more than 4 sessions are open (max_sessions)");
    }

    #[test]
    fn sessions_at_work_are_not_ended_for_others() {
        let sessions = sessions(1, 1, Duration::ZERO);
        let busy = conversation();
        let call = busy.in_flight.enter(&1.into(), None).unwrap();
        sessions.insert("a".into(), busy, Caller::Local, replay()).unwrap();
        assert!(sessions.insert("b".into(), conversation(), Caller::Local, replay()).is_err());
        drop(call);
        assert_eq!(sessions.insert("b".into(), conversation(), Caller::Local, replay()), Ok(()));
        assert!(sessions.get("a", &peer(None)).is_none());
    }

    #[test]
    fn the_end_of_a_session_cancels_requests_in_flight() {
        let sessions = sessions(1, 1, Duration::from_mins(1));
        let busy = conversation();
        let call = busy.in_flight.enter(&1.into(), None).unwrap();
        sessions.insert("a".into(), busy, Caller::Local, replay()).unwrap();
        assert!(sessions.end("a", &peer(None)));
        assert!(call.cancel.is_cancelled());
        assert!(!sessions.end("a", &peer(None)));
    }

    fn sessions(max: usize, max_per_caller: usize, idle: Duration) -> Arc<Sessions> {
        let limits = Limits {
            max_sessions: max,
            max_sessions_per_caller: max_per_caller,
            ..Limits::default()
        };
        Sessions::new(Shares::new(&limits).sessions, idle)
    }

    fn peer(of: Option<&Arc<Principal>>) -> Peer {
        Peer::new(of.cloned(), None)
    }

    fn conversation() -> Arc<Conversation> {
        Arc::new(Conversation::new(None, 8))
    }

    fn replay() -> Arc<Replay> {
        ReplayStore::new(&Limits::default()).add_session()
    }

    fn insert(sessions: &Sessions, id: &str, of: Option<&Arc<Principal>>) -> Result<(), Full> {
        let conversation = Conversation::new(None, 8).of_peer(&peer(of));
        sessions.insert(id.into(), Arc::new(conversation), Caller::new(of, None), replay())
    }
}
