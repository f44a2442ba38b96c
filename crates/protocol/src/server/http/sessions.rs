//! The sessions of an HTTP endpoint.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::replay::Replay;
use crate::server::{Principal, conversation::Conversation, principal::is_same};

/// The sessions that are open, at most so many, each for so long without a request.
pub(super) struct Sessions {
    open: Mutex<HashMap<Arc<str>, Arc<Session>>>,
    most: usize,
    idle: Duration,
}

/// One session.
pub(super) struct Session {
    pub(super) conversation: Arc<Conversation>,
    /// What its streams have said.
    pub(super) replay: Arc<Replay>,
    last_used: Mutex<Instant>,
    /// The GET stream that is open, if one is.
    stream: Mutex<Option<CancellationToken>>,
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { open: Mutex::default(), most, idle }
    }

    /// Keeps a session, and ends others that are over their time, or the longest idle one when there are too many.
    ///
    /// # Errors
    /// The limit, when so many sessions are open and all of them at work.
    pub(super) fn insert(
        &self,
        id: Arc<str>,
        conversation: Arc<Conversation>,
        replay: Arc<Replay>,
    ) -> Result<(), usize> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut over = Vec::new();
        if open.len() >= self.most {
            over = self.take_old(&mut open);
        }
        if open.len() >= self.most {
            let longest_idle = open
                .iter()
                .filter(|(_, session)| session.is_idle())
                .min_by_key(|(_, session)| session.last_used())
                .map(|(id, _)| id.clone())
                .ok_or(self.most)?;
            over.extend(open.remove(&longest_idle));
        }
        let session = Session {
            conversation,
            replay,
            last_used: Mutex::new(Instant::now()),
            stream: Mutex::default(),
        };
        open.insert(id, Arc::new(session));
        drop(open);
        over.iter().for_each(|session| session.end());
        Ok(())
    }

    /// Ends the sessions that are over their time.
    pub(super) fn end_old(&self) {
        let old = self.take_old(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner));
        old.iter().for_each(|session| session.end());
    }

    fn take_old(&self, open: &mut HashMap<Arc<str>, Arc<Session>>) -> Vec<Arc<Session>> {
        let is_old = |session: &Arc<Session>| {
            session.is_idle() && session.last_used().elapsed() >= self.idle
        };
        let old = open.extract_if(|_, session| is_old(session)).map(|(_, session)| session);
        let old = old.collect();
        // What many sessions took must not be kept for few.
        if open.len() < open.capacity() / 4 {
            open.shrink_to(open.len() * 2);
        }
        old
    }

    /// Ends them all.
    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        all.values().for_each(|session| session.end());
    }

    /// The session of that id, if it is theirs: an id that somebody has seen must not let them in.
    pub(super) fn get(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let session = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        if !session.is_of(principal) {
            return None;
        }
        *session.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(session)
    }

    /// Ends a session: what is in flight is cancelled, its streams close. False when there is none of that id, or it
    /// is somebody else's.
    pub(super) fn end(&self, id: &str, principal: Option<&Principal>) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_theirs = open.get(id).is_some_and(|session| session.is_of(principal));
        let session = if is_theirs { open.remove(id) } else { None };
        drop(open);
        session.as_ref().inspect(|session| session.end()).is_some()
    }
}

impl Session {
    fn is_of(&self, principal: Option<&Principal>) -> bool {
        is_same(self.conversation.principal.as_deref(), principal)
    }

    fn end(&self) {
        self.conversation.end();
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_ref().is_none_or(CancellationToken::is_cancelled)
            && self.conversation.in_flight.is_idle()
    }

    /// Opens the GET stream. One that is open closes: the client may have lost it long before we notice.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Limits, http::replay::ReplayRoom};

    #[test]
    fn the_longest_idle_session_makes_room() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        for id in ["a", "b"] {
            sessions.insert(id.into(), conversation(), replay()).unwrap();
        }
        sessions.get("a", None).unwrap();
        sessions.insert("c".into(), conversation(), replay()).unwrap();
        assert!(sessions.get("b", None).is_none());
        assert!(sessions.get("a", None).is_some());
    }

    #[test]
    fn sessions_at_work_are_not_ended_for_others() {
        let sessions = Sessions::new(1, Duration::ZERO);
        let busy = conversation();
        let call = busy.in_flight.enter(&1.into()).unwrap();
        sessions.insert("a".into(), busy, replay()).unwrap();
        assert_eq!(sessions.insert("b".into(), conversation(), replay()), Err(1));
        drop(call);
        assert_eq!(sessions.insert("b".into(), conversation(), replay()), Ok(()));
        assert!(sessions.get("a", None).is_none());
    }

    #[test]
    fn an_end_cancels_what_is_in_flight() {
        let sessions = Sessions::new(1, Duration::from_secs(60));
        let busy = conversation();
        let call = busy.in_flight.enter(&1.into()).unwrap();
        sessions.insert("a".into(), busy, replay()).unwrap();
        assert!(sessions.end("a", None));
        assert!(call.cancel.is_cancelled());
        assert!(!sessions.end("a", None));
    }

    fn conversation() -> Arc<Conversation> {
        Arc::new(Conversation::new(None, 8))
    }

    fn replay() -> Arc<Replay> {
        ReplayRoom::new(&Limits::default()).replay()
    }
}
