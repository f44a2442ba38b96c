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

use super::caller::ClientEvent;

#[derive(Clone, Default)]
pub(super) struct EventLog {
    events: Arc<Mutex<Vec<(Instant, ClientEvent)>>>,
    more: Arc<Notify>,
}

impl EventLog {
    /// Collects the events that `reader` delivers.
    pub(super) fn from(reader: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let log = Self::default();
        let written = log.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(event) = serde_json::from_str(&line) {
                    written.lock().push((Instant::now(), event));
                    written.more.notify_waiters();
                }
            }
        });
        log
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, ClientEvent)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether an event of the kind was printed after `since`.
    pub(super) fn has(&self, since: Instant, is_wanted: impl Fn(&ClientEvent) -> bool) -> bool {
        self.lock().iter().any(|(when, event)| *when >= since && is_wanted(event))
    }

    /// Waits for an event of the kind after `since`.
    pub(super) async fn wait(
        &self,
        what: &str,
        since: Instant,
        limit: Duration,
        is_wanted: impl Fn(&ClientEvent) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            let more = self.more.notified();
            if self.has(since, &is_wanted) {
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
        self.wait(
            &format!("the error of {tool}"),
            since,
            limit,
            |event| matches!(event, ClientEvent::CallFailed { tool: failed, .. } if failed == tool),
        )
        .await
    }

    /// Returns the first failure of a tool after `since`.
    pub(super) fn failure(&self, tool: &str, since: Instant) -> Option<String> {
        self.lock().iter().find_map(|(when, event)| match event {
            ClientEvent::CallFailed { tool: failed, error } if failed == tool && *when >= since => {
                Some(error.clone())
            }
            _ => None,
        })
    }

    /// Describes the last events, for reports.
    pub(super) fn last(&self) -> String {
        let events = self.lock();
        let last: Vec<&ClientEvent> =
            events.iter().rev().take(6).rev().map(|(_, event)| event).collect();
        format!("the client's last events: {last:?}")
    }
}
