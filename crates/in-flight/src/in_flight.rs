//! Tracks the calls in flight at an upstream, so that each of its questions reaches the agent whose
//! call caused it.
//!
//! On a pipe, or on a stream of notifications, a question names no call (with Streamable HTTP it
//! comes on the stream of its call, since 2026-07-28 in the result). The rules for such questions:
//! 1. It goes to the only agent with calls in flight. With several agents, it is refused.
//! 2. After it, calls of the same tool "ask" ([`Turns`]). An asking call is not in flight beside a
//!    call of another agent: the later one waits. Calls that do not ask run side by side.
//! 3. No call waits longer than [`PATIENCE`]; then it starts, and rule 1 may refuse a question.
//! 4. An owner who made others wait that long is not waited for during the next minute.
//! 5. A call that ended without an answer counts for [`LATE_QUESTIONS`] more.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_protocol::{RpcError, server::ConversationId};
use tokio::{sync::Notify, time::Instant};

use crate::{
    owner::Owner,
    turns::{PATIENCE, Target, Turns},
};

/// Time after a call has ended without an answer, for example by cancellation, during which the
/// upstream may still ask for it: it learns of a cancellation only when it reads the notification,
/// and may ignore it. Without this time, its question would reach the agent that calls next.
const LATE_QUESTIONS: Duration = Duration::from_secs(5);

/// The agent of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// All calls of a session have the same agent.
    Session(ConversationId),
    /// A call, by its number: without a session, each call may have another agent.
    Call(u64),
}

/// The calls in flight at one upstream, each with an `A` that asks its agent.
pub struct InFlight<A> {
    table: Mutex<CallTable<A>>,
    changed: Notify,
}

struct CallTable<A> {
    open: Vec<OpenCall<A>>,
    /// Calls that wait for their turn, the oldest first. The others do not wait for them.
    waiting: Vec<(u64, Agent)>,
    /// Calls that have ended without an answer.
    unanswered: Vec<UnansweredCall>,
    /// Number of the next call that comes or starts.
    next: u64,
    turns: Turns,
}

struct OpenCall<A> {
    /// Given at its start: calls that came earlier have smaller numbers.
    number: u64,
    agent: Agent,
    owner: Owner,
    target: Target,
    asker: Arc<A>,
    /// Time that calls of other agents have waited for it. From [`PATIENCE`] on, calls start beside
    /// it.
    waited: Duration,
}

/// A call that has ended without an answer, so that a question may still belong to it.
struct UnansweredCall {
    agent: Agent,
    owner: Owner,
    until: Instant,
}

impl UnansweredCall {
    /// Returns whether the entry of an earlier call is not needed any more: there is one for each
    /// session, and one for all calls of an owner without a session, however many it cancels. So
    /// the list has a bound.
    fn replaces(&self, earlier: &Self) -> bool {
        let are_calls = matches!((self.agent, earlier.agent), (Agent::Call(_), Agent::Call(_)));
        self.agent == earlier.agent || (are_calls && self.owner == earlier.owner)
    }
}

/// A call that is about to start.
pub struct Entry {
    /// The session of its agent. `None` if it has none.
    pub session: Option<ConversationId>,
    /// The user of its agent.
    pub owner: Owner,
    /// What is called.
    pub target: Target,
}

/// A call in flight, until it is dropped.
pub struct InFlightCall<A> {
    calls: Arc<InFlight<A>>,
    number: u64,
    answered: bool,
}

/// A call that waits, until it is dropped.
struct WaitingCall<'a, A> {
    calls: &'a InFlight<A>,
    number: u64,
    agent: Agent,
    target: Target,
    since: Instant,
    /// Owners of unanswered calls that it has waited for.
    cancelled: Vec<Owner>,
}

impl<A> Default for InFlight<A> {
    fn default() -> Self {
        let table = CallTable {
            open: Vec::new(),
            waiting: Vec::new(),
            unanswered: Vec::new(),
            next: 0,
            turns: Turns::default(),
        };
        Self { table: Mutex::new(table), changed: Notify::new() }
    }
}

