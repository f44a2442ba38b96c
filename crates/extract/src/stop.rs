//! Ends work on a document early.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Ends work on another thread: at a deadline, or because the caller disconnected. [`Self::now`]
/// ends all copies.
///
/// ```
/// use std::time::Duration;
/// use marquetry_extract::{Stop, Stopped};
///
/// let stop = Stop::within(Duration::from_secs(60));
/// assert_eq!(stop.check(), Ok(()));
/// stop.now();
/// assert_eq!(stop.check(), Err(Stopped::Now));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
    deadline: Option<Deadline>,
}

#[derive(Debug, Default)]
struct Shared {
    now: AtomicBool,
    /// Time that does not count towards deadlines, in nanoseconds.
    excluded: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    time: Duration,
    /// Value of [`Shared::excluded`] when the deadline was set.
    excluded_before: u64,
}

impl Deadline {
    /// Returns the time of the deadline; `None` if it cannot be represented as an [`Instant`].
    fn end(&self, shared: &Shared) -> Option<Instant> {
        let excluded = shared.excluded.load(Ordering::Relaxed) - self.excluded_before;
        self.at.checked_add(Duration::from_nanos(excluded))
    }
}

/// The reason why work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The work took longer than this.
    #[error("takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// The caller of the work has gone.
    #[error("the caller disconnected")]
    Now,
}

impl Stop {
    /// Returns a stop without a deadline.
    pub fn never() -> Self {
        Self::default()
    }

    /// Returns a stop with a deadline after `time`.
    pub fn within(time: Duration) -> Self {
        Self::never().and_within(time)
    }

    /// Returns a copy for a part of the same work, with a deadline after `time` at the latest.
    #[must_use]
    pub fn and_within(&self, time: Duration) -> Self {
        let excluded_before = self.shared.excluded.load(Ordering::Relaxed);
        // A time that cannot be represented is no limit.
        let deadline =
            Instant::now().checked_add(time).map(|at| Deadline { at, time, excluded_before });
        let earlier = match (self.deadline, deadline) {
            (Some(outer), Some(inner))
                if outer.end(&self.shared).is_some_and(|outer| outer <= inner.at) =>
            {
                Some(outer)
            }
            (outer, None) => outer,
            (_, inner) => inner,
        };
        Self { shared: Arc::clone(&self.shared), deadline: earlier }
    }

    /// Ends the work at its next check.
    pub fn now(&self) {
        self.shared.now.store(true, Ordering::Relaxed);
    }

    /// Returns a guard that ends the work at its next check when it is dropped, for callers that
    /// may go away early.
    #[must_use]
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(Some(self.clone()))
    }

    /// Checks whether the work may continue. The work must call this often.
    ///
    /// # Errors
    ///
    /// Returns an error if the reading must end.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.is_now() {
            return Err(Stopped::Now);
        }
        let Some(deadline) = self.deadline else { return Ok(()) };
        match deadline.end(&self.shared) {
            Some(end) if Instant::now() >= end => Err(Stopped::Time(deadline.time)),
            _ => Ok(()),
        }
    }

    /// Returns whether [`Self::now`] was called, whatever the deadline is.
    pub(crate) fn is_now(&self) -> bool {
        self.shared.now.load(Ordering::Relaxed)
    }

    /// Extends the deadlines of all copies by the time that the work waited for other work.
    #[cfg(any(feature = "docx", feature = "pdf", feature = "spreadsheet"))]
    pub(crate) fn exclude(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.shared.excluded.fetch_add(waited, Ordering::Relaxed);
    }
}

/// Ends work when it is dropped; see [`Stop::on_drop`].
#[derive(Debug)]
pub struct StopOnDrop(Option<Stop>);

impl StopOnDrop {
    /// Drops the guard without ending the work.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_deadline_counts_and_all_copies_stop_together() {
        let outer = Stop::within(Duration::ZERO);
        assert_eq!(outer.and_within(Duration::MAX).check(), Err(Stopped::Time(Duration::ZERO)));
        let whole = Stop::never();
        let part = whole.and_within(Duration::from_hours(1));
        assert_eq!((whole.check(), part.check()), (Ok(()), Ok(())));
        whole.on_drop().disarm();
        assert_eq!(whole.check(), Ok(()));
        drop(whole.on_drop());
        assert_eq!((whole.check(), part.check()), (Err(Stopped::Now), Err(Stopped::Now)));
    }
}
