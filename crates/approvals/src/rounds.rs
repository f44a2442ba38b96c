//! Rounds that follow an allowed call.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// States of rounds that are remembered.
const MAX_ROUNDS: usize = 10_000;
/// Time after which a state is no longer valid anyway.
const TIME_TO_LIVE: Duration = Duration::from_hours(1);

/// The states with which stateless clients have gone on after an allowed call.
///
/// A server of the stateless era may ask a client more after the call was allowed. The client then
/// sends the call again with a sealed state, and could send it many times: each state counts once.
#[derive(Debug, Default)]
pub(crate) struct UsedRounds(Mutex<HashMap<[u8; 32], Instant>>);

impl UsedRounds {
    /// Returns whether a state is used for the first time, and records its use. While too many are
    /// remembered, no state counts.
    pub(crate) fn is_first_use(&self, state: &str, now: Instant) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= MAX_ROUNDS {
            used.retain(|_, at| now.saturating_duration_since(*at) < TIME_TO_LIVE);
            if used.len() >= MAX_ROUNDS {
                return false;
            }
        }
        used.insert(*blake3::hash(state.as_bytes()).as_bytes(), now).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_counts_once_and_states_are_bounded() {
        let rounds = UsedRounds::default();
        let now = Instant::now();
        assert!(rounds.is_first_use("a", now) && !rounds.is_first_use("a", now));
        let counted = (1..2 * MAX_ROUNDS).filter(|n| rounds.is_first_use(&n.to_string(), now));
        assert_eq!(counted.count(), MAX_ROUNDS - 1);
        assert!(rounds.is_first_use("b", now + TIME_TO_LIVE));
    }
}
