//! Changes of lists and resources, collected for notifications to clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use marquetry_artifact_tools::ChangedFor;
use marquetry_protocol::server::{ChangeListener, Principal};
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
    /// Single resources with subscribers.
    pub(crate) updated: UpdatedResources,
}

impl Changes {
    /// Notes that a list of artifacts has changed.
    pub(crate) fn artifacts_changed(&self, whose: ChangedFor<'_>) {
        match whose {
            ChangedFor::Principal(principal) => {
                self.own_resources.push(principal.map(|principal| &**principal));
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
        self.own_prompts.push(principal);
    }

    fn resources_changed_for(&self, principal: Option<&Principal>) {
        self.own_resources.push(principal);
    }

    fn resource_updated(&self, uri: &str) {
        self.updated.push(uri);
    }
}

/// Principals whose own list has changed. `None` means all clients without a token.
#[derive(Debug, Default)]
pub(crate) struct ChangedPrincipals {
    principals: Mutex<BTreeMap<Option<String>, Option<Principal>>>,
    /// Wakes [`Self::take`].
    added: Notify,
}

impl ChangedPrincipals {
    /// Notes that the list of a principal has changed.
    pub(crate) fn push(&self, principal: Option<&Principal>) {
        let id = principal.map(Principal::id);
        let mut principals = self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        principals.insert(id, principal.cloned());
        self.added.notify_one();
    }

    /// Waits for changes and takes them all.
    pub(crate) async fn take(&self) -> Vec<Option<Principal>> {
        self.added.notified().await;
        let principals = &mut *self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(principals).into_values().collect()
    }
}

/// Single resources that have changed, by URI.
#[derive(Debug, Default)]
pub(crate) struct UpdatedResources {
    uris: Mutex<BTreeSet<String>>,
    /// Wakes [`Self::take`].
    added: Notify,
}

impl UpdatedResources {
    /// Notes that a resource has changed.
    pub(crate) fn push(&self, uri: &str) {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        self.added.notify_one();
    }

    /// Waits for changes and takes them all.
    pub(crate) async fn take(&self) -> BTreeSet<String> {
        self.added.notified().await;
        std::mem::take(&mut *self.uris.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
