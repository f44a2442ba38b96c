//! Announcements of changed records to those who may read them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::server::{ChangeListener, Principal};
use marquetry_rag::{Caller, RecordChange, RecordEvent, Records};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::{kinds::PROMPT_CONFIG, watch::WatchList};

/// Users whose lists are announced to them alone; with more, changes are announced to everybody.
const MAX_READERS: usize = 1_000;
/// Events that are announced together: a folder that is indexed has one for each file.
const MAX_BATCH: usize = 1_000;

/// The users who have read or listed records since the start. Other users have no list yet that
/// could have changed.
#[derive(Default)]
pub(crate) struct Readers(Mutex<BTreeMap<String, Reader>>);

/// A user, and the principal by which the server knows the user; `None` is the local user.
#[derive(Clone)]
struct Reader {
    caller: Caller,
    principal: Option<Principal>,
}

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
/// the announcements when somebody works. An update of a record is announced to its subscribers,
/// who could read it when they subscribed.
pub(crate) struct Announcer {
    pub(crate) records: Records,
    pub(crate) listener: Arc<dyn ChangeListener>,
    pub(crate) watched: Arc<WatchList>,
    pub(crate) readers: Arc<Readers>,
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
                    self.listener.resources_changed();
                    self.listener.prompts_changed();
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
                self.announce_update(event);
            }
            self.announce_lists(&batch).await;
            batch.clear();
        }
    }

    fn announce_update(&self, event: &RecordEvent) {
        let is_there = event.change != RecordChange::Deleted;
        let revision = is_there.then_some(event.revision);
        let media = Am7Uri::parse(&event.uri).ok().as_ref().and_then(media_uri);
        for uri in [Some(event.uri.clone()), media].into_iter().flatten() {
            self.watched.note(&uri, revision);
            self.listener.resource_updated(&uri);
        }
    }

    async fn announce_lists(&self, events: &[RecordEvent]) {
        let Some(readers) = self.readers.all() else {
            self.listener.resources_changed();
            self.listener.prompts_changed();
            return;
        };
        for Reader { caller, principal } in readers {
            // A change too many costs a list, and one too few leaves an old one.
            let names = self.records.principals(&caller).await.ok();
            let seen: Vec<_> = events
                .iter()
                .filter(|event| names.as_ref().is_none_or(|names| event.is_for(names)))
                .collect();
            if seen.iter().any(|event| event.kind == PROMPT_CONFIG) {
                self.listener.prompts_changed_for(principal.as_ref());
            }
            if seen.iter().any(|event| event.change != RecordChange::Updated) {
                self.listener.resources_changed_for(principal.as_ref());
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
