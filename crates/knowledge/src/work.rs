//! Long computations: reading documents, cutting and embedding texts.
//!
//! All callers share a limited number of slots. A free slot goes to the waiting caller who has the
//! fewest, and one caller never gets all of them. Work ends at its deadline, and when its caller
//! disconnects.

use std::{
    collections::HashMap,
    num::{NonZeroU64, NonZeroUsize},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use marquetry_rag::{Stop, extraction::Limits as ExtractLimits};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    config::KnowledgeConfig,
    failure::{ErrorCode, Failure},
};

/// The caller of some work, and its time limits.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    caller: Arc<str>,
    /// Time limit for reading a document, and for cutting it: `knowledge.max_work_ms`.
    time: Duration,
    /// Limit of the documents that are read at the same time:
    /// `knowledge.max_unpacked_bytes_at_once`.
    max_unpacked_bytes_at_once: NonZeroU64,
    /// Time limit for embedding it: `knowledge.max_embed_ms`.
    embed_time: Duration,
    /// Maximum length of a passage: `knowledge.max_passage_bytes`.
    max_passage_bytes: NonZeroUsize,
}

impl Job {
    pub(crate) fn new(config: &KnowledgeConfig, caller: &str) -> Self {
        Self {
            caller: caller.into(),
            time: Duration::from_millis(config.max_work_ms.get()),
            max_unpacked_bytes_at_once: config.max_unpacked_bytes_at_once,
            embed_time: Duration::from_millis(config.max_embed_ms.get()),
            max_passage_bytes: config.max_passage_bytes,
        }
    }

    /// Returns the same job for another caller.
    pub(crate) fn of(&self, caller: &str) -> Self {
        Self { caller: caller.into(), ..self.clone() }
    }

    /// Returns the maximum length of a passage, in bytes.
    pub(crate) fn max_passage_bytes(&self) -> NonZeroUsize {
        self.max_passage_bytes
    }

    /// Returns the time limit for one step of the work.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Returns the limits for reading one document.
    pub(crate) fn extract_limits(&self) -> ExtractLimits {
        let mut limits = ExtractLimits::default();
        limits.max_time = self.time;
        limits.max_unpacked_bytes_at_once = self.max_unpacked_bytes_at_once.get();
        limits
    }
}

/// The slots of this process: several for each processor, because some of the work waits.
static SLOTS: LazyLock<Slots> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Slots::new((2 * processors).max(4))
});

/// Runs work on a thread for blocking work. If its caller disconnects while it waits, it is not
/// started; later, the work is stopped and frees its slot when it notices.
///
/// # Errors
///
/// Returns an error if the work fails, if no slot is free in time ([`ErrorCode::Busy`]), or if the
/// work panics ([`ErrorCode::Internal`]).
pub(crate) async fn worked<T: Send + 'static>(
    job: &Job,
    what: &str,
    work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    SLOTS.work(job, what, work).await
}

/// Holds a slot for work that also embeds, and waits for the work. It is dropped at its deadline.
///
/// # Errors
///
/// Returns an error if the work fails, if no slot is free in time ([`ErrorCode::Busy`]), or if the
/// work takes too long ([`ErrorCode::LimitExceeded`]).
pub(crate) async fn embedded<T>(
    job: &Job,
    what: &str,
    work: impl AsyncFnOnce(Stop) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _slot = SLOTS.take(job, what).await?;
    let stop = Stop::within(job.time);
    let done = timeout(job.embed_time, work(stop)).await;
    done.unwrap_or_else(|_| {
        let ms = job.embed_time.as_millis();
        let message = format!("{what} takes longer than knowledge.max_embed_ms ({ms})");
        Err(Failure::new(ErrorCode::LimitExceeded, message))
    })
}

/// Slots for work, and the callers that wait for them.
#[derive(Clone)]
struct Slots(Arc<Mutex<SlotTable>>);

