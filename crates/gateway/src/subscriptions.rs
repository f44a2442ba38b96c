//! Subscriptions to resources: the first agent subscribes at the upstream, the last one
//! unsubscribes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use marquetry_policy::ItemKind;
use marquetry_protocol::{
    Era, RpcError,
    client::{Client, ClientError},
    server::{ConversationId, RequestContext},
};

use super::{CallFailure, Gateway, Route, Unreachable, Upstream, UpstreamState};

/// The resources to which agents are subscribed.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<SubscribedResources>);

#[derive(Default)]
struct SubscribedResources {
    /// By the URIs that agents see.
    by_uri: HashMap<String, Subscription>,
    /// For each upstream, the URIs that agents see instead of its own ones.
    renamed: HashMap<usize, HashMap<String, String>>,
}

struct Subscription {
    /// The upstream that has the resource, and the URI there.
    at: Route,
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
        loop {
            let view = self.view(cx);
            let Some(upstream) = self.owner_of_resource(uri, cx) else {
                self.note_denied_resource(uri, cx);
                return Err(RpcError::resource_not_found(uri));
            };
            let at = view
                .renamed_resource(uri)
                .unwrap_or_else(|| Route { upstream, name: uri.to_owned() });
            view.check_scopes(ItemKind::Resource, &at, cx)?;
            if let Some(subscribed) = self.subscribe_at_instance(&at, uri, cx).await {
                return subscribed;
            }
            // A resource of another upstream with the same URI is another resource.
            let subscribed = self.subscriptions.route_of(uri);
            if let Some(subscribed) = subscribed.filter(|subscribed| *subscribed != at) {
                if !view.shows_upstream(subscribed.upstream) {
                    return Err(RpcError::resource_not_found(uri));
                }
                let message = "another agent is subscribed to this URI at another upstream";
                return Err(RpcError::invalid_params(message));
            }
            let upstream =
                self.enter(at.upstream).ok_or_else(|| RpcError::resource_not_found(uri))?;
            let _guard = upstream.subscribing.lock().await;
            if self.subscriptions.add_agent(uri, &at) {
                return Ok(());
            }
            if self.subscriptions.route_of(uri).is_none() {
                return self.subscribe_at(&upstream, at, uri, cx).await;
            }
            // Another agent has subscribed at another upstream meanwhile; the check above finds
            // that.
        }
    }

    /// Subscribes to a resource at its upstream, for the first agent.
    async fn subscribe_at(
        &self,
        upstream: &Upstream,
        at: Route,
        uri: &str,
        cx: &RequestContext,
    ) -> Result<(), RpcError> {
        self.subscribe_first(upstream, &at.name, cx).await?;
        self.subscriptions.add(uri, at);
        Ok(())
    }

    /// Subscribes at an upstream to the resource with this URI there.
    pub(super) async fn subscribe_first(
        &self,
        upstream: &Upstream,
        uri: &str,
        cx: &RequestContext,
    ) -> Result<(), RpcError> {
        let client = self.ready_client(upstream, cx).await?;
        if !supports_subscriptions(&client) {
            let mut error = RpcError::method_not_found(cx.method());
            error.message = format!("upstream '{}' has no subscriptions", upstream.name());
            return Err(error);
        }
        match client.subscribe(uri).await {
            Ok(()) => Ok(()),
            Err(ClientError::Rpc(error)) => Err(error),
            Err(error) => {
                let state = upstream.state();
                let failed = Unreachable::during_call(upstream, &state, &error);
                Err(CallFailure::Unreachable(failed).into())
            }
        }
    }

    /// Ends the subscription of an agent to a resource. The request that subscribed had the same
    /// conversation `client`.
    pub async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        if self.unsubscribe_at_instance(uri, client).await {
            return;
        }
        // The resource stays with its upstream as long as this agent is counted.
        let Some(at) = self.subscriptions.route_of(uri) else { return };
        let Some(upstream) = self.enter(at.upstream) else {
            self.subscriptions.remove_agent(uri);
            return;
        };
        let _guard = upstream.subscribing.lock().await;
        let was_last = self.subscriptions.remove_agent(uri);
        if was_last
            && let UpstreamState::Ready(client) = upstream.state()
            && let Err(error) = client.unsubscribe(&at.name).await
        {
            tracing::debug!(upstream = upstream.name(), %error, "failed to unsubscribe");
        }
    }

    /// Subscribes again after a start of the upstream, and announces a change of each resource,
    /// since it may have changed meanwhile.
    pub(super) async fn subscribe_again(&self, upstream: &Upstream, client: &Client) {
        let _guard = upstream.subscribing.lock().await;
        for (uri, at) in self.subscriptions.of_upstream(upstream.number()) {
            match client.subscribe(&at.name).await {
                Ok(()) => self.changes.resource_updated(&uri),
                Err(error) => {
                    let upstream = upstream.name();
                    tracing::warn!(upstream, uri, %error, "failed to subscribe again");
                }
            }
        }
    }

    /// Announces that a resource has changed. A change below a subscribed resource, such as a file
    /// in a folder, counts as a change of it.
    pub(super) fn resource_updated(&self, upstream: &Upstream, uri: &str) {
        if upstream.instance.is_some() {
            return self.instance_resource_updated(upstream, uri);
        }
        let index = upstream.number();
        let slashes = uri.match_indices('/').map(|(at, _)| at);
        let parents = slashes.rev().flat_map(|at| [&uri[..=at], &uri[..at]]);
        let subscriptions = self.subscriptions.lock();
        let subscribed = std::iter::once(uri)
            .chain(parents)
            .map(|uri| subscriptions.seen_as(index, uri))
            .find(|seen_as| seen_as.iter().any(Option::is_some));
        for uri in subscribed.into_iter().flatten().flatten() {
            self.changes.resource_updated(uri);
        }
    }
}

