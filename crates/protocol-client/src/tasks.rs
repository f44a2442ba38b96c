//! Tasks: calls that a server continues after it has answered (SEP-2663).

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::try_join_all;
use marquetry_protocol_wire::{
    RpcError,
    types::{CallToolParams, ClientCapabilities, InputRequest, Task, TaskStatus},
};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::mpsc;

use super::{
    CallOptions, Client, ClientError, ClientHandler, Progress, ProtocolError,
    answer_memory::AnswerMemory, questions, shared::RequestState,
};

/// The first answer to a tool call.
pub enum StartedCall {
    /// The result, as the server wrote it.
    Done(Box<RawValue>),
    /// The server continues the call as a task.
    Task(TaskHandle),
}

/// Handle of a task at the server. Cheap to clone. Dropping it does not cancel the task. With its
/// [id](Self::id), [`Client::task`] returns a new handle, also in another process.
#[derive(Clone)]
pub struct TaskHandle {
    client: Client,
    id: String,
    /// Time until the first request for its state.
    pause: Duration,
    /// The handler of the call, if it has its own.
    handler: Option<Arc<dyn ClientHandler>>,
    capabilities: Option<Arc<ClientCapabilities>>,
    memory: Option<AnswerMemory>,
}

/// Poll interval if the server names none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest poll interval, even if the server asks for a shorter one.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);
/// Failed polls in succession after which the client gives up. A task survives a broken connection,
/// so a few failures say nothing about it.
const MAX_FAILURES: usize = 5;

impl Client {
    /// Calls a tool without waiting for a task's end: if the server continues the call as a task,
    /// this returns its handle. ([`Self::call_tool`] waits for the result of the task instead.)
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn start_tool(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<StartedCall, ClientError> {
        let params = to_raw_value(call).map_err(ClientError::params)?;
        let timeout = options.timeout;
        let cancel = options.cancel.clone().unwrap_or_default();
        let own = RequestState::of(options);
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ClientError::Cancelled),
            answer = self.rounds("tools/call", Some(&params), timeout, &own) => answer?,
        };
        Ok(if self.is_task(&answer) {
            StartedCall::Task(TaskHandle::created(self, "tools/call", &answer, &own)?)
        } else {
            StartedCall::Done(self.without_nulls("tools/call", answer))
        })
    }

    /// Returns the handle of a task with a known id, for example from before a restart. Whether the
    /// server still has the task shows when the handle is used.
    #[must_use]
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle {
            client: self.clone(),
            id: id.into(),
            pause: Duration::ZERO,
            handler: None,
            capabilities: None,
            memory: None,
        }
    }
}

impl TaskHandle {
    /// Returns the task that the server created for a request.
    ///
    /// # Errors
    /// Returns an error if the method cannot be answered with a task, or the answer is not a task.
    pub(super) fn created(
        client: &Client,
        method: &str,
        answer: &RawValue,
        own: &RequestState,
    ) -> Result<Self, ClientError> {
        if method != "tools/call" {
            return Err(ProtocolError::UnexpectedTask { method: method.to_owned() }.into());
        }
        let first: Task = serde_json::from_str(answer.get()).map_err(protocol)?;
        Ok(Self {
            client: client.clone(),
            pause: interval(&first),
            id: first.task_id,
            handler: own.handler.clone(),
            capabilities: own.capabilities.clone().map(Arc::new),
            memory: own.memory.clone(),
        })
    }

    /// Returns the id by which the server knows the task.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the state of the task, with its result if it has ended.
    ///
    /// # Errors
    /// Returns an error as [`Client::request`] does; -32602 if the server does not have the task.
    pub async fn get(&self) -> Result<Task, ClientError> {
        let answer = self.ask("tasks/get", &json!({ "taskId": self.id })).await?;
        serde_json::from_str(answer.get()).map_err(protocol)
    }