/// The slots and the work that waits for them.
struct SlotTable {
    /// Number of slots.
    count: usize,
    taken: usize,
    /// Number of slots of each caller who has any.
    held: HashMap<Arc<str>, usize>,
    /// Waiting work, in the order of arrival.
    waiting: Vec<Waiter>,
}

struct Waiter {
    caller: Arc<str>,
    send: oneshot::Sender<Slot>,
}

/// A slot in use; dropping it frees the slot.
struct Slot {
    slots: Slots,
    caller: Arc<str>,
}

impl Slots {
    fn new(count: usize) -> Self {
        let held = HashMap::new();
        Self(Arc::new(Mutex::new(SlotTable { count, taken: 0, held, waiting: Vec::new() })))
    }

    fn state(&self) -> MutexGuard<'_, SlotTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, job: &Job, what: &str) -> Result<Slot, Failure> {
        let (send, receive) = oneshot::channel();
        self.state().waiting.push(Waiter { caller: job.caller.clone(), send });
        self.give();
        if let Ok(Ok(slot)) = timeout(job.time, receive).await {
            Ok(slot)
        } else {
            let seconds = job.time.as_secs_f64();
            let message = format!(
                "{what} did not begin within {seconds} seconds: other documents are being processed; try again later"
            );
            Err(Failure::new(ErrorCode::Busy, message))
        }
    }

    /// Gives free slots to waiting callers.
    fn give(&self) {
        loop {
            let next = self.state().next();
            let Some(Waiter { caller, send }) = next else { return };
            // If the receiver has gone, the slot is dropped here and becomes free again.
            drop(send.send(Slot { slots: self.clone(), caller }));
        }
    }

    async fn work<T: Send + 'static>(
        &self,
        job: &Job,
        what: &str,
        work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let slot = self.take(job, what).await?;
        let stop = Stop::within(job.time);
        let caller = stop.on_drop();
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            work(&stop)
        })
        .await
        .map_err(|_| Failure::new(ErrorCode::Internal, format!("{what} failed")))?;
        caller.disarm();
        done
    }
}

