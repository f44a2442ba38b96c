//! Batches, which servers of revision 2025-03-26 must support.

use std::sync::Arc;

use futures_util::future::join_all;
use marquetry_protocol_wire::{Feature, Message, RpcError, members::Members};
use tokio::sync::mpsc;

use super::{Server, conversation::Conversation, outgoing::Outgoing, peer::Peer};

/// A batch, each of whose requests was accepted or refused.
pub(super) struct Batch {
    calls: Vec<super::call::Accepted>,
    refused: Vec<Outgoing>,
}

impl Server {
    /// Accepts a batch; its notifications and answers are handled at once.
    ///
    /// # Errors
    /// Returns an error if the session's revision has no batches. It is the answer to the batch.
    pub(super) fn accept_batch(
        &self,
        conversation: &Arc<Conversation>,
        peer: &Peer,
        messages: marquetry_protocol_wire::Batch<'_>,
    ) -> Result<Batch, Outgoing> {
        let has_batches =
            conversation.session.get().is_some_and(|facts| facts.revision.has(Feature::Batches));
        if !has_batches {
            let error = RpcError::invalid_request("batches exist only in revision 2025-03-26");
            return Err(Outgoing::error(None, &error));
        }
        let messages = messages
            .messages(self.limits().max_in_flight)
            .map_err(|error| Outgoing::error(None, &error.error))?;
        let mut batch = Batch { calls: Vec::new(), refused: Vec::new() };
        for message in messages {
            match message {
                Ok(Message::Request(request)) => {
                    let members = Members::of(request.params);
                    // Requests of a batch do not wait for the others to free slots.
                    let slot = self.shared.shares.calls.try_enter(&peer.caller, 1);
                    let accepted = slot
                        .map_err(|full| {
                            let error = RpcError::too_many_requests(full.to_string());
                            Outgoing::error(Some(&request.id), &error)
                        })
                        .and_then(|slot| {
                            self.accept(conversation, peer, &request, &members, Some(slot))
                        });
                    match accepted {
                        Ok(call) => batch.calls.push(call),
                        Err(refused) => batch.refused.push(refused),
                    }
                }
                Ok(Message::Notification(notification)) => {
                    self.notified(conversation, &notification);
                }
                Ok(Message::Response(response)) => conversation.questions.answered(response),
                Err(error) => batch.refused.push(Outgoing::error(error.id.as_ref(), &error.error)),
            }
        }
        Ok(batch)
    }
}

impl Batch {
    /// Runs the requests concurrently. Returns [`None`] if no message of the batch needs an answer.
    pub(super) async fn run(self, outbound: mpsc::Sender<Outgoing>) -> Option<Outgoing> {
        let answers = join_all(self.calls.into_iter().map(|call| call.run(outbound.clone()))).await;
        let answers: Vec<Outgoing> =
            self.refused.into_iter().chain(answers.into_iter().flatten()).collect();
        if answers.is_empty() {
            return None;
        }
        let length = answers.iter().map(|answer| answer.bytes.len() + 1).sum::<usize>() + 1;
        let mut bytes = Vec::with_capacity(length);
        let mut held = Vec::new();
        let mut charged = Vec::new();
        // Each answer is freed when it is in the batch: together they may be as long as the limits.
        for answer in answers {
            bytes.push(if bytes.is_empty() { b'[' } else { b',' });
            bytes.extend_from_slice(&answer.bytes);
            held.extend(answer.held);
            charged.extend(answer.charged);
        }
        bytes.push(b']');
        Some(Outgoing { held, charged, ..Outgoing::result(bytes) })
    }

    /// Returns whether a message of the batch needs an answer.
    #[cfg(feature = "http")]
    pub(super) fn wants_answer(&self) -> bool {
        !(self.calls.is_empty() && self.refused.is_empty())
    }
}
