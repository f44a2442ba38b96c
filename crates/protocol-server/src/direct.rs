//! Requests from outside of the protocol's transports, for example from a REST facade.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use marquetry_protocol_wire::{
    Era, RequestId, Revision, RpcError, members::Members, types::ClientCapabilities,
};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Peer, Principal, Reply, RequestContext, RequestMemory, Server,
    call::{cut_off, no_room},
    context::RequestParts,
    conversation::{ClientFacts, Conversation},
    fair::{ReturnableSlot, Slot},
    method_table::MethodCall,
    notifier::{Filter, Listener},
    observe::observed,
    outgoing::{Outgoing, counted, detached},
    subscriptions::Subscriptions,
};

/// A request from outside of the protocol's transports, for example from a REST facade. It is in
/// flight until this is dropped, or until the answer that [`Self::answer`] counts has been sent.
pub struct DirectCall {
    server: Server,
    peer: Peer,
    capabilities: ClientCapabilities,
    slot: Arc<ReturnableSlot>,
    memory: RequestMemory,
}

impl Server {
    /// Accepts a request of `peer` from outside of the protocol's transports. It counts among the
    /// requests in flight of its caller, and waits for a slot as others do.
    ///
    /// # Errors
    /// Returns an error if no slot became free within
    /// [`Limits::queue_time`](super::Limits::queue_time).
    pub async fn direct_call(&self, peer: Peer) -> Result<DirectCall, RpcError> {
        let slot = ReturnableSlot::new(Some(self.slot(&peer.caller).await?));
        let capabilities = ClientCapabilities::default();
        let memory = self.memory_of(&peer.caller);
        Ok(DirectCall { server: self.clone(), peer, capabilities, slot, memory })
    }

    /// Subscribes `peer` to the resource `uri`. This counts as one of its caller's clients that
    /// listen for announcements.
    ///
    /// # Errors
    /// Returns an error if too many clients listen, or
    /// [`Handler::subscribe`](super::Handler::subscribe) fails.
    pub async fn watch(&self, peer: Peer, uri: &str) -> Result<Watch, RpcError> {
        let slot = self.shared.shares.listening.enter(&peer.caller, 1).await;
        let slot = slot.map_err(|full| RpcError::too_many_requests(full.to_string()))?;
        let time_left = peer.principal.as_deref().and_then(Principal::time_left);
        let end = time_left.and_then(|left| Instant::now().checked_add(left));
        let capabilities = ClientCapabilities::default();
        let memory = self.memory_of(&peer.caller);
        let method = "resources/subscribe";
        let cx = self.direct_context(&peer, method, None, capabilities, Weak::new(), memory);
        let handler = self.shared.handler.clone();
        let subscriptions = Subscriptions::new(handler, cx.conversation(), 1);
        // It listens before it is subscribed, so that no change is missed in between.
        let listener = self.notifier().listen(
            Filter::Listen {
                id: RequestId::from(0_u64),
                methods: Vec::new(),
                subscriptions: subscriptions.clone(),
            },
            cx.recipient(),
        );
        subscriptions.add(uri, self.shared.handler.subscribe(uri, &cx)).await?;
        Ok(Watch { listener, end, shutdown: self.shared.shutdown.clone(), _slot: slot })
    }

    /// Creates the context of a request in a conversation of its own.
    fn direct_context(
        &self,
        peer: &Peer,
        method: &'static str,
        params: Option<&RawValue>,
        capabilities: ClientCapabilities,
        slot: Weak<ReturnableSlot>,
        memory: RequestMemory,
    ) -> RequestContext {
        let conversation = Conversation::new(None, self.limits().max_in_flight);
        let principal = peer.principal.clone();
        let parts = RequestParts {
            id: RequestId::from(0_u64),
            method,
            params: params.map(|params| Members::of(Some(params)).to_owned()),
            revision: Revision::LATEST_SESSION,
            client: Arc::new(ClientFacts { info: None, capabilities }),
            progress_token: None,
            log_level: None,
            principal: principal.clone(),
            #[cfg(feature = "http")]
            http: peer.http.clone(),
            notifier: self.shared.notifier.clone(),
            caller: peer.caller.clone(),
            slot,
            // Nothing is sent before the answer, and `DirectCall::answer` counts that.
            sending: None,
            conversation: Arc::new(Conversation {
                principal,
                profile: peer.profile.clone(),
                ..conversation
            }),
            rounds: None,
            question_timeout: self.shared.limits.question_timeout,
            memory,
            tasks: None,
        };
        RequestContext::new(Box::new(parts), detached(), CancellationToken::new())
    }
}

