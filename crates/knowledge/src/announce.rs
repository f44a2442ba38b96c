//! Announcements of changed records to those who may read them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::server::{ChangeListener, Principal};
use marquetry_rag::{Caller, RecordChange, RecordEvent, Records};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::{
    kinds::PROMPT_CONFIG,
    watch::{Reader, WatchList},
};

/// Interval at which the database is asked for changes of other processes, while records are
/// watched.
const EVERY: Duration = Duration::from_secs(1);
/// Users whose lists are announced to them alone; with more, changes are announced to everybody.
const MAX_READERS: usize = 1_000;
/// Events that are announced together: a folder that is indexed has one for each file.
const MAX_BATCH: usize = 1_000;

/// The users who have read or listed records since the start. Other users have no list yet that
/// could have changed.
#[derive(Default)]
pub(crate) struct Readers(Mutex<BTreeMap<String, Reader>>);

impl Readers {
    pub(crate) fn add(&self, caller: &Caller, principal: Option<&Principal>) {
        let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() > MAX_READERS && !readers.contains_key(&caller.user) {
            return;
        }
        let reader = Reader { caller: caller.clone(), principal: principal.cloned() };
        readers.insert(caller.user.clone(), reader);
    }

    /// Returns all users; `None` if there are too many.
    fn all(&self) -> Option<Vec<Reader>> {
        let readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (readers.len() <= MAX_READERS).then(|| readers.values().cloned().collect())
    }
}

/// Notifies a listener of changed records.
///
/// A change of a list is announced to the users who see the record, because others could tell from
/// the announcements when somebody works.
pub(crate) struct Announcer {
    pub(crate) updates: UpdateAnnouncer,
    pub(crate) readers: Arc<Readers>,
}

/// Notifies a listener of changes of watched records, for those subscribers who may read the record
/// now. A subscriber from whom a record was taken hears no more of it.
#[derive(Clone)]
pub(crate) struct UpdateAnnouncer {
    pub(crate) records: Records,
    pub(crate) listener: Arc<dyn ChangeListener>,
    pub(crate) watched: Arc<WatchList>,
}

impl UpdateAnnouncer {
    /// Announces a change of the record that is watched as `uri`.
    pub(crate) async fn announce(&self, uri: &str, event: &RecordEvent) {
        for Reader { caller, principal } in self.watched.watchers(uri) {
            let names = self.records.principals(&caller).await;
            if names.is_ok_and(|names| event.is_for(&names)) {
                self.listener.resource_updated_for(uri, principal.as_ref());
            }
        }
    }

    /// Polls for changes of other processes while there are watchers. Changes of this process are
    /// announced at once by another task.
    pub(crate) async fn poll_changes(self) {
        let watched = &self.watched;
        let store = self.records.store().clone();
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
                let event = match store.get(&record).await {
                    Ok(Some(found)) => RecordEvent::new(RecordChange::Updated, &found),
                    Ok(None) => watched.removal(&uri),
                    Err(_) => {
                        seen = None;
                        continue;
                    }
                };
                let Some(event) = event.filter(|event| watched.note(&uri, event)) else { continue };
                self.announce(&uri, &event).await;
                if event.change == RecordChange::Deleted {
                    self.listener.resources_changed();
                }
            }
        }
    }
}

impl Announcer {
    /// Announces events until the records are closed.
    pub(crate) async fn run(self, mut events: Receiver<RecordEvent>) {
        let mut batch = Vec::new();
        loop {
            match events.recv().await {
                Ok(event) => batch.push(event),
                // The changed records are unknown.
                Err(RecvError::Lagged(_)) => {
                    self.updates.listener.resources_changed();
                    self.updates.listener.prompts_changed();
                    continue;
                }
                Err(RecvError::Closed) => return,
            }
            while batch.len() < MAX_BATCH
                && let Ok(event) = events.try_recv()
            {
                batch.push(event);
            }
            for event in &batch {
                self.announce_update(event).await;
            }
            self.announce_lists(&batch).await;
            batch.clear();
        }
    }

    async fn announce_update(&self, event: &RecordEvent) {
        let media = Am7Uri::parse(&event.uri).ok().as_ref().and_then(media_uri);
        for uri in [Some(event.uri.clone()), media].into_iter().flatten() {
            self.updates.watched.note(&uri, event);
            self.updates.announce(&uri, event).await;
        }
    }

    async fn announce_lists(&self, events: &[RecordEvent]) {
        let UpdateAnnouncer { records, listener, .. } = &self.updates;
        let Some(readers) = self.readers.all() else {
            listener.resources_changed();
            listener.prompts_changed();
            return;
        };
        for Reader { caller, principal } in readers {
            // A change too many costs a list, and one too few leaves an old one.
            let names = records.principals(&caller).await.ok();
            let seen: Vec<_> = events
                .iter()
                .filter(|event| names.as_ref().is_none_or(|names| event.is_for(names)))
                .collect();
            if seen.iter().any(|event| event.kind == PROMPT_CONFIG) {
                listener.prompts_changed_for(principal.as_ref());
            }
            if seen.iter().any(|event| event.change != RecordChange::Updated) {
                listener.resources_changed_for(principal.as_ref());
            }
        }
    }
}

/// Returns the URI of a record's content.
fn media_uri(uri: &Am7Uri) -> Option<String> {
    let builder =
        Am7Uri::builder().organization(uri.organization()).object_type(uri.object_type()?);
    Some(builder.id(uri.id()?).media().build().ok()?.to_string())
}
