//! The events that the client prints, with the time at which they arrived.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::caller::Told;

#[derive(Clone, Default)]
pub(super) struct Evidence {
    told: Arc<Mutex<Vec<(Instant, Told)>>>,
    more: Arc<Notify>,
}

impl Evidence {
    /// Collects the events that `reader` delivers.
    pub(super) fn from(reader: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let evidence = Self::default();
        let gathered = evidence.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(told) = serde_json::from_str(&line) {
                    gathered.lock().push((Instant::now(), told));
                    gathered.more.notify_waiters();
                }
            }
        });
        evidence
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Told)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether an event of the kind was printed after `since`.
    pub(super) fn has(&self, since: Instant, wanted: impl Fn(&Told) -> bool) -> bool {
        self.lock().iter().any(|(when, told)| *when >= since && wanted(told))
    }

    /// Waits for an event of the kind after `since`.
    pub(super) async fn wait(
        &self,
        what: &str,
        since: Instant,
        limit: Duration,
        wanted: impl Fn(&Told) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            let more = self.more.notified();
            if self.has(since, &wanted) {
                return Ok(());
            }
            // An event may have come between the check and the wait, so the wait is short.
            let soon = Instant::now() + Duration::from_millis(20);
            _ = timeout_at(soon.min(end), more).await;
            if Instant::now() >= end {
                return Err(format!("{what}: not within {} s; {}", limit.as_secs(), self.last()));
            }
        }
    }

    /// Waits for a failed call of the tool after `since`.
    pub(super) async fn wait_for_failure(
        &self,
        tool: &str,
        since: Instant,
        limit: Duration,
    ) -> Result<(), String> {
        let failed = |told: &Told| matches!(told, Told::Failed { tool: name, .. } if name == tool);
        self.wait(&format!("the error of {tool}"), since, limit, failed).await
    }

    /// Returns the first failure of a tool after `since`.
    pub(super) fn failure(&self, tool: &str, since: Instant) -> Option<String> {
        self.lock().iter().find_map(|(when, told)| match told {
            Told::Failed { tool: failed, how } if failed == tool && *when >= since => {
                Some(how.clone())
            }
            _ => None,
        })
    }

    /// Describes the last events, for reports.
    pub(super) fn last(&self) -> String {
        let told = self.lock();
        let last = told.iter().rev().take(6).rev();
        format!("the client's last events: {:?}", last.map(|(_, told)| told).collect::<Vec<_>>())
    }
}