impl SlotTable {
    /// Removes and returns the waiting caller who has the fewest slots; of several, the first.
    fn next(&mut self) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.send.is_closed());
        if self.taken == self.count {
            return None;
        }
        // One slot is left for others, so that they need not wait for all the work of one caller.
        let max = self.count.saturating_sub(1).max(1);
        let waiting =
            self.waiting.iter().enumerate().filter(|(_, waiter)| self.slots_of(waiter) < max);
        let (index, _) = waiting.min_by_key(|(_, waiter)| self.slots_of(waiter))?;
        let waiter = self.waiting.remove(index);
        self.taken += 1;
        *self.held.entry(waiter.caller.clone()).or_default() += 1;
        Some(waiter)
    }

    /// Returns the number of slots that the caller of a waiter has.
    fn slots_of(&self, waiter: &Waiter) -> usize {
        self.held.get(&waiter.caller).copied().unwrap_or(0)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut state = self.slots.state();
            state.taken -= 1;
            if let Some(held) = state.held.get_mut(&self.caller) {
                *held -= 1;
                if *held == 0 {
                    state.held.remove(&self.caller);
                }
            }
        }
        self.slots.give();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering::SeqCst},
            mpsc,
        },
        time::Instant,
    };

    use super::*;

    fn job(caller: &str) -> Job {
        Job::new(&KnowledgeConfig::default(), caller)
    }

    #[test]
    fn limits_for_reading_come_from_the_settings() {
        let text = "max_work_ms = 7\nmax_unpacked_bytes_at_once = 1_000";
        let limits = Job::new(&toml::from_str(text).unwrap(), "me").extract_limits();
        assert_eq!(
            (limits.max_time, limits.max_unpacked_bytes_at_once),
            (Duration::from_millis(7), 1_000)
        );
        let defaults = ExtractLimits::default();
        assert_eq!(
            job("me").extract_limits().max_unpacked_bytes_at_once,
            defaults.max_unpacked_bytes_at_once
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_of_work_holds_even_after_callers_have_gone() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MAX: AtomicUsize = AtomicUsize::new(0);
        fn work(_: &Stop) -> Result<(), Failure> {
            MAX.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            NOW.fetch_sub(1, SeqCst);
            Ok(())
        }
        let slots = Slots::new(3);
        for round in 0..8 {
            let one = {
                let slots = slots.clone();
                tokio::spawn(async move { slots.work(&job("me"), "it", work).await })
            };
            // Half of them are cancelled while they work or wait.
            if round % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                one.abort();
            }
        }
        for _ in 0..4 {
            slots.work(&job("me"), "it", work).await.unwrap();
        }
        // On a busy machine no two may overlap; one slot is left for others.
        assert!((1..=2).contains(&MAX.load(SeqCst)), "{MAX:?}");
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_and_gives_its_place_back() {
        let slots = Slots::new(2);
        for _ in 0..4 {
            let failed = slots
                .work(&job("me"), "reading", |_: &Stop| -> Result<(), Failure> {
                    panic!("on purpose")
                })
                .await
                .unwrap_err();
            assert_eq!((failed.code, &*failed.message), (ErrorCode::Internal, "reading failed"));
        }
    }

    async fn take(slots: &Slots, caller: &str) -> Slot {
        slots.take(&job(caller), "it").await.unwrap()
    }

    #[tokio::test]
    async fn a_free_slot_goes_to_the_caller_with_the_fewest() {
        let slots = Slots::new(3);
        let first = take(&slots, "many").await;
        let second = take(&slots, "many").await;
        let third = take(&slots, "other").await;
        let (tell, told) = mpsc::channel();
        for caller in ["many", "many", "other", "new"] {
            let slots = slots.clone();
            let tell = tell.clone();
            tokio::spawn(async move {
                let slot = slots.take(&job(caller), "it").await.unwrap();
                tell.send(caller).unwrap();
                // The slot stays in use.
                std::mem::forget(slot);
            });
            // Callers wait in this order.
            tokio::task::yield_now().await;
        }
        let mut order = Vec::new();
        for slot in [first, second, third] {
            drop(slot);
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            order.extend(told.try_recv());
        }
        assert_eq!(order, ["new", "many", "other"]);
    }

    #[tokio::test]
    async fn one_caller_leaves_a_place_to_others() {
        let slots = Slots::new(4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(slots.take(&job("many"), "it").await.unwrap());
        }
        let impatient = Job { time: Duration::from_millis(5), ..job("many") };
        let refused = slots.take(&impatient, "reading").await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::Busy);
        held.push(slots.take(&job("other"), "it").await.unwrap());
        drop(held);
        let state = slots.state();
        assert_eq!((state.taken, state.held.len(), state.waiting.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn work_whose_caller_goes_ends_and_gives_its_place_back() {
        let slots = Slots::new(1);
        let gone = {
            let slots = slots.clone();
            tokio::spawn(async move {
                slots
                    .work(&job("gone"), "it", |stop: &Stop| {
                        let started = Instant::now();
                        while stop.check().is_ok() {
                            assert!(started.elapsed() < Duration::from_secs(20), "nobody ends it");
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Ok(())
                    })
                    .await
            })
        };
        while slots.state().taken == 0 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        slots.work(&job("me"), "it", |_: &Stop| Ok(())).await.unwrap();
        // And one whose time is over.
        let short = Job { time: Duration::from_millis(20), ..job("me") };
        let over: Result<(), Failure> = slots
            .work(&short, "it", |stop: &Stop| {
                loop {
                    stop.check().map_err(|stopped| Failure::invalid(stopped.to_string()))?;
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
            .await;
        assert!(over.unwrap_err().message.contains("longer than 0.02 seconds"));
    }
}
