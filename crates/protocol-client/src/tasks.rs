//! Tasks of the server's: calls that it goes on with after it has answered (SEP-2663).

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
use tokio_util::sync::CancellationToken;

use super::{
    CallOptions, Client, ClientError, ClientHandler, Progress, questions, shared::RequestState,
};

/// What a server makes of a call.
pub enum StartedCall {
    /// It answered at once; this is the result object as the server wrote it.
    Done(Box<RawValue>),
    /// It goes on with it as a task.
    Task(TaskHandle),
}

/// A task of the server's, to be asked for now and then. Cheap to clone. Dropping it leaves the task alone; its
/// [id](Self::id) is enough to find it again ([`Client::task`]), from another process too.
#[derive(Clone)]
pub struct TaskHandle {
    client: Client,
    id: String,
    /// When to ask for it first.
    pause: Duration,
    /// Those of the call, if it has its own.
    handler: Option<Arc<dyn ClientHandler>>,
    capabilities: Option<Arc<ClientCapabilities>>,
}

/// How long to wait where a server does not say.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Whatever a server says.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// A task outlives a broken connection, so one failure to ask for it is none of its own.
const MOST_FAILURES: usize = 5;

impl Client {
    /// Calls a tool without waiting for a task's end: when the server goes on with the call as a task, this gives the
    /// handle. ([`Self::call_tool`] follows the task instead.)
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn start_tool(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<StartedCall, ClientError> {
        let params =
            to_raw_value(call).map_err(|error| ClientError::Protocol(error.to_string()))?;
        let cancel = options.cancel.unwrap_or_default();
        let CallOptions {
            timeout, progress, handler, capabilities, log_level, pass_questions, ..
        } = options;
        let over = CancellationToken::new();
        let own = RequestState { progress, handler, capabilities, log_level, pass_questions, over };
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ClientError::Cancelled),
            answer = self.rounds("tools/call", Some(&params), timeout, &own) => answer?,
        };
        Ok(match self.is_task(&answer) {
            true => StartedCall::Task(TaskHandle::created(self, "tools/call", &answer, &own)?),
            false => StartedCall::Done(answer),
        })
    }

    /// A task that is known by its id, for example from before a restart. Whether the server still has it shows when
    /// it is asked for.
    #[must_use]
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle {
            client: self.clone(),
            id: id.into(),
            pause: Duration::ZERO,
            handler: None,
            capabilities: None,
        }
    }
}

impl TaskHandle {
    /// The task that a server's answer has created.
    ///
    /// # Errors
    /// When the method can have none, or the answer is no task.
    pub(super) fn created(
        client: &Client,
        method: &str,
        answer: &RawValue,
        own: &RequestState,
    ) -> Result<Self, ClientError> {
        if method != "tools/call" {
            return Err(ClientError::Protocol(format!("'{method}' was answered with a task")));
        }
        let first: Task = serde_json::from_str(answer.get()).map_err(protocol)?;
        Ok(Self {
            client: client.clone(),
            pause: interval(&first),
            id: first.task_id,
            handler: own.handler.clone(),
            capabilities: own.capabilities.clone().map(Arc::new),
        })
    }

    /// Names the task at its server.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far the task is, its result included when it has one.
    ///
    /// # Errors
    /// As [`Client::request`]; the server's own (-32602) when it does not have the task.
    pub async fn get(&self) -> Result<Task, ClientError> {
        let answer = self.ask("tasks/get", &json!({ "taskId": self.id })).await?;
        serde_json::from_str(answer.get()).map_err(protocol)
    }

    /// Answers questions of the task, by their keys.
    ///
    /// # Errors
    /// As [`Self::get`].
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

