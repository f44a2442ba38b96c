//! Heartbeats of batches: signs that their programs still run.

use std::{pin::pin, time::Duration};

use super::ResultStore;
#[cfg(any(feature = "libsql", test))]
use super::{RunStatus, TestRun};
#[cfg(any(feature = "libsql", test))]
use crate::Timestamp;

/// Time between two signs that the program of a batch still runs.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// A batch without a sign for this time counts as failed: its program was killed, or its machine
/// stopped.
#[cfg(any(feature = "libsql", test))]
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);

/// Completes with `work`, which runs a batch. Meanwhile, it records in the store that the batch is
/// still running: a batch without a sign for a minute is shown as failed.
pub async fn with_heartbeat<T>(
    store: &dyn ResultStore,
    run: &str,
    work: impl Future<Output = T>,
) -> T {
    let signs = async {
        loop {
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            if let Err(error) = store.touch_run(run).await {
                tracing::warn!(run, "failed to record that a batch is still running: {error}");
            }
        }
    };
    tokio::select! {
        biased;
        ended = pin!(work) => ended,
        never = pin!(signs) => never,
    }
}

/// Only stores that outlive a program can contain batches of killed programs.
#[cfg(any(feature = "libsql", test))]
impl TestRun {
    /// Returns the batch as it is `now`: failed if its last sign is too old.
    pub(super) fn seen_at(self, last_sign: Timestamp, now: Timestamp) -> Self {
        let silence = now.millis().saturating_sub(last_sign.millis());
        let is_silent = u128::from(silence) > HEARTBEAT_TIMEOUT.as_millis();
        if self.status != RunStatus::Running || !is_silent {
            return self;
        }
        Self { status: RunStatus::Failed, completed_at: Some(last_sign), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, NewRun};

    fn after(time: Timestamp, millis: u64) -> Timestamp {
        Timestamp::from_millis(time.millis() + millis)
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_not_held_up_by_signs_that_fail() {
        let store = MemoryStore::new();
        let work = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            7
        };
        assert_eq!(with_heartbeat(&store, "unknown", work).await, 7);
    }

    #[tokio::test]
    async fn a_silent_batch_has_failed_and_an_ended_one_stays_as_it_ended() {
        let store = MemoryStore::new();
        let run = store.start_run(NewRun::default()).await.unwrap();
        let began = run.started_at;
        assert_eq!(run.clone().seen_at(began, after(began, 60_000)), run);
        // A clock that was set back.
        assert_eq!(run.clone().seen_at(after(began, 1), began), run);
        let last_sign = after(began, 7);
        let silent = run.clone().seen_at(last_sign, after(began, 60_008));
        assert_eq!((silent.status, silent.completed_at), (RunStatus::Failed, Some(last_sign)));
        let ended = store.finish_run(&run.id, RunStatus::Completed).await.unwrap();
        assert_eq!(ended.clone().seen_at(began, after(began, 100_000)), ended);
    }
}
