//! What a handler knows of the request that it answers.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::outgoing::Outgoing;
use crate::{
    RequestId, Revision,
    envelope::write_notification,
    types::{ClientCapabilities, Implementation},
};

/// One request: who asks, with which revision, and how to tell it something before the answer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestContext {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    parts: Parts,
    outbound: mpsc::Sender<Outgoing>,
    cancel: CancellationToken,
}

/// What a request says of itself.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) id: RequestId,
    pub(super) method: &'static str,
    pub(super) revision: Revision,
    pub(super) client: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) progress_token: Option<RequestId>,
    pub(super) session_id: Option<Arc<str>>,
}

impl RequestContext {
    pub(super) fn new(
        parts: Parts,
        outbound: mpsc::Sender<Outgoing>,
        cancel: CancellationToken,
    ) -> Self {
        Self { inner: Arc::new(Inner { parts, outbound, cancel }) }
    }

    /// The id that the client gave the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.inner.parts.id
    }

    /// The method called.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.inner.parts.method
    }

    /// The revision that the request was made with.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.inner.parts.revision
    }

    /// Who asks, by its own account; stateless clients may keep it to themselves.
    #[must_use]
    pub fn client(&self) -> Option<&Implementation> {
        self.inner.parts.client.as_ref()
    }

    /// What the client offers.
    #[must_use]
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.inner.parts.capabilities
    }

    /// The HTTP session that the request belongs to.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.inner.parts.session_id.as_deref()
    }

    /// Whether the client wants to hear of progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.inner.parts.progress_token.is_some()
    }

    /// Tells the client how far the work is; does nothing when it did not ask.
    ///
    /// `progress` must grow from call to call; `total` is what it grows towards, if known. Waits while the client reads
    /// more slowly than we write.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress<'a> {
            progress_token: &'a RequestId,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let Some(progress_token) = &self.inner.parts.progress_token else { return };
        self.notify(
            "notifications/progress",
            &Progress { progress_token, progress, total, message },
        )
        .await;
    }

    /// Sends a notification that belongs to this request. Parameters that are not a JSON object send nothing.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + Sync + ?Sized)) {
        match to_raw_value(params) {
            Ok(params) if params.get().starts_with('{') => {
                self.send(Outgoing::notification(write_notification(method, Some(&params)))).await;
            }
            _ => tracing::error!(method, "notification's parameters are no JSON object"),
        }
    }

    /// Completes when the client has cancelled the request or, in the stateless era, gone away.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.inner.cancel.cancelled()
    }

    /// A token that is cancelled with the request, to hand on.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.cancel.clone()
    }

    /// A client that is gone is no error of the handler's: it learns of it by cancellation where the era has that.
    pub(super) async fn send(&self, message: Outgoing) {
        _ = self.inner.outbound.send(message).await;
    }
}
