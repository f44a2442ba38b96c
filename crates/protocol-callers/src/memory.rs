//! The memory that one request holds.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    Caller,
    fair::{FairLimiter, Full, Need, Slot},
};

/// The memory that one request holds, counted for its caller until the last clone is dropped.
///
/// A request reserves memory before it takes it: for the values in its arguments, for an answer of
/// another server, for a record. What one request reserves counts at most as the caller's bound, so
/// that the largest request passes when its caller holds nothing else.
#[derive(Clone, Debug)]
pub struct RequestMemory {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    limiter: FairLimiter,
    caller: Caller,
    reserved: Mutex<Reserved>,
}

#[derive(Debug, Default)]
struct Reserved {
    bytes: usize,
    slots: Vec<Slot>,
}

impl RequestMemory {
    /// Creates the account of a request that holds nothing yet. The slots of `limiter` are bytes.
    #[must_use]
    pub fn new(limiter: &FairLimiter, caller: &Caller) -> Self {
        let held =
            Held { limiter: limiter.clone(), caller: caller.clone(), reserved: Mutex::default() };
        Self { held: Arc::new(held) }
    }

    /// Returns the longest wait of a request that has no time limit of its own.
    #[must_use]
    pub fn usual_wait(&self) -> Duration {
        self.held.limiter.bounds().wait
    }

    /// Counts `bytes` more, and waits up to `wait` for them.
    ///
    /// # Errors
    /// Returns an error if other requests hold too much for all of that time.
    pub async fn reserve(&self, bytes: usize, wait: Duration) -> Result<(), Full> {
        let Held { limiter, caller, .. } = &*self.held;
        let has = self.bytes();
        let more = bytes.min(limiter.bound_of(caller).saturating_sub(has));
        if more == 0 {
            return Ok(());
        }
        let need = if has == 0 { Need::First } else { Need::More };
        let slot = limiter.enter_within(caller, more, need, wait).await?;
        let mut reserved = self.reserved();
        reserved.bytes += more;
        reserved.slots.push(slot);
        Ok(())
    }

    /// Counts `bytes` more as [`Self::reserve`] does, and refuses more than the caller's bound: for
    /// memory that a request can do without.
    ///
    /// # Errors
    /// Returns an error as [`Self::reserve`] does, or if no request of the caller may hold so much.
    pub async fn reserve_all(&self, bytes: usize) -> Result<(), Full> {
        let Held { limiter, caller, .. } = &*self.held;
        let max = limiter.bound_of(caller);
        if bytes > max {
            let bounds = limiter.bounds();
            let setting =
                if max < bounds.total { bounds.per_caller_setting } else { bounds.total_setting };
            return Err(Full::TooLarge { bytes, max, setting });
        }
        self.reserve(bytes, self.usual_wait()).await
    }

    /// Holds the memory of `other` from now on, as what it has read becomes part of this request.
    pub fn adopt(&self, other: &Self) {
        if Arc::ptr_eq(&self.held, &other.held) {
            return;
        }
        let moved = std::mem::take(&mut *other.reserved());
        let mut reserved = self.reserved();
        reserved.bytes += moved.bytes;
        reserved.slots.extend(moved.slots);
    }

    /// Returns the bytes that the request holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.reserved().bytes
    }

    fn reserved(&self) -> std::sync::MutexGuard<'_, Reserved> {
        self.held.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::FairBounds;

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_at_most_as_its_callers_bound() {
        let limiter = limiter();
        let first = RequestMemory::new(&limiter, &Caller::Local);
        first.reserve(60, Duration::ZERO).await.unwrap();
        first.reserve(60, Duration::ZERO).await.unwrap();
        assert_eq!((first.bytes(), limiter.used()), (100, 100));
        let second = RequestMemory::new(&limiter, &Caller::Local);
        assert!(second.reserve(1, Duration::from_millis(5)).await.is_err());
        second.adopt(&first);
        drop(first);
        assert_eq!((second.bytes(), limiter.used()), (100, 100));
        drop(second.clone());
        assert_eq!(limiter.used(), 100, "another clone holds it");
        drop(second);
        assert_eq!(limiter.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_that_no_request_may_hold_is_refused() {
        let limiter = limiter();
        let memory = RequestMemory::new(&limiter, &Caller::Local);
        let error = memory.reserve_all(101).await.unwrap_err();
        assert_eq!(error.to_string(), "101 bytes of memory are more than 100 (total)");
        memory.reserve_all(100).await.unwrap();
    }

    fn limiter() -> FairLimiter {
        FairLimiter::new(FairBounds {
            what: "bytes are in work",
            total_setting: "total",
            per_caller_setting: "per_caller",
            total: 100,
            per_caller: 50,
            queued: usize::MAX,
            wait: Duration::from_secs(1),
        })
    }
}
