//! A task.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use marquetry_protocol_wire::{
    RpcError,
    types::{InputRequest, Task, TaskStatus},
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{time::iso8601, watch::Watchers};
use crate::Principal;

/// A task: its status, its questions, its outcome.
pub(crate) struct Job {
    id: Arc<str>,
    created: SystemTime,
    ttl: Duration,
    poll_interval: Duration,
    cancel: CancellationToken,
    watchers: Arc<Watchers>,
    principal: Option<Arc<Principal>>,
    state: Mutex<JobState>,
}

struct JobState {
    updated: SystemTime,
    message: Option<String>,
    /// Questions that wait for an answer.
    questions: BTreeMap<String, TaskQuestion>,
    /// Keys of all questions, because a key must not name two questions (SEP-2663, "Task Update
    /// Requests"). With each, the last number that was tried after it.
    used_keys: HashMap<String, u32>,
    outcome: Option<Outcome>,
}

/// A question that waits for an answer.
struct TaskQuestion {
    request: InputRequest,
    answer: oneshot::Sender<Box<RawValue>>,
}

/// Outcome of a task.
pub(super) enum Outcome {
    /// The result, with the members that the stateless era requires.
    Completed(Box<RawValue>),
    Failed(RpcError),
    Cancelled,
}

impl Job {
    pub(super) fn new(
        id: Arc<str>,
        ttl: Duration,
        poll_interval: Duration,
        cancel: CancellationToken,
        watchers: Arc<Watchers>,
        principal: Option<Arc<Principal>>,
    ) -> Self {
        let created = SystemTime::now();
        let state = Mutex::new(JobState {
            updated: created,
            message: None,
            questions: BTreeMap::new(),
            used_keys: HashMap::new(),
            outcome: None,
        });
        Self { id, created, ttl, poll_interval, cancel, watchers, principal, state }
    }

    pub(super) fn principal(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns the task for the client.
    pub(crate) fn to_task(&self) -> Task {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut task = Task {
            task_id: self.id.to_string(),
            status: TaskStatus::Working,
            status_message: state.message.clone(),
            created_at: iso8601(self.created),
            last_updated_at: iso8601(state.updated),
            ttl_ms: Some(millis(self.ttl)),
            poll_interval_ms: Some(millis(self.poll_interval).max(1)),
            input_requests: BTreeMap::new(),
            result: None,
            error: None,
        };
        match &state.outcome {
            None if state.questions.is_empty() => {}
            None => {
                task.status = TaskStatus::InputRequired;
                task.input_requests = state
                    .questions
                    .iter()
                    .map(|(key, question)| (key.clone(), question.request.clone()))
                    .collect();
            }
            Some(Outcome::Completed(result)) => {
                task.status = TaskStatus::Completed;
                task.result = Some(result.clone());
            }
            Some(Outcome::Failed(error)) => {
                task.status = TaskStatus::Failed;
                task.status_message = Some(error.message.clone());
                task.error = Some(error.clone());
            }
            Some(Outcome::Cancelled) => task.status = TaskStatus::Cancelled,
        }
        task
    }

    /// Sets the status message of the task.
    pub(crate) fn set_message(&self, message: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_none() {
            state.message = Some(message.to_owned());
            self.changed(state);
        }
    }

    /// Adds a question to the task and waits for the client's answer.
    ///
    /// # Errors
    /// Returns an error if the task has ended.
    pub(crate) async fn ask(
        &self,
        key: &str,
        method: &str,
        params: Box<RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        let (sender, answer) = oneshot::channel();
        let guard = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let key = state.unused_key(key);
            let request = InputRequest { method: method.to_owned(), params: Some(params) };
            state.questions.insert(key.clone(), TaskQuestion { request, answer: sender });
            self.changed(state);
            QuestionGuard { job: self, key }
        };
        let answer = answer.await;
        drop(guard);
        answer.map_err(|_| {
            RpcError::internal(format!("the task ended before '{method}' was answered"))
        })
    }

    /// Delivers answers. Answers to unknown questions are ignored (SEP-2663, "Task Update
    /// Requests").
    pub(crate) fn deliver_answers(&self, answers: BTreeMap<String, Box<RawValue>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = state.questions.len();
        for (key, answer) in answers {
            if let Some(question) = state.questions.remove(&key) {
                _ = question.answer.send(answer);
            }
        }
        if state.questions.len() < waiting {
            self.changed(state);
        }
    }

    /// Cancels the task, if it has not ended.
    pub(crate) fn cancel(&self) {
        _ = self.finish(Outcome::Cancelled);
        self.cancel.cancel();
    }

    /// Ends the task, unless it has ended. Returns the size of `outcome` if it is dropped, else 0.
    pub(super) fn finish(&self, outcome: Outcome) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_some() {
            return outcome.bytes();
        }
        state.outcome = Some(outcome);
        state.questions.clear();
        self.changed(state);
        0
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.is_some()
    }

    pub(super) fn result_bytes(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.outcome.as_ref().map_or(0, Outcome::bytes)
    }

    fn changed(&self, mut state: std::sync::MutexGuard<'_, JobState>) {
        state.updated = SystemTime::now();
        drop(state);
        self.watchers.changed(&self.id);
    }
}

impl JobState {
    /// Returns `key`, or `key` with a number that makes a key that was not used yet.
    fn unused_key(&mut self, key: &str) -> String {
        let Some(&last) = self.used_keys.get(key) else {
            self.used_keys.insert(key.to_owned(), 1);
            return key.to_owned();
        };
        let mut number = last;
        loop {
            number = number.saturating_add(1);
            let unused = format!("{key}-{number}");
            if !self.used_keys.contains_key(&unused) {
                self.used_keys.insert(key.to_owned(), number);
                self.used_keys.insert(unused.clone(), 1);
                return unused;
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Outcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Completed(result) => result.get().len(),
            Self::Failed(_) | Self::Cancelled => 0,
        }
    }
}

/// Removes an unanswered question from the task when dropped.
struct QuestionGuard<'a> {
    job: &'a Job,
    key: String,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.job.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.questions.remove(&self.key).is_some() {
            self.job.changed(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[tokio::test]
    async fn no_key_names_two_questions() {
        let job = job();
        let mut seen = Vec::new();
        for key in ["a", "a-2", "a", "a"] {
            let question = job.ask(key, "roots/list", to_raw_value(&1).unwrap());
            tokio::pin!(question);
            assert!(futures_util::poll!(&mut question).is_pending());
            seen.extend(job.to_task().input_requests.into_keys());
        }
        tokio::select! {
            biased;
            _ = job.ask("a", "roots/list", to_raw_value(&1).unwrap()) => panic!("the question ended"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(job.to_task().status, TaskStatus::Working, "a dropped question is not listed");
        let different: std::collections::HashSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), different.len()), (4, 4), "{seen:?}");
    }

    #[test]
    fn the_first_end_counts() {
        let job = job();
        job.cancel();
        assert_eq!(job.finish(Outcome::Completed(to_raw_value("late").unwrap())), 6);
        assert_eq!(job.to_task().status, TaskStatus::Cancelled);
        assert_eq!(job.result_bytes(), 0);
    }

    fn job() -> Job {
        let second = Duration::from_secs(1);
        Job::new("id".into(), second, second, CancellationToken::new(), Arc::default(), None)
    }
}
