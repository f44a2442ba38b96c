//! Decides when an upstream's lists must be fetched again (2026-07-28, "Caching").
//!
//! A list is fetched when its upstream starts and when it announces a change. A stateless upstream
//! also sends a time to live: if the list is shown after that time, it is fetched again first.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use marquetry_protocol::types::CacheHint;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use super::{Gateway, UpstreamState};

/// Time that an agent waits for a list to be fetched again. After that, the old list is shown.
const WAIT: Duration = Duration::from_secs(2);

/// A list of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// The resources and their templates.
    Resources,
}

/// Expiry of each list of an upstream.
#[derive(Debug)]
pub(crate) struct Freshness {
    /// The time at which each [`List`] expires; `None` for never.
    stale_from: Mutex<[Option<Instant>; 3]>,
    /// The lists that agents are waiting for.
    wanted: Mutex<[bool; 3]>,
    some_wanted: Notify,
    /// The number of fetches of each [`List`].
    fetched: watch::Sender<[u64; 3]>,
    /// Whether an agent has waited in vain for a [`List`]. Then others do not wait until the list
    /// arrives.
    is_late: [AtomicBool; 3],
    /// Minimum time between two fetches.
    pause: Duration,
}

impl Freshness {
    /// Creates the state; lists are fetched at most once in `pause`.
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            stale_from: Mutex::default(),
            wanted: Mutex::default(),
            some_wanted: Notify::new(),
            fetched: watch::Sender::new([0; 3]),
            is_late: Default::default(),
            pause,
        }
    }

    /// Records that a list was fetched, or could not be.
    pub(super) fn note(&self, list: List, hint: Option<CacheHint>) {
        // A time that the clock cannot represent means no expiry.
        let stale_from = hint.and_then(|hint| {
            let time = self.pause.max(Duration::from_millis(hint.ttl_ms));
            Instant::now().checked_add(time)
        });
        lock(&self.stale_from)[list as usize] = stale_from;
    }

    /// Records the hint of one part of a list, as [`Self::note`] does for a list of one part.
    pub(super) fn note_part(&self, list: List, hint: Option<CacheHint>) {
        let before = lock(&self.stale_from)[list as usize];
        self.note(list, hint);
        let mut stale_from = lock(&self.stale_from);
        let now = stale_from[list as usize];
        stale_from[list as usize] = [before, now].into_iter().flatten().min();
    }

    fn is_stale(&self, list: List) -> bool {
        lock(&self.stale_from)[list as usize].is_some_and(|from| from <= Instant::now())
    }

    /// Waits until an expired list was fetched again, or for a limited time.
    async fn refreshed(&self, list: List) {
        if !self.is_stale(list) {
            return;
        }
        let mut fetched = self.fetched.subscribe();
        let before = fetched.borrow()[list as usize];
        lock(&self.wanted)[list as usize] = true;
        self.some_wanted.notify_one();
        let is_late = &self.is_late[list as usize];
        if is_late.load(Ordering::Relaxed) {
            return;
        }
        // Another list may arrive first; and this one may expire again at once.
        let fetching = fetched.wait_for(|counts| counts[list as usize] != before);
        if timeout(WAIT, fetching).await.is_err() {
            is_late.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until an agent wants expired lists. Cancel safe.
    pub(super) async fn wanted(&self) -> Vec<List> {
        loop {
            self.some_wanted.notified().await;
            let wanted = std::mem::take(&mut *lock(&self.wanted));
            let wanted: Vec<List> =
                List::ALL.into_iter().filter(|list| wanted[*list as usize]).collect();
            if !wanted.is_empty() {
                return wanted;
            }
        }
    }

    /// Records that the wanted lists were fetched and are shown, or could not be fetched.
    pub(super) fn done(&self, lists: &[List]) {
        // A list that could not be fetched is not requested again at once.
        for &list in lists.iter().filter(|list| self.is_stale(**list)) {
            self.note(list, Some(CacheHint::default()));
        }
        for &list in lists {
            self.is_late[list as usize].store(false, Ordering::Relaxed);
        }
        self.fetched.send_modify(|counts| {
            for &list in lists {
                counts[list as usize] += 1;
            }
        });
    }

    /// Resets the delays after a restart of the upstream.
    pub(super) fn reset(&self) {
        self.is_late.iter().for_each(|is_late| is_late.store(false, Ordering::Relaxed));
    }
}

impl List {
    /// All lists, in the order of the enum.
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

impl Gateway {
    /// Fetches the expired parts of a list. Parts that do not arrive in time are shown as before.
    pub(crate) async fn refreshed(&self, list: List) {
        let ready =
            self.upstreams.iter().filter(|it| matches!(it.state(), UpstreamState::Ready(_)));
        join_all(ready.map(|upstream| upstream.freshness.refreshed(list))).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_is_stale_after_its_time_and_not_before_the_pause() {
        let freshness = Freshness::new(Duration::from_secs(10));
        fn hint(seconds: u64) -> Option<CacheHint> {
            Some(CacheHint::public(Duration::from_secs(seconds)))
        }
        fn stale(freshness: &Freshness) -> [bool; 3] {
            [List::Tools, List::Prompts, List::Resources].map(|list| freshness.is_stale(list))
        }
        assert!(!freshness.is_stale(List::Tools));
        freshness.note(List::Tools, hint(0));
        freshness.note(List::Prompts, hint(60));
        freshness.note(List::Resources, None);
        freshness.note_part(List::Resources, hint(20));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(stale(&freshness), [false, false, false]);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(stale(&freshness), [true, false, false]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(stale(&freshness), [true, false, true]);
        freshness.done(&[List::Tools]);
        assert_eq!(stale(&freshness), [false, false, true]);
        freshness.note(List::Tools, Some(CacheHint { ttl_ms: u64::MAX, ..CacheHint::default() }));
        tokio::time::advance(Duration::from_secs(1_000_000)).await;
        assert_eq!(stale(&freshness), [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_for_a_stale_list_waits_for_it() {
        let freshness = Freshness::new(Duration::from_secs(10));
        freshness.note(List::Tools, Some(CacheHint::default()));
        freshness.refreshed(List::Tools).await;
        tokio::time::advance(Duration::from_secs(11)).await;
        let fetching = async {
            assert_eq!(freshness.wanted().await, [List::Tools]);
            freshness.note(List::Tools, Some(CacheHint::default()));
            freshness.done(&[List::Tools]);
        };
        tokio::join!(freshness.refreshed(List::Tools), fetching);
        assert!(!freshness.is_stale(List::Tools));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_time_to_live_is_shown_once_it_is_fetched() {
        let freshness = Freshness::new(Duration::ZERO);
        freshness.note(List::Tools, Some(CacheHint::default()));
        for _ in 0..3 {
            let since = Instant::now();
            let fetching = async {
                assert_eq!(freshness.wanted().await, [List::Tools]);
                freshness.done(&[List::Prompts]);
                tokio::time::sleep(Duration::from_millis(10)).await;
                freshness.note(List::Tools, Some(CacheHint::default()));
                freshness.done(&[List::Tools]);
            };
            tokio::join!(freshness.refreshed(List::Tools), fetching);
            assert!(since.elapsed() < WAIT / 2, "{:?}", since.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_never_comes_delays_one_request() {
        let freshness = Freshness::new(Duration::ZERO);
        freshness.note(List::Tools, Some(CacheHint::default()));
        async fn waited(freshness: &Freshness) -> Duration {
            let since = Instant::now();
            freshness.refreshed(List::Tools).await;
            since.elapsed()
        }
        assert_eq!(waited(&freshness).await, WAIT);
        assert_eq!(waited(&freshness).await, Duration::ZERO);
        freshness.reset();
        assert_eq!(waited(&freshness).await, WAIT);
    }
}
