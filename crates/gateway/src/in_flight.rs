//! Calls in flight at an upstream, so that each question of the upstream reaches the agent whose call caused it.
//!
//! A question on the stream of a call (Streamable HTTP), or in its result (2026-07-28), belongs to that call. A question on a
//! pipe, or on a stream of announcements, names no call: it belongs to the only agent with a call in flight. If several agents
//! have calls in flight, the question is refused, since it could reach the wrong agent. After such a question, agents take
//! turns at the upstream, so that the next question has one agent. The wait for a turn is bounded by [`PATIENCE`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_protocol::{RpcError, server::ConversationId};
use tokio::{sync::Notify, time::Instant};

use super::asker::Asker;

/// Time after a call has ended without an answer, for example by cancellation, during which the upstream may still ask for it.
const LATE: Duration = Duration::from_secs(5);

/// Time after the last question without a call during which agents take turns.
const TURNS: Duration = Duration::from_secs(600);

/// Time that a call waits for its turn. It then starts without one, and no later call waits for the calls that it has waited
/// for, so one unanswered question delays the calls of others once. Questions without a call are refused meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// The agent of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// All calls of a session have the same agent.
    Session(ConversationId),
    /// A call, by its number: without a session, each call may have another agent.
    Call(u64),
}

/// The calls in flight at one upstream.
pub(crate) struct InFlight<A = Asker> {
    table: Mutex<Table<A>>,
    changed: Notify,
}

struct Table<A> {
    open: Vec<Open<A>>,
    /// Agents whose call has ended without an answer, and until when a question may belong to them.
    late: Vec<(Agent, Instant)>,
    next: u64,
    /// After a question without a call: the time until which agents take turns.
    turns_until: Option<Instant>,
}

struct Open<A> {
    number: u64,
    agent: Agent,
    asker: Arc<A>,
    /// Whether a call of another agent has waited for the maximum time.
    outwaited: bool,
}

/// The entry of a call in flight, until it is dropped.
pub(super) struct Place<A = Asker> {
    calls: Arc<InFlight<A>>,
    number: u64,
    agent: Agent,
    answered: bool,
}

impl<A> Default for InFlight<A> {
    fn default() -> Self {
        let table = Table { open: Vec::new(), late: Vec::new(), next: 0, turns_until: None };
        Self { table: Mutex::new(table), changed: Notify::new() }
    }
}

impl<A> InFlight<A> {
    /// Adds a call: at once, at its agent's turn, or after the maximum wait.
    pub(super) async fn enter(
        self: &Arc<Self>,
        session: Option<ConversationId>,
        asker: &Arc<A>,
    ) -> Place<A> {
        let patience = Instant::now() + PATIENCE;
        let first_after = self.table().next;
        loop {
            let changed = self.changed.notified();
            let late = {
                let mut table = self.table();
                table.forget_late();
                let agent = session.map_or(Agent::Call(table.next), Agent::Session);
                let now = Instant::now();
                let takes_turns = table.turns_until.is_some_and(|until| now < until);
                if takes_turns && now >= patience {
                    table.outwait(agent, first_after);
                }
                let is_free = || table.agents_to_wait_for().all(|other| other == agent);
                if !takes_turns || now >= patience || is_free() {
                    return table.enter(self.clone(), agent, asker.clone());
                }
                table.late.iter().map(|(_, until)| *until).min()
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(late.unwrap_or(patience).min(patience)) => {}
            }
        }
    }

    /// Resets the state for a new process: it does not know the unanswered calls of the old one, and has asked
    /// nothing yet.
    pub(super) fn begin_anew(&self) {
        let mut table = self.table();
        table.late.clear();
        table.turns_until = None;
        drop(table);
        self.changed.notify_waiters();
    }

