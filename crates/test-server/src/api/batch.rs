//! Batches: many tests as one run, with their progress as an event stream.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::State,
    response::sse::{Event, KeepAlive, KeepAliveStream, Sse},
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use marquetry_judge::{
    TestCase, TestResult,
    store::{NewRun, Outcome, ResolvedConfiguration, RunStatus, TestRun, with_heartbeat},
};
use marquetry_protocol::server::http::ConnectionInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, error::SendTimeoutError},
    },
    task::JoinError,
};
use tokio_util::sync::CancellationToken;

use super::{
    ApiError, Shared,
    body::parse,
    live::{self, EndedEvent},
    stop::{CLIENT_LEFT, CLIENT_STOPPED_READING, StopSignal, half_closed, stop_signal},
};

/// A request to run many tests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BatchRequest {
    /// Name of the run.
    pub(super) name: Option<String>,
    /// The tests, each as for `/api/test/run`.
    pub(super) cases: Vec<TestCase>,
    /// Tests that run at a time; the server's limit applies, too.
    pub(super) concurrency: Option<usize>,
}

/// Data of the event `result`: one more test has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ResultEvent {
    /// Position of the test in the batch.
    index: usize,
    /// Tests that have ended.
    done: usize,
    /// Tests of the batch.
    total: usize,
    result: TestResult,
}

/// Maximum number of unread events. While this many are unread, the batch starts no other test.
const MAX_EVENTS: usize = 16;

/// Runs a batch; see [`start`].
pub(super) async fn batch(
    State(shared): State<Shared>,
    connection: Option<Extension<ConnectionInfo>>,
    body: Body,
) -> Result<EventStream, ApiError> {
    let slot = BatchSlot::acquire(&shared)?;
    let request: BatchRequest = parse(&shared, body, "batch").await?;
    check(&shared, &request.cases, "batch")?;
    let configuration = shared.tests.configuration(&request.cases);
    if let Some(configuration) = &configuration {
        shared.tests.runner().store().put_configuration(configuration).await?;
    }
    let batch = Batch {
        request,
        configuration_id: configuration.map(|configuration| configuration.id),
        configuration: None,
    };
    start(shared, slot, connection, batch).await
}

/// A slot among the open batches. A handler acquires it before it reads the body: the cases stay in
/// memory until the batch ends.
pub(super) struct BatchSlot(
    #[expect(dead_code, reason = "it is held until it is dropped")] OwnedSemaphorePermit,
);

impl BatchSlot {
    pub(super) fn acquire(shared: &Shared) -> Result<Self, ApiError> {
        let slot = shared.batches.clone().try_acquire_owned();
        slot.map(Self).map_err(|_| ApiError::TooManyBatches(shared.options.max_batches))
    }
}

/// Checks that a batch has an allowed number of cases, and that each case may run. `expected` names
/// the body in the error.
pub(super) fn check(
    shared: &Shared,
    cases: &[TestCase],
    expected: &'static str,
) -> Result<(), ApiError> {
    let problem = match cases.len() {
        0 => Some("cases is empty".to_owned()),
        many if many > shared.options.max_batch => {
            Some(format!("{many} cases; a batch has at most {}", shared.options.max_batch))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(ApiError::Body { expected, problem });
    }
    match cases.iter().find_map(|case| shared.tests.refusal(case)) {
        Some(refusal) => Err(ApiError::Forbidden(refusal)),
        None => Ok(()),
    }
}

/// Events of a batch.
pub(super) type EventStream = Sse<KeepAliveStream<BoxStream<'static, Result<Event, Infallible>>>>;

/// A batch whose cases are checked.
pub(super) struct Batch {
    pub(super) request: BatchRequest,
    /// The id of the configuration that the run has.
    pub(super) configuration_id: Option<String>,
    /// Applied to each case when it begins: the cases of a batch that waits share it.
    pub(super) configuration: Option<Arc<ResolvedConfiguration>>,
}

/// Starts a batch. Its events are `started`, `result` for each test, and `completed` or `failed`.
/// When the client disconnects, or does not read for
/// [`ApiOptions::batch_read_timeout`](super::ApiOptions::batch_read_timeout), the batch stops:
/// running tests end with the status `error`, no further test is started, and the run is stored as
/// failed.
pub(super) async fn start(
    shared: Shared,
    slot: BatchSlot,
    connection: Option<Extension<ConnectionInfo>>,
    batch: Batch,
) -> Result<EventStream, ApiError> {
    let Batch { request, configuration_id, configuration } = batch;
    let run = NewRun {
        name: request.name.clone(),
        configuration_id,
        total_tests: u32::try_from(request.cases.len()).unwrap_or(u32::MAX),
    };
    let started = shared.tests.runner().store().start_run(run).await?;
    let (sender, receiver) = mpsc::channel(MAX_EVENTS);
    let client = Client {
        events: sender.clone(),
        timeout: shared.options.batch_read_timeout,
        stopped_reading: CancellationToken::new(),
        stopping: shared.stopping.clone(),
    };
    let stopped_reading = client.stopped_reading.clone();
    let stop = stop_signal(&shared, async move {
        tokio::select! {
            () = sender.closed() => CLIENT_LEFT,
            () = half_closed(connection) => CLIENT_LEFT,
            () = stopped_reading.cancelled() => CLIENT_STOPPED_READING,
        }
    });
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        run_batch(&shared, request, configuration, started, &client, stop).await;
        drop(slot);
    });
    let events = stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|event: Event| (Ok(event), receiver))
    });
    Ok(Sse::new(events.boxed()).keep_alive(KeepAlive::default()))
}

