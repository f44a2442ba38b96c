//! Tasks: calls that go on after they were answered (extension `io.modelcontextprotocol/tasks`, SEP-2663).
//!
//! A [`Job`] is one of them; [`Tasks`] keeps those of a server, bounded in number, bytes and time. The work runs on a
//! task of the runtime, with a [`RequestContext`](super::RequestContext) of its own that belongs to no request.

mod job;
mod time;
mod watch;

use std::{
    collections::HashMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::FutureExt;
use marquetry_protocol_wire::{RpcError, error_code, types::TASKS_EXTENSION};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) use self::{job::Job, watch::Watch};
use self::{job::Outcome, watch::Watchers};
use super::{
    Caller, Principal,
    fair::{FairBounds, FairLimiter, Full, Place},
    limits::Limits,
    reply::Reply,
};

/// How a call runs as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// How long the task is kept from its creation on, if not as long as [`Limits::task_time`]. Work that is not done
    /// by then is given up.
    pub time_to_live: Option<Duration>,
    /// How often the client should ask for it, if not every second.
    pub poll_interval: Option<Duration>,
    /// Whether the call makes no sense but as a task: a stateless client that does not know tasks gets an error
    /// (-32021). Clients with sessions, whose revisions know no tasks, wait for the answer all the same.
    pub required: bool,
}

impl TaskOptions {
    /// A call that makes no sense but as a task.
    #[must_use]
    pub fn required() -> Self {
        Self { required: true, ..Self::default() }
    }

    /// The same, kept for that long.
    #[must_use]
    pub fn time_to_live(self, time: Duration) -> Self {
        Self { time_to_live: Some(time), ..self }
    }

    /// The same, with another interval for clients to ask in.
    #[must_use]
    pub fn poll_interval(self, interval: Duration) -> Self {
        Self { poll_interval: Some(interval), ..self }
    }
}

/// The tasks of a server.
pub(super) struct Tasks {
    kept: Mutex<Kept>,
    watchers: Arc<Watchers>,
    declared: Box<dyn Fn() -> bool + Send + Sync>,
    /// Bounds how many are kept, in total and of one caller.
    places: FairLimiter,
    most_bytes: usize,
    time: Duration,
    stop: CancellationToken,
    /// Work must not outlive its server.
    _stop_on_drop: DropGuard,
}

#[derive(Default)]
struct Kept {
    jobs: HashMap<Arc<str>, Entry>,
    /// Of all results together.
    bytes: usize,
    /// The number of the next task: a smaller one is older.
    next: u64,
}

/// A task that is kept.
struct Entry {
    job: Arc<Job>,
    number: u64,
    caller: Caller,
    _place: Place,
    /// Ends the wait for the task's time, which holds its result.
    _forgotten: DropGuard,
}

/// How some work came to its end.
enum Ended {
    Done(Result<Reply, RpcError>),
    Cancelled,
    OutOfTime,
}

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long a task that ran out of time can still be asked what became of it.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// The longest that a task is kept, whatever is asked for: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

impl Tasks {
    /// `declared` says whether the server declares tasks.
    pub(super) fn new(limits: &Limits, declared: Box<dyn Fn() -> bool + Send + Sync>) -> Arc<Self> {
        let stop = CancellationToken::new();
        Arc::new(Self {
            kept: Mutex::default(),
            watchers: Arc::default(),
            declared,
            places: FairLimiter::new(FairBounds {
                what: "tasks are kept, and none of them has finished",
                total_setting: "max_tasks",
                per_caller_setting: "max_tasks_per_caller",
                total: limits.max_tasks,
                per_caller: limits.max_tasks_per_caller,
                queued: 0,
                wait: Duration::ZERO,
            }),
            most_bytes: limits.max_task_bytes,
            time: limits.task_time,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        })
    }

    /// Whether the server declares tasks.
    pub(super) fn declared(&self) -> bool {
        (self.declared)()
    }

    /// The task of that id, if `asks` is whose call it was.
    ///
    /// # Errors
    /// Invalid parameters (2026-07-28, tasks, "Protocol Errors").
    pub(super) fn job(&self, id: &str, asks: Option<&Principal>) -> Result<Arc<Job>, RpcError> {
        let job = self.kept().jobs.get(id).map(|entry| entry.job.clone());
        job.filter(|job| Principal::is_same(job.principal(), asks))
            .ok_or_else(|| RpcError::invalid_params("no such task; it may have expired"))
    }

    /// Hears of changes of the tasks `ids`, starting with what they are now.
    pub(super) fn watch(&self, ids: impl IntoIterator<Item = String>) -> Arc<Watch> {
        self.watchers.watch(ids)
    }

