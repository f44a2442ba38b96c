//! Decides when an upstream's lists must be fetched again (2026-07-28, "Caching").
//!
//! A list is fetched when its upstream starts and when it announces a change. A stateless upstream
//! also sends a time to live: if the list is shown after that time, it is fetched again first.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use marquetry_protocol::types::CacheHint;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use super::{Gateway, UpstreamState};

/// Maximum time that an agent waits for an expired list. After that, the old list is shown.
const MAX_WAIT: Duration = Duration::from_secs(2);

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

impl List {
    /// All lists, in the order of the enum.
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

/// Expiry of each list of an upstream, and the agents that wait for expired ones. Arrays have an
/// element for each [`List`].
#[derive(Debug)]
pub(crate) struct Freshness {
    lists: Mutex<[ListFreshness; 3]>,
    /// Notified when an agent requests an expired list.
    request: Notify,
    /// The number of fetches.
    fetches: watch::Sender<[u64; 3]>,
    /// Minimum time between two fetches.
    pause: Duration,
}

#[derive(Debug, Default)]
struct ListFreshness {
    /// When the list expires; `None` for never.
    expires: Option<Instant>,
    /// Whether an agent has requested the list since it expired.
    is_requested: bool,
    /// Whether the wait of an agent for the list timed out. Until the list arrives, other agents do
    /// not wait for it.
    is_late: bool,
}

impl Freshness {
    /// Creates the state; lists are fetched at most once in `pause`.
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            lists: Mutex::default(),
            request: Notify::new(),
            fetches: watch::Sender::new([0; 3]),
            pause,
        }
    }

    /// Sets the expiry of a list that was fetched now; without a hint, it never expires.
    pub(super) fn set_expiry(&self, list: List, hint: Option<CacheHint>) {
        let expires = self.expiry(hint);
        self.lists()[list as usize].expires = expires;
    }

    /// Brings the expiry of a list forward to that of another part of it.
    pub(super) fn limit_expiry(&self, list: List, hint: Option<CacheHint>) {
        let part_expires = self.expiry(hint);
        let mut lists = self.lists();
        let list = &mut lists[list as usize];
        list.expires = [list.expires, part_expires].into_iter().flatten().min();
    }

    fn expiry(&self, hint: Option<CacheHint>) -> Option<Instant> {
        let time = self.pause.max(Duration::from_millis(hint?.ttl_ms));
        // A time that the clock cannot represent means no expiry.
        Instant::now().checked_add(time)
    }

    /// Waits until an expired list was fetched again, at most [`MAX_WAIT`].
    async fn wait_until_fresh(&self, list: List) {
        let mut fetches = self.fetches.subscribe();
        let before = fetches.borrow()[list as usize];
        {
            let mut lists = self.lists();
            let list = &mut lists[list as usize];
            if !list.is_expired() {
                return;
            }
            list.is_requested = true;
            self.request.notify_one();
            if list.is_late {
                return;
            }
        }
        // The number of fetches, not the expiry, shows that the list has arrived: other lists may
        // arrive first, and this one may expire again at once.
        let fetched = fetches.wait_for(|counts| counts[list as usize] != before);
        if timeout(MAX_WAIT, fetched).await.is_err() {
            self.lists()[list as usize].is_late = true;
        }
    }

    /// Waits until agents request expired lists, and returns these lists. Cancel safe.
    pub(super) async fn requested(&self) -> Vec<List> {
        loop {
            self.request.notified().await;
            let mut lists = self.lists();
            let requested: Vec<List> = List::ALL
                .into_iter()
                .filter(|list| std::mem::take(&mut lists[*list as usize].is_requested))
                .collect();
            if !requested.is_empty() {
                return requested;
            }
        }
    }

    /// Ends the wait for a list: it was fetched and is shown, or could not be fetched.
    pub(super) fn finish_fetch(&self, list: List) {
        {
            let mut lists = self.lists();
            let list = &mut lists[list as usize];
            // A list that could not be fetched is not requested again at once.
            if list.is_expired() {
                list.expires = self.expiry(Some(CacheHint::default()));
            }
            list.is_late = false;
        }
        self.fetches.send_modify(|counts| counts[list as usize] += 1);
    }

    /// Lets agents wait again for late lists, after a restart of the upstream.
    pub(super) fn forget_delays(&self) {
        for list in &mut *self.lists() {
            list.is_late = false;
        }
    }

    fn lists(&self) -> MutexGuard<'_, [ListFreshness; 3]> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListFreshness {
    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Instant::now())
    }
}

