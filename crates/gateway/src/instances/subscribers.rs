//! Subscriptions to resources of instances: a client hears of the resources of its own instance
//! alone.
//!
//! The first client of an instance subscribes there, the last one unsubscribes. The subscriptions
//! outlive the instance, so that the next one of the same key can continue them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use marquetry_in_flight::Owner;
use marquetry_protocol::{
    RpcError,
    client::Client,
    server::{Announcer, ConversationId, Principal, RequestContext},
};

use crate::{
    Gateway, Route, Upstream, UpstreamState,
    instance_table::{InstanceOf, Key},
};

/// The subscriptions to resources of all instances.
#[derive(Default)]
pub(crate) struct InstanceSubscribers(Mutex<HashMap<(usize, Owner), SubscribedInstance>>);

/// The subscriptions at one instance, by the URIs that clients see.
#[derive(Default)]
struct SubscribedInstance {
    session: Option<Announcer>,
    resources: HashMap<String, SubscribedResource>,
}

struct SubscribedResource {
    /// The URI at the instance.
    name: String,
    clients: HashMap<ConversationId, SubscribedClient>,
}

/// A client, as it was when it subscribed first.
struct SubscribedClient {
    principal: Option<Arc<Principal>>,
    profile: Option<Arc<str>>,
    /// The number of its subscriptions.
    count: usize,
}

impl SubscribedClient {
    fn of(cx: &RequestContext) -> Self {
        let principal = cx.principal().cloned();
        Self { principal, profile: cx.profile().map(Arc::from), count: 1 }
    }
}

/// A client to be told of a change.
struct UpdatedClient {
    client: ConversationId,
    principal: Option<Arc<Principal>>,
    profile: Option<Arc<str>>,
    /// The URI that the client sees.
    uri: String,
    /// The URI at the instance.
    name: String,
}

impl Gateway {
    /// Subscribes a client to a resource at its instance. Returns `None` if all callers share the
    /// upstream.
    pub(crate) async fn subscribe_at_instance(
        &self,
        at: &Route,
        uri: &str,
        cx: &RequestContext,
    ) -> Option<Result<(), RpcError>> {
        let reference = self.enter(at.upstream)?;
        reference.instances.as_ref()?;
        let instance = match self.enter_instance(&reference, cx) {
            Ok(instance) => instance?,
            Err(error) => return Some(Err(error)),
        };
        let _guard = instance.subscribing.lock().await;
        if self.instance_subscribers.add_to_known(&instance, uri, cx) {
            return Some(Ok(()));
        }
        let subscribed = self.subscribe_first(&instance, &at.name, cx).await;
        if subscribed.is_ok() {
            self.instance_subscribers.add(&instance, at, uri, cx);
        }
        Some(subscribed)
    }

    /// Ends a subscription of a client. Returns whether it was one at an instance.
    pub(crate) async fn unsubscribe_at_instance(&self, uri: &str, client: ConversationId) -> bool {
        let Some((upstream, owner)) = self.instance_subscribers.find(uri, client) else {
            return false;
        };
        let reference = self.enter(upstream);
        let instances = reference.as_ref().and_then(|it| it.instances.as_ref());
        let instance = instances.and_then(|instances| instances.running(&owner));
        let Some(instance) = instance else {
            self.instance_subscribers.remove(upstream, &owner, uri, client);
            return true;
        };
        let _guard = instance.subscribing.lock().await;
        let last = self.instance_subscribers.remove(upstream, &owner, uri, client);
        if let Some(name) = last
            && let UpstreamState::Ready(connection) = instance.state()
            && let Err(error) = connection.unsubscribe(&name).await
        {
            tracing::debug!(upstream = instance.name(), %error, "failed to unsubscribe");
        }
        true
    }

    /// Subscribes again after a start of an instance to the resources with these URIs there, as
    /// [`subscribe_again`](Gateway::subscribe_again) does.
    pub(crate) async fn subscribe_instance_again(
        &self,
        instance: &Upstream,
        client: &Client,
        subscribed: &HashSet<String>,
    ) {
        let _guard = instance.subscribing.lock().await;
        // Some may have no subscribers any more.
        let left = self.instance_subscribers.resources(instance);
        for uri in subscribed.intersection(&left) {
            match client.subscribe(uri).await {
                Ok(()) => self.instance_resource_updated(instance, uri),
                Err(error) => {
                    let upstream = instance.name();
                    tracing::warn!(upstream, uri, %error, "failed to subscribe again");
                }
            }
        }
    }

    /// Announces a change of a resource, or of one below it, to the clients of its instance that
    /// may still read the resource to which they subscribed.
    pub(crate) fn instance_resource_updated(&self, instance: &Upstream, uri: &str) {
        for it in self.instance_subscribers.clients(instance, uri) {
            let view = self.view_of(it.principal.as_deref(), it.profile.as_deref());
            if view.may_read(instance.number(), &it.name) {
                self.changes.resource_updated_in(&it.uri, it.client);
            }
        }
    }
}

