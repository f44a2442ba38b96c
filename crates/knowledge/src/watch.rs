//! Watched records, and who watches them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use marquetry_protocol::server::Principal;
use marquetry_rag::{Caller, Record, RecordChange, RecordEvent};

/// A user, and the principal by which the server knows the user; `None` is the local user.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) caller: Caller,
    pub(crate) principal: Option<Principal>,
}

/// Watched records, by the watched URI.
#[derive(Default)]
pub(crate) struct WatchList(Mutex<WatchTable>);

#[derive(Default)]
struct WatchTable {
    records: BTreeMap<String, Watch>,
    /// Whether a task polls for changes.
    is_polled: bool,
}

struct Watch {
    /// URI of the record; it may be watched by the URI of its content.
    record: String,
    /// Number of subscriptions.
    count: usize,
    /// The users who have subscribed since the first subscription, by their names. A user whose
    /// subscriptions have ended gets no announcements, and stays here until all have ended.
    watchers: BTreeMap<String, Reader>,
    /// The last announced change. It knows who may read the record, or could before its removal.
    last: Option<RecordEvent>,
}

impl WatchList {
    /// Adds a subscription of `watcher` to a record. Returns whether a task must begin to poll for
    /// changes of other processes.
    pub(crate) fn add(&self, uri: &str, record: &Record, watcher: Reader) -> bool {
        let mut state = self.state();
        let watch = state.records.entry(uri.to_owned()).or_insert_with(|| Watch {
            record: record.uri().unwrap_or_default(),
            count: 0,
            watchers: BTreeMap::new(),
            last: RecordEvent::new(RecordChange::Updated, record),
        });
        watch.count += 1;
        watch.watchers.insert(watcher.caller.user.clone(), watcher);
        !std::mem::replace(&mut state.is_polled, true)
    }

    /// Returns the users who have subscribed to a record.
    pub(crate) fn watchers(&self, uri: &str) -> Vec<Reader> {
        let state = self.state();
        let watch = state.records.get(uri);
        watch.map(|watch| watch.watchers.values().cloned().collect()).unwrap_or_default()
    }

    /// Removes a subscription.
    pub(crate) fn remove(&self, uri: &str) {
        let mut state = self.state();
        if let Some(watch) = state.records.get_mut(uri) {
            watch.count -= 1;
            if watch.count == 0 {
                state.records.remove(uri);
            }
        }
    }

    /// Stores an announced change, and returns whether it is new.
    pub(crate) fn note(&self, uri: &str, event: &RecordEvent) -> bool {
        let mut state = self.state();
        let Some(watch) = state.records.get_mut(uri) else { return false };
        let is_new = watch.last.as_ref().is_none_or(|last| revision(last) != revision(event));
        watch.last = Some(event.clone());
        is_new
    }

    /// Returns the event of the removal of a record, for those who could read it before.
    pub(crate) fn removal(&self, uri: &str) -> Option<RecordEvent> {
        let mut event = self.state().records.get(uri)?.last.clone()?;
        event.change = RecordChange::Deleted;
        Some(event)
    }

    fn state(&self) -> MutexGuard<'_, WatchTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the records to check; `None` if there are no watchers.
    pub(crate) fn records(&self) -> Option<Vec<(String, String)>> {
        let mut state = self.state();
        state.is_polled = !state.records.is_empty();
        let records = state.records.iter().map(|(uri, watch)| (uri.clone(), watch.record.clone()));
        state.is_polled.then(|| records.collect())
    }
}

/// Returns the revision of a record after a change; `None` after its removal.
fn revision(event: &RecordEvent) -> Option<u64> {
    (event.change != RecordChange::Deleted).then_some(event.revision)
}
