//! A token bucket.

use std::time::Duration;

/// Limits a rate: each event takes tokens, which come back with time, up to a number for bursts.
///
/// The bucket reads no clock. Times are durations since any fixed moment.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    capacity: f64,
    tokens: f64,
    filled_at: Duration,
}

impl TokenBucket {
    /// Creates a full bucket that gets `per_second` tokens per second, and holds at most `burst` of
    /// them; at least one.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self::with_rate(f64::from(per_second), burst)
    }

    /// Creates a full bucket that gets `per_minute` tokens per minute, and holds at most `burst` of
    /// them; at least one.
    #[must_use]
    pub fn per_minute(per_minute: u32, burst: u32) -> Self {
        Self::with_rate(f64::from(per_minute) / 60.0, burst)
    }

    fn with_rate(per_second: f64, burst: u32) -> Self {
        let capacity = f64::from(burst.max(1));
        Self { per_second, capacity, tokens: capacity, filled_at: Duration::ZERO }
    }

    /// Takes the tokens of an event, and returns whether it may happen now. An event that costs
    /// more than the whole bucket needs a full one. A clock that steps back adds no tokens.
    pub fn take(&mut self, now: Duration, cost: u32) -> bool {
        self.tokens = self.tokens_at(now);
        self.filled_at = self.filled_at.max(now);
        let cost = f64::from(cost).min(self.capacity);
        if self.tokens < cost {
            return false;
        }
        self.tokens -= cost;
        true
    }

    /// Returns the time from `now` until an event of this cost may happen, in whole milliseconds;
    /// an hour if the bucket gets no tokens.
    #[must_use]
    pub fn time_until(&self, now: Duration, cost: u32) -> Duration {
        const LONGEST: Duration = Duration::from_hours(1);
        let missing = f64::from(cost).min(self.capacity) - self.tokens_at(now);
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        let millis = (missing / self.per_second * 1_000.0).ceil();
        if millis < LONGEST.as_millis() as f64 {
            Duration::from_millis(millis as u64)
        } else {
            LONGEST
        }
    }

    /// Returns whether the bucket is as full as a new one.
    #[must_use]
    pub fn is_full(&self, now: Duration) -> bool {
        self.tokens_at(now) >= self.capacity
    }

    /// Returns the time of the last event.
    pub(crate) fn used_at(&self) -> Duration {
        self.filled_at
    }

    fn tokens_at(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.filled_at);
        (self.tokens + passed.as_secs_f64() * self.per_second).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = TokenBucket::new(10, 5);
        assert_eq!((0..8).filter(|_| bucket.take(at(0), 1)).count(), 5);
        assert_eq!((0..8).filter(|_| bucket.take(at(300), 1)).count(), 3);
        assert!(!bucket.take(at(100), 1), "the clock has stepped back");
    }

    #[test]
    fn an_expensive_event_needs_a_full_bucket() {
        let mut bucket = TokenBucket::new(10, 5);
        assert!(bucket.take(at(0), 1));
        assert!(!bucket.take(at(0), 1_601));
        assert!(bucket.take(at(60_000), 1_601) && !bucket.take(at(60_000), 1));
    }
}
