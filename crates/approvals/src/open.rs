//! The open questions, and the decisions that are remembered.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::oneshot;

use crate::{
    Answerer, ApprovalEvent, ApprovalOutcome, CallToApprove, Decision, DecisionFile,
    DecisionFileError, Question, rounds::UsedRounds, sessions::SessionDecisions,
};

/// The most questions that wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalLimits {
    /// Open questions of all principals: 256.
    pub open: usize,
    /// Open questions of one principal: 64. Without authentication all callers are one.
    pub open_per_principal: usize,
}

impl Default for ApprovalLimits {
    fn default() -> Self {
        Self { open: 256, open_per_principal: 64 }
    }
}

/// The open questions, the decisions that are remembered, and the listeners for both.
#[derive(Default)]
pub struct Approvals {
    limits: ApprovalLimits,
    file: Option<DecisionFile>,
    sessions: SessionDecisions,
    table: Mutex<Table>,
    listeners: Mutex<Vec<Listener>>,
    rounds: UsedRounds,
}

type Listener = Arc<dyn Fn(&ApprovalEvent) + Send + Sync>;

#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Entry>,
    last: u64,
}

struct Entry {
    question: Question,
    asker: Asker,
    /// The decision, until the call takes it.
    decision: Option<Decision>,
    /// See [`Approvals::keep_until_end`].
    kept: Option<Box<dyn Any + Send>>,
}

/// The state of the call that a question is about.
enum Asker {
    /// It waits here.
    Waits(oneshot::Sender<Decision>),
    /// Its client asks, and sends it again.
    ComesAgain,
    /// Its client cannot ask. The same call may come again after an answer in the console.
    WasRefused,
}

/// A call that waits while its client, and perhaps the console, ask a person. Dropping it withdraws
/// the question.
pub struct WaitingQuestion<'a> {
    approvals: &'a Approvals,
    id: u64,
    elsewhere: oneshot::Receiver<Decision>,
}

/// The state of a question that a client asks while its call does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It was answered.
    Decided(Decision),
    /// It waits for an answer.
    Open,
    /// It is unknown: it was of another call, was answered before, or is too old.
    Unknown,
}

/// Too many questions wait for an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{open} questions to a person already wait for an answer ({setting}); answer some of them, and call again"
)]
pub struct TooManyQuestions {
    open: usize,
    setting: &'static str,
}

/// Why an answer from the console was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerRefused {
    /// The question is unknown, or belongs to another principal.
    #[error("no such question is open; it was answered, took too long, or belongs to another user")]
    NotFound,
    /// The question has an answer.
    #[error("the question was already answered")]
    Answered,
    /// The call is allowed for this session only.
    #[error("the call is allowed for this session only: {0}")]
    NotStored(DecisionFileError),
}

impl Approvals {
    /// Returns whether a stateless client may go on with this state after a call that was allowed:
    /// each state counts once, so that one decision leads to one run of the tool.
    #[must_use]
    pub fn may_go_on(&self, state: &str) -> bool {
        self.rounds.is_first_use(state, Instant::now())
    }

    /// Creates an empty table with these limits.
    #[must_use]
    pub fn new(limits: ApprovalLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Stores decisions that count from now on in a file. Without it, they count for the session.
    #[must_use]
    pub fn with_file(self, file: DecisionFile) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Calls a function for each event. It must not block, and not call this table.
    pub fn on_event(&self, listener: impl Fn(&ApprovalEvent) + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::new(listener));
    }

    /// Returns the decision that was made before about a call; `None` if a person must be asked. A
    /// decision for one call is used up by this.
    ///
    /// A file of decisions that cannot be used allows nothing; the log names it.
    #[must_use]
    pub fn remembered(&self, call: &CallToApprove) -> Option<Decision> {
        if self.sessions.allows(call) {
            return Some(Decision::Session);
        }
        match self.file.as_ref().map(|file| file.allows(call)) {
            Some(Ok(true)) => return Some(Decision::Always),
            Some(Err(error)) => tracing::warn!("{error}; until then, decisions in it do not count"),
            Some(Ok(false)) | None => {}
        }
        let mut table = self.lock();
        let answered = table.refused_before(call).filter(|entry| entry.decision.is_some())?;
        let decision = answered.decision;
        // A refusal stays until the question expires, so that the call is not asked about again and
        // again.
        if decision.is_some_and(Decision::allows) {
            let id = answered.question.id;
            table.open.remove(&id);
        }
        decision
    }

