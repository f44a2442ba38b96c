//! Limits of queries, and their cancellation.

use std::{
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
}

/// The end of a query's time.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    cancel: Cancel,
}

impl Deadline {
    /// Begins the time of a query.
    pub(crate) fn start(limits: &QueryLimits) -> Self {
        Self { end: Instant::now() + limits.time, cancel: limits.cancel.clone() }
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
}