    /// Starts some work as a task, which can be asked for from now on.
    pub(super) fn start<F, Fut>(
        self: &Arc<Self>,
        principal: Option<Arc<Principal>>,
        caller: &Caller,
        options: TaskOptions,
        work: F,
    ) -> Result<Arc<Job>, RpcError>
    where
        F: FnOnce(Arc<Job>) -> Fut,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        // An instant further away may be none that the clock knows.
        let time = options.time_to_live.unwrap_or(self.time).min(LONGEST);
        let id = random_id()?;
        let job = Job::new(
            id.clone(),
            time,
            options.poll_interval.unwrap_or(POLL_INTERVAL),
            self.stop.child_token(),
            self.watchers.clone(),
        );
        let job = Arc::new(job.of(principal));
        let expires = Instant::now() + time;
        // Before the task has its place, which would be lost if this panicked.
        let work = work(job.clone());
        let forgotten = CancellationToken::new();
        self.keep(&job, caller, forgotten.clone().drop_guard())?;
        tokio::spawn(live(Arc::downgrade(self), job.clone(), expires, forgotten, work));
        Ok(job)
    }

    /// Keeps a task. When there are too many, a finished one is forgotten: the caller's own oldest, otherwise the oldest of
    /// the caller that has the most.
    fn keep(&self, job: &Arc<Job>, caller: &Caller, forgotten: DropGuard) -> Result<(), RpcError> {
        let mut kept = self.kept();
        let place = loop {
            match self.places.try_enter(caller, 1) {
                Ok(place) => break place,
                Err(full) => {
                    let of_others = matches!(full, Full::Total { .. });
                    if !kept.forget_finished(caller, of_others, |_| 1) {
                        return Err(RpcError::too_many_requests(full.to_string()));
                    }
                }
            }
        };
        let number = kept.next;
        kept.next += 1;
        let entry = Entry {
            job: job.clone(),
            number,
            caller: caller.clone(),
            _place: place,
            _forgotten: forgotten,
        };
        kept.jobs.insert(job.id().clone(), entry);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, job: &Job, ended: Ended) {
        let outcome = match ended {
            Ended::Cancelled => Outcome::Cancelled,
            Ended::OutOfTime => Outcome::Failed(RpcError::internal(format!(
                "the task was not done within {} s",
                job.time().as_secs_f64()
            ))),
            Ended::Done(Err(error)) => Outcome::Failed(error),
            Ended::Done(Ok(reply)) => {
                let result = reply.into_whole();
                let bytes = result.get().len();
                let mut kept = self.kept();
                let caller = kept.jobs.get(job.id()).map(|entry| entry.caller.clone());
                if let Some(caller) = caller.filter(|_| bytes <= self.most_bytes) {
                    let size = |entry: &Entry| entry.job.result_bytes();
                    while kept.bytes.saturating_add(bytes) > self.most_bytes
                        && kept.forget_finished(&caller, true, size)
                    {}
                }
                if kept.bytes.saturating_add(bytes) > self.most_bytes {
                    let message = format!(
                        "results of tasks take more than {} bytes (max_task_bytes)",
                        self.most_bytes
                    );
                    Outcome::Failed(RpcError::limit_exceeded(message))
                } else {
                    kept.bytes += bytes;
                    Outcome::Completed(result)
                }
            }
        };
        let unused = job.finish(outcome);
        self.release(unused);
    }

    fn forget(&self, job: &Job) {
        self.kept().forget(job.id());
    }

    fn release(&self, bytes: usize) {
        self.kept().bytes -= bytes;
    }
}

impl Kept {
    fn forget(&mut self, id: &str) {
        // It may have made room for others before.
        if let Some(entry) = self.jobs.remove(id) {
            self.bytes -= entry.job.result_bytes();
        }
    }

    /// Forgets a finished task that has a weight: the oldest of `caller`, otherwise, when those `of_others` may go, the
    /// oldest of the caller whose tasks weigh most together. False when there is none.
    fn forget_finished(
        &mut self,
        caller: &Caller,
        of_others: bool,
        weight: impl Fn(&Entry) -> usize,
    ) -> bool {
        let goes = |entry: &&Entry| entry.job.is_finished() && weight(entry) > 0;
        let oldest_of = |caller: &Caller| {
            let own = self.jobs.values().filter(goes).filter(|entry| entry.caller == *caller);
            own.min_by_key(|entry| entry.number).map(|entry| entry.job.id().clone())
        };
        let victim = oldest_of(caller).or_else(|| {
            let mut weights = HashMap::<&Caller, usize>::new();
            for entry in self.jobs.values().filter(goes).filter(|_| of_others) {
                *weights.entry(&entry.caller).or_default() += weight(entry);
            }
            let (largest, _) = weights.into_iter().max_by_key(|(_, weight)| *weight)?;
            oldest_of(largest)
        });
        victim.inspect(|id| self.forget(id)).is_some()
    }
}

/// A task's life: its work, then the time in which its end can be asked for.
async fn live(
    tasks: Weak<Tasks>,
    job: Arc<Job>,
    expires: Instant,
    forgotten: CancellationToken,
    work: impl Future<Output = Result<Reply, RpcError>> + Send,
) {
    let ended = ended(&job, expires, work).await;
    let until = match ended {
        Ended::OutOfTime => Instant::now() + LAST_WORDS,
        _ => expires,
    };
    let Some(stop) = tasks.upgrade().map(|tasks| {
        tasks.finish(&job, ended);
        tasks.stop.clone()
    }) else {
        return;
    };
    tokio::select! {
        () = tokio::time::sleep_until(until) => {}
        () = stop.cancelled() => return,
        () = forgotten.cancelled() => return,
    }
    if let Some(tasks) = tasks.upgrade() {
        tasks.forget(&job);
    }
}

/// Does the work, and drops it however it ended.
async fn ended(
    job: &Job,
    expires: Instant,
    work: impl Future<Output = Result<Reply, RpcError>> + Send,
) -> Ended {
    tokio::select! {
        biased;
        () = job.cancellation().cancelled() => Ended::Cancelled,
        done = AssertUnwindSafe(work).catch_unwind() => Ended::Done(
            done.unwrap_or_else(|_| Err(RpcError::internal("the task's work panicked")))
        ),
        () = tokio::time::sleep_until(expires) => Ended::OutOfTime,
    }
}

/// What a client that does not declare tasks is told.
pub(super) fn needs_tasks(method: &str) -> RpcError {
    let message = format!("'{method}' needs a client that knows tasks ('{TASKS_EXTENSION}')");
    RpcError::new(error_code::MISSING_CAPABILITY, message)
        .with_data(&json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } }))
}

/// 128 random bits: a client that knows the id gets the result, so it must not be guessable (SEP-2663, "Security
/// Considerations").
fn random_id() -> Result<Arc<str>, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| RpcError::internal("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}
