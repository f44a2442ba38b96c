//! Tasks: calls that continue after they were answered (extension `io.modelcontextprotocol/tasks`,
//! SEP-2663).
//!
//! A [`Job`] is one task. [`Tasks`] are those of a server, limited in number, bytes and time. The
//! work runs on a task of the runtime, with its own [`RequestContext`](super::RequestContext) that
//! belongs to no request.

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
    fair::{FairBounds, FairLimiter, Full, Slot},
    limits::Limits,
    reply::Reply,
};

/// Options of a call that runs as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Time for which the task is stored after its creation; [`Limits::task_time`] by default. Work
    /// that is not finished by then is cancelled.
    pub time_to_live: Option<Duration>,
    /// Interval at which the client should poll; a second by default.
    pub poll_interval: Option<Duration>,
    /// Whether the call must run as a task: a stateless client without tasks then gets an error
    /// (-32021). Clients with sessions, whose revisions have no tasks, wait for the answer in any
    /// case.
    pub required: bool,
}

impl TaskOptions {
    /// Options of a call that must run as a task.
    #[must_use]
    pub fn required() -> Self {
        Self { required: true, ..Self::default() }
    }

    /// Sets the time for which the task is stored.
    #[must_use]
    pub fn time_to_live(self, time: Duration) -> Self {
        Self { time_to_live: Some(time), ..self }
    }

    /// Sets the interval at which clients should poll.
    #[must_use]
    pub fn poll_interval(self, interval: Duration) -> Self {
        Self { poll_interval: Some(interval), ..self }
    }
}

/// The tasks of a server.
pub(super) struct Tasks {
    stored: Mutex<StoredTasks>,
    watchers: Arc<Watchers>,
    /// Returns whether the server declares tasks. A function, because the trait `Handler` uses this
    /// module.
    declares: Box<dyn Fn() -> bool + Send + Sync>,
    /// Limits the number of stored tasks, in total and of one caller.
    slots: FairLimiter,
    max_bytes: usize,
    time: Duration,
    stop: CancellationToken,
    /// Work must not outlive its server.
    _stop_on_drop: DropGuard,
}

#[derive(Default)]
struct StoredTasks {
    jobs: HashMap<Arc<str>, Entry>,
    /// Bytes of all results together.
    bytes: usize,
    /// Number of the next task: smaller numbers are older.
    next: u64,
}

/// A stored task.
struct Entry {
    job: Arc<Job>,
    number: u64,
    caller: Caller,
    _slot: Slot,
    /// Ends the timer of the task, which holds its result.
    _removal_guard: DropGuard,
}

/// The end of the work of a task.
enum WorkEnd {
    Done(Result<Reply, RpcError>),
    Cancelled,
    OutOfTime,
}

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which the state of an expired task can be read.
const EXPIRED_TIME: Duration = Duration::from_mins(1);

/// Maximum time for which a task is stored: ten years.
const MAX_TIME: Duration = Duration::from_hours(87600);

impl Tasks {
    pub(super) fn new(limits: &Limits, declares: Box<dyn Fn() -> bool + Send + Sync>) -> Arc<Self> {
        let stop = CancellationToken::new();
        Arc::new(Self {
            stored: Mutex::default(),
            watchers: Arc::default(),
            declares,
            slots: FairLimiter::new(FairBounds {
                what: "tasks are stored, and none of them has finished",
                total_setting: "max_tasks",
                per_caller_setting: "max_tasks_per_caller",
                total: limits.max_tasks,
                per_caller: limits.max_tasks_per_caller,
                queued: 0,
                wait: Duration::ZERO,
            }),
            max_bytes: limits.max_task_bytes,
            time: limits.task_time,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        })
    }

    /// Returns whether the server declares tasks.
    pub(super) fn declared(&self) -> bool {
        (self.declares)()
    }

    /// Returns the task with that id, if `sender` made the call.
    ///
    /// # Errors
    /// Returns an error if the task is unknown (2026-07-28, tasks, "Protocol Errors").
    pub(super) fn job(&self, id: &str, sender: Option<&Principal>) -> Result<Arc<Job>, RpcError> {
        let job = self.stored().jobs.get(id).map(|entry| entry.job.clone());
        job.filter(|job| Principal::is_same(job.principal(), sender))
            .ok_or_else(|| RpcError::invalid_params("unknown task; it may have expired"))
    }

    /// Watches the tasks `ids`; each counts as changed at first.
    pub(super) fn watch(&self, ids: impl IntoIterator<Item = String>) -> Arc<Watch> {
        self.watchers.watch(ids)
    }

