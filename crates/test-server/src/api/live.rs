//! The current steps of tests as an event stream, for pages that show progress.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use axum::{
    Extension,
    extract::{RawQuery, State},
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt as _, stream};
use marquetry_judge::{RunContext, Status, TestEvent, store::Outcome};
use marquetry_protocol::{server::http::ConnectionInfo, shortened};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{ApiError, Shared, stop::half_closed};
use crate::query;

/// Maximum number of unsent events of a stream. A stream that falls behind further skips events,
/// and reports how many.
const MAX_EVENTS: usize = 256;

/// Sends events to the streams that are open.
pub(super) struct Live {
    /// `None` after [`Live::close`].
    sender: Mutex<Option<broadcast::Sender<Arc<Message>>>>,
    streams: AtomicUsize,
    /// The last step of each running test, by the number of the test, for streams that are opened
    /// meanwhile.
    current: Mutex<BTreeMap<u64, Arc<Message>>>,
    last_test: AtomicU64,
}

struct Message {
    /// The batch that the event belongs to.
    run: Option<String>,
    name: &'static str,
    json: String,
}

impl Message {
    fn event(&self) -> Event {
        Event::default().event(self.name).data(&self.json)
    }
}

/// Data of the event `progress`: a test has come one step further.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProgressEvent {
    /// The batch, if the test belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Position of the test in the batch.
    index: usize,
    /// The first 200 bytes of the name of the test.
    test_name: String,
    /// The number of the trial, from 0.
    trial: u32,
    step: Step,
    /// What the step is about: a tool and its server, or numbers. At most 200 bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    detail: String,
    /// Whether the call succeeded, or the judge voted yes, or the trial passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
}

/// A step of a test.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Step {
    TrialStarted,
    Connected,
    Turn,
    CallStarted,
    CallEnded,
    Vote,
    TrialEnded,
}

/// Data of the event `ended`: a test has its result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndedEvent {
    /// Position of the test in the batch.
    pub(super) index: usize,
    /// Tests of the batch that have ended.
    pub(super) done: usize,
    /// Tests of the batch.
    pub(super) total: usize,
    pub(super) outcome: Outcome,
}

impl Live {
    pub(super) fn new() -> Self {
        let (sender, _) = broadcast::channel(MAX_EVENTS);
        Self {
            sender: Mutex::new(Some(sender)),
            streams: AtomicUsize::new(0),
            current: Mutex::default(),
            last_test: AtomicU64::new(0),
        }
    }

    /// Ends all streams, and refuses later ones.
    pub(super) fn close(&self) {
        self.sender().take();
    }

