//! Changes of lists and resources that clients are to be told of.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use marquetry_protocol::server::ChangeListener;
use tokio::sync::Notify;

/// Changes that clients have not been told of yet. However often something changes before that, they are told once.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) tools: Notify,
    pub(crate) prompts: Notify,
    /// Resources or templates.
    pub(crate) resources: Notify,
    /// Single resources that clients are subscribed to.
    pub(crate) updated: Updated,
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

    fn resource_updated(&self, uri: &str) {
        self.updated.push(uri);
    }
}

/// Single resources that have changed.
#[derive(Debug, Default)]
pub(crate) struct Updated {
    uris: Mutex<BTreeSet<String>>,
    some: Notify,
}

impl Updated {
    /// Notes that a resource has changed.
    pub(crate) fn push(&self, uri: &str) {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        self.some.notify_one();
    }

    /// Waits for changes and takes them all.
    pub(crate) async fn take(&self) -> BTreeSet<String> {
        self.some.notified().await;
        std::mem::take(&mut *self.uris.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