    /// Asks the server to cancel the task; it need not.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.ask("tasks/cancel", &json!({ "taskId": self.id })).await.map(drop)
    }

    /// Follows the task to its end: asks for it as often as the server wants, and has its questions answered by the
    /// client's [handler](super::ClientHandler). Dropping the future leaves the task alone.
    ///
    /// # Errors
    /// The error that the task ended with; [`ClientError::TaskCancelled`]; [`ClientError::Unanswered`];
    /// [`ClientError::TooManyRounds`]; as [`Self::get`].
    pub async fn result(&self) -> Result<Box<RawValue>, ClientError> {
        self.follow(None).await
    }

    /// As [`Self::result`]; what the task says of itself goes to `progress` too.
    pub(super) async fn follow(
        &self,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut pause = self.pause;
        let mut answered = HashSet::new();
        let mut said = None;
        let (mut failures, mut steps) = (0, 0.0);
        let most_rounds = self.client.inner.options.max_rounds;
        let mut rounds = 0;
        loop {
            tokio::time::sleep(pause).await;
            let task = match self.get().await {
                Ok(task) => task,
                Err(error) if passing(&error) && failures < MOST_FAILURES => {
                    tracing::debug!(%error, "a task could not be asked for");
                    failures += 1;
                    pause = pause.max(POLL_INTERVAL);
                    continue;
                }
                Err(error) => return Err(error),
            };
            (failures, pause) = (0, interval(&task));
            if let (Some(progress), true) = (&progress, task.status_message != said) {
                steps += 1.0;
                let message = task.status_message.clone();
                _ = progress.try_send(Progress { progress: steps, total: None, message });
            }
            said = task.status_message;
            match (task.status, task.result, task.error) {
                (TaskStatus::Completed, Some(result), _) => return Ok(result),
                (TaskStatus::Failed, _, Some(error)) => return Err(ClientError::Rpc(error)),
                (TaskStatus::Completed | TaskStatus::Failed, ..) => {
                    let why = "task is at its end, but has neither result nor error";
                    return Err(ClientError::Protocol(why.to_owned()));
                }
                (TaskStatus::Cancelled, ..) => return Err(ClientError::TaskCancelled),
                (TaskStatus::Working, ..) => {}
                (TaskStatus::InputRequired, ..) => {
                    let mut asked = task.input_requests;
                    // What was answered may still be shown for a while.
                    asked.retain(|key, _| !answered.contains(key));
                    if !asked.is_empty() {
                        if rounds == most_rounds {
                            return Err(ClientError::TooManyRounds(most_rounds));
                        }
                        rounds += 1;
                        self.deliver(&self.answers(&asked).await?).await?;
                        answered.extend(asked.into_keys());
                    }
                }
            }
        }
    }

    /// Hands in answers, again where that fails for a while: to hand them in twice does no harm.
    async fn deliver(&self, answers: &BTreeMap<String, Box<RawValue>>) -> Result<(), ClientError> {
        let mut failures = 0;
        loop {
            match self.update(answers).await {
                Err(error) if passing(&error) && failures < MOST_FAILURES => {
                    tracing::debug!(%error, "answers did not reach a task");
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
                questions::result(&**handler, &request.method, request.params.as_deref()).await?;
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
        self.client.once(method, Some(&params), None, &own, &mut 0).await
    }
}

/// Cancels a task when its caller no longer waits for it.
pub(super) struct CancelOnDrop(Option<TaskHandle>);

impl CancelOnDrop {
    pub(super) fn new(task: TaskHandle) -> Self {
        Self(Some(task))
    }

    pub(super) fn forget(mut self) {
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
                tracing::debug!(%error, "a task was not cancelled");
            }
        });
    }
}

fn interval(task: &Task) -> Duration {
    let asked = task.poll_interval_ms.map_or(POLL_INTERVAL, Duration::from_millis);
    asked.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

/// Whether the same question may be answered a moment later.
fn passing(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Io { .. }
            | ClientError::Timeout(_)
            | ClientError::Http { status: 429 | 502..=504, .. }
    )
}

fn protocol(error: serde_json::Error) -> ClientError {
    ClientError::Protocol(format!("task: {error}"))
}