    /// Sends an event to the open streams.
    pub(super) fn send(&self, name: &'static str, run: Option<&str>, data: &impl Serialize) {
        let sender = self.sender();
        let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            return;
        };
        if let Ok(json) = serde_json::to_string(data) {
            // Without an open stream the event is not needed.
            _ = sender.send(Arc::new(Message { run: run.map(str::to_owned), name, json }));
        }
    }

    /// Sends a step of a test, and keeps it for later streams.
    fn step(&self, test: u64, run: Option<&str>, event: &ProgressEvent) {
        let Ok(json) = serde_json::to_string(event) else { return };
        let message = Arc::new(Message { run: run.map(str::to_owned), name: "progress", json });
        // The lock is held until the step is sent, so that a stream that begins meanwhile gets the
        // step once.
        let mut current = self.current();
        current.insert(test, message.clone());
        if let Some(sender) = self.sender().as_ref() {
            // Without an open stream the step is not needed.
            _ = sender.send(message);
        }
    }

    /// Returns a receiver of events, and the last steps of the tests that run. No receiver after
    /// [`Live::close`].
    fn subscribe(&self) -> (Option<broadcast::Receiver<Arc<Message>>>, Vec<Arc<Message>>) {
        let current = self.current();
        let receiver = self.sender().as_ref().map(broadcast::Sender::subscribe);
        (receiver, current.values().cloned().collect())
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Message>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sender(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<Message>>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the context of a test whose steps are sent to the streams.
pub(super) fn streamed_context(
    shared: &Shared,
    run: Option<&str>,
    index: usize,
    name: &str,
) -> RunContext {
    let context = match run {
        Some(run) => RunContext::default().in_run(run),
        None => RunContext::default(),
    };
    let run = run.map(str::to_owned);
    let name = shortened(name).to_owned();
    let test = RunningTest {
        number: shared.live.last_test.fetch_add(1, Ordering::Relaxed),
        shared: shared.clone(),
    };
    context.on_event(move |event| {
        let Some((trial, step, detail, success)) = step(event) else { return };
        let event = ProgressEvent {
            run: run.clone(),
            index,
            test_name: name.clone(),
            trial,
            step,
            detail: shortened(&detail).to_owned(),
            success,
        };
        test.shared.live.step(test.number, run.as_deref(), &event);
    })
}

/// A test that runs. Its last step is forgotten when the test ends or is dropped.
struct RunningTest {
    number: u64,
    shared: Shared,
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        self.shared.live.current().remove(&self.number);
    }
}

/// Returns the trial, the step, what it is about, and whether it succeeded.
fn step(event: &TestEvent) -> Option<(u32, Step, String, Option<bool>)> {
    Some(match event {
        TestEvent::TrialStarted { trial, of } => {
            (*trial, Step::TrialStarted, format!("{} of {of}", trial + 1), None)
        }
        TestEvent::Connected { trial, servers, tools } => {
            let detail = format!("{} servers, {tools} tools", servers.len());
            (*trial, Step::Connected, detail, None)
        }
        TestEvent::Turn { trial, turn } => {
            (*trial, Step::Turn, format!("{} calls", turn.calls.len()), None)
        }
        TestEvent::CallStarted { trial, tool_name, server_id } => {
            let detail = format!("{} of {}", shortened(tool_name), shortened(server_id));
            (*trial, Step::CallStarted, detail, None)
        }
        TestEvent::CallEnded { trial, call } => {
            let tool = shortened(&call.tool_name);
            let server = shortened(&call.server_id);
            (*trial, Step::CallEnded, format!("{tool} of {server}"), Some(call.success))
        }
        TestEvent::Vote { trial, vote } => {
            (*trial, Step::Vote, format!("vote {}", vote.index + 1), Some(vote.passed))
        }
        TestEvent::TrialEnded { trial, status, .. } => {
            (*trial, Step::TrialEnded, status.to_string(), Some(*status == Status::Passed))
        }
        // A step that this version of the API does not know.
        _ => return None,
    })
}

/// Streams events of tests: of one batch, if the query names it, or of all. The first event is
/// `open`: events after it are not missed. The last steps of the tests that run follow it.
pub(super) async fn events(
    State(shared): State<Shared>,
    connection: Option<Extension<ConnectionInfo>>,
    RawQuery(text): RawQuery,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let [run] =
        query::values(text.as_deref().unwrap_or_default(), ["run"]).map_err(ApiError::Query)?;
    let slot = StreamSlot::enter(shared)?;
    let (receiver, steps) = slot.0.live.subscribe();
    let steps = steps.iter().filter(|it| run.is_none() || run == it.run);
    let open = Event::default().event("open").data("{}");
    let first: VecDeque<Event> = [open].into_iter().chain(steps.map(|it| it.event())).collect();
    let state = (receiver, slot, run, first);
    let events = stream::unfold(state, async |(mut receiver, slot, run, mut first)| {
        let event = match first.pop_front() {
            Some(event) => event,
            None => next(receiver.as_mut()?, run.as_deref()).await?,
        };
        Some((Ok(event), (receiver, slot, run, first)))
    })
    .take_until(Box::pin(half_closed(connection)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Returns the next event of a batch, or of all; `None` when the server stops.
async fn next(
    receiver: &mut broadcast::Receiver<Arc<Message>>,
    run: Option<&str>,
) -> Option<Event> {
    loop {
        match receiver.recv().await {
            Ok(message) if run.is_none() || run == message.run.as_deref() => {
                return Some(message.event());
            }
            Ok(_) => {}
            Err(RecvError::Lagged(count)) => {
                let data = json!({"count": count}).to_string();
                return Some(Event::default().event("missed").data(data));
            }
            Err(RecvError::Closed) => return None,
        }
    }
}

/// A slot among the open streams. It is free again when it is dropped.
struct StreamSlot(Shared);

impl StreamSlot {
    fn enter(shared: Shared) -> Result<Self, ApiError> {
        let open = shared.live.streams.fetch_add(1, Ordering::Relaxed);
        let max_streams = shared.options.max_streams;
        let slot = Self(shared);
        if open >= max_streams { Err(ApiError::TooManyStreams(max_streams)) } else { Ok(slot) }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.live.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
