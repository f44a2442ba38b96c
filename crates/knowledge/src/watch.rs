//! Records that somebody watches, and what other processes do to them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_protocol::server::ChangeListener;
use marquetry_rag::{Record, RecordStore};

/// How often a database is asked whether others have changed it, while somebody watches.
const EVERY: Duration = Duration::from_secs(1);

/// What is watched, by the URI under which it is.
#[derive(Default)]
pub(crate) struct Watched(Mutex<State>);

#[derive(Default)]
struct State {
    records: BTreeMap<String, Watch>,
    /// Whether somebody looks after them.
    is_looked_after: bool,
}

#[derive(Clone)]
struct Watch {
    /// The URI of the record, which may be watched under that of its bytes.
    record: String,
    /// By how many.
    count: usize,
    /// What was told of it last; None after its end.
    revision: Option<u64>,
}

impl Watched {
    /// One more watches a record, under this URI.
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
        if !std::mem::replace(&mut state.is_looked_after, true) {
            tokio::spawn(look_after(Arc::clone(self), store, listener));
        }
    }

    /// One less does.
    pub(crate) fn remove(&self, uri: &str) {
        let mut state = self.state();
        if let Some(watch) = state.records.get_mut(uri) {
            watch.count -= 1;
            if watch.count == 0 {
                state.records.remove(uri);
            }
        }
    }

    /// Notes which revision is told of, and says whether it is news.
    pub(crate) fn note(&self, uri: &str, revision: Option<u64>) -> bool {
        let mut state = self.state();
        let watch = state.records.get_mut(uri);
        watch.is_some_and(|watch| std::mem::replace(&mut watch.revision, revision) != revision)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be looked at; None if nobody watches any more.
    fn records(&self) -> Option<Vec<(String, String)>> {
        let mut state = self.state();
        state.is_looked_after = !state.records.is_empty();
        let records = state.records.iter().map(|(uri, watch)| (uri.clone(), watch.record.clone()));
        state.is_looked_after.then(|| records.collect())
    }
}

/// Looks for what others have changed as long as somebody watches. What this process changes is told at once,
/// elsewhere.
async fn look_after(
    watched: Arc<Watched>,
    store: Arc<dyn RecordStore>,
    listener: Arc<dyn ChangeListener>,
) {
    let mut seen = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(records) = watched.records() else { return };
        let version = match store.data_version().await {
            // This store does not say, and nobody looks after anything in it.
            Ok(None) => return,
            Ok(version) => version,
            // It may answer the next time.
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
