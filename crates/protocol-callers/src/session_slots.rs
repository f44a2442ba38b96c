//! Slots for the sessions of all HTTP endpoints of a server.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;

use crate::{
    Caller,
    fair::{FairLimiter, Full, Slot},
};

/// Limits the sessions of all endpoints together, in total and of one caller. Cheap to clone.
#[derive(Clone)]
pub struct SessionSlots {
    slots: FairLimiter,
    tables: Arc<Mutex<Vec<Weak<dyn IdleSessions>>>>,
}

/// The sessions of one endpoint; idle ones make room for others.
pub trait IdleSessions: Send + Sync {
    /// Ends expired sessions; returns whether there were any.
    fn end_expired(&self) -> bool;

    /// Returns since when the caller's longest idle session has been idle.
    fn longest_idle(&self, caller: &Caller) -> Option<Instant>;

    /// Ends that session, if it is still idle.
    fn end_longest_idle(&self, caller: &Caller);
}

impl SessionSlots {
    /// Creates the slots from those of a limiter.
    #[must_use]
    pub fn new(slots: FairLimiter) -> Self {
        Self { slots, tables: Arc::default() }
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn used(&self) -> usize {
        self.slots.used()
    }

    /// Adds the sessions of an endpoint, as long as it exists.
    pub fn register(&self, table: Weak<dyn IdleSessions>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    /// Takes a slot for a session. At a limit, expired sessions end, then the caller's own session
    /// that was idle for the longest; never another caller's.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded and no session of the caller is idle.
    pub fn enter(&self, caller: &Caller) -> Result<Slot, Full> {
        loop {
            let full = match self.slots.try_enter(caller, 1) {
                Ok(slot) => return Ok(slot),
                Err(full) => full,
            };
            let tables: Vec<_> = {
                let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
                tables.iter().filter_map(Weak::upgrade).collect()
            };
            if tables.iter().filter(|table| table.end_expired()).count() > 0 {
                continue;
            }
            let idle = tables.iter().filter_map(|table| Some((table.longest_idle(caller)?, table)));
            let (_, table) = idle.min_by_key(|(since, _)| *since).ok_or(full)?;
            table.end_longest_idle(caller);
        }
    }
}

impl std::fmt::Debug for SessionSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSlots").field("slots", &self.slots).finish_non_exhaustive()
    }
}