impl InstanceSubscribers {
    /// Returns whether a client is subscribed at an instance.
    pub(super) fn has(&self, instance: &Upstream) -> bool {
        key(instance).is_some_and(|key| self.lock().contains_key(&key))
    }

    /// Returns the keys of an upstream that have subscribers.
    pub(super) fn keys(&self, upstream: usize) -> Vec<Key> {
        let all = self.lock();
        let own = all.iter().filter(|((number, _), _)| *number == upstream);
        own.map(|((_, owner), it)| Key { owner: owner.clone(), session: it.session.clone() })
            .collect()
    }

    /// Adds a client to a resource that another one is subscribed to. Returns whether that is so.
    fn add_to_known(&self, instance: &Upstream, uri: &str, cx: &RequestContext) -> bool {
        let mut all = self.lock();
        let resources = key(instance).and_then(|key| all.get_mut(&key));
        let Some(known) = resources.and_then(|it| it.resources.get_mut(uri)) else { return false };
        let client = known.clients.entry(cx.conversation());
        client.and_modify(|it| it.count += 1).or_insert_with(|| SubscribedClient::of(cx));
        true
    }

    /// Adds the first client of a resource.
    fn add(&self, instance: &Upstream, at: &Route, uri: &str, cx: &RequestContext) {
        let Some(key) = key(instance) else { return };
        let mut all = self.lock();
        let subscribed = all.entry(key).or_default();
        if matches!(instance.instance, Some(InstanceOf { owner: Owner::Session(_), .. })) {
            subscribed.session = cx.announcer();
        }
        let resource = SubscribedResource {
            name: at.name.clone(),
            clients: HashMap::from_iter([(cx.conversation(), SubscribedClient::of(cx))]),
        };
        subscribed.resources.insert(uri.to_owned(), resource);
    }

    /// Returns the instance at which a client is subscribed to a resource.
    fn find(&self, uri: &str, client: ConversationId) -> Option<(usize, Owner)> {
        let all = self.lock();
        let found = all.iter().find(|(_, subscribed)| {
            let resource = subscribed.resources.get(uri);
            resource.is_some_and(|it| it.clients.contains_key(&client))
        });
        found.map(|(key, _)| key.clone())
    }

    /// Removes a subscription of a client. Returns the URI at the instance if it was the last one
    /// to this resource.
    fn remove(
        &self,
        upstream: usize,
        owner: &Owner,
        uri: &str,
        client: ConversationId,
    ) -> Option<String> {
        let key = (upstream, owner.clone());
        let mut all = self.lock();
        let subscribed = all.get_mut(&key)?;
        let resource = subscribed.resources.get_mut(uri)?;
        let subscriber = resource.clients.get_mut(&client)?;
        subscriber.count -= 1;
        if subscriber.count == 0 {
            resource.clients.remove(&client);
        }
        if !resource.clients.is_empty() {
            return None;
        }
        let name = subscribed.resources.remove(uri)?.name;
        // The same resource may have another URI, too.
        let is_last = subscribed.resources.values().all(|other| other.name != name);
        if subscribed.resources.is_empty() {
            all.remove(&key);
        }
        is_last.then_some(name)
    }

    /// Returns the resources with subscribers at an instance, by their URIs there.
    pub(crate) fn resources(&self, instance: &Upstream) -> HashSet<String> {
        let all = self.lock();
        let subscribed = key(instance).and_then(|key| all.get(&key));
        let resources = subscribed.into_iter().flat_map(|it| it.resources.values());
        resources.map(|resource| resource.name.clone()).collect()
    }

    /// Returns the clients that hear of a change of `uri`: those of the resource itself, or else of
    /// the nearest folder above it.
    fn clients(&self, instance: &Upstream, uri: &str) -> Vec<UpdatedClient> {
        let all = self.lock();
        let Some(subscribed) = key(instance).and_then(|key| all.get(&key)) else {
            return Vec::new();
        };
        let slashes = uri.match_indices('/').map(|(at, _)| at);
        let parents = slashes.rev().flat_map(|at| [&uri[..=at], &uri[..at]]);
        for name in std::iter::once(uri).chain(parents) {
            let named = subscribed.resources.iter().filter(|(_, it)| it.name == name);
            let mut clients = Vec::new();
            for (uri, resource) in named {
                clients.extend(resource.clients.iter().map(|(client, it)| UpdatedClient {
                    client: *client,
                    principal: it.principal.clone(),
                    profile: it.profile.clone(),
                    uri: uri.clone(),
                    name: name.to_owned(),
                }));
            }
            if !clients.is_empty() {
                return clients;
            }
        }
        Vec::new()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(usize, Owner), SubscribedInstance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(instance: &Upstream) -> Option<(usize, Owner)> {
    let of = instance.instance.as_ref()?;
    Some((instance.number(), of.owner.clone()))
}
