//! Handles an upstream's questions and notifications that belong to no call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;
use marquetry_in_flight::InFlight;
use marquetry_protocol::{
    RpcError,
    client::{ClientHandler, ServerNotification},
    error_code,
    server::Announcer,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::{
    Gateway, Upstream,
    asker::{Asker, ConnectionEvents, QuestionKind, ROOTS, list_of_roots, or_empty},
    observer::Observed,
};

/// A connection to an upstream.
pub(crate) struct Connection {
    pub(super) gateway: Weak<Gateway>,
    /// The upstream that it was made for, which another one of the same name may have replaced.
    pub(super) upstream: Weak<Upstream>,
}

impl ConnectionEvents for Connection {
    fn page_opened(&self, id: String, announcer: Announcer) {
        if let (Some(gateway), Some(upstream)) = (self.gateway.upgrade(), self.upstream.upgrade()) {
            gateway.pages.opened(upstream.source(), id, announcer);
        }
    }

    fn notified(&self, notification: &ServerNotification) {
        ClientHandler::notified(self, notification);
    }
}

impl Connection {
    fn in_flight(&self) -> Option<Arc<InFlight<Asker>>> {
        Some(self.upstream.upgrade()?.in_flight.clone())
    }
}

#[async_trait]
impl ClientHandler for Connection {
    async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        if method == ROOTS
            && let Some(upstream) = self.upstream.upgrade()
            && let Some(roots) = &upstream.settings().options.roots
        {
            return list_of_roots(roots);
        }
        let Some(calls) = self.in_flight() else {
            return Err(RpcError::internal("the gateway is shutting down"));
        };
        let params = &*or_empty(params);
        // Parsed here and not for each call, since the calls are locked meanwhile.
        let question = QuestionKind::of(method, params);
        let (agent, asker) =
            calls.only_agent(|asker| asker.can_ask(&question)).inspect_err(|error| {
                tracing::debug!(method, %error, "refused a question of the upstream");
            })?;
        tokio::select! {
            answer = asker.ask(method, params) => answer,
            () = calls.all_ended(agent) => Err(RpcError::internal("the call has ended")),
        }
    }

    fn stray_output(&self, line: &str) {
        if let Some(upstream) = self.upstream.upgrade() {
            upstream.count_stray_line(line);
        }
    }

    fn notified(&self, notification: &ServerNotification) {
        let (Some(gateway), Some(upstream)) = (self.gateway.upgrade(), self.upstream.upgrade())
        else {
            return;
        };
        if let Some(observer) = gateway.options.observer.as_ref().filter(|it| it.is_watching()) {
            let method = &*notification.method;
            let params = notification.params.as_deref();
            observer.observe(upstream.name(), None, &Observed::Notification { method, params });
        }
        match &*notification.method {
            "notifications/message" => {
                // The message may concern another agent's call, so it is forwarded only if a single
                // agent has calls in flight.
                let forwarded =
                    upstream.in_flight.with_only_agent(|asker| asker.logged(notification));
                let params = notification.params.as_deref().map_or("", RawValue::get);
                let params = &params[..params.floor_char_boundary(1_000)];
                tracing::debug!(target: "marquetry::upstream", upstream = upstream.name(), forwarded, "{params}");
            }
            "notifications/elicitation/complete" => {
                gateway.pages.done(upstream.source(), notification);
            }
            "notifications/resources/updated" => {
                #[derive(Deserialize)]
                struct Updated {
                    uri: String,
                }
                let params = notification.params.as_deref();
                let updated = params.map(|params| serde_json::from_str(params.get()));
                if let Some(Ok(Updated { uri })) = updated {
                    gateway.resource_updated(&upstream, &uri);
                }
            }
            _ => {}
        }
    }
}

/// Web pages that upstreams asked users to open (URL elicitation), each with the agent to notify. A
/// full list drops the oldest page.
pub(crate) struct Pages {
    open: Mutex<VecDeque<Page>>,
    max: usize,
    /// Notified when an upstream reports that a user is done with a page.
    pub(super) finished: Notify,
}

/// An upstream by its number, or an instance by that and its own number.
type PageSource = (usize, Option<u32>);

struct Page {
    source: PageSource,
    id: String,
    announcer: Announcer,
}

impl Pages {
    pub(super) fn new(max: usize) -> Self {
        Self { open: Mutex::default(), max, finished: Notify::new() }
    }

    pub(super) fn opened(&self, source: PageSource, id: String, announcer: Announcer) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|page| page.announcer.is_connected());
        if open.len() >= self.max {
            open.pop_front();
        }
        open.push_back(Page { source, id, announcer });
    }

    /// Notifies the agent whose user is done with a page, and forgets the page (2025-11-25,
    /// `notifications/elicitation/complete`).
    fn done(&self, source: PageSource, notification: &ServerNotification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Done {
            elicitation_id: String,
        }
        let Some(params) = notification.params.as_deref() else { return };
        let Ok(Done { elicitation_id }) = serde_json::from_str(params.get()) else { return };
        self.finished.notify_waiters();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|page| {
            let is_it = page.source == source && page.id == elicitation_id;
            if is_it {
                page.announcer.notify(&notification.method, params);
            }
            !is_it
        });
    }

    /// Remembers the pages that an error of an upstream names (-32042, "URL elicitation required",
    /// 2025-11-25).
    pub(super) fn required(
        &self,
        source: PageSource,
        error: &RpcError,
        announcer: Option<Announcer>,
    ) {
        #[derive(Deserialize)]
        struct Data {
            elicitations: Vec<Elicitation>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Elicitation {
            elicitation_id: String,
        }
        let (error_code::URL_ELICITATION_REQUIRED, Some(announcer), Some(data)) =
            (error.code, announcer, &error.data)
        else {
            return;
        };
        let Ok(Data { elicitations }) = serde_json::from_str(data.get()) else { return };
        for elicitation in elicitations {
            self.opened(source, elicitation.elicitation_id, announcer.clone());
        }
    }
}
