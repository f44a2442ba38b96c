//! Changes of lists and resources, collected for notifications to clients.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use marquetry_artifact_tools::ChangedFor;
use marquetry_protocol::server::{ChangeListener, ConversationId, Principal};
use tokio::sync::Notify;

/// Changes without a notification yet. Repeated changes of one list or resource give one
/// notification.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) tools: Notify,
    pub(crate) prompts: Notify,
    /// Resources or templates.
    pub(crate) resources: Notify,
    /// Prompts of single principals, which others cannot see.
    pub(crate) own_prompts: ChangedPrincipals,
    /// Resources of single principals, which others cannot see.
    pub(crate) own_resources: ChangedPrincipals,
    /// Single resources with subscribers, by URI.
    pub(crate) updated: Pending<String, ()>,
    /// Single resources with subscribers, by URI and principal.
    pub(crate) own_updated: Pending<(String, Option<String>), Option<Principal>>,
    /// Single resources with subscribers, by URI and subscriber.
    pub(crate) updated_in: Pending<(String, ConversationId), ()>,
}

impl Changes {
    /// Notes that a list of artifacts has changed.
    pub(crate) fn artifacts_changed(&self, whose: ChangedFor<'_>) {
        match whose {
            ChangedFor::Principal(principal) => {
                self.resources_changed_for(principal.map(|principal| &**principal));
            }
            _ => self.resources.notify_one(),
        }
    }
}

impl ChangeListener for Changes {
    fn tools_changed(&self) {
        self.tools.notify_one();
    }

    fn prompts_changed(&self) {
        self.prompts.notify_one();
    }

    fn resources_changed(&self) {
        self.resources.notify_one();
    }

    fn prompts_changed_for(&self, principal: Option<&Principal>) {
        self.own_prompts.push(principal.map(Principal::id), principal.cloned());
    }

    fn resources_changed_for(&self, principal: Option<&Principal>) {
        self.own_resources.push(principal.map(Principal::id), principal.cloned());
    }

    fn resource_updated(&self, uri: &str) {
        self.updated.push(uri.to_owned(), ());
    }

    fn resource_updated_for(&self, uri: &str, principal: Option<&Principal>) {
        let key = (uri.to_owned(), principal.map(Principal::id));
        self.own_updated.push(key, principal.cloned());
    }

    fn resource_updated_in(&self, uri: &str, client: ConversationId) {
        self.updated_in.push((uri.to_owned(), client), ());
    }
}

/// Principals whose own list has changed, by their ids. `None` means all clients without a token.
pub(crate) type ChangedPrincipals = Pending<Option<String>, Option<Principal>>;

/// Changes that wait for a notification, by keys: changes with the same key give one notification.
#[derive(Debug)]
pub(crate) struct Pending<K, V> {
    changes: Mutex<BTreeMap<K, V>>,
    /// Wakes [`Self::take`].
    added: Notify,
}

impl<K, V> Default for Pending<K, V> {
    fn default() -> Self {
        Self { changes: Mutex::default(), added: Notify::new() }
    }
}

impl<K: Ord, V> Pending<K, V> {
    fn push(&self, key: K, change: V) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).insert(key, change);
        self.added.notify_one();
    }

    /// Waits for changes and takes them all.
    pub(crate) async fn take(&self) -> BTreeMap<K, V> {
        self.added.notified().await;
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
