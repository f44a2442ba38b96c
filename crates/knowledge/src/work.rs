//! Long computations: reading documents, cutting and embedding texts.
//!
//! All callers share the memory that documents take while they are read, and a limited number of
//! turns. A free one goes to the waiting caller who has the fewest, and one caller never gets all
//! of them. Work ends at its deadline, and when its caller disconnects.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use marquetry_protocol::server::{
    Caller, Principal,
    fair::{FairBounds, FairLimiter, Slot},
};
use marquetry_rag::{ChunkOptions, Stop, extraction::Limits as ExtractLimits};
use tokio::time::timeout;

use crate::{
    config::KnowledgeConfig,
    failure::{ErrorCode, Failure},
};

/// The caller of some work, and its time limits.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    caller: Caller,
    /// Time limit for reading a document, and for cutting it: `knowledge.max_work_ms`.
    time: Duration,
    /// Limit of the documents that are read at the same time:
    /// `knowledge.max_unpacked_bytes_at_once`.
    max_unpacked_bytes_at_once: NonZeroU64,
    /// Time limit for embedding it: `knowledge.max_embed_ms`.
    embed_time: Duration,
    /// Maximum length of a passage: `knowledge.max_passage_bytes`.
    max_passage_bytes: NonZeroUsize,
    /// Maximum number of passages of all documents of a user: `knowledge.max_passages_per_user`.
    max_passages_per_user: NonZeroU64,
    /// The memory of the document that all steps of this job work on.
    held: Option<Arc<HeldMemory>>,
}

#[derive(Debug)]
struct HeldMemory {
    bytes: u64,
    _slot: Slot,
}

/// A document in work: its memory depends on its size, and on how it is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentSize<'a> {
    /// Size after unpacking, in bytes.
    pub(crate) bytes: u64,
    /// Options with which its text is cut and embedded, if it is.
    pub(crate) chunks: Option<&'a ChunkOptions>,
}

impl DocumentSize<'_> {
    /// Bytes of memory for each byte of a document: its content, its text, copies of both while
    /// they are converted, and headings. Of 60 documents of 60 MiB that consist of small parts, the
    /// worst took 5.5 times its size.
    const FACTOR: u64 = 6;
    /// Bytes of memory for a passage: a vector of 256 numbers, and the passage itself.
    const PASSAGE: u64 = 1_536;
    /// Length of the shortest sentences that count, in bytes. A text has few that are shorter.
    const SENTENCE: u64 = 4;

    fn memory(&self) -> u64 {
        let passages = self.chunks.map_or(0, |options| {
            let most = self.bytes / Self::SENTENCE / options.size.get() as u64;
            most.min(ChunkOptions::MAX_CHUNKS as u64)
        });
        // The text of passages that overlap is there several times.
        let is_repeated = self.chunks.is_some_and(|options| options.overlap > 0);
        let repeats = if is_repeated { ChunkOptions::MAX_REPEATS as u64 } else { 0 };
        let of_text = self.bytes.saturating_mul(Self::FACTOR + repeats);
        of_text.saturating_add(passages * Self::PASSAGE)
    }
}

impl Job {
    pub(crate) fn new(config: &KnowledgeConfig, caller: &str) -> Self {
        Self {
            caller: fair_caller(caller),
            time: Duration::from_millis(config.max_work_ms.get()),
            max_unpacked_bytes_at_once: config.max_unpacked_bytes_at_once,
            embed_time: Duration::from_millis(config.max_embed_ms.get()),
            max_passage_bytes: config.max_passage_bytes,
            max_passages_per_user: config.max_passages_per_user,
            held: None,
        }
    }

    /// Returns the same job for another caller.
    pub(crate) fn of(&self, caller: &str) -> Self {
        Self { caller: fair_caller(caller), ..self.clone() }
    }

