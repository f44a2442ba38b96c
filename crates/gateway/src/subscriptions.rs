//! Subscriptions to resources: the first agent subscribes at the upstream, the last one
//! unsubscribes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use marquetry_protocol::{
    Era, RpcError,
    client::{Client, ClientError},
    server::RequestContext,
};

use super::{CallFailure, Gateway, Unreachable, UpstreamState};

/// The resources to which agents are subscribed, by URI.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, Subscription>>);

struct Subscription {
    /// Index of the upstream that has the resource.
    upstream: usize,
    /// Number of agents that are subscribed.
    agents: usize,
}

impl Gateway {
    /// Subscribes an agent to a resource.
    ///
    /// # Errors
    /// Returns an error if no upstream has the resource, or its upstream is down, refuses, or does
    /// not support subscriptions.
    pub async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.wait_for_resource(uri, cx).await?;
        if self.catalog().renamed_resource(uri).is_some() {
            let message = "a resource whose URI two upstreams have cannot be subscribed to";
            return Err(RpcError::invalid_params(message));
        }
        loop {
            let index =
                self.owner_of_resource(uri, cx).ok_or_else(|| RpcError::resource_not_found(uri))?;
            // A resource of another upstream with the same URI is another resource.
            if self.subscriptions.upstream_of(uri).is_some_and(|upstream| upstream != index) {
                let message = "another agent is subscribed to this URI at another upstream";
                return Err(RpcError::invalid_params(message));
            }
            let _guard = self.upstreams[index].subscribing.lock().await;
            if self.subscriptions.add_agent(uri, index) {
                return Ok(());
            }
            if self.subscriptions.upstream_of(uri).is_none() {
                return self.subscribe_at(index, uri, cx).await;
            }
            // Another agent has subscribed at another upstream meanwhile; the check above finds
            // that.
        }
    }

    /// Subscribes to a resource at its upstream, for the first agent.
    async fn subscribe_at(
        &self,
        index: usize,
        uri: &str,
        cx: &RequestContext,
    ) -> Result<(), RpcError> {
        let upstream = &self.upstreams[index];
        let client = self.ready_client(upstream, cx).await?;
        if !supports_subscriptions(&client) {
            let mut error = RpcError::method_not_found(cx.method());
            error.message = format!("upstream '{}' has no subscriptions", upstream.name());
            return Err(error);
        }
        match client.subscribe(uri).await {
            Ok(()) => {}
            Err(ClientError::Rpc(error)) => return Err(error),
            Err(error) => {
                let state = upstream.state();
                let failed = Unreachable::during_call(upstream, &state, &error);
                return Err(CallFailure::Unreachable(failed).into());
            }
        }
        let subscription = Subscription { upstream: index, agents: 1 };
        self.subscriptions.lock().insert(uri.to_owned(), subscription);
        Ok(())
    }

    /// Ends the subscription of an agent to a resource.
    pub async fn unsubscribe(&self, uri: &str) {
        // The resource stays with its upstream as long as this agent is counted.
        let Some(index) = self.subscriptions.upstream_of(uri) else { return };
        let upstream = &self.upstreams[index];
        let _guard = upstream.subscribing.lock().await;
        let was_last = self.subscriptions.remove_agent(uri);
        if was_last
            && let UpstreamState::Ready(client) = upstream.state()
            && let Err(error) = client.unsubscribe(uri).await
        {
            tracing::debug!(upstream = upstream.name(), %error, "failed to unsubscribe");
        }
    }

    /// Subscribes again after a start of the upstream, and announces a change of each resource,
    /// since it may have changed meanwhile.
    pub(super) async fn subscribe_again(&self, index: usize, client: &Client) {
        let _guard = self.upstreams[index].subscribing.lock().await;
        for uri in self.subscriptions.uris_of(index) {
            match client.subscribe(&uri).await {
                Ok(()) => self.changes.resource_updated(&uri),
                Err(error) => {
                    let upstream = self.upstreams[index].name();
                    tracing::warn!(upstream, uri, %error, "failed to subscribe again");
                }
            }
        }
    }

    /// Announces that a resource has changed. A change below a subscribed resource, such as a file
    /// in a folder, counts as a change of it.
    pub(super) fn resource_updated(&self, index: usize, uri: &str) {
        let subscriptions = self.subscriptions.lock();
        let slashes = uri.match_indices('/').map(|(at, _)| at);
        let parents = slashes.rev().flat_map(|at| [&uri[..=at], &uri[..at]]);
        let subscribed = std::iter::once(uri).chain(parents).find(|uri| {
            subscriptions.get(*uri).is_some_and(|subscription| subscription.upstream == index)
        });
        if let Some(subscribed) = subscribed {
            self.changes.resource_updated(subscribed);
        }
    }
}

impl Subscriptions {
    fn upstream_of(&self, uri: &str) -> Option<usize> {
        self.lock().get(uri).map(|subscription| subscription.upstream)
    }

    fn uris_of(&self, upstream: usize) -> Vec<String> {
        let subscriptions = self.lock();
        let own = subscriptions.iter().filter(|(_, it)| it.upstream == upstream);
        own.map(|(uri, _)| uri.clone()).collect()
    }

    /// Counts one more agent. Returns `false` if the resource has no subscription at this upstream.
    fn add_agent(&self, uri: &str, upstream: usize) -> bool {
        match self.lock().get_mut(uri) {
            Some(subscription) if subscription.upstream == upstream => {
                subscription.agents += 1;
                true
            }
            _ => false,
        }
    }

    /// Counts one agent less. Returns whether it was the last one, which ends the subscription.
    fn remove_agent(&self, uri: &str) -> bool {
        let mut subscriptions = self.lock();
        let Some(subscription) = subscriptions.get_mut(uri) else { return false };
        subscription.agents -= 1;
        let was_last = subscription.agents == 0;
        if was_last {
            subscriptions.remove(uri);
        }
        was_last
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn supports_subscriptions(client: &Client) -> bool {
    let server = client.server();
    // Without sessions, each resource is negotiated separately.
    let resources = server.capabilities.resources;
    resources
        .is_some_and(|resources| resources.subscribe || server.revision.era() == Era::Stateless)
}
