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

/// Subscribed resources.
#[derive(Default)]
pub(crate) struct Subscriptions {
    /// By URI: the index of its upstream, and the number of agents.
    agents: Mutex<HashMap<String, (usize, usize)>>,
}

impl Gateway {
    /// Subscribes an agent to a resource.
    ///
    /// # Errors
    /// Returns an error if no upstream has the resource, or its upstream is down, refuses, or does
    /// not support subscriptions.
    pub async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.resource_known(uri, cx).await?;
        if self.catalog().view(uri).is_some_and(|view| view.name != uri) {
            let message = "a View whose URI two upstreams have cannot be subscribed to";
            return Err(RpcError::invalid_params(message));
        }
        let (index, _alone) = loop {
            let index =
                self.owner_of_resource(uri, cx).ok_or_else(|| RpcError::resource_not_found(uri))?;
            // A resource of another upstream with the same URI is another resource.
            if self.subscriptions.upstream_of(uri).is_some_and(|known| known != index) {
                let message = "another agent is subscribed to this URI at another upstream";
                return Err(RpcError::invalid_params(message));
            }
            let alone = self.upstreams[index].subscribing.lock().await;
            match self.subscriptions.table().get_mut(uri) {
                Some((upstream, agents)) if *upstream == index => {
                    *agents += 1;
                    return Ok(());
                }
                // Another agent has subscribed at another upstream meanwhile; the check above finds
                // that.
                Some(_) => {}
                None => break (index, alone),
            }
        };
        let upstream = &self.upstreams[index];
        let client = self.ready_client(upstream, cx).await?;
        if !can_be_subscribed(&client) {
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
        self.subscriptions.table().insert(uri.to_owned(), (index, 1));
        Ok(())
    }

    /// Ends the subscription of an agent to a resource.
    pub async fn unsubscribe(&self, uri: &str) {
        // The resource stays with its upstream as long as this agent is counted.
        let Some(index) = self.subscriptions.upstream_of(uri) else { return };
        let upstream = &self.upstreams[index];
        let _alone = upstream.subscribing.lock().await;
        {
            let mut table = self.subscriptions.table();
            let Some((_, agents)) = table.get_mut(uri) else { return };
            *agents -= 1;
            if *agents > 0 {
                return;
            }
            table.remove(uri);
        }
        if let UpstreamState::Ready(client) = upstream.state()
            && let Err(error) = client.unsubscribe(uri).await
        {
            tracing::debug!(upstream = upstream.name(), %error, "failed to unsubscribe");
        }
    }

    /// Subscribes again after a start of the upstream, and announces a change of each resource,
    /// since it may have changed meanwhile.
    pub(super) async fn subscribe_again(&self, index: usize, client: &Client) {
        let _alone = self.upstreams[index].subscribing.lock().await;
        let uris: Vec<String> = {
            let table = self.subscriptions.table();
            let its = table.iter().filter(|(_, (upstream, _))| *upstream == index);
            its.map(|(uri, _)| uri.clone()).collect()
        };
        for uri in uris {
            match client.subscribe(&uri).await {
                Ok(()) => self.changes.resource_updated(&uri),
                Err(error) => {
                    let upstream = self.upstreams[index].name();
                    tracing::warn!(upstream, uri, %error, "failed to subscribe again");
                }
            }
        }
    }

    /// Passes on that a resource has changed. A change below a subscribed resource counts as a
    /// change of it.
    pub(super) fn resource_updated(&self, index: usize, uri: &str) {
        let table = self.subscriptions.table();
        let slashes = uri.match_indices('/').map(|(at, _)| at);
        let above = slashes.rev().flat_map(|at| [&uri[..=at], &uri[..at]]);
        let subscribed = [uri].into_iter().chain(above).find(|uri| {
            let entry = table.get(*uri);
            entry.is_some_and(|(upstream, _)| *upstream == index)
        });
        if let Some(subscribed) = subscribed {
            self.changes.resource_updated(subscribed);
        }
    }
}

impl Subscriptions {
    fn upstream_of(&self, uri: &str) -> Option<usize> {
        self.table().get(uri).map(|(upstream, _)| *upstream)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, (usize, usize)>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn can_be_subscribed(client: &Client) -> bool {
    let server = client.server();
    // Without sessions, each resource is negotiated separately.
    let resources = server.capabilities.resources;
    resources
        .is_some_and(|resources| resources.subscribe || server.revision.era() == Era::Stateless)
}
