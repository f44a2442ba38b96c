//! Limits of queries, and their cancellation.

#[cfg(any(feature = "jq", feature = "sql"))]
use std::cell::Cell;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Limits of one query. Whatever exceeds one ends the query with an error, except for output, which
/// is cut and says so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryLimits {
    /// Time of the query. Where the system tells the CPU time of a thread (Linux), it is that, so
    /// that a busy machine fails no query; the query then ends after five times as long at the
    /// latest.
    pub time: Duration,
    /// Largest value that a jq program may make, in bytes.
    pub max_value_bytes: usize,
    /// Memory by which the process may grow while the query runs, in bytes. It is measured on Linux
    /// only, and includes whatever else the process does.
    pub max_memory_bytes: u64,
    /// Longest output, in bytes.
    pub max_output_bytes: usize,
    /// Maximum number of rows or values in the output.
    pub max_rows: usize,
    /// Ends the query early.
    pub cancel: Cancel,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            max_value_bytes: 64 << 20,
            max_memory_bytes: 768 << 20,
            max_output_bytes: 16 << 10,
            max_rows: 1_000,
            cancel: Cancel::default(),
        }
    }
}

/// Ends queries before their time is over, for example when their caller has gone. Clones end the
/// same queries.
///
/// ```
/// use marquetry_data_query::Cancel;
///
/// let cancel = Cancel::default();
/// drop(cancel.on_drop());
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the queries.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the queries are to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a guard that ends the queries when it is dropped.
    #[must_use]
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Ends queries when it is dropped. See [`Cancel::on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Reason why a query was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Late,
    Cancelled,
    /// The process has grown by more than this number of bytes.
    #[cfg(any(feature = "jq", feature = "sql"))]
    Memory(u64),
}

/// How much longer than its time a query may take while other work has the CPU.
const MAX_STRETCH: u32 = 5;

/// The end of a query's time, and of its memory.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    start: Instant,
    time: Duration,
    cpu: Option<ThreadCpu>,
    cancel: Cancel,
    #[cfg(any(feature = "jq", feature = "sql"))]
    memory: MemoryGrowth,
}

impl Deadline {
    /// Begins the time of a query, which runs on this thread.
    pub(crate) fn start(limits: &QueryLimits) -> Self {
        Self {
            start: Instant::now(),
            time: limits.time,
            cpu: ThreadCpu::start(),
            cancel: limits.cancel.clone(),
            #[cfg(any(feature = "jq", feature = "sql"))]
            memory: MemoryGrowth::start(limits.max_memory_bytes),
        }
    }

    /// Returns the rest of the time.
    #[cfg(feature = "sql")]
    pub(crate) fn rest(&self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }

    /// Checks whether the query may go on. Any thread may check.
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.cancel.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        if self.is_over() {
            return Err(Stopped::Late);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let elapsed = self.start.elapsed();
        // The CPU time is a file of the system, which takes longer to read than the clock.
        elapsed >= self.time
            && (elapsed >= self.time * MAX_STRETCH
                || self.cpu.as_ref().and_then(ThreadCpu::used).is_none_or(|cpu| cpu >= self.time))
    }

    /// Checks whether the process has grown by too much. This reads a file of the system.
    #[cfg(any(feature = "jq", feature = "sql"))]
    pub(crate) fn check_memory(&self) -> Result<(), Stopped> {
        self.memory.check()
    }
}

/// The CPU time of one thread since a query began.
#[derive(Clone, Debug)]
struct ThreadCpu {
    file: PathBuf,
    before: Duration,
}

impl ThreadCpu {
    /// Begins to count for this thread; none where the system does not tell it.
    fn start() -> Option<Self> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        let file = Path::new("/proc").join(thread).join("schedstat");
        let before = cpu_time(&file)?;
        Some(Self { file, before })
    }

    fn used(&self) -> Option<Duration> {
        Some(cpu_time(&self.file)?.saturating_sub(self.before))
    }
}

/// Returns the first number of a `schedstat` file: nanoseconds on a CPU.
fn cpu_time(file: &Path) -> Option<Duration> {
    let numbers = std::fs::read_to_string(file).ok()?;
    let nanoseconds = numbers.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// The memory by which the process grows while a query runs.
#[cfg(any(feature = "jq", feature = "sql"))]
#[derive(Clone, Debug)]
struct MemoryGrowth {
    max_bytes: u64,
    /// Least memory of the process since the query began, where the system tells it.
    least: Cell<Option<u64>>,
}

#[cfg(any(feature = "jq", feature = "sql"))]
impl MemoryGrowth {
    fn start(max_bytes: u64) -> Self {
        Self { max_bytes, least: Cell::new(process_memory()) }
    }

    fn check(&self) -> Result<(), Stopped> {
        let (Some(least), Some(now)) = (self.least.get(), process_memory()) else {
            return Ok(());
        };
        // Other work may free memory meanwhile.
        self.least.set(Some(least.min(now)));
        if now.saturating_sub(least) > self.max_bytes {
            return Err(Stopped::Memory(self.max_bytes));
        }
        Ok(())
    }
}

/// Returns the memory of this process, in bytes, where the system tells it.
#[cfg(any(feature = "jq", feature = "sql"))]
fn process_memory() -> Option<u64> {
    /// The usual size of a page. Larger ones make the limit larger.
    const PAGE_BYTES: u64 = 4096;
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}

/// Returns the message of a query that needs more memory than it may use.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn memory_message(what: &str, max_growth: u64) -> String {
    format!(
        "the {what} was stopped because the memory of the process grew by more than {} MiB; narrow it, or try again",
        max_growth >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_has_more_time_but_not_forever() {
        let time = Duration::from_millis(20);
        let deadline = Deadline::start(&QueryLimits { time, ..QueryLimits::default() });
        std::thread::sleep(2 * time);
        assert_eq!(deadline.check().is_ok(), deadline.cpu.is_some());
        std::thread::sleep(MAX_STRETCH * time);
        assert_eq!(deadline.check(), Err(Stopped::Late));
    }

    #[test]
    fn a_thread_that_computes_has_its_time() {
        let time = Duration::from_millis(20);
        let deadline = Deadline::start(&QueryLimits { time, ..QueryLimits::default() });
        let checks = std::iter::repeat_with(|| deadline.check());
        assert_eq!(checks.take_while(Result::is_ok).last(), Some(Ok(())));
        if let Some(used) = deadline.cpu.as_ref().and_then(ThreadCpu::used) {
            assert!(used < 3 * time, "{used:?}");
        }
    }
}
