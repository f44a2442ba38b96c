//! Limits the rate of log lines.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Rate limit of log lines that other programs cause: a number per second, and a burst of ten times
/// as many after a pause.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Lines that may be logged at once now.
    lines: f64,
    refilled: Instant,
    suppressed: u64,
}

impl Rate {
    /// Seconds whose lines may come at once.
    const BURST: f64 = 10.0;

    /// Creates a limit of this many lines per second.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let bucket =
            Bucket { lines: per_second * Self::BURST, refilled: Instant::now(), suppressed: 0 };
        Self { per_second, bucket: Mutex::new(bucket) }
    }

    /// Returns `None` if the next line must not be logged. Otherwise, returns the number of lines
    /// suppressed since the last logged one.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    /// Returns the number of lines suppressed since the last logged one, and resets it.
    pub fn take_suppressed(&self) -> u64 {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut bucket.suppressed)
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(bucket.refilled).as_secs_f64();
        bucket.lines = (bucket.lines + passed * self.per_second).min(self.per_second * Self::BURST);
        bucket.refilled = now;
        if bucket.lines < 1.0 {
            bucket.suppressed += 1;
            return None;
        }
        bucket.lines -= 1.0;
        Some(std::mem::take(&mut bucket.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_suppressed_and_counted() {
        let rate = Rate::new(2);
        let start = Instant::now();
        let logged = (0..1_000).filter(|_| rate.admit_at(start).is_some()).count();
        assert_eq!(logged, 20);
        assert_eq!(rate.admit_at(start + Duration::from_millis(500)), Some(980));
        assert_eq!(rate.admit_at(start + Duration::from_millis(500)), None);
        assert_eq!(rate.take_suppressed(), 1);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1_000).filter(|_| rate.admit_at(later).is_some()).count(), 20);
    }
}