impl Gateway {
    /// Fetches the expired parts of a list. Parts that do not arrive in time are shown as before.
    pub(crate) async fn refresh_expired(&self, list: List) {
        let upstreams = self.upstreams();
        let ready = upstreams.iter().filter(|it| matches!(it.state(), UpstreamState::Ready(_)));
        join_all(ready.map(|upstream| upstream.freshness.wait_until_fresh(list))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_expires_after_its_time_to_live_but_not_within_the_pause() {
        let freshness = Freshness::new(Duration::from_secs(10));
        fn hint(seconds: u64) -> Option<CacheHint> {
            Some(CacheHint::public(Duration::from_secs(seconds)))
        }
        fn expired(freshness: &Freshness) -> [bool; 3] {
            freshness.lists().each_ref().map(ListFreshness::is_expired)
        }
        assert!(!freshness.lists()[List::Tools as usize].is_expired());
        freshness.set_expiry(List::Tools, hint(0));
        freshness.set_expiry(List::Prompts, hint(60));
        freshness.set_expiry(List::Resources, None);
        freshness.limit_expiry(List::Resources, hint(20));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(expired(&freshness), [false, false, false]);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(expired(&freshness), [true, false, false]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(expired(&freshness), [true, false, true]);
        freshness.finish_fetch(List::Tools);
        assert_eq!(expired(&freshness), [false, false, true]);
        freshness
            .set_expiry(List::Tools, Some(CacheHint { ttl_ms: u64::MAX, ..CacheHint::default() }));
        tokio::time::advance(Duration::from_secs(1_000_000)).await;
        assert_eq!(expired(&freshness), [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_for_an_expired_list_waits_for_it() {
        let freshness = Freshness::new(Duration::from_secs(10));
        freshness.set_expiry(List::Tools, Some(CacheHint::default()));
        freshness.wait_until_fresh(List::Tools).await;
        tokio::time::advance(Duration::from_secs(11)).await;
        let fetching = async {
            assert_eq!(freshness.requested().await, [List::Tools]);
            freshness.set_expiry(List::Tools, Some(CacheHint::default()));
            freshness.finish_fetch(List::Tools);
        };
        tokio::join!(freshness.wait_until_fresh(List::Tools), fetching);
        assert!(!freshness.lists()[List::Tools as usize].is_expired());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_time_to_live_is_shown_once_it_is_fetched() {
        let freshness = Freshness::new(Duration::ZERO);
        freshness.set_expiry(List::Tools, Some(CacheHint::default()));
        for _ in 0..3 {
            let since = Instant::now();
            let fetching = async {
                assert_eq!(freshness.requested().await, [List::Tools]);
                freshness.finish_fetch(List::Prompts);
                tokio::time::sleep(Duration::from_millis(10)).await;
                freshness.set_expiry(List::Tools, Some(CacheHint::default()));
                freshness.finish_fetch(List::Tools);
            };
            tokio::join!(freshness.wait_until_fresh(List::Tools), fetching);
            assert!(since.elapsed() < MAX_WAIT / 2, "{:?}", since.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_never_comes_delays_one_request() {
        let freshness = Freshness::new(Duration::ZERO);
        freshness.set_expiry(List::Tools, Some(CacheHint::default()));
        async fn waited(freshness: &Freshness) -> Duration {
            let since = Instant::now();
            freshness.wait_until_fresh(List::Tools).await;
            since.elapsed()
        }
        assert_eq!(waited(&freshness).await, MAX_WAIT);
        assert_eq!(waited(&freshness).await, Duration::ZERO);
        freshness.forget_delays();
        assert_eq!(waited(&freshness).await, MAX_WAIT);
    }
}
