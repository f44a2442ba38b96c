//! A client whose messages share one channel in both directions: a pipe, or a stream of HTTP+SSE.

use std::{future::Future, sync::Arc, task::Poll};

use marquetry_protocol_wire::{Incoming, Message, members::Members};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::task::TaskTracker;

use super::{
    Server, call::poll_once, conversation::Conversation, in_place, outgoing::Outgoing, peer::Peer,
};

/// The channel of one client.
pub(super) struct Channel {
    pub(super) server: Server,
    pub(super) conversation: Arc<Conversation>,
    pub(super) outbound: mpsc::Sender<Outgoing>,
    pub(super) calls: TaskTracker,
    /// The client, if all messages have the same sender.
    pub(super) peer: Peer,
}

impl Channel {
    /// Creates a channel, and returns the receiver of its outgoing messages.
    pub(super) fn new(server: Server, client: Peer) -> (Self, mpsc::Receiver<Outgoing>) {
        let limits = server.limits();
        let conversation = Conversation::new(None, limits.max_in_flight);
        Self::of(server, conversation.of_peer(&client), client)
    }

    /// Creates a channel for a conversation.
    pub(super) fn of(
        server: Server,
        conversation: Conversation,
        peer: Peer,
    ) -> (Self, mpsc::Receiver<Outgoing>) {
        let limits = server.limits();
        let (outbound, queue) = mpsc::channel(limits.queue());
        let conversation = Arc::new(conversation);
        (Self { server, conversation, outbound, calls: TaskTracker::new(), peer }, queue)
    }

    /// Handles bytes from the client. Waits while the client reads more slowly than the server
    /// answers, but never for a slot among the requests in flight: a cancellation after many
    /// requests must be able to free their slots.
    pub(super) async fn take(&self, bytes: &[u8]) {
        self.take_from(&self.peer, bytes).await;
    }

    /// Handles bytes from `peer`, whose token may have changed since the first message.
    pub(super) async fn take_from(&self, peer: &Peer, bytes: &[u8]) {
        let max_nesting = self.server.limits().max_nesting;
        match in_place(bytes.len(), || Incoming::parse(bytes, max_nesting)) {
            Ok(Incoming::Message(Message::Request(request))) => {
                let members = Members::of(request.params);
                let slot = self.server.shared.shares.calls.try_enter(&peer.caller, 1).ok();
                match self.server.accept(&self.conversation, peer, &request, &members, slot) {
                    // The requests after it need the session.
                    Ok(call)
                        if request.method == "initialize"
                            && self.conversation.session.get().is_none() =>
                    {
                        self.answer(call.run_in_turn(self.outbound.clone())).await;
                        self.forward_announcements();
                    }
                    Ok(call) => self.start(call.run_in_turn(self.outbound.clone())).await,
                    Err(refused) => self.send(refused).await,
                }
            }
            Ok(Incoming::Message(Message::Notification(notification))) => {
                self.server.notified(&self.conversation, &notification);
            }
            Ok(Incoming::Message(Message::Response(response))) => {
                self.conversation.questions.answered(response);
            }
            Ok(Incoming::Batch(messages)) => {
                match self.server.accept_batch(&self.conversation, peer, messages) {
                    Ok(batch) => {
                        _ = self.calls.spawn(self.answer(batch.run(self.outbound.clone())));
                    }
                    Err(refused) => self.send(refused).await,
                }
            }
            Err(error) => self.send(Outgoing::error(error.id.as_ref(), &error.error)).await,
        }
    }

    /// Runs work and sends its answer. Most work finishes at once, and needs no task.
    async fn start(&self, work: impl Future<Output = Option<Outgoing>> + Send + 'static) {
        let mut work = Box::pin(work);
        match poll_once(work.as_mut()).await {
            Poll::Ready(Some(answer)) => {
                // Without room it waits in a task, so that the reader still notices the end of the
                // input.
                if let Err(TrySendError::Full(answer)) = self.outbound.try_send(answer) {
                    self.calls.spawn(self.answer(std::future::ready(Some(answer))));
                }
            }
            Poll::Ready(None) => {}
            Poll::Pending => _ = self.calls.spawn(self.answer(work)),
        }
    }

    /// Runs work and sends its answer.
    fn answer(
        &self,
        work: impl Future<Output = Option<Outgoing>> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let outbound = self.outbound.clone();
        async move {
            if let Some(answer) = work.await {
                _ = outbound.send(answer).await;
            }
        }
    }

    /// Forwards the server's announcements until the channel closes.
    fn forward_announcements(&self) {
        let Some(facts) = self.conversation.session.get() else { return };
        let listener = facts.listener.clone();
        let outbound = self.outbound.clone();
        let ending = self.conversation.ending.clone();
        tokio::spawn(ending.run_until_cancelled_owned(async move {
            while outbound.send(Outgoing::notification(listener.next().await)).await.is_ok() {}
        }));
    }

    pub(super) async fn send(&self, message: Outgoing) {
        _ = self.outbound.send(message).await;
    }
}
