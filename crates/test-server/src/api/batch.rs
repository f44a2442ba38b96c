//! Batches: many tests as one run, with their progress as an event stream.

use std::convert::Infallible;

use axum::{
    body::Body,
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use marquetry_judge::{
    TestCase, TestResult,
    store::{NewRun, Outcome, RunStatus, TestRun, while_run_lives},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    ApiError, Shared,
    body::parse,
    live::{self, EndedEvent},
    stop::{Stopped, stopped},
};

/// A request to run many tests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BatchRequest {
    /// Name of the run.
    name: Option<String>,
    /// The tests, each as for `/api/test/run`.
    cases: Vec<TestCase>,
    /// Tests that run at a time; the server's limit applies, too.
    concurrency: Option<usize>,
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

/// Maximum number of unread events. A client that does not read makes the batch wait.
const MAX_EVENTS: usize = 16;

/// Runs a batch. Its events are `started`, `result` for each test, and `completed` or `failed`. When the client disconnects, the batch
/// stops: running tests end with the status `error`, no further test is started, and the run is stored as failed.
pub(super) async fn batch(
    State(shared): State<Shared>,
    body: Body,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let request: BatchRequest = parse(&shared, body, "batch").await?;
    let problem = match request.cases.len() {
        0 => Some("cases is empty".to_owned()),
        many if many > shared.options.max_batch => {
            Some(format!("{many} cases; a batch has at most {}", shared.options.max_batch))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(ApiError::Body { wanted: "batch", problem });
    }
    if let Some(refusal) = request.cases.iter().find_map(|case| shared.tests.refusal(case)) {
        return Err(ApiError::Forbidden(refusal));
    }
    let store = shared.tests.runner().store();
    let configuration = shared.tests.configuration(&request.cases);
    if let Some(configuration) = &configuration {
        store.put_configuration(configuration).await?;
    }
    let run = NewRun {
        name: request.name.clone(),
        configuration_id: configuration.map(|configuration| configuration.id),
        total_tests: u32::try_from(request.cases.len()).unwrap_or(u32::MAX),
    };
    let started = store.start_run(run).await?;
    let (sender, receiver) = mpsc::channel(MAX_EVENTS);
    let events = sender.clone();
    let stopped = stopped(&shared, async move { events.closed().await });
    let tasks = shared.tasks.clone();
    tasks.spawn(async move { work(&shared, request, started, &sender, stopped).await });
    let events = stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|event: Event| (Ok(event), receiver))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

async fn work(
    shared: &Shared,
    request: BatchRequest,
    started: TestRun,
    sender: &mpsc::Sender<Event>,
    stopped: Stopped,
) {
    let id = started.id.clone();
    // Failures to send are ignored: a closed channel ends the tests, and all results are stored.
    shared.live.send("runStarted", Some(&id), &started);
    _ = sender.send(event("started", &started)).await;
    let total = request.cases.len();
    let most = shared.options.max_running.max(1);
    let concurrency = request.concurrency.unwrap_or(most).clamp(1, most);
    let mut results = stream::iter(request.cases.into_iter().enumerate())
        .map(|(index, case)| {
            let (id, stopped) = (&id, stopped.clone());
            async move {
                // A batch waits without a limit, because it already counts among the accepted requests.
                let _place = tokio::select! {
                    biased;
                    _ = stopped.clone() => return None,
                    place = shared.places.acquire() => place,
                };
                let context =
                    live::watched(shared, Some(id), index, &case.name).stopped_by(stopped);
                Some((index, shared.tests.run_with(case, context).await))
            }
        })
        .buffer_unordered(concurrency);
    let mut done = 0;
    let work = async {
        while let Some(ended) = results.next().await {
            let Some((index, result)) = ended else { continue };
            done += 1;
            let ended = EndedEvent { index, done, total, outcome: Outcome::of(&result) };
            shared.live.send("ended", Some(&id), &ended);
            _ = sender.send(event("result", &ResultEvent { index, done, total, result })).await;
        }
    };
    let store = shared.tests.runner().store();
    while_run_lives(&**store, &id, work).await;
    drop(results);
    let reason = stopped.now_or_never();
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
            tracing::warn!(run = id, "the end of a batch was not stored: {error}");
            event("failed", &json!({"error": error.to_string()}))
        }
    };
    _ = sender.send(last).await;
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    event.json_data(data).unwrap_or_else(|error| {
        // Results have only text as keys, so they can be written as JSON. If a change breaks this, the client gets the error.
        Event::default().event("failed").data(json!({"error": error.to_string()}).to_string())
    })
}
