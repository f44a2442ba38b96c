use std::time::Duration;

/// A token bucket that limits the messages of a View.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    per_second: f64,
    capacity: f64,
    tokens: f64,
    filled_at: Duration,
}

/// Each full 64 KiB of a message costs one more token.
const BYTES_PER_EXTRA_TOKEN: usize = 64 << 10;

impl Rate {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let capacity = f64::from(burst.max(1));
        Self {
            per_second: f64::from(per_second),
            capacity,
            tokens: capacity,
            filled_at: Duration::ZERO,
        }
    }

    /// Takes the tokens of a message, and returns whether it may pass now. A message that costs
    /// more than the whole bucket needs a full one.
    pub(super) fn take(&mut self, now: Duration, bytes: usize) -> bool {
        let passed = now.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.per_second).min(self.capacity);
        #[expect(clippy::cast_precision_loss, reason = "a message has far fewer than 2^52 bytes")]
        let cost = (1.0 + (bytes / BYTES_PER_EXTRA_TOKEN) as f64).min(self.capacity);
        if self.tokens < cost {
            return false;
        }
        self.tokens -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut rate = Rate::new(10, 5);
        fn at(millis: u64) -> Duration {
            Duration::from_millis(millis)
        }
        assert_eq!((0..8).filter(|_| rate.take(at(0), 10)).count(), 5);
        assert_eq!((0..8).filter(|_| rate.take(at(300), 10)).count(), 3);
        // A clock that steps back adds no tokens.
        assert!(!rate.take(at(100), 10));
        assert!(rate.take(at(60_000), 100 << 20) && !rate.take(at(60_000), 1));
    }
}