impl<A> InFlight<A> {
    /// Adds a call as soon as it has to wait for no other call, after at most `patience`.
    pub async fn enter(
        self: &Arc<Self>,
        entry: Entry,
        asker: &Arc<A>,
        patience: Duration,
    ) -> InFlightCall<A> {
        let give_up = Instant::now() + patience.min(PATIENCE);
        let mut waiting = self.wait_in_line(&entry);
        loop {
            // Before the table is read, so that a change between the two is not missed.
            let changed = self.changed.notified();
            let next_expiry = {
                let mut table = self.table();
                table.forget_expired();
                let has_to_start = Instant::now() >= give_up;
                if has_to_start || !table.has_to_wait(&waiting) {
                    // It has waited its whole time, which counts as PATIENCE even if `patience` is
                    // shorter, or for no call that is still in flight.
                    let waited = if has_to_start { PATIENCE } else { Duration::ZERO };
                    let skipped = table.stop_waiting(&waiting, waited);
                    let number = table.open_call(waiting.agent, entry, asker.clone());
                    drop(table);
                    log_skipped(&skipped);
                    return InFlightCall { calls: self.clone(), number, answered: false };
                }
                waiting.remember_cancelled(&table);
                // The end of `LATE_QUESTIONS` notifies no waiting call.
                table.unanswered.iter().map(|call| call.until).min()
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(next_expiry.unwrap_or(give_up).min(give_up)) => {}
            }
        }
    }

