//! Watched records, and changes of them by other processes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_protocol::server::ChangeListener;
use marquetry_rag::{Record, RecordStore};

/// Interval at which the database is asked for changes of other processes, while records are
/// watched.
const EVERY: Duration = Duration::from_secs(1);

/// Watched records, by the watched URI.
#[derive(Default)]
pub(crate) struct WatchList(Mutex<WatchTable>);

#[derive(Default)]
struct WatchTable {
    records: BTreeMap<String, Watch>,
    /// Whether a task polls for changes.
    is_polled: bool,
}

#[derive(Clone)]
struct Watch {
    /// URI of the record; it may be watched by the URI of its content.
    record: String,
    /// Number of watchers.
    count: usize,
    /// The last announced revision; `None` after its removal.
    revision: Option<u64>,
}

impl WatchList {
    /// Adds a watcher of a record.
    pub(crate) fn add(
        self: &Arc<Self>,
        uri: &str,
        record: &Record,
        store: Arc<dyn RecordStore>,
        listener: Arc<dyn ChangeListener>,
    ) {
        let mut state = self.state();
        let watch = Watch {
            record: record.uri().unwrap_or_default(),
            count: 0,
            revision: Some(record.revision),
        };
        state.records.entry(uri.to_owned()).or_insert(watch).count += 1;
        if !std::mem::replace(&mut state.is_polled, true) {
            tokio::spawn(poll_changes(Arc::clone(self), store, listener));
        }
    }

    /// Removes a watcher.
    pub(crate) fn remove(&self, uri: &str) {
        let mut state = self.state();
        if let Some(watch) = state.records.get_mut(uri) {
            watch.count -= 1;
            if watch.count == 0 {
                state.records.remove(uri);
            }
        }
    }

    /// Stores an announced revision, and returns whether it is new.
    pub(crate) fn note(&self, uri: &str, revision: Option<u64>) -> bool {
        let mut state = self.state();
        let watch = state.records.get_mut(uri);
        watch.is_some_and(|watch| std::mem::replace(&mut watch.revision, revision) != revision)
    }

    fn state(&self) -> MutexGuard<'_, WatchTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the records to check; `None` if there are no watchers.
    fn records(&self) -> Option<Vec<(String, String)>> {
        let mut state = self.state();
        state.is_polled = !state.records.is_empty();
        let records = state.records.iter().map(|(uri, watch)| (uri.clone(), watch.record.clone()));
        state.is_polled.then(|| records.collect())
    }
}

/// Polls for changes of other processes while there are watchers. Changes of this process are
/// announced at once by another task.
async fn poll_changes(
    watched: Arc<WatchList>,
    store: Arc<dyn RecordStore>,
    listener: Arc<dyn ChangeListener>,
) {
    let mut seen = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(records) = watched.records() else { return };
        let version = match store.data_version().await {
            // This store cannot tell, because no other process can change it.
            Ok(None) => return,
            Ok(version) => version,
            // The next poll may succeed.
            Err(_) => continue,
        };
        if version == seen {
            continue;
        }
        seen = version;
        for (uri, record) in records {
            match store.get(&record).await {
                Ok(found) => {
                    let revision = found.map(|found| found.revision);
                    if watched.note(&uri, revision) {
                        listener.resource_updated(&uri);
                        if revision.is_none() {
                            listener.resources_changed();
                        }
                    }
                }
                Err(_) => seen = None,
            }
        }
    }
}
