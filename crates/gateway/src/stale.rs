//! Marks of lists that must be fetched again.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{sync::Notify, time::Instant};

/// Marks a list of an upstream as stale. Several marks cause one fetch.
#[derive(Default)]
pub(super) struct StaleMark {
    /// The upstream has announced a change.
    pub(super) changed: Notify,
    /// An agent has requested the list, which has expired.
    pub(super) requested: Notify,
    pause: Mutex<ChangePause>,
}

impl StaleMark {
    /// Waits until the list is stale. After an announcement it waits a little longer, since servers
    /// announce several changes in a row. It does not wait longer if an agent needs the list.
    pub(super) async fn wait(&self) {
        tokio::select! {
            biased;
            () = self.requested.notified() => return,
            () = self.changed.notified() => {}
        }
        let pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner).next();
        tokio::select! {
            () = self.requested.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        _ = self.changed.notified().now_or_never();
    }
}

/// The pause between an announcement and the fetch of the list. It grows as long as changes follow
/// one another: some servers announce a change whenever their list is fetched.
#[derive(Default)]
struct ChangePause {
    pause: Duration,
    last: Option<Instant>,
}

impl ChangePause {
    const SHORTEST: Duration = Duration::from_millis(30);
    const LONGEST: Duration = Duration::from_secs(30);
    /// Changes that are further apart than this, and than three pauses, do not follow one another.
    const APART: Duration = Duration::from_secs(1);

    fn next(&mut self) -> Duration {
        let apart = Self::APART.max(self.pause * 3);
        let follows = self.last.is_some_and(|last| last.elapsed() < apart);
        self.last = Some(Instant::now());
        self.pause = if follows { (self.pause * 2).min(Self::LONGEST) } else { Self::SHORTEST };
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_changes_whenever_it_is_fetched_is_fetched_less_and_less() {
        let mark = StaleMark::default();
        let started = Instant::now();
        for _ in 0..20 {
            mark.changed.notify_one();
            mark.wait().await;
        }
        assert!(started.elapsed() > Duration::from_mins(4), "{:?}", started.elapsed());

        tokio::time::sleep(Duration::from_mins(2)).await;
        let started = Instant::now();
        mark.changed.notify_one();
        mark.wait().await;
        assert_eq!(started.elapsed(), ChangePause::SHORTEST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_does_not_wait_for_the_pause() {
        let mark = StaleMark::default();
        mark.changed.notify_one();
        mark.requested.notify_one();
        let started = Instant::now();
        mark.wait().await;
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