    fn wait_in_line(&self, entry: &Entry) -> WaitingCall<'_, A> {
        let mut table = self.table();
        let number = table.number();
        let agent = entry.session.map_or(Agent::Call(number), Agent::Session);
        table.waiting.push((number, agent));
        let target = entry.target.clone();
        let since = Instant::now();
        WaitingCall { calls: self, number, agent, target, since, cancelled: Vec::new() }
    }

    /// Resets the state for a new process: it does not know the unanswered calls of the old one,
    /// and has asked nothing yet.
    pub fn reset(&self) {
        let mut table = self.table();
        table.unanswered.clear();
        table.turns = Turns::default();
        drop(table);
        self.changed.notify_waiters();
    }

    /// Returns the only agent with calls in flight, with its oldest call, for a question that names
    /// no call. `can_ask` tells whether the agent of a call could be asked: a question that no
    /// agent could answer keeps no calls apart.
    ///
    /// # Errors
    /// Returns an error if there is no such agent, or several. The upstream gets the error.
    pub fn only_agent(&self, can_ask: impl Fn(&A) -> bool) -> Result<(Agent, Arc<A>), RpcError> {
        let mut table = self.table();
        table.forget_expired();
        let CallTable { open, turns, .. } = &mut *table;
        // Also if the question is refused: then the next one should have one agent.
        let may_ask = open.iter().filter(|call| can_ask(&call.asker));
        turns.record_question(may_ask.map(|call| &call.target));
        let Some(oldest) = table.open.first() else {
            return Err(RpcError::invalid_request(
                "no call is in flight, so no client can be asked: several clients share this connection",
            ));
        };
        if table.agents().any(|other| other != oldest.agent) {
            return Err(RpcError::invalid_request(
                "calls of several clients are in flight, and the request does not name its call; ask during one call at a time",
            ));
        }
        Ok((oldest.agent, oldest.asker.clone()))
    }

    /// Passes the only agent's asker to `to`. Returns false if there is not exactly one agent.
    pub fn with_only_agent(&self, to: impl FnOnce(&A)) -> bool {
        let mut table = self.table();
        table.forget_expired();
        // Not recorded as a question: upstreams also log during calls that ask nothing, so it says
        // nothing about which calls to keep apart.
        match table.open.first() {
            Some(oldest) if table.agents().all(|other| other == oldest.agent) => {
                to(&oldest.asker);
                true
            }
            _ => false,
        }
    }

    /// Completes when the agent has no call in flight any more.
    pub async fn all_ended(&self, agent: Agent) {
        loop {
            // Before the table is read, as in `enter`.
            let changed = self.changed.notified();
            if !self.table().open.iter().any(|call| call.agent == agent) {
                return;
            }
            changed.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, CallTable<A>> {
        // A panic may leave the table half changed, which delays calls by at most `PATIENCE`. A
        // poisoned lock would end all later calls of this upstream.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> CallTable<A> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open_call(&mut self, agent: Agent, entry: Entry, asker: Arc<A>) -> u64 {
        let Entry { owner, target, .. } = entry;
        let number = self.number();
        self.open.push(OpenCall { number, agent, owner, target, asker, waited: Duration::ZERO });
        number
    }

    fn forget_expired(&mut self) {
        let now = Instant::now();
        self.unanswered.retain(|call| call.until > now);
        self.turns.forget_expired();
    }

    fn agents(&self) -> impl Iterator<Item = Agent> {
        let open = self.open.iter().map(|call| call.agent);
        open.chain(self.unanswered.iter().map(|call| call.agent))
    }

    /// Returns whether a call has to wait for calls of other agents: one of the two asks questions.
    fn has_to_wait(&self, waiting: &WaitingCall<'_, A>) -> bool {
        let WaitingCall { number, agent, target, .. } = waiting;
        if self.open.iter().any(|call| self.blocks(call, *agent, target)) {
            return true;
        }
        // A call that asks overtakes no waiting call, so an agent with many such calls cannot hold
        // up the others.
        self.turns.asks(target)
            && (self.unanswered_before(*agent, target).next().is_some()
                || self.waiting.iter().any(|(other, of)| other < number && of != agent))
    }

    /// Returns the unanswered calls that a call has to wait for. A call that asks waits for them
    /// whatever they called, as it does for calls in flight: beside them its questions would be
    /// refused.
    fn unanswered_before(
        &self,
        agent: Agent,
        target: &Target,
    ) -> impl Iterator<Item = &UnansweredCall> {
        let asks = self.turns.asks(target);
        let unanswered: &[UnansweredCall] = if asks { &self.unanswered } else { &[] };
        unanswered.iter().filter(move |call| {
            call.agent != agent && !self.turns.is_skipped_when_cancelled(&call.owner)
        })
    }

    /// Returns whether a call in flight makes a call of this agent wait.
    fn blocks(&self, call: &OpenCall<A>, agent: Agent, target: &Target) -> bool {
        let asks = self.turns.asks(&call.target);
        call.waited < PATIENCE
            && call.agent != agent
            && (asks || self.turns.asks(target))
            && !(asks && self.turns.is_skipped(&call.owner))
    }

    /// Ends the waiting of a call, and adds `waited` to the calls that it has waited for: those
    /// that were in flight when it came, because for others it has waited only a part of that time.
    /// Others do not wait any more for a call that they have waited [`PATIENCE`] for in total, nor,
    /// if it asks, for its owner. Returns the calls whose owners are skipped from now on.
    fn stop_waiting(&mut self, waiting: &WaitingCall<'_, A>, waited: Duration) -> Vec<Target> {
        let WaitingCall { number, agent, target, .. } = waiting;
        self.waiting.retain(|(other, _)| other != number);
        waiting.cancelled.iter().for_each(|owner| self.turns.skip_when_cancelled(owner));
        let calls = self.open.iter().enumerate();
        let waited_for: Vec<usize> = calls
            .filter(|(_, call)| call.number < *number && self.blocks(call, *agent, target))
            .map(|(at, _)| at)
            .collect();
        let mut skipped = Vec::new();
        for at in waited_for {
            let call = &mut self.open[at];
            // The waits of several calls add up. Otherwise each call of a queue would wait for this
            // one for its whole time.
            call.waited += waited;
            if call.waited >= PATIENCE
                && self.turns.asks(&call.target)
                && !self.turns.is_skipped(&call.owner)
            {
                self.turns.skip(&call.owner);
                skipped.push(call.target.clone());
            }
        }
        skipped
    }
}

fn log_skipped(calls: &[Target]) {
    for Target { method, name } in calls {
        tracing::info!(
            called = method,
            name = name.as_deref(),
            "calls of other users have waited their full time for this one, whose tool asks questions; for a minute, they do not wait for this user's calls of such tools"
        );
    }
}

impl<A> WaitingCall<'_, A> {
    /// Remembers the owners of unanswered calls that this call waits for now.
    fn remember_cancelled(&mut self, table: &CallTable<A>) {
        for call in table.unanswered_before(self.agent, &self.target) {
            if !self.cancelled.contains(&call.owner) {
                self.cancelled.push(call.owner.clone());
            }
        }
    }
}

impl<A> Drop for WaitingCall<'_, A> {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        let is_cancelled = table.waiting.iter().any(|(number, _)| *number == self.number);
        // Waits of an agent that cancels early and tries again count together: otherwise it would
        // wait for the same call each time.
        let waited = self.since.elapsed();
        let skipped = if is_cancelled { table.stop_waiting(self, waited) } else { Vec::new() };
        drop(table);
        log_skipped(&skipped);
        self.calls.changed.notify_waiters();
    }
}

