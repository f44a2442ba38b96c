//! Decisions that count for a session.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexSet;

use crate::CallToApprove;

/// Decisions that are kept. The oldest one is forgotten first: its session is asked again.
const MAX_DECISIONS: usize = 10_000;

/// The tools that are allowed for a session.
#[derive(Debug, Default)]
pub(crate) struct SessionDecisions(Mutex<IndexSet<Key>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    owner: Option<String>,
    session: String,
    server: String,
    tool: String,
}

impl Key {
    fn of(call: &CallToApprove) -> Self {
        Self {
            owner: call.owner.clone(),
            session: call.session.clone(),
            server: call.server.clone(),
            tool: call.tool.clone(),
        }
    }
}

impl SessionDecisions {
    pub(crate) fn allow(&self, call: &CallToApprove) {
        let mut allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.len() >= MAX_DECISIONS {
            allowed.shift_remove_index(0);
        }
        allowed.insert(Key::of(call));
    }

    pub(crate) fn allows(&self, call: &CallToApprove) -> bool {
        let allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !allowed.is_empty() && allowed.contains(&Key::of(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_counts_for_its_session_server_and_tool_alone() {
        let sessions = SessionDecisions::default();
        let call = CallToApprove::new("files", "delete", None).of_session("1");
        sessions.allow(&call);
        assert!(sessions.allows(&call));
        assert!(!sessions.allows(&call.clone().of_session("2")));
        assert!(!sessions.allows(&call.clone().of_principal(Some("- b".to_owned()))));
        assert!(!sessions.allows(&CallToApprove { server: "other".to_owned(), ..call.clone() }));
        assert!(!sessions.allows(&CallToApprove { tool: "move".to_owned(), ..call }));
    }

    #[test]
    fn the_oldest_decision_is_forgotten() {
        let sessions = SessionDecisions::default();
        fn call(number: usize) -> CallToApprove {
            CallToApprove::new("s", "t", None).of_session(number.to_string())
        }
        for number in 0..=MAX_DECISIONS {
            sessions.allow(&call(number));
        }
        assert!(!sessions.allows(&call(0)));
        assert!(sessions.allows(&call(1)) && sessions.allows(&call(MAX_DECISIONS)));
    }
}