    /// Returns the only agent with calls in flight, with its oldest call, for a question that names no call.
    ///
    /// # Errors
    /// If there is no such agent, or several. The upstream gets the error.
    pub(super) fn only_agent(&self) -> Result<(Agent, Arc<A>), RpcError> {
        let mut table = self.table();
        table.forget_late();
        if !table.open.is_empty() {
            table.turns_until = Some(Instant::now() + TURNS);
        }
        let Some(oldest) = table.open.first() else {
            return Err(RpcError::invalid_request(
                "no call is in flight, so there is no client to ask: several share this connection",
            ));
        };
        if table.agents().any(|other| other != oldest.agent) {
            return Err(RpcError::invalid_request(
                "calls of several clients are in flight, and the request does not say whose it is; ask during one call at a time",
            ));
        }
        Ok((oldest.agent, oldest.asker.clone()))
    }

    /// Passes the only agent's asker to `to`. Returns false if there is not exactly one agent.
    pub(super) fn with_only_agent(&self, to: impl FnOnce(&A)) -> bool {
        let mut table = self.table();
        table.forget_late();
        match table.open.first() {
            Some(oldest) if table.agents().all(|other| other == oldest.agent) => {
                to(&oldest.asker);
                true
            }
            _ => false,
        }
    }

    /// Completes when the agent has no call in flight any more.
    pub(super) async fn left(&self, agent: Agent) {
        loop {
            let changed = self.changed.notified();
            if !self.table().open.iter().any(|call| call.agent == agent) {
                return;
            }
            changed.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<A>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Table<A> {
    fn forget_late(&mut self) {
        let now = Instant::now();
        self.late.retain(|(_, until)| *until > now);
    }

    fn agents(&self) -> impl Iterator<Item = Agent> {
        let open = self.open.iter().map(|call| call.agent);
        open.chain(self.late.iter().map(|(agent, _)| *agent))
    }

    /// Agents whose calls delay those of others, while agents take turns.
    fn agents_to_wait_for(&self) -> impl Iterator<Item = Agent> {
        let open = self.open.iter().filter(|call| !call.outwaited).map(|call| call.agent);
        open.chain(self.late.iter().map(|(agent, _)| *agent))
    }

    /// Marks the calls of other agents that were in flight when a call began to wait: those with a number below `first_after`.
    fn outwait(&mut self, agent: Agent, first_after: u64) {
        let waited_for = |call: &&mut Open<A>| call.agent != agent && call.number < first_after;
        self.open.iter_mut().filter(waited_for).for_each(|call| call.outwaited = true);
    }

    fn enter(&mut self, calls: Arc<InFlight<A>>, agent: Agent, asker: Arc<A>) -> Place<A> {
        let number = self.next;
        self.next += 1;
        self.open.push(Open { number, agent, asker, outwaited: false });
        Place { calls, number, agent, answered: false }
    }
}

impl<A> Place<A> {
    /// Ends the call after its answer: the upstream cannot ask for it any more.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl<A> Drop for Place<A> {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        table.open.retain(|call| call.number != self.number);
        if !self.answered {
            // One entry for each agent, however many calls it cancels.
            let agent = self.agent;
            table.late.retain(|(other, _)| *other != agent);
            table.late.push((agent, Instant::now() + LATE));
        }
        drop(table);
        self.calls.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_question_delays_the_calls_of_others_once() {
        let calls = Arc::new(InFlight::<()>::default());
        let asker = Arc::new(());
        let enter = || calls.enter(None, &asker);
        let _parked = enter().await;
        calls.only_agent().expect("one call is in flight");

        let start = Instant::now();
        enter().await.answered();
        assert_eq!(start.elapsed(), PATIENCE);
        for _ in 0..3 {
            enter().await.answered();
        }
        assert_eq!(start.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn agents_take_turns_after_a_question() {
        let calls = Arc::new(InFlight::<()>::default());
        let asker = Arc::new(());
        let asking = calls.enter(None, &asker).await;
        calls.only_agent().expect("one call is in flight");
        let (waiting, ()) = tokio::join!(calls.enter(None, &asker), async {
            tokio::time::sleep(PATIENCE / 2).await;
            asking.answered();
        });
        // The next call waits for its turn, too: no call has waited for this one the whole time.
        let start = Instant::now();
        let next = tokio::time::timeout(PATIENCE / 2, calls.enter(None, &asker)).await;
        assert!(next.is_err() && start.elapsed() == PATIENCE / 2);
        waiting.answered();
    }
}