    /// Waits for the memory of a document, and returns a job whose steps use it.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is not free in time ([`ErrorCode::Busy`]).
    pub(crate) async fn with_memory(
        &self,
        document: DocumentSize<'_>,
        what: &str,
    ) -> Result<Self, Failure> {
        let bytes = document.memory();
        let slot = turns(self).take(self, bytes, what).await?;
        Ok(Self { held: Some(Arc::new(HeldMemory { bytes, _slot: slot })), ..self.clone() })
    }

    /// Returns whether the job has the memory for a document.
    pub(crate) fn has_memory(&self, document: DocumentSize<'_>) -> bool {
        self.held.as_ref().is_some_and(|held| held.bytes >= document.memory())
    }

    /// Returns the maximum length of a passage, in bytes.
    pub(crate) fn max_passage_bytes(&self) -> NonZeroUsize {
        self.max_passage_bytes
    }

    /// Returns the maximum number of passages of all documents of a user.
    pub(crate) fn max_passages_per_user(&self) -> NonZeroU64 {
        self.max_passages_per_user
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

/// Returns the caller of a user for the limiter.
fn fair_caller(user: &str) -> Caller {
    Caller::Principal(Arc::new(Principal::new(None, user)))
}

/// The turns of this process: several for each processor, because some of the work waits.
fn turns(job: &Job) -> &'static Turns {
    static TURNS: OnceLock<Turns> = OnceLock::new();
    TURNS.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Turns::new((2 * processors).max(4), job.time)
    })
}

/// Runs work on a thread for blocking work. If its caller disconnects while it waits, it is not
/// started; later, the work is stopped and frees its turn when it notices.
///
/// # Errors
///
/// Returns an error if the work fails, if no turn is free in time ([`ErrorCode::Busy`]), or if the
/// work panics ([`ErrorCode::Internal`]).
pub(crate) async fn worked<T: Send + 'static>(
    job: &Job,
    what: &str,
    work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    turns(job).work(job, what, work).await
}

/// Holds a turn for work that also embeds, and waits for the work. It is dropped at its deadline.
///
/// # Errors
///
/// Returns an error if the work fails, if no turn is free in time ([`ErrorCode::Busy`]), or if the
/// work takes too long ([`ErrorCode::LimitExceeded`]).
pub(crate) async fn embedded<T>(
    job: &Job,
    what: &str,
    work: impl AsyncFnOnce(Stop) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _turn = turns(job).turn(job, what).await?;
    let stop = Stop::within(job.time);
    let done = timeout(job.embed_time, work(stop)).await;
    done.unwrap_or_else(|_| {
        let ms = job.embed_time.as_millis();
        let message = format!("{what} takes longer than knowledge.max_embed_ms ({ms})");
        Err(Failure::new(ErrorCode::LimitExceeded, message))
    })
}

/// Shares the memory of documents and the turns of work between callers.
///
/// Both are one resource in [`Turns::UNITS`]: all of them together are the memory that
/// `knowledge.max_unpacked_bytes_at_once` allows, and each work takes at least as many as let the
/// largest number of works run.
struct Turns {
    limiter: FairLimiter,
    least: usize,
}

/// What one work holds: units of its own, or those of its document.
#[expect(dead_code, reason = "they are held, and freed when they are dropped")]
enum Turn {
    Own(Slot),
    OfDocument(Arc<HeldMemory>),
}

impl Turns {
    const UNITS: usize = 512;

    /// Returns turns for at most `count` works at the same time. All of them wait at most `wait`.
    fn new(count: usize, wait: Duration) -> Self {
        let least = (Self::UNITS / count).max(1);
        let bounds = FairBounds {
            what: "documents are in work",
            total_setting: "knowledge.max_unpacked_bytes_at_once",
            per_caller_setting: "knowledge.max_unpacked_bytes_at_once",
            total: Self::UNITS,
            // Others need not wait for all the work of one caller.
            per_caller: (Self::UNITS - least).max(least),
            // Each waiting work is a request of its caller, and those are limited.
            queued: usize::MAX,
            wait,
        };
        let limiter = FairLimiter::new(bounds).with_queue_per_caller(usize::MAX);
        Self { limiter, least }
    }