    /// Opens the question of a call that waits.
    ///
    /// # Errors
    /// Returns an error if too many questions are open.
    pub fn wait(
        &self,
        call: &CallToApprove,
        message: impl Into<String>,
    ) -> Result<WaitingQuestion<'_>, TooManyQuestions> {
        let (answer, elsewhere) = oneshot::channel();
        let id = self.open(call, message.into(), Asker::Waits(answer))?;
        Ok(WaitingQuestion { approvals: self, id, elsewhere })
    }

    /// Opens the question of a call whose client asks and then sends the call again. Returns its
    /// number, for [`Self::resume`].
    ///
    /// # Errors
    /// Returns an error if too many questions are open.
    pub fn ask_in_rounds(
        &self,
        call: &CallToApprove,
        message: impl Into<String>,
    ) -> Result<u64, TooManyQuestions> {
        self.open(call, message.into(), Asker::ComesAgain)
    }

    /// Opens the question of a call whose client cannot ask, for the console. Returns its number;
    /// `None` if the same call has one already.
    ///
    /// # Errors
    /// Returns an error if too many questions are open.
    pub fn ask_in_console(
        &self,
        call: &CallToApprove,
        message: impl Into<String>,
    ) -> Result<Option<u64>, TooManyQuestions> {
        if self.lock().refused_before(call).is_some() {
            return Ok(None);
        }
        self.open(call, message.into(), Asker::WasRefused).map(Some)
    }

    /// Keeps a value until the question has ended, such as the task that lets it expire.
    pub fn keep_until_end(&self, id: u64, value: Box<dyn Any + Send>) {
        if let Some(entry) = self.lock().open.get_mut(&id) {
            entry.kept = Some(value);
        }
    }

    /// Continues a call that was sent again, with the answer that its client brings, if it brings
    /// one. An answer is taken once, and by the call of its question alone.
    ///
    /// A refusal in the client counts also after an answer in the console: it is the safe one.
    #[must_use]
    pub fn resume(&self, id: u64, call: &CallToApprove, answer: Option<Decision>) -> Resumed {
        let mut table = self.lock();
        let Some(entry) = table.open.get(&id) else { return Resumed::Unknown };
        if !matches!(entry.asker, Asker::ComesAgain) || !entry.question.call.is_same(call) {
            return Resumed::Unknown;
        }
        let in_console = entry.decision;
        let decision = match (in_console, answer) {
            (_, Some(Decision::Declined)) => Decision::Declined,
            (Some(decision), _) | (None, Some(decision)) => decision,
            (None, None) => return Resumed::Open,
        };
        let entry = table.open.remove(&id);
        drop(table);
        if in_console != Some(decision)
            && let Some(entry) = entry
        {
            self.decided(entry.question, decision, Answerer::Client);
        }
        Resumed::Decided(decision)
    }

    /// Answers a question in the console, for the principal whose call it is.
    ///
    /// # Errors
    /// Returns an error if there is no such question of this principal, if it has an answer, or if
    /// the decision cannot be stored.
    pub fn answer(
        &self,
        id: u64,
        owner: Option<&str>,
        decision: Decision,
    ) -> Result<(), AnswerRefused> {
        let mut table = self.lock();
        let entry = table.open.get_mut(&id);
        let entry = entry.filter(|entry| entry.question.call.owner.as_deref() == owner);
        let entry = entry.ok_or(AnswerRefused::NotFound)?;
        if entry.decision.is_some() {
            return Err(AnswerRefused::Answered);
        }
        entry.decision = Some(decision);
        let question = entry.question.clone();
        let waits = std::mem::replace(&mut entry.asker, Asker::ComesAgain);
        match waits {
            // The call takes the entry out.
            Asker::Waits(call) => _ = call.send(decision),
            other => entry.asker = other,
        }
        drop(table);
        self.decided(question, decision, Answerer::Console)
            .map_or(Ok(()), |error| Err(AnswerRefused::NotStored(error)))
    }

    /// Ends a question that took too long. Does nothing if it has ended.
    pub fn expire(&self, id: u64) {
        let entry = self.lock().open.remove(&id);
        if let Some(entry) = entry.filter(|entry| entry.decision.is_none()) {
            self.report(entry.question, ApprovalOutcome::TimedOut, None);
        }
    }

    /// Returns the open questions without an answer, oldest first.
    #[must_use]
    pub fn open_questions(&self) -> Vec<Question> {
        let table = self.lock();
        let open = table.open.values().filter(|entry| entry.decision.is_none());
        open.map(|entry| entry.question.clone()).collect()
    }

    /// Returns the path of the file of decisions, if there is one.
    #[must_use]
    pub fn decision_file(&self) -> Option<&Path> {
        self.file.as_ref().map(DecisionFile::path)
    }

    /// Returns the entry of the file of decisions that would allow a call.
    #[must_use]
    pub fn entry_for(call: &CallToApprove) -> String {
        DecisionFile::entry_for(call)
    }

    fn open(
        &self,
        call: &CallToApprove,
        message: String,
        asker: Asker,
    ) -> Result<u64, TooManyQuestions> {
        let mut table = self.lock();
        let all = table.open.len();
        let of_owner =
            table.open.values().filter(|entry| entry.question.call.owner == call.owner).count();
        if all >= self.limits.open {
            return Err(TooManyQuestions { open: all, setting: "limits.max_parked_calls" });
        }
        if of_owner >= self.limits.open_per_principal {
            let setting = "limits.max_parked_calls_per_caller";
            return Err(TooManyQuestions { open: of_owner, setting });
        }
        table.last += 1;
        let id = table.last;
        let question = Question { id, call: call.clone(), message };
        table
            .open
            .insert(id, Entry { question: question.clone(), asker, decision: None, kept: None });
        drop(table);
        self.report(question, ApprovalOutcome::Asked, None);
        Ok(id)
    }

    /// Remembers a decision, and reports it. Returns why it could not be stored.
    fn decided(
        &self,
        question: Question,
        decision: Decision,
        by: Answerer,
    ) -> Option<DecisionFileError> {
        let mut problem = None;
        let outcome = match decision {
            Decision::Once => ApprovalOutcome::AllowedOnce,
            Decision::Declined => ApprovalOutcome::Declined,
            Decision::Session => {
                self.sessions.allow(&question.call);
                ApprovalOutcome::AllowedForSession
            }
            Decision::Always => match self.file.as_ref().map(|file| file.allow(&question.call)) {
                Some(Ok(())) => ApprovalOutcome::AllowedAlways,
                failed => {
                    problem = failed.and_then(Result::err);
                    if let Some(problem) = &problem {
                        tracing::warn!("{problem}; the decision counts for this session only");
                    }
                    self.sessions.allow(&question.call);
                    ApprovalOutcome::AllowedForSession
                }
            },
        };
        self.report(question, outcome, Some(by));
        problem
    }

    fn report(&self, question: Question, outcome: ApprovalOutcome, by: Option<Answerer>) {
        let event = ApprovalEvent { question, outcome, by };
        event.log();
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(&event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.lock().open.len();
        f.debug_struct("Approvals")
            .field("open", &open)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Returns the question of the same call whose client could not ask.
    fn refused_before(&self, call: &CallToApprove) -> Option<&Entry> {
        self.open.values().find(|entry| {
            matches!(entry.asker, Asker::WasRefused) && entry.question.call.is_same(call)
        })
    }
}

impl WaitingQuestion<'_> {
    /// Completes when the question was answered in the console.
    pub async fn answered_in_console(&mut self) -> Decision {
        match (&mut self.elsewhere).await {
            Ok(decision) => decision,
            // The question has expired.
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes the answer of the client, unless the console was faster. Returns the decision that
    /// counts.
    #[must_use]
    pub fn answered(self, decision: Decision) -> Decision {
        let entry = self.approvals.lock().open.remove(&self.id);
        match entry {
            Some(Entry { decision: Some(in_console), .. }) => in_console,
            Some(Entry { question, decision: None, .. }) => {
                self.approvals.decided(question, decision, Answerer::Client);
                decision
            }
            None => Decision::Declined,
        }
    }

    /// Ends the question, which took too long.
    pub fn timed_out(self) {
        self.approvals.expire(self.id);
    }
}

/// The call has its answer, or was cancelled.
impl Drop for WaitingQuestion<'_> {
    fn drop(&mut self) {
        let entry = self.approvals.lock().open.remove(&self.id);
        if let Some(entry) = entry.filter(|entry| entry.decision.is_none()) {
            self.approvals.report(entry.question, ApprovalOutcome::Withdrawn, None);
        }
    }
}

#[cfg(test)]
mod tests;
