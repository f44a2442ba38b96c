//! Lets lists wait for upstreams that are still starting.
//!
//! A client that lists once must see every tool, and not every client lists again after a
//! notification. Therefore a list waits until each upstream has started or failed for the first
//! time. Later lists do not wait.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use marquetry_protocol::{
    RpcError,
    server::{
        RequestContext,
        fair::{FairBounds, FairLimiter},
    },
};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Gateway, List, Upstream, options::GatewayLimits};

/// Time before the first log message of a waiting list, and between two messages.
const QUIET: Duration = Duration::from_secs(1);
const BETWEEN_MESSAGES: Duration = Duration::from_secs(5);

/// Time that the list of tools waits for an upstream whose last tools are known. One that starts
/// quickly is listed as it is now, for clients that list once.
const WAIT_WITH_CACHED_TOOLS: Duration = Duration::from_millis(300);

/// Limits the requests that wait for upstreams without a slot among the requests in flight.
pub(super) fn limiter(limits: &GatewayLimits) -> FairLimiter {
    FairLimiter::new(FairBounds {
        what: "requests wait for upstreams to start",
        total_setting: "limits.max_waiting_requests",
        per_caller_setting: "limits.max_waiting_requests_per_caller",
        total: limits.max_waiting_requests,
        per_caller: limits.max_waiting_requests_per_caller,
        queued: 0,
        wait: Duration::ZERO,
    })
}

/// Selects one of many waiting requests to log for all.
#[derive(Default)]
pub(super) struct Messages {
    next: Mutex<Option<Instant>>,
}

impl Messages {
    /// Returns whether a message is due, and starts the next interval.
    fn are_due(&self) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = next.is_none_or(|next| next <= now);
        if due {
            *next = Some(now + BETWEEN_MESSAGES);
        }
        due
    }
}

impl Gateway {
    /// Waits until the first start of each upstream has ended, or its time limit is over:
    /// `gateway.list_wait_ms`, or its `start_timeout_ms`, from the start of this server.
    ///
    /// # Errors
    /// Returns an error if no slot among the requests in flight was free after the wait.
    pub(crate) async fn started(&self, list: List, cx: &RequestContext) -> Result<(), RpcError> {
        self.wait_without_slot(cx, self.started_all(list)).await
    }

    /// Waits until a list is complete and fresh, or the time for that is over.
    ///
    /// # Errors
    /// Returns an error if no slot among the requests in flight was free after the wait.
    pub async fn list_ready(&self, list: List, cx: &RequestContext) -> Result<(), RpcError> {
        let ready = async {
            self.started_all(list).await;
            self.refresh_expired(list).await;
        };
        self.wait_without_slot(cx, ready).await?;
        if !self.is_listed.load(Ordering::Relaxed) {
            // Waits for a relisting that began before a client had received a list, so that this
            // list shows its result.
            let _guard = self.relisting.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_listed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits without one of the caller's slots among the requests in flight, so that lists of
    /// clients that connect while upstreams start do not keep out other requests. Beyond the bounds
    /// of [`limiter`] a request waits with its slot.
    pub(super) async fn wait_without_slot(
        &self,
        cx: &RequestContext,
        wait: impl Future<Output = ()>,
    ) -> Result<(), RpcError> {
        let mut wait = pin!(wait);
        if wait.as_mut().now_or_never().is_some() {
            return Ok(());
        }
        if let Ok(_waiting) = self.waiting.try_enter(cx.caller(), 1) {
            cx.without_slot(wait).await
        } else {
            wait.await;
            Ok(())
        }
    }

    async fn started_all(&self, list: List) {
        let upstreams = self.upstreams();
        let waiting: Vec<_> =
            upstreams.iter().filter(|upstream| !upstream.is_settled(list)).collect();
        if waiting.is_empty() {
            return;
        }
        let each = waiting.iter().map(|upstream| {
            timeout_at(self.started_at + self.list_wait(upstream, list), upstream.settled(list))
        });
        let mut all = std::pin::pin!(join_all(each));
        let mut next = Instant::now() + QUIET;
        loop {
            tokio::select! {
                biased;
                _ = &mut all => break,
                () = sleep_until(next) => {}
            }
            next = Instant::now() + BETWEEN_MESSAGES;
            if self.wait_messages.are_due() {
                tracing::info!(
                    upstreams = names(&waiting, list),
                    "a list waits for upstreams that are still starting; gateway.list_wait_ms says how long"
                );
            }
        }
        let late = names(&waiting, list);
        if !late.is_empty() && self.wait_messages.are_due() {
            tracing::warn!(
                upstreams = late,
                "a list is answered without upstreams that are still starting; gateway.list_wait_ms says how long it waits"
            );
        }
    }

    /// Returns the time that a list waits for an upstream.
    fn list_wait(&self, upstream: &Upstream, list: List) -> Duration {
        let wait = self.options.list_wait.min(upstream.start_timeout());
        let has_tools = list == List::Tools && upstream.shows_cached_tools();
        if has_tools { wait.min(WAIT_WITH_CACHED_TOOLS) } else { wait }
    }
}

fn names(upstreams: &[&Arc<Upstream>], list: List) -> String {
    let late = upstreams.iter().filter(|upstream| !upstream.is_settled(list));
    late.map(|upstream| upstream.name()).collect::<Vec<_>>().join(", ")
}