impl<A> InFlightCall<A> {
    /// Ends the call after its answer: the upstream cannot ask for it any more.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl<A> Drop for InFlightCall<A> {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        let at = table.open.iter().position(|call| call.number == self.number);
        let call = at.map(|at| table.open.remove(at));
        if let Some(OpenCall { agent, owner, .. }) = call
            && !self.answered
        {
            let call = UnansweredCall { agent, owner, until: Instant::now() + LATE_QUESTIONS };
            table.unanswered.retain(|other| !call.replaces(other));
            table.unanswered.push(call);
        }
        drop(table);
        self.calls.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::server::Caller;

    use super::*;

    type Calls = Arc<InFlight<()>>;

    fn entry(tool: &str) -> Entry {
        let target = Target::new("tools/call", Some(tool));
        Entry { session: None, owner: Owner::Caller(Caller::Local), target }
    }

    fn owner(user: u8) -> Owner {
        Owner::Caller(Caller::address([192, 0, 2, user].into()))
    }

    async fn enter_as(calls: &Calls, user: u8, tool: &str) -> InFlightCall<()> {
        let owner = owner(user);
        calls.enter(Entry { owner, ..entry(tool) }, &Arc::new(()), Duration::MAX).await
    }

    async fn enter(calls: &Calls, tool: &str) -> InFlightCall<()> {
        enter_as(calls, 1, tool).await
    }

    fn calls() -> Calls {
        Arc::default()
    }

