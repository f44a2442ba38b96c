//! Limits of queries, and their cancellation.

use std::{
    cell::Cell,
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
    /// Time of the query.
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
    Memory(u64),
}

/// The end of a query's time, and of its memory.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    cancel: Cancel,
    max_growth: u64,
    /// Least memory of the process since the query began, where the system tells it.
    least_memory: Cell<Option<u64>>,
}

impl Deadline {
    /// Begins the time of a query.
    pub(crate) fn start(limits: &QueryLimits) -> Self {
        Self {
            end: Instant::now() + limits.time,
            cancel: limits.cancel.clone(),
            max_growth: limits.max_memory_bytes,
            least_memory: Cell::new(process_memory()),
        }
    }

    /// Returns the rest of the time.
    #[cfg(feature = "sql")]
    pub(crate) fn rest(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Checks whether the query may go on.
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.cancel.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        if Instant::now() >= self.end {
            return Err(Stopped::Late);
        }
        Ok(())
    }

    /// Checks whether the process has grown by too much. This reads a file of the system.
    pub(crate) fn check_memory(&self) -> Result<(), Stopped> {
        let (Some(least), Some(now)) = (self.least_memory.get(), process_memory()) else {
            return Ok(());
        };
        // Other work may free memory meanwhile.
        self.least_memory.set(Some(least.min(now)));
        if now.saturating_sub(least) > self.max_growth {
            return Err(Stopped::Memory(self.max_growth));
        }
        Ok(())
    }
}

/// Returns the memory of this process, in bytes, where the system tells it.
fn process_memory() -> Option<u64> {
    /// The usual size of a page. Larger ones make the limit larger.
    const PAGE_BYTES: u64 = 4096;
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}

/// Returns the message of a query that needs more memory than it may use.
pub(crate) fn memory_message(what: &str, max_growth: u64) -> String {
    format!(
        "the {what} was stopped because the memory of the process grew by more than {} MiB; narrow it, or try again",
        max_growth >> 20
    )
}