impl DirectCall {
    /// Sets the capabilities of the client, for example those of an extension. They cannot make the
    /// server ask a question, because a direct call has no connection back to its client.
    #[must_use]
    pub fn with_capabilities(self, capabilities: ClientCapabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Returns the memory that the request holds; see [`RequestContext::memory`].
    #[must_use]
    pub fn memory(&self) -> &RequestMemory {
        &self.memory
    }

    fn context(&self, method: &'static str, params: Option<&RawValue>) -> RequestContext {
        let capabilities = self.capabilities.clone();
        let slot = Arc::downgrade(&self.slot);
        let memory = self.memory.clone();
        self.server.direct_context(&self.peer, method, params, capabilities, slot, memory)
    }

    /// Runs work for the caller that is not a method of the protocol, such as a call of one
    /// specific upstream. The work gets the context of a request of `method`. Dropping the future
    /// cancels it.
    ///
    /// # Errors
    /// Returns an error if the work fails or panics, or if a shutdown no longer waits for it.
    pub async fn run<T, E, F, Fut>(&self, method: &'static str, work: F) -> Result<T, E>
    where
        E: From<RpcError>,
        F: FnOnce(RequestContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let cx = self.context(method, None);
        let work = AssertUnwindSafe(async move { work(cx).await }).catch_unwind();
        tokio::select! {
            biased;
            outcome = work => outcome.unwrap_or_else(|_| {
                Err(RpcError::internal(format!("method '{method}' panicked")).into())
            }),
            () = self.peer.cut.cancelled() => Err(cut_off().into()),
        }
    }

    /// Answers the request as that of a client of [`Revision::LATEST_SESSION`] with no other
    /// capabilities than its [own](Self::with_capabilities): the server asks it no question, and
    /// sends it no notification before the answer. Each request is independent; `initialize` opens
    /// no session.
    ///
    /// Dropping the future cancels the request. The caller must limit the size of requests.
    ///
    /// # Errors
    /// Returns an error if the method is unknown or fails, or if a shutdown no longer waits for the
    /// request.
    pub async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Reply, RpcError> {
        let method = self
            .server
            .shared
            .tables
            .find(Era::Session, method)
            .ok_or_else(|| RpcError::method_not_found(method))?;
        let name = method.name;
        let raw_params = params.filter(|_| method.is_extension).map(ToOwned::to_owned);
        let cx = self.context(name, params);
        let call = MethodCall { server: self.server.clone(), cx: cx.clone(), raw_params };
        let answered = async {
            tokio::select! {
                biased;
                outcome = method.call(call) => outcome,
                () = self.peer.cut.cancelled() => Err(cut_off()),
            }
        };
        let outcome = observed(self.server.shared.observer.as_ref(), &cx, answered).await;
        outcome.and_then(|reply| reply.shaped(name, Revision::LATEST_SESSION))
    }

    /// Returns the bytes of the answer, counted as unsent. The request stays in flight, and the
    /// bytes stay counted, until the last part of them is dropped.
    ///
    /// # Errors
    /// Returns an error if the limit of unsent bytes is exceeded.
    pub async fn answer(self, bytes: Vec<u8>) -> Result<Bytes, RpcError> {
        // The memory of the work is counted until the bytes are.
        let Self { server, peer, slot, memory: _memory, .. } = self;
        let sending = &server.shared.shares.sending;
        match Outgoing::result(bytes).charge(sending, &peer.caller).await {
            Ok(Outgoing { bytes, mut charged, .. }) => {
                charged.extend(slot.take());
                Ok(counted(bytes, charged))
            }
            Err(full) => {
                tracing::warn!(%full, "an answer was dropped: clients read too slowly");
                Err(no_room(&full))
            }
        }
    }
}

impl std::fmt::Debug for DirectCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectCall").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Changes of one resource; see [`Server::watch`]. Dropping it ends the subscription.
pub struct Watch {
    listener: Arc<Listener>,
    /// Expiry of the watcher's token.
    end: Option<Instant>,
    shutdown: CancellationToken,
    /// Slot among the listening clients.
    _slot: Slot,
}

impl Watch {
    /// Waits for a change of the resource. Returns false if the server stops or the watcher's token
    /// expires. Several changes between two calls count as one. Cancel safe.
    pub async fn changed(&self) -> bool {
        let end = async {
            match self.end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = end => false,
            _ = self.listener.next() => true,
            () = self.shutdown.cancelled() => false,
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}
