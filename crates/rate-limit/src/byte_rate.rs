use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use crate::TokenBucket;

/// Size of the burst, in seconds of the rate.
const BURST_SECONDS: u32 = 5;
/// Part of the rate for one kind, so that many messages of one kind do not silence the others.
const KIND_SHARE: u32 = 4;
/// Shortest time between two reports of what was left out.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// A rate in bytes per second for messages of several kinds, such as the lines of a log. One kind
/// gets at most a quarter of it. What is left out is counted.
#[derive(Debug)]
pub struct ByteRate {
    all: TokenBucket,
    /// One entry for each kind that had a message; kinds are names in the program.
    kinds: HashMap<&'static str, TokenBucket>,
    per_second_of_kind: u32,
    max_bytes: u32,
    left_out: u64,
    reported_at: Option<Duration>,
}

impl ByteRate {
    /// Creates a rate whose bursts have room for a message of `max_bytes`.
    pub fn new(per_second: NonZeroU32, max_bytes: u32) -> Self {
        Self {
            all: bucket(per_second.get(), max_bytes),
            kinds: HashMap::new(),
            per_second_of_kind: per_second.get() / KIND_SHARE,
            max_bytes,
            left_out: 0,
            reported_at: None,
        }
    }

    /// Returns `None` if a message must be left out. Otherwise, returns the number of messages that
    /// were left out and should be reported now. `now` is the time since any fixed moment.
    pub fn admit(&mut self, now: Duration, kind: &'static str, bytes: usize) -> Option<u64> {
        let cost = u32::try_from(bytes).unwrap_or(u32::MAX);
        let of_kind = self
            .kinds
            .entry(kind)
            .or_insert_with(|| bucket(self.per_second_of_kind, self.max_bytes));
        if !of_kind.take(now, cost) || !self.all.take(now, cost) {
            self.left_out += 1;
            return None;
        }
        let is_early = self.reported_at.is_some_and(|at| now < at + REPORT_PAUSE);
        if self.left_out == 0 || is_early {
            return Some(0);
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

fn bucket(per_second: u32, max_bytes: u32) -> TokenBucket {
    TokenBucket::new(per_second.max(1), per_second.saturating_mul(BURST_SECONDS).max(max_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: NonZeroU32 = NonZeroU32::new(48 << 10).unwrap();
    const MAX: u32 = 16 << 10;

    fn flood(rate: &mut ByteRate, kind: &'static str, seconds: u64) -> usize {
        let steps = seconds * 1_000;
        let times =
            (0..steps).flat_map(|step| std::iter::repeat_n(Duration::from_millis(step), 20));
        times.filter(|now| rate.admit(*now, kind, 1_000).is_some()).count() * 1_000
    }

    #[test]
    fn a_flood_of_one_kind_gets_its_share_and_leaves_room_for_others() {
        let mut rate = ByteRate::new(RATE, MAX);
        let bytes = flood(&mut rate, "flood", 10);
        assert!(bytes <= (5 + 10) * (12 << 10), "{bytes}");
        let other = rate.admit(Duration::from_secs(12), "other", 500);
        assert!(other.is_some_and(|left_out| left_out > 0), "{other:?}");
        assert_eq!(rate.admit(Duration::from_secs(12), "third", 500), Some(0));
    }

    #[test]
    fn floods_of_many_kinds_stay_within_the_whole_rate() {
        let mut rate = ByteRate::new(RATE, MAX);
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let bytes: usize = kinds.iter().map(|kind| flood(&mut rate, kind, 10)).sum();
        assert!(bytes <= (5 + 10) * (48 << 10), "{bytes}");
    }

    #[test]
    fn the_longest_message_fits_into_the_slowest_rate() {
        let mut slow = ByteRate::new(NonZeroU32::MIN, MAX);
        assert_eq!(slow.admit(Duration::ZERO, "kind", MAX as usize), Some(0));
        assert_eq!(slow.admit(Duration::ZERO, "kind", 200), None);
        let mut fast = ByteRate::new(NonZeroU32::MAX, MAX);
        assert_eq!(flood(&mut fast, "flood", 10), 10_000 * 20 * 1_000);
    }
}