/// The client of a batch.
struct Client {
    events: mpsc::Sender<Event>,
    /// Maximum time that an event waits for the client to read earlier ones.
    timeout: Duration,
    /// Cancelled when an event has waited for that time.
    stopped_reading: CancellationToken,
    /// Cancelled when the server stops. It does not wait for its clients.
    stopping: CancellationToken,
}

impl Client {
    /// Sends an event. Failures are ignored here: they stop the tests through
    /// [`Self::stopped_reading`] or the closed channel, and all results are stored.
    async fn send(&self, event: Event) {
        if self.stopped_reading.is_cancelled() {
            return;
        }
        let sent = tokio::select! {
            // Sending comes first, so that a client that reads gets the last event even when the
            // server stops.
            biased;
            sent = self.events.send_timeout(event, self.timeout) => sent,
            () = self.stopping.cancelled() => return,
        };
        if let Err(SendTimeoutError::Timeout(_)) = sent {
            self.stopped_reading.cancel();
        }
    }
}

/// Runs a batch, and sends its events to the client and to the live streams.
async fn run_batch(
    shared: &Shared,
    request: BatchRequest,
    configuration: Option<Arc<ResolvedConfiguration>>,
    started: TestRun,
    client: &Client,
    stop: StopSignal,
) {
    let id = started.id.clone();
    shared.live.send("runStarted", Some(&id), &started);
    client.send(event("started", &started)).await;
    let store = shared.tests.runner().store();
    let tests = run_tests(shared, &id, request, configuration, client, &stop);
    with_heartbeat(&**store, &id, tests).await;
    let reason = stop.now_or_never();
    let status = if reason.is_some() { RunStatus::Failed } else { RunStatus::Completed };
    let finished = store.finish_run(&id, status).await;
    if let Ok(run) = &finished {
        shared.live.send("runEnded", Some(&id), run);
    }
    let last = match (finished, reason) {
        (Ok(run), None) => event("completed", &run),
        (Ok(_), Some(reason)) => {
            tracing::info!(run = id, reason, "a batch was stopped");
            event("failed", &json!({"error": format!("the batch was stopped: {reason}")}))
        }
        (Err(error), _) => {
            tracing::warn!(run = id, "failed to store the end of a batch: {error}");
            event("failed", &json!({"error": error.to_string()}))
        }
    };
    client.send(last).await;
}

/// Runs the tests of a batch, and sends an event for each that ends.
async fn run_tests(
    shared: &Shared,
    run: &str,
    request: BatchRequest,
    configuration: Option<Arc<ResolvedConfiguration>>,
    client: &Client,
    stop: &StopSignal,
) {
    let total = request.cases.len();
    let max_running = shared.options.max_running.max(1);
    let concurrency = request.concurrency.unwrap_or(max_running).clamp(1, max_running);
    let mut results = stream::iter(request.cases.into_iter().enumerate())
        .map(|(index, mut case)| {
            if let Some(configuration) = &configuration {
                configuration.apply(&mut case);
            }
            // Each test is a task of its own, so that it runs on, and frees its slot, while the
            // client does not read the result of another one.
            let test = run_test(shared.clone(), run.to_owned(), index, case, stop.clone());
            shared.tasks.spawn(test)
        })
        .buffer_unordered(concurrency);
    let mut done = 0;
    while let Some(ended) = results.next().await {
        let (index, result) = match ended.map_err(JoinError::try_into_panic) {
            Ok(Some(ended)) => ended,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The batch or the server stops.
            Ok(None) | Err(Err(_)) => continue,
        };
        done += 1;
        let ended = EndedEvent { index, done, total, outcome: Outcome::of(&result) };
        shared.live.send("ended", Some(run), &ended);
        client.send(event("result", &ResultEvent { index, done, total, result })).await;
    }
}

/// Runs a test of a batch once it gets a slot. Returns [`None`] if the batch stops before that.
async fn run_test(
    shared: Shared,
    run: String,
    index: usize,
    case: TestCase,
    stop: StopSignal,
) -> Option<(usize, TestResult)> {
    // A batch is not among the waiting requests that `max_waiting` limits: it has a slot among the
    // batches already.
    let _slot = tokio::select! {
        biased;
        _ = stop.clone() => return None,
        slot = shared.slots.acquire() => slot,
    };
    let context = live::streamed_context(&shared, Some(&run), index, &case.name).stopped_by(stop);
    Some((index, shared.tests.run_with(case, context).await))
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    event.json_data(data).unwrap_or_else(|error| {
        // Results have only text as keys, so they can be written as JSON. If a change breaks this,
        // the client gets the error.
        Event::default().event("failed").data(json!({"error": error.to_string()}).to_string())
    })
}
