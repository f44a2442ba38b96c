//! A client whose messages, both ways, share one channel: a pipe, or a stream of HTTP+SSE.

use std::{future::Future, sync::Arc, task::Poll};

use marquetry_protocol_wire::{Incoming, Message, members::Members};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::task::TaskTracker;

use super::{Server, call::poll_once, conversation::Conversation, outgoing::Outgoing, peer::Peer};

/// One client, and the way to it.
pub(super) struct Channel {
    pub(super) server: Server,
    pub(super) conversation: Arc<Conversation>,
    pub(super) outbound: mpsc::Sender<Outgoing>,
    pub(super) calls: TaskTracker,
    /// The client, where all messages come from one.
    pub(super) peer: Peer,
}

impl Channel {
    /// A channel, and what is to be sent through it.
    pub(super) fn new(server: Server) -> (Self, mpsc::Receiver<Outgoing>) {
        let limits = server.limits();
        let conversation = Conversation::new(None, limits.max_in_flight);
        Self::of(server, conversation, Peer::local())
    }

    /// A channel for that conversation.
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

    /// Takes what the client has sent. Waits while the client reads more slowly than we answer, but never for a place among
    /// the requests in flight: a cancellation that comes after many requests must make room for them.
    pub(super) async fn take(&self, bytes: &[u8]) {
        self.take_from(&self.peer, bytes).await;
    }

    /// Takes what `peer` has sent, whose token may allow more or less than it did at first.
    pub(super) async fn take_from(&self, peer: &Peer, bytes: &[u8]) {
        match Incoming::parse(bytes, self.server.limits().max_nesting) {
            Ok(Incoming::Message(Message::Request(request))) => {
                let members = Members::of(request.params);
                let place = self.server.shared.shares.calls.try_enter(&peer.caller, 1).ok();
                match self.server.accept(&self.conversation, peer, &request, &members, place) {
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
                self.conversation.questions.answered(response)
            }
            Ok(Incoming::Batch(messages)) => {
                match self.server.accept_batch(&self.conversation, peer, messages) {
                    Ok(batch) => {
                        _ = self.calls.spawn(self.answer(batch.run(self.outbound.clone())))
                    }
                    Err(refused) => self.send(refused).await,
                }
            }
            Err(error) => self.send(Outgoing::error(error.id.as_ref(), &error.error)).await,
        }
    }

    /// Starts some work, and sends its answer when it is done: most is done at once, and needs no task.
    async fn start(&self, work: impl Future<Output = Option<Outgoing>> + Send + 'static) {
        let mut work = Box::pin(work);
        match poll_once(work.as_mut()).await {
            Poll::Ready(Some(answer)) => {
                // Where there is no room, it waits beside the reader, who must see the end of the input.
                if let Err(TrySendError::Full(answer)) = self.outbound.try_send(answer) {
                    self.calls.spawn(self.answer(std::future::ready(Some(answer))));
                }
            }
            Poll::Ready(None) => {}
            Poll::Pending => _ = self.calls.spawn(self.answer(work)),
        }
    }

    /// Does some work and sends its answer.
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

    /// Sends the server's announcements from now on, until the pipe is left.
    fn forward_announcements(&self) {
        let Some(facts) = self.conversation.session.get() else { return };
        let (listener, outbound) = (facts.listener.clone(), self.outbound.clone());
        let ending = self.conversation.ending.clone();
        tokio::spawn(ending.run_until_cancelled_owned(async move {
            while outbound.send(Outgoing::notification(listener.next().await)).await.is_ok() {}
        }));
    }

    pub(super) async fn send(&self, message: Outgoing) {
        _ = self.outbound.send(message).await;
    }
}