    /// Answers questions of the task, by key.
    ///
    /// # Errors
    /// Returns an error as [`Self::get`] does.
    pub async fn update(
        &self,
        answers: &BTreeMap<String, Box<RawValue>>,
    ) -> Result<(), ClientError> {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Update<'a> {
            task_id: &'a str,
            input_responses: &'a BTreeMap<String, Box<RawValue>>,
        }
        let update = Update { task_id: &self.id, input_responses: answers };
        self.ask("tasks/update", &update).await.map(drop)
    }

    /// Asks the server to cancel the task. The server may refuse.
    ///
    /// # Errors
    /// Returns an error as [`Self::get`] does.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.ask("tasks/cancel", &json!({ "taskId": self.id })).await.map(drop)
    }

    /// Waits for the end of the task: polls it as often as the server asks, and answers its
    /// questions with the client's [handler](super::ClientHandler). Dropping the future does not
    /// cancel the task.
    ///
    /// # Errors
    /// Returns an error if the task fails, is cancelled ([`ClientError::TaskCancelled`]) or asks
    /// too much ([`ClientError::Unanswered`], [`ClientError::TooManyRounds`]), and as [`Self::get`]
    /// does.
    pub async fn result(&self) -> Result<Box<RawValue>, ClientError> {
        let result = self.follow(None).await?;
        Ok(self.client.without_nulls("tools/call", result))
    }

    /// Waits as [`Self::result`] does, and sends status messages of the task to `progress`.
    pub(super) async fn follow(
        &self,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut pause = self.pause;
        let mut answered = HashSet::new();
        let mut said = None;
        let mut failures = 0;
        let mut steps = 0.0;
        let max_rounds = self.client.inner.options.max_rounds;
        let mut rounds = 0;
        loop {
            tokio::time::sleep(pause).await;
            let task = match self.get().await {
                Ok(task) => task,
                Err(error) if is_transient(&error) && failures < MAX_FAILURES => {
                    tracing::debug!(%error, "failed to poll a task");
                    failures += 1;
                    pause = pause.max(POLL_INTERVAL);
                    continue;
                }
                Err(error) => return Err(error),
            };
            failures = 0;
            pause = interval(&task);
            if let Some(progress) = &progress
                && task.status_message != said
            {
                steps += 1.0;
                let message = task.status_message.clone();
                _ = progress.try_send(Progress { progress: steps, total: None, message });
            }
            said = task.status_message;
            match (task.status, task.result, task.error) {
                (TaskStatus::Completed, Some(result), _) => return Ok(result),
                (TaskStatus::Failed, _, Some(error)) => return Err(ClientError::Rpc(error)),
                (TaskStatus::Completed | TaskStatus::Failed, ..) => {
                    return Err(ProtocolError::TaskWithoutOutcome.into());
                }
                (TaskStatus::Cancelled, ..) => return Err(ClientError::TaskCancelled),
                (TaskStatus::Working, ..) => {}
                (TaskStatus::InputRequired, ..) => {
                    let mut asked = task.input_requests;
                    // The server may list a question for a while after its answer.
                    asked.retain(|key, _| !answered.contains(key));
                    if !asked.is_empty() {
                        if rounds == max_rounds {
                            return Err(ClientError::TooManyRounds(max_rounds));
                        }
                        rounds += 1;
                        self.deliver(&self.answers(&asked).await?).await?;
                        answered.extend(asked.into_keys());
                    }
                }
            }
        }
    }

    /// Sends answers, with retries after passing failures: sending an answer twice does no harm.
    async fn deliver(&self, answers: &BTreeMap<String, Box<RawValue>>) -> Result<(), ClientError> {
        let mut failures = 0;
        loop {
            match self.update(answers).await {
                Err(error) if is_transient(&error) && failures < MAX_FAILURES => {
                    tracing::debug!(%error, "failed to send answers to a task");
                    failures += 1;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn answers(
        &self,
        asked: &BTreeMap<String, InputRequest>,
    ) -> Result<BTreeMap<String, Box<RawValue>>, ClientError> {
        let handler = self.handler.as_ref().unwrap_or(&self.client.inner.options.handler);
        let answers = asked.iter().map(async |(key, request)| {
            let answer =
                questions::answer(&**handler, &request.method, request.params.as_deref()).await?;
            Ok::<_, RpcError>((key.clone(), answer))
        });
        let answers = try_join_all(answers).await.map_err(ClientError::Unanswered)?;
        Ok(answers.into_iter().collect())
    }

    async fn ask(
        &self,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<Box<RawValue>, ClientError> {
        let params = to_raw_value(params).map_err(protocol)?;
        let mut own = RequestState::default();
        own.capabilities = self.capabilities.as_deref().cloned();
        own.memory = self.memory.clone();
        self.client.once(method, Some(&params), None, &own, &mut 0).await
    }
}

/// Cancels a task if its caller no longer waits for it.
pub(super) struct CancelOnDrop(Option<TaskHandle>);

impl CancelOnDrop {
    pub(super) fn new(task: TaskHandle) -> Self {
        Self(Some(task))
    }

    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(task), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            if let Err(error) = task.cancel().await {
                tracing::debug!(%error, "failed to cancel a task");
            }
        });
    }
}

fn interval(task: &Task) -> Duration {
    let asked = task.poll_interval_ms.map_or(POLL_INTERVAL, Duration::from_millis);
    asked.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

/// Returns whether a retry may succeed.
fn is_transient(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Io { .. }
            | ClientError::Timeout(_)
            | ClientError::Http { status: 429 | 502..=504, .. }
    )
}

fn protocol(error: serde_json::Error) -> ClientError {
    ClientError::result("tasks/get", error)
}
