//! Remembers which calls an upstream asks during, and for whose calls others no longer wait.
//!
//! [`InFlight`](crate::InFlight) applies the rules; this module is its memory:
//! - Calls of a tool or prompt during which the upstream has asked are asking for ten minutes. If
//!   calls of several tools were in flight, each of them is suspected, for one minute.
//! - An owner whose asking call made others wait for all of their time is skipped for a minute.
//! - An owner whose cancelled call made others wait is skipped for a minute, but only when it
//!   cancels: few owners cancel calls to delay others, so their other calls still get their turn.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::owner::Owner;

/// Time after a question during which calls like the one that caused it are kept apart from calls
/// of other agents.
const ASKED: Duration = Duration::from_mins(10);

/// The same time for a question that one of several kinds of calls may have caused. Short, because
/// all but one of them wait without need.
const SUSPECTED: Duration = Duration::from_mins(1);

/// Time during which others do not wait for an owner for whose calls they have waited too long. It
/// is short, because a form that a user fills in takes longer than [`PATIENCE`], too.
const SKIPPED: Duration = Duration::from_mins(1);

/// Time that a call waits for calls of other agents. It then starts beside them, and a question may
/// be refused. With the 10 s of the first version, one question slowed down all other users.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of skipped owners. The oldest is forgotten first. The list stays short, because
/// each waiting call searches it once for each call in flight.
const MAX_OWNERS: usize = 256;

/// The method of a request and, for a tool or a prompt, its name at the upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The method.
    pub method: &'static str,
    /// The name of the tool or prompt.
    pub name: Option<Arc<str>>,
}

impl Target {
    /// Creates the target of a request.
    #[must_use]
    pub fn new(method: &'static str, name: Option<&str>) -> Self {
        Self { method, name: name.map(Arc::from) }
    }
}

/// The kinds of calls that an upstream asks during, and the owners for whose calls others do not
/// wait.
#[derive(Default)]
pub(super) struct Turns {
    asking: HashMap<Target, (Certainty, Instant)>,
    skipped: Owners,
    skipped_when_cancelled: Owners,
}

/// Owners, each with the time at which it is forgotten.
#[derive(Default)]
struct Owners(Vec<(Owner, Instant)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// Only such calls were in flight when the upstream asked.
    Asked,
    /// Calls of several kinds were in flight.
    Suspected,
}

impl Turns {
    /// Records a question that calls with these targets may have caused. A target that is known to
    /// ask explains the question alone, so the others are not suspected.
    pub(super) fn record_question<'a>(&mut self, targets: impl Iterator<Item = &'a Target>) {
        let targets: Vec<&Target> = targets.collect();
        let now = Instant::now();
        let certain = targets.iter().filter(|target| {
            let known = self.asking.get(**target);
            known.is_some_and(|(certainty, until)| *certainty == Certainty::Asked && *until > now)
        });
        let mut asked: Vec<&Target> = certain.copied().collect();
        // However many calls there were, all were of one kind, so that kind asks.
        if asked.is_empty() && targets.windows(2).all(|pair| pair[0] == pair[1]) {
            asked.extend(targets.first());
        }
        let (targets, certainty, time) = if asked.is_empty() {
            (targets, Certainty::Suspected, SUSPECTED)
        } else {
            (asked, Certainty::Asked, ASKED)
        };
        for target in targets {
            self.asking.insert(target.clone(), (certainty, now + time));
        }
    }

    /// Forgets the kinds of calls during which the upstream has not asked for a while.
    pub(super) fn forget_expired(&mut self) {
        // Most upstreams never ask, so their calls do not even read the clock.
        if !self.asking.is_empty() {
            let now = Instant::now();
            self.asking.retain(|_, (_, until)| *until > now);
        }
    }

    /// Returns whether the upstream may ask during such calls.
    pub(super) fn asks(&self, target: &Target) -> bool {
        !self.asking.is_empty()
            && self.asking.get(target).is_some_and(|(_, until)| *until > Instant::now())
    }

    /// Records that others have waited as long as they may for an asking call of this owner. They
    /// do not wait for the owner's asking calls from now on, so that one owner cannot delay others
    /// repeatedly. A call that asks still waits for the owner's other calls, which are short as a
    /// rule.
    pub(super) fn skip(&mut self, owner: &Owner) {
        self.skipped.add(owner);
    }

    /// Returns whether calls of others start beside asking calls of this owner.
    pub(super) fn is_skipped(&self, owner: &Owner) -> bool {
        self.skipped.has(owner)
    }

    /// Records that a call has waited for a cancelled call of this owner. Others do not wait for
    /// the owner's cancelled calls from now on.
    pub(super) fn skip_when_cancelled(&mut self, owner: &Owner) {
        self.skipped_when_cancelled.add(owner);
    }

    /// Returns whether calls of others start although this owner has just cancelled a call.
    pub(super) fn is_skipped_when_cancelled(&self, owner: &Owner) -> bool {
        self.skipped_when_cancelled.has(owner) || self.is_skipped(owner)
    }
}

impl Owners {
    fn add(&mut self, owner: &Owner) {
        let now = Instant::now();
        self.0.retain(|(other, until)| *until > now && other != owner);
        if self.0.len() == MAX_OWNERS {
            // Owners are added at the end.
            self.0.remove(0);
        }
        self.0.push((owner.clone(), now + SKIPPED));
    }

    fn has(&self, owner: &Owner) -> bool {
        let now = Instant::now();
        self.0.iter().any(|(other, until)| other == owner && *until > now)
    }
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::server::Caller;

    use super::*;

    fn tool(name: &str) -> Target {
        Target::new("tools/call", Some(name))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_alone_is_known_to_ask_for_a_while() {
        let mut turns = Turns::default();
        turns.record_question([tool("form"), tool("form")].iter());
        assert!(turns.asks(&tool("form")) && !turns.asks(&tool("other")));
        tokio::time::advance(ASKED).await;
        assert!(!turns.asks(&tool("form")));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_several_kinds_are_suspected_for_a_shorter_time() {
        let mut turns = Turns::default();
        turns.record_question([tool("form"), tool("search")].iter());
        assert!(turns.asks(&tool("form")) && turns.asks(&tool("search")));
        tokio::time::advance(SUSPECTED).await;
        assert!(!turns.asks(&tool("form")) && !turns.asks(&tool("search")));
    }

    #[tokio::test(start_paused = true)]
    async fn others_are_not_suspected_beside_a_call_that_is_known_to_ask() {
        let mut turns = Turns::default();
        turns.record_question([tool("form")].iter());
        turns.record_question([tool("search"), tool("form")].iter());
        assert!(turns.asks(&tool("form")) && !turns.asks(&tool("search")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_not_asked_for_a_while_is_suspected_like_others() {
        let mut turns = Turns::default();
        turns.record_question([tool("form")].iter());
        tokio::time::advance(ASKED).await;
        turns.record_question([tool("search"), tool("form")].iter());
        assert!(turns.asks(&tool("form")) && turns.asks(&tool("search")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_skipped_for_a_while() {
        let mut turns = Turns::default();
        let owner = Owner::Caller(Caller::Local);
        turns.skip(&owner);
        assert!(turns.is_skipped(&owner));
        tokio::time::advance(SKIPPED).await;
        assert!(!turns.is_skipped(&owner));
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_of_calls_are_forgotten_when_their_time_is_over() {
        let mut turns = Turns::default();
        turns.record_question([tool("form")].iter());
        tokio::time::advance(ASKED).await;
        turns.forget_expired();
        assert!(turns.asking.is_empty());
    }
}