    /// Waits a moment for a call to start.
    async fn starts(entering: impl Future<Output = InFlightCall<()>>) -> bool {
        tokio::time::timeout(PATIENCE / 10, entering).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_question_delays_the_calls_of_others_once() {
        let calls = calls();
        let _parked = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");

        let start = Instant::now();
        enter_as(&calls, 2, "search").await.answered();
        assert_eq!(start.elapsed(), PATIENCE);
        for _ in 0..3 {
            enter_as(&calls, 3, "search").await.answered();
        }
        assert_eq!(start.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_skipped_user_is_logged_once() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let calls = calls();
        let _parked = (enter(&calls, "form").await, enter(&calls, "form").await);
        assert!(calls.only_agent(|()| true).is_err());
        enter_as(&calls, 2, "search").await.answered();
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert!(log.contains("INFO") && log.contains(r#"name="form""#), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_of_cancelled_calls_count_together() {
        let calls = calls();
        let _parked = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        for _ in 0..2 {
            let impatient = enter_as(&calls, 2, "search");
            assert!(tokio::time::timeout(PATIENCE * 3 / 5, impatient).await.is_err());
        }
        assert!(starts(enter_as(&calls, 2, "search")).await);
        assert!(calls.table().turns.is_skipped(&owner(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_ask_still_wait_for_a_skipped_user() {
        let calls = calls();
        let form = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        enter_as(&calls, 2, "search").await.answered();
        form.answered();
        let _search = enter(&calls, "search").await;
        assert!(!starts(enter_as(&calls, 2, "form")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_cannot_delay_the_calls_of_others_again_and_again() {
        let calls = calls();
        for round in 0..3 {
            let _parked = enter(&calls, "form").await;
            _ = calls.only_agent(|()| true);
            let start = Instant::now();
            enter_as(&calls, 2, "search").await.answered();
            assert_eq!(start.elapsed(), if round == 0 { PATIENCE } else { Duration::ZERO });
            tokio::time::advance(LATE_QUESTIONS).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_ask_take_turns() {
        let calls = calls();
        let asking = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        let (next, ()) = tokio::join!(enter(&calls, "form"), async {
            tokio::time::sleep(PATIENCE / 2).await;
            asking.answered();
        });
        assert!(!starts(enter(&calls, "form")).await);
        next.answered();
        assert!(starts(enter(&calls, "form")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn other_calls_run_side_by_side_after_a_question() {
        let calls = calls();
        let asking = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        assert!(!starts(enter(&calls, "search")).await);
        asking.answered();
        let _one = enter(&calls, "search").await;
        assert!(starts(enter(&calls, "search")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_that_asks_holds_up_no_other() {
        let calls = calls();
        enter(&calls, "form").await.answered();
        let _long = enter(&calls, "search").await;
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        let waiting = enter(&calls, "form");
        tokio::pin!(waiting);
        assert!(!starts(&mut waiting).await);
        assert!(starts(enter(&calls, "search")).await);
    }

    async fn call_and_log(calls: &Calls, tool: &'static str, began: &Mutex<Vec<&'static str>>) {
        let call = enter(calls, tool).await;
        began.lock().unwrap().push(tool);
        tokio::time::sleep(PATIENCE / 10).await;
        call.answered();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_asks_does_not_overtake_others() {
        let calls = calls();
        let first = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        let (order, ()) = tokio::join!(
            async {
                let began = Mutex::new(Vec::new());
                tokio::join!(
                    call_and_log(&calls, "search", &began),
                    call_and_log(&calls, "form", &began)
                );
                began.into_inner().unwrap()
            },
            async {
                tokio::time::sleep(PATIENCE / 10).await;
                first.answered();
            }
        );
        assert_eq!(order, ["search", "form"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_no_agent_could_answer_keeps_no_calls_apart() {
        let calls = calls();
        let _asking = enter(&calls, "form").await;
        _ = calls.only_agent(|()| false);
        assert!(starts(enter(&calls, "form")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_no_longer_than_its_patience() {
        let calls = calls();
        let _asking = enter(&calls, "form").await;
        calls.only_agent(|()| true).expect("one call is in flight");
        let start = Instant::now();
        let patience = PATIENCE / 5;
        calls.enter(entry("form"), &Arc::new(()), patience).await.answered();
        assert_eq!(start.elapsed(), patience);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_started_after_another_had_come_has_not_been_waited_for() {
        let calls = calls();
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        let _long = enter_as(&calls, 1, "search").await;
        let second = enter_as(&calls, 2, "form");
        let third = async {
            tokio::time::sleep(PATIENCE / 2).await;
            enter_as(&calls, 3, "form").await
        };
        // The second call starts in the middle of the third one's wait, so the third waits for it
        // half of its time.
        let (_second, _third) = tokio::join!(second, third);
        assert!(!starts(enter_as(&calls, 4, "search")).await);
        assert!(!calls.table().turns.is_skipped(&owner(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_cannot_delay_others_again_and_again_by_cancelled_calls() {
        let calls = calls();
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        for (round, tool) in ["form", "search", "form", "search"].into_iter().enumerate() {
            drop(enter_as(&calls, 1, tool).await);
            tokio::time::sleep(LATE_QUESTIONS / 5).await;
            let start = Instant::now();
            enter_as(&calls, 2, "form").await.answered();
            let waits = if round == 0 { LATE_QUESTIONS * 4 / 5 } else { Duration::ZERO };
            assert_eq!(start.elapsed(), waits, "{round}");
        }
        // Their questions still belong to one of two users.
        let _form = enter_as(&calls, 2, "form").await;
        assert!(calls.only_agent(|()| true).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_who_cancels_all_the_time_is_waited_for_once() {
        let calls = calls();
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        let cancelling = async {
            loop {
                drop(enter_as(&calls, 1, "search").await);
                tokio::time::sleep(LATE_QUESTIONS / 5).await;
            }
        };
        let waiting = async {
            tokio::time::sleep(LATE_QUESTIONS / 10).await;
            let start = Instant::now();
            for _ in 0..3 {
                enter_as(&calls, 2, "form").await.answered();
            }
            start.elapsed()
        };
        tokio::select! {
            waited = waiting => assert_eq!(waited, PATIENCE),
            () = cancelling => unreachable!("the loop does not end"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_has_waited_for_users_who_cancel_too() {
        let calls = calls();
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        drop(enter_as(&calls, 1, "search").await);
        assert!(!starts(enter_as(&calls, 2, "form")).await);
        assert!(starts(enter_as(&calls, 2, "form")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_calls_of_a_user_without_a_session_have_one_entry() {
        let calls = calls();
        for user in [1, 2] {
            for _ in 0..100 {
                drop(enter_as(&calls, user, "search").await);
            }
        }
        assert_eq!(calls.table().unanswered.len(), 2);
        // Each call may have another agent.
        let _form = enter_as(&calls, 2, "form").await;
        assert!(calls.only_agent(|()| true).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_calls_of_a_user_who_has_cancelled_one_still_take_turns() {
        let calls = calls();
        calls.table().turns.record_question([Target::new("tools/call", Some("form"))].iter());
        drop(enter_as(&calls, 1, "form").await);
        enter_as(&calls, 2, "form").await.answered();
        let _form = enter_as(&calls, 1, "form").await;
        assert!(!starts(enter_as(&calls, 2, "form")).await);
    }
}
