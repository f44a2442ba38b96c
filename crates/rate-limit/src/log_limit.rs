//! Limits the rate of log lines.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::TokenBucket;

/// Rate limit of log lines that other programs cause: a number per second, and a burst of ten times
/// as many after a pause.
#[derive(Debug)]
pub struct LogLimit {
    started: Instant,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    bucket: TokenBucket,
    suppressed: u64,
}

impl LogLimit {
    /// Size of the burst, in seconds of the rate.
    const BURST_SECONDS: u32 = 10;

    /// Creates a limit of this many lines per second. With 0, only the first line is logged.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let bucket = TokenBucket::new(per_second, per_second.saturating_mul(Self::BURST_SECONDS));
        Self { started: Instant::now(), lines: Mutex::new(Lines { bucket, suppressed: 0 }) }
    }

    /// Returns `None` if the next line must not be logged. Otherwise, returns the number of lines
    /// suppressed since the last logged one.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(self.started.elapsed())
    }

    /// Returns the number of lines suppressed since the last logged one, and resets it.
    pub fn take_suppressed(&self) -> u64 {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut lines.suppressed)
    }

    /// `now` is the time since the limit was created.
    fn admit_at(&self, now: Duration) -> Option<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.bucket.take(now, 1) {
            lines.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut lines.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_suppressed_and_counted() {
        let limit = LogLimit::new(2);
        let start = Duration::from_secs(1);
        let logged = (0..1_000).filter(|_| limit.admit_at(start).is_some()).count();
        assert_eq!(logged, 20);
        assert_eq!(limit.admit_at(start + Duration::from_millis(500)), Some(980));
        assert_eq!(limit.admit_at(start + Duration::from_millis(500)), None);
        assert_eq!(limit.take_suppressed(), 1);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1_000).filter(|_| limit.admit_at(later).is_some()).count(), 20);
    }
}
