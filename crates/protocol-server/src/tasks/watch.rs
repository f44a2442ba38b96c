//! Watchers of tasks.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Notify;

/// All watchers.
#[derive(Default)]
pub(super) struct Watchers(Mutex<Vec<Weak<Watch>>>);

/// A watcher, which learns which tasks have changed, but not how. Several changes of a task before
/// the watcher reads them count as one.
pub(crate) struct Watch {
    ids: HashSet<String>,
    changed: Mutex<BTreeSet<String>>,
    ready: Notify,
}

impl Watchers {
    /// Adds a watcher; every task counts as changed at first.
    pub(super) fn watch(&self, ids: impl IntoIterator<Item = String>) -> Arc<Watch> {
        let ids: HashSet<String> = ids.into_iter().collect();
        let changed = Mutex::new(ids.iter().cloned().collect());
        let watch = Arc::new(Watch { ids, changed, ready: Notify::new() });
        if !watch.ids.is_empty() {
            let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.retain(|watch| watch.strong_count() > 0);
            watchers.push(Arc::downgrade(&watch));
        }
        watch
    }

    pub(super) fn changed(&self, id: &str) {
        let watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for watch in
            watchers.iter().filter_map(Weak::upgrade).filter(|watch| watch.ids.contains(id))
        {
            watch.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
            watch.ready.notify_one();
        }
    }
}

impl Watch {
    /// Waits for the next changed task. Cancel safe.
    pub(crate) async fn next(&self) -> String {
        loop {
            if let Some(id) =
                self.changed.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
            {
                return id;
            }
            self.ready.notified().await;
        }
    }
}
