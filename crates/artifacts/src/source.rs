//! Sources of time and of random ids, which tests can replace.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

/// Source of the 8 hex digits in names.
pub trait Ids: Send + Sync + 'static {
    /// Returns the next 32 bits.
    fn next(&self) -> u32;
}

/// Ids from the system's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self) -> u32 {
        // Without random numbers, a name that is used twice becomes a second version of the same
        // artifact.
        getrandom::u32().unwrap_or_default()
    }
}

/// Reproducible ids: equal seeds give equal ids.
#[derive(Debug)]
pub struct SeededIds(AtomicU64);

impl SeededIds {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Ids for SeededIds {
    /// Returns the next number (SplitMix64). Every seed gives well mixed numbers, even 0.
    fn next(&self) -> u32 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 32) as u32
    }
}

/// Source of the time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub SystemTime);

impl Clock for FixedClock {
    fn now(&self) -> SystemTime {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_ids_everywhere() {
        let ids = SeededIds::new(7);
        assert_eq!([ids.next(), ids.next(), ids.next()], [0x63cb_e1e4, 0x044c_3cd7, 0xe698_4080]);
        assert_ne!(SeededIds::new(8).next(), SeededIds::new(7).next());
    }

    #[test]
    fn random_ids_differ() {
        assert!((0..8).any(|_| RandomIds.next() != RandomIds.next()));
    }
}