    async fn turn(&self, job: &Job, what: &str) -> Result<Turn, Failure> {
        match &job.held {
            Some(held) => Ok(Turn::OfDocument(held.clone())),
            None => Ok(Turn::Own(self.take(job, 0, what).await?)),
        }
    }

    async fn take(&self, job: &Job, bytes: u64, what: &str) -> Result<Slot, Failure> {
        let share = u128::from(bytes) * Self::UNITS as u128;
        let units = share.div_ceil(u128::from(job.max_unpacked_bytes_at_once.get()));
        let units = usize::try_from(units).unwrap_or(Self::UNITS).max(self.least);
        if let Ok(Ok(slot)) = timeout(job.time, self.limiter.enter(&job.caller, units)).await {
            return Ok(slot);
        }
        let seconds = job.time.as_secs_f64();
        let message = format!(
            "{what} did not begin within {seconds} seconds: other documents are being processed; try again later"
        );
        Err(Failure::new(ErrorCode::Busy, message))
    }

    async fn work<T: Send + 'static>(
        &self,
        job: &Job,
        what: &str,
        work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.turn(job, what).await?;
        let stop = Stop::within(job.time);
        let caller = stop.on_drop();
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&stop)
        })
        .await
        .map_err(|_| Failure::new(ErrorCode::Internal, format!("{what} failed")))?;
        caller.disarm();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        time::Instant,
    };

    use super::*;

    fn slots(count: usize) -> Arc<Turns> {
        Arc::new(Turns::new(count, Duration::from_mins(1)))
    }

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
        let slots = slots(3);
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
        let slots = slots(2);
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

    #[tokio::test]
    async fn one_caller_leaves_a_place_to_others() {
        let slots = slots(4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(slots.take(&job("many"), 0, "it").await.unwrap());
        }
        let impatient = Job { time: Duration::from_millis(5), ..job("many") };
        let refused = slots.take(&impatient, 0, "reading").await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::Busy);
        held.push(slots.take(&job("other"), 0, "it").await.unwrap());
        drop(held);
        assert_eq!(slots.limiter.used(), 0);
    }

    #[tokio::test]
    async fn documents_of_one_caller_leave_memory_to_others() {
        let slots = slots(4);
        let impatient = Job { time: Duration::from_millis(5), ..job("many") };
        let large = slots.take(&job("many"), 1 << 40, "it").await.unwrap();
        assert!(slots.take(&impatient, 0, "it").await.is_err(), "its document takes all it may");
        let small = slots.take(&job("other"), 1 << 20, "it").await.unwrap();
        drop((large, small));
        // Two of 150 MiB are more than one caller may have of 512 MiB with a third.
        let two = [
            slots.take(&job("many"), 150 << 20, "it").await.unwrap(),
            slots.take(&job("many"), 150 << 20, "it").await.unwrap(),
        ];
        assert!(slots.take(&impatient, 150 << 20, "it").await.is_err());
        drop(two);
        assert_eq!(slots.limiter.used(), 0);
    }

    #[tokio::test]
    async fn steps_share_the_memory_of_their_document() {
        let options = ChunkOptions::default();
        let size = DocumentSize { bytes: 10 << 20, chunks: Some(&options) };
        let job = job("me").with_memory(size, "it").await.unwrap();
        assert!(job.has_memory(size) && job.has_memory(DocumentSize { bytes: 1, chunks: None }));
        assert!(!job.has_memory(DocumentSize { bytes: 1 << 30, chunks: None }));
        // No step waits for another turn: a job that waits while it holds memory could wait for
        // ever.
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(turns(&job).turn(&job, "it").await.unwrap());
        }
        assert!(held.iter().all(|turn| matches!(turn, Turn::OfDocument(_))));
    }

    #[tokio::test]
    async fn work_whose_caller_goes_ends_and_gives_its_place_back() {
        let slots = slots(1);
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
        while slots.limiter.used() == 0 {
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