    /// Starts work as a task.
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
        // The clock may not represent an instant further away.
        let time = options.time_to_live.unwrap_or(self.time).min(MAX_TIME);
        let id = random_id()?;
        let job = Arc::new(Job::new(
            id.clone(),
            time,
            options.poll_interval.unwrap_or(POLL_INTERVAL),
            self.stop.child_token(),
            self.watchers.clone(),
            principal,
        ));
        let expires = Instant::now() + time;
        // Before the task gets its slot, which would be lost if this panicked.
        let work = work(job.clone());
        let removed = CancellationToken::new();
        self.store(&job, caller, removed.clone().drop_guard())?;
        tokio::spawn(run_task(Arc::downgrade(self), job.clone(), expires, removed, work));
        Ok(job)
    }

    /// Stores a task. At a limit, a finished one is dropped: the caller's own oldest, otherwise the
    /// oldest of the caller with the most.
    fn store(&self, job: &Arc<Job>, caller: &Caller, removed: DropGuard) -> Result<(), RpcError> {
        let mut stored = self.stored();
        let slot = loop {
            match self.slots.try_enter(caller, 1) {
                Ok(slot) => break slot,
                Err(full) => {
                    let of_others = matches!(full, Full::Total { .. });
                    if !stored.evict_finished(caller, of_others, |_| 1) {
                        return Err(RpcError::too_many_requests(full.to_string()));
                    }
                }
            }
        };
        let number = stored.next;
        stored.next += 1;
        let entry = Entry {
            job: job.clone(),
            number,
            caller: caller.clone(),
            _slot: slot,
            _removal_guard: removed,
        };
        stored.jobs.insert(job.id().clone(), entry);
        Ok(())
    }

    fn stored(&self) -> MutexGuard<'_, StoredTasks> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, job: &Job, ended: WorkEnd) {
        let outcome = match ended {
            WorkEnd::Cancelled => Outcome::Cancelled,
            WorkEnd::OutOfTime => Outcome::Failed(RpcError::internal(format!(
                "the task was not done within {} s",
                job.ttl().as_secs_f64()
            ))),
            WorkEnd::Done(Err(error)) => Outcome::Failed(error),
            WorkEnd::Done(Ok(reply)) => {
                let result = reply.into_whole();
                let bytes = result.get().len();
                let mut stored = self.stored();
                let caller = stored.jobs.get(job.id()).map(|entry| entry.caller.clone());
                if let Some(caller) = caller.filter(|_| bytes <= self.max_bytes) {
                    while stored.bytes.saturating_add(bytes) > self.max_bytes
                        && stored.evict_finished(&caller, true, |entry| entry.job.result_bytes())
                    {
                    }
                }
                if stored.bytes.saturating_add(bytes) > self.max_bytes {
                    let message = format!(
                        "results of tasks take more than {} bytes (max_task_bytes)",
                        self.max_bytes
                    );
                    Outcome::Failed(RpcError::limit_exceeded(message))
                } else {
                    stored.bytes += bytes;
                    Outcome::Completed(result)
                }
            }
        };
        let unused = job.finish(outcome);
        self.release(unused);
    }

    fn remove(&self, job: &Job) {
        self.stored().remove(job.id());
    }

    fn release(&self, bytes: usize) {
        self.stored().bytes -= bytes;
    }
}

impl StoredTasks {
    fn remove(&mut self, id: &str) {
        // It may have been dropped to make room.
        if let Some(entry) = self.jobs.remove(id) {
            self.bytes -= entry.job.result_bytes();
        }
    }

    /// Evicts a finished task whose weight is not 0: the oldest of `caller`; or, if tasks
    /// `of_others` may be evicted, the oldest of the caller whose tasks have the greatest weight.
    /// Returns false if there is none.
    fn evict_finished(
        &mut self,
        caller: &Caller,
        of_others: bool,
        weight: impl Fn(&Entry) -> usize,
    ) -> bool {
        let finished = self.jobs.values().filter(|it| it.job.is_finished() && weight(it) > 0);
        let finished: Vec<&Entry> = finished.collect();
        let victim = oldest_of(&finished, caller).or_else(|| {
            let mut weights = HashMap::<&Caller, usize>::new();
            for entry in finished.iter().filter(|_| of_others) {
                *weights.entry(&entry.caller).or_default() += weight(entry);
            }
            let (largest, _) = weights.into_iter().max_by_key(|(_, weight)| *weight)?;
            oldest_of(&finished, largest)
        });
        victim.inspect(|id| self.remove(id)).is_some()
    }
}

/// Returns the id of the oldest of a caller's tasks.
fn oldest_of(entries: &[&Entry], caller: &Caller) -> Option<Arc<str>> {
    let own = entries.iter().filter(|entry| entry.caller == *caller);
    own.min_by_key(|entry| entry.number).map(|entry| entry.job.id().clone())
}

/// Runs a task: its work, then the time for which its outcome is stored.
async fn run_task(
    tasks: Weak<Tasks>,
    job: Arc<Job>,
    expires: Instant,
    removed: CancellationToken,
    work: impl Future<Output = Result<Reply, RpcError>> + Send,
) {
    let ended = run_work(&job, expires, work).await;
    let until = match ended {
        WorkEnd::OutOfTime => Instant::now() + EXPIRED_TIME,
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
        () = removed.cancelled() => return,
    }
    if let Some(tasks) = tasks.upgrade() {
        tasks.remove(&job);
    }
}

/// Runs the work, and drops it in any case.
async fn run_work(
    job: &Job,
    expires: Instant,
    work: impl Future<Output = Result<Reply, RpcError>> + Send,
) -> WorkEnd {
    tokio::select! {
        biased;
        () = job.cancellation().cancelled() => WorkEnd::Cancelled,
        done = AssertUnwindSafe(work).catch_unwind() => WorkEnd::Done(
            done.unwrap_or_else(|_| Err(RpcError::internal("the task's work panicked")))
        ),
        () = tokio::time::sleep_until(expires) => WorkEnd::OutOfTime,
    }
}

/// Returns the error for a client that does not declare tasks.
pub(super) fn needs_tasks(method: &str) -> RpcError {
    let message = format!("'{method}' needs a client that supports tasks ('{TASKS_EXTENSION}')");
    RpcError::new(error_code::MISSING_CAPABILITY, message)
        .with_data(&json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } }))
}

/// Returns 128 random bits: a client that knows the id can read the result, so it must not be
/// guessable (SEP-2663, "Security Considerations").
fn random_id() -> Result<Arc<str>, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| RpcError::internal("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}
