//! Questions in the session era: requests from the server to its client.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use marquetry_protocol_wire::{
    RequestId, Response, RpcError,
    envelope::{write_notification, write_request},
};
use serde_json::{json, value::RawValue};
use tokio::sync::{mpsc, oneshot};

use crate::outgoing::Outgoing;

/// The questions that wait for the client's answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<Answer>>>,
}

/// The client's answer.
type Answer = Result<Box<RawValue>, RpcError>;

/// A pending question. If it is dropped before the answer, the client gets a cancellation.
struct PendingQuestion {
    id: RequestId,
    questions: Arc<Questions>,
    outbound: mpsc::Sender<Outgoing>,
    answered: bool,
}

impl Questions {
    /// Sends a question, and waits for the answer.
    ///
    /// # Errors
    /// Returns an error if the client answers with one, or has disconnected.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        outbound: &mpsc::Sender<Outgoing>,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let gone =
            || RpcError::internal(format!("the client went away before it answered '{method}'"));
        let id = RequestId::from(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
        let mut pending = PendingQuestion {
            id: id.clone(),
            questions: self.clone(),
            outbound: outbound.clone(),
            answered: false,
        };
        let question = Outgoing::notification(write_request(&id, method, Some(params)));
        outbound.send(question).await.map_err(|_| gone())?;
        let answer = answer.await;
        pending.answered = true;
        answer.map_err(|_| gone())?
    }

    /// Delivers an answer. Answers to cancelled questions are ignored.
    pub(crate) fn answered(&self, response: Response<'_>) {
        let waiting = response
            .id
            .and_then(|id| self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
        if let Some(waiting) = waiting {
            _ = waiting.send(response.outcome.map(ToOwned::to_owned));
        } else {
            tracing::debug!("an answer to an unknown question was ignored");
        }
    }

    /// Fails all questions: no answer can arrive any more.
    pub(crate) fn give_up(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if self.answered {
            return;
        }
        let params = json!({ "requestId": self.id, "reason": "the answer is no longer needed" });
        if let Ok(params) = serde_json::value::to_raw_value(&params) {
            // If the client's queue is full, the cancellation is lost; the late answer is then
            // ignored.
            let message = write_notification("notifications/cancelled", Some(&params));
            _ = self.outbound.try_send(Outgoing::notification(message));
        }
    }
}
