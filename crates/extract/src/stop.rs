//! Ending work on a document before it is done.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Says to work on another thread when it has to end: after some time, or because its caller has gone. Copies of one
/// stop end together.
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
    now: Arc<AtomicBool>,
    deadline: Option<Deadline>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    time: Duration,
}

/// Why work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// It took longer than this.
    #[error("it takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// Its caller has gone.
    #[error("its caller has gone")]
    Now,
}

impl Stop {
    /// Work that may take as long as it needs.
    pub fn never() -> Self {
        Self::default()
    }

    /// Work that may take this long, from now on.
    pub fn within(time: Duration) -> Self {
        Self::never().and_within(time)
    }

    /// Part of the same work, which may take this long, from now on.
    #[must_use]
    pub fn and_within(&self, time: Duration) -> Self {
        // What is too far away to be a point in time is no limit.
        let deadline = Instant::now().checked_add(time).map(|at| Deadline { at, time });
        let earlier = match (self.deadline, deadline) {
            (Some(outer), Some(inner)) if outer.at <= inner.at => Some(outer),
            (outer, None) => outer,
            (_, inner) => inner,
        };
        Self { now: Arc::clone(&self.now), deadline: earlier }
    }

    /// Ends the work at its next check.
    pub fn now(&self) {
        self.now.store(true, Ordering::Relaxed);
    }

    /// Ends the work at its next check once what is returned is dropped: by a caller that waits no longer.
    #[must_use]
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(Some(self.clone()))
    }

    /// Whether the work may go on; to be asked often while it is done.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if it may not.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.now.load(Ordering::Relaxed) {
            return Err(Stopped::Now);
        }
        match self.deadline {
            Some(Deadline { at, time }) if Instant::now() >= at => Err(Stopped::Time(time)),
            _ => Ok(()),
        }
    }
}

/// Ends work when it is dropped; see [`Stop::on_drop`].
#[derive(Debug)]
pub struct StopOnDrop(Option<Stop>);

impl StopOnDrop {
    /// The work is done: what else belongs to it goes on.
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
        let part = whole.and_within(Duration::from_secs(3600));
        assert_eq!((whole.check(), part.check()), (Ok(()), Ok(())));
        whole.on_drop().disarm();
        assert_eq!(whole.check(), Ok(()));
        drop(whole.on_drop());
        assert_eq!((whole.check(), part.check()), (Err(Stopped::Now), Err(Stopped::Now)));
    }
}
