//! Numbers of clients.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a client of the server: one pipe, one HTTP session, or one stateless HTTP request,
/// whose client is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(u64);

impl ConversationId {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
