//! A rate for each of many callers.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::TokenBucket;

/// Limits the rate of events for each key, such as the calls of each caller of a server.
///
/// At most 10,000 keys have a bucket of their own. At that number the keys without recent events
/// lose theirs, which changes nothing for them, or else the key whose last event is oldest.
#[derive(Debug)]
pub struct KeyedRate<K> {
    started: Instant,
    full: TokenBucket,
    max_keys: usize,
    buckets: Mutex<HashMap<K, TokenBucket>>,
}

impl<K: Clone + Eq + Hash> KeyedRate<K> {
    const MAX_KEYS: usize = 10_000;

    /// Creates a rate of `per_minute` events for each key, and `burst` after a pause.
    #[must_use]
    pub fn new(per_minute: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            started: Instant::now(),
            full: TokenBucket::per_minute(per_minute.get(), burst.get()),
            max_keys: Self::MAX_KEYS,
            buckets: Mutex::default(),
        }
    }

    /// Counts an event.
    ///
    /// # Errors
    /// Returns an error if the rate of the key is used up: the time until the next event may
    /// happen. The event is not counted then.
    pub fn admit(&self, key: &K) -> Result<(), Duration> {
        self.admit_at(key, self.started.elapsed())
    }

    /// `now` is the time since the rate was created.
    fn admit_at(&self, key: &K, now: Duration) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(key) {
            if buckets.len() >= self.max_keys {
                make_room(&mut buckets, now);
            }
            buckets.insert(key.clone(), self.full.clone());
        }
        let Some(bucket) = buckets.get_mut(key) else { return Ok(()) };
        if bucket.take(now, 1) { Ok(()) } else { Err(bucket.time_until(now, 1)) }
    }
}

/// Removes the buckets that are full; if there is none, the one that was used longest ago.
fn make_room<K: Clone + Eq + Hash>(buckets: &mut HashMap<K, TokenBucket>, now: Duration) {
    let before = buckets.len();
    buckets.retain(|_, bucket| !bucket.is_full(now));
    if buckets.len() < before {
        return;
    }
    let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.used_at());
    if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
        buckets.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_minute: u32, burst: u32) -> KeyedRate<u32> {
        KeyedRate::new(NonZeroU32::new(per_minute).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    #[test]
    fn each_key_has_its_burst_and_its_rate() {
        let rate = rate(60, 3);
        let start = Duration::from_secs(9);
        let admitted = (0..10).filter(|_| rate.admit_at(&1, start).is_ok()).count();
        assert_eq!(admitted, 3);
        assert_eq!(rate.admit_at(&1, start), Err(Duration::from_secs(1)));
        assert_eq!(rate.admit_at(&2, start), Ok(()), "another key");
        let later = start + Duration::from_millis(900);
        assert_eq!(rate.admit_at(&1, later), Err(Duration::from_millis(100)));
        assert_eq!(rate.admit_at(&1, start + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn a_million_keys_take_bounded_memory_and_busy_keys_stay_limited() {
        let rate = KeyedRate { max_keys: 50, ..rate(60, 2) };
        for step in 0..10_000_u32 {
            let now = Duration::from_millis(step.into());
            let _ = rate.admit_at(&0, now);
            let _ = rate.admit_at(&(step + 1), now);
        }
        assert!(rate.buckets.lock().unwrap().len() <= 50);
        let now = Duration::from_secs(10);
        let admitted = (0..10).filter(|_| rate.admit_at(&0, now).is_ok()).count();
        assert!(admitted <= 1, "the busy key got {admitted} more at once");
    }
}