impl Subscriptions {
    pub(crate) fn route_of(&self, uri: &str) -> Option<Route> {
        self.lock().by_uri.get(uri).map(|subscription| subscription.at.clone())
    }

    fn of_upstream(&self, upstream: usize) -> Vec<(String, Route)> {
        let subscriptions = self.lock();
        let own = subscriptions.by_uri.iter().filter(|(_, it)| it.at.upstream == upstream);
        own.map(|(uri, it)| (uri.clone(), it.at.clone())).collect()
    }

    /// Adds the subscription of a first agent.
    fn add(&self, uri: &str, at: Route) {
        let mut subscriptions = self.lock();
        if at.name != uri {
            let renamed = subscriptions.renamed.entry(at.upstream).or_default();
            renamed.insert(at.name.clone(), uri.to_owned());
        }
        subscriptions.by_uri.insert(uri.to_owned(), Subscription { at, agents: 1 });
    }

    /// Counts one more agent. Returns `false` if the resource has no subscription at this upstream.
    fn add_agent(&self, uri: &str, at: &Route) -> bool {
        match self.lock().by_uri.get_mut(uri) {
            Some(subscription) if subscription.at == *at => {
                subscription.agents += 1;
                true
            }
            _ => false,
        }
    }

    /// Counts one agent less. Returns whether it was the last one, which ends the subscription. An
    /// upstream does not count, so it must not hear of that as long as agents see the same resource
    /// under another URI.
    fn remove_agent(&self, uri: &str) -> bool {
        let mut subscriptions = self.lock();
        let Some(subscription) = subscriptions.by_uri.get_mut(uri) else { return false };
        subscription.agents -= 1;
        if subscription.agents > 0 {
            return false;
        }
        let Some(Subscription { at, .. }) = subscriptions.by_uri.remove(uri) else { return false };
        if at.name != uri
            && let Some(renamed) = subscriptions.renamed.get_mut(&at.upstream)
        {
            renamed.remove(&at.name);
        }
        subscriptions.seen_as(at.upstream, &at.name).iter().all(Option::is_none)
    }

    fn lock(&self) -> MutexGuard<'_, SubscribedResources> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscribedResources {
    /// Returns the URIs under which agents are subscribed to a resource of an upstream: its own,
    /// and another one since a second upstream has the same.
    fn seen_as<'a>(&'a self, upstream: usize, uri: &'a str) -> [Option<&'a str>; 2] {
        let own = self.by_uri.get(uri);
        let is_own = own.is_some_and(|it| it.at.upstream == upstream && it.at.name == uri);
        let renamed = self.renamed.get(&upstream).and_then(|renamed| renamed.get(uri));
        [is_own.then_some(uri), renamed.map(String::as_str)]
    }
}

fn supports_subscriptions(client: &Client) -> bool {
    let server = client.server();
    // Without sessions, each resource is negotiated separately.
    let resources = server.capabilities.resources;
    resources
        .is_some_and(|resources| resources.subscribe || server.revision.era() == Era::Stateless)
}
