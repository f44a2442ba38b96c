//! Requests that come by no transport of the protocol: by a facade of the program's own, for example.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt as _;
use jsonrpsee::{Extensions, types::Params};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Caller, Principal, Reply, RequestContext, Server,
    call::respond,
    context::Parts,
    conversation::Conversation,
    notifier::{Filter, Listener},
    outgoing::nowhere,
    subscriptions::Subscriptions,
    table::Found,
};
use crate::{Era, RequestId, Revision, RpcError, members::Members, types::ClientCapabilities};

impl Server {
    /// Answers a request of `principal` that came by no transport of the protocol, as a client of
    /// [`Revision::LATEST_SESSION`] is answered that offers nothing: it can be asked nothing, and is told nothing
    /// before the answer. Each request stands for itself; `initialize` begins no session.
    ///
    /// Dropping the future cancels the request. It counts among the requests in flight of its principal, and waits for a
    /// place there as others do. How large requests are is the caller's to bound.
    ///
    /// # Errors
    /// As the method has them; "method not found" if there is none.
    pub async fn request(
        &self,
        principal: Option<Arc<Principal>>,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Reply, RpcError> {
        let Found { name, callback, is_extension } = self
            .shared
            .tables
            .find(Era::Session, method)
            .ok_or_else(|| RpcError::method_not_found(method))?;
        let conversation = self.alone(principal);
        let cx = self.context(&conversation, name, params);
        let _place = self.place(cx.caller()).await?;
        let params = Params::new(params.map(RawValue::get).filter(|_| is_extension)).into_owned();
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions.insert(conversation);
        extensions.insert(cx);
        let work = AssertUnwindSafe(respond(callback.clone(), params, extensions)).catch_unwind();
        let outcome = work
            .await
            .unwrap_or_else(|_| Err(RpcError::internal(format!("method '{name}' panicked"))));
        outcome.and_then(|reply| reply.shaped(name, Revision::LATEST_SESSION))
    }

    /// Watches the resource `uri` for `principal`, as one that is subscribed to it.
    ///
    /// # Errors
    /// As [`Handler::subscribe`](super::Handler::subscribe) has them.
    pub async fn watch(
        &self,
        principal: Option<Arc<Principal>>,
        uri: &str,
    ) -> Result<Watch, RpcError> {
        let subscriptions = Subscriptions::new(self.shared.handler.clone(), 1);
        let time_left = principal.as_deref().and_then(Principal::time_left);
        let end = time_left.and_then(|left| Instant::now().checked_add(left));
        let conversation = self.alone(principal);
        let cx = self.context(&conversation, "resources/subscribe", None);
        // It listens before it is subscribed, so that no change is missed in between.
        let listener = self.notifier().listen(Filter::Listen {
            id: RequestId::from(0_u64),
            methods: Vec::new(),
            subscriptions: subscriptions.clone(),
        });
        subscriptions.add(uri, &cx).await?;
        Ok(Watch { listener, end, shutdown: self.shared.shutdown.clone() })
    }

    /// A conversation of one request.
    fn alone(&self, principal: Option<Arc<Principal>>) -> Arc<Conversation> {
        let conversation = Conversation::new(None, self.limits().max_in_flight);
        Arc::new(Conversation { session: OnceLock::new(), principal, ..conversation })
    }

    fn context(
        &self,
        conversation: &Arc<Conversation>,
        method: &'static str,
        params: Option<&RawValue>,
    ) -> RequestContext {
        let parts = Parts {
            id: RequestId::from(0_u64),
            method,
            params: params.map(|params| Members::of(Some(params)).to_owned()),
            revision: Revision::LATEST_SESSION,
            client: None,
            capabilities: ClientCapabilities::default(),
            progress_token: None,
            log_level: None,
            principal: conversation.principal.clone(),
            caller: Caller::new(conversation.principal.as_ref(), None),
            sending: None,
            conversation: conversation.clone(),
            rounds: None,
            question_timeout: self.shared.limits.question_timeout,
            tasks: None,
        };
        RequestContext::new(parts, nowhere(), CancellationToken::new())
    }
}

/// The changes of one resource; see [`Server::watch`]. Dropping it ends the subscription.
pub struct Watch {
    listener: Arc<Listener>,
    /// When the token of whoever watches holds no longer.
    end: Option<Instant>,
    shutdown: CancellationToken,
}

impl Watch {
    /// Waits until the resource has changed; false if it will be watched no more, as the server ends or the token of
    /// whoever watches does. Changes that
    /// nobody waits for are one. Safe to drop half-way.
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
