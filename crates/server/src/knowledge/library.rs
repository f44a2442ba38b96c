//! Knowledge that is opened when somebody needs it.

use std::{num::NonZeroUsize, sync::Arc};

use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::server::{Principal, RequestContext};
use marquetry_rag::{Caller, RecordChange, RecordError};
use tokio::sync::{OnceCell, broadcast::error::RecvError};

use super::{ErrorCode, Failure, Job, Knowledge, prompts::PROMPT_CONFIG, watch::Watched};
use crate::{
    changes::Changes,
    config::{KnowledgeConfig, KnowledgePlace},
};

/// The server's knowledge. It is opened when something is to be kept, or when there is something already: a server that
/// nobody gives anything to leaves no file behind.
pub(crate) struct Library {
    config: KnowledgeConfig,
    opened: OnceCell<Knowledge>,
    changes: Arc<Changes>,
    watched: Arc<Watched>,
}

/// What one request may do with knowledge.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) knowledge: Knowledge,
    pub(crate) caller: Caller,
}

impl Library {
    pub(crate) fn new(config: KnowledgeConfig, changes: Arc<Changes>) -> Self {
        Self { config, opened: OnceCell::new(), changes, watched: Arc::default() }
    }

    /// The longest passage.
    pub(crate) fn max_passage_bytes(&self) -> NonZeroUsize {
        self.config.max_passage_bytes
    }

    /// In whose name a request works that needs nothing that is kept.
    pub(crate) fn job(&self, cx: &RequestContext) -> Job {
        let organization = &self.config.organization;
        let id = cx
            .principal()
            .map_or(Knowledge::LOCAL_USER.to_owned(), |principal| user_id(principal, organization));
        // The same name as for what needs something that is kept, so that both count together.
        let caller = Caller::new(organization, &id).map_or(id, |caller| caller.user);
        Job::new(&self.config, &caller)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    /// The first part of the URIs of all that is here.
    pub(crate) fn organization(&self) -> &str {
        &self.config.organization
    }

    /// Opens it, for whoever asks.
    pub(crate) async fn open(&self, cx: &RequestContext) -> Result<Access, Failure> {
        self.open_for(cx.principal().map(AsRef::as_ref)).await
    }

    /// The same if there is anything to be read.
    pub(crate) async fn if_there(&self, cx: &RequestContext) -> Result<Option<Access>, Failure> {
        self.if_there_for(cx.principal().map(AsRef::as_ref)).await
    }

    /// Opens it, for somebody.
    pub(crate) async fn open_for(&self, principal: Option<&Principal>) -> Result<Access, Failure> {
        let knowledge = self.opened().await?.clone();
        access(knowledge, principal).await
    }

    /// Opens it for somebody if there is anything to be read.
    pub(crate) async fn if_there_for(
        &self,
        principal: Option<&Principal>,
    ) -> Result<Option<Access>, Failure> {
        if self.is_there() { self.open_for(principal).await.map(Some) } else { Ok(None) }
    }

    /// To list records alone, if there is anything to be read: a model that cannot be reached holds nobody up.
    pub(crate) async fn records_if_there(
        &self,
        cx: &RequestContext,
    ) -> Result<Option<Access>, Failure> {
        if !self.is_there() {
            return Ok(None);
        }
        let principal = cx.principal().map(AsRef::as_ref);
        let is_file = matches!(self.config.place(), Ok(KnowledgePlace::File(_)));
        if self.opened.initialized() || !is_file {
            return self.open_for(principal).await.map(Some);
        }
        let knowledge = Knowledge::open_records(&self.config).await?;
        access(knowledge, principal).await.map(Some)
    }

    fn is_there(&self) -> bool {
        self.config.enabled
            && (self.opened.initialized()
                || match self.config.place() {
                    Ok(KnowledgePlace::File(path)) => path.exists(),
                    Ok(KnowledgePlace::Postgres(_)) => true,
                    Err(_) => false,
                })
    }

    /// Lets somebody watch a record: what becomes of it is told, whoever does it, until [`Self::unwatch`].
    pub(crate) async fn watch(&self, uri: &str, cx: &RequestContext) -> Result<(), Failure> {
        let not_found = || Failure::new(ErrorCode::NotFound, format!("there is no record {uri}"));
        let access = self.if_there(cx).await?.ok_or_else(not_found)?;
        let record = access.watched(uri).await?;
        let store = access.knowledge.records.store().clone();
        self.watched.add(uri, &record, store, self.changes.clone());
        Ok(())
    }

    /// The end of a [`Self::watch`].
    pub(crate) fn unwatch(&self, uri: &str) {
        self.watched.remove(uri);
    }

    /// Leaves what was written where it stays, at the end.
    pub(crate) async fn close(&self) {
        if let Some(knowledge) = self.opened.get() {
            knowledge.close().await;
        }
    }

    async fn opened(&self) -> Result<&Knowledge, Failure> {
        let open = async {
            let knowledge = Knowledge::open(&self.config).await?;
            let (changes, watched) = (self.changes.clone(), self.watched.clone());
            tokio::spawn(announce(knowledge.records.subscribe(), changes, watched));
            Ok(knowledge)
        };
        self.opened.get_or_try_init(|| open).await
    }
}

/// What somebody may do with knowledge that is open.
async fn access(knowledge: Knowledge, principal: Option<&Principal>) -> Result<Access, Failure> {
    let caller = match principal {
        None => knowledge.local().await?,
        Some(principal) => {
            let name = &principal.subject;
            let id = user_id(principal, &knowledge.organization);
            let end = name.floor_char_boundary(knowledge.records.limits().max_name_bytes);
            // A subject may be anything; what cannot be a name leaves the id.
            match knowledge.user(&id, &name[..end], false).await {
                Err(RecordError::Invalid { .. } | RecordError::Limit { .. }) => {
                    knowledge.user(&id, &id, false).await?
                }
                known => known?,
            }
        }
    };
    let job = knowledge.job.of(&caller.user);
    Ok(Access { knowledge: Knowledge { job, ..knowledge }, caller })
}

/// Tells what has changed, until the records are closed.
async fn announce(
    mut events: tokio::sync::broadcast::Receiver<marquetry_rag::RecordEvent>,
    changes: Arc<Changes>,
    watched: Arc<Watched>,
) {
    loop {
        match events.recv().await {
            Ok(event) => {
                let is_there = event.change != RecordChange::Deleted;
                let tell = |uri: &str| {
                    watched.note(uri, is_there.then_some(event.revision));
                    changes.updated.push(uri);
                };
                tell(&event.uri);
                if let Ok(uri) = Am7Uri::parse(&event.uri) {
                    if let Some(media) = media_uri(&uri) {
                        tell(&media);
                    }
                    if uri.object_type() == Some(PROMPT_CONFIG) {
                        changes.prompts.notify_one();
                    }
                }
                if event.change != RecordChange::Updated {
                    changes.resources.notify_one();
                }
            }
            // Which ones is not known any more; that something has changed is.
            Err(RecvError::Lagged(_)) => {
                changes.resources.notify_one();
                changes.prompts.notify_one();
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// The URI of the bytes of a record.
fn media_uri(uri: &Am7Uri) -> Option<String> {
    let builder =
        Am7Uri::builder().organization(uri.organization()).object_type(uri.object_type()?);
    Some(builder.id(uri.id()?).media().build().ok()?.to_string())
}

/// The object id of a principal's user. A configured token is the user of its name; whom an issuer vouches for has an
/// id of its own, as two issuers may use one name.
fn user_id(principal: &Principal, organization: &str) -> String {
    let can_be_id = |id: &str| {
        let uri = Am7Uri::builder().organization(organization).object_type("system.user").id(id);
        uri.build().is_ok_and(|uri| uri.id() == Some(id))
    };
    match &principal.issuer {
        None if can_be_id(&principal.subject) => principal.subject.clone(),
        _ => format!("user-{}", &blake3::hash(principal.id().as_bytes()).to_hex()[..32]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_the_id_of_another() {
        let id = |issuer: Option<&str>, subject: &str| {
            user_id(&Principal::new(issuer.map(str::to_owned), subject), "default")
        };
        assert_eq!(id(None, "ci"), "ci");
        let login = Some("https://login.example");
        let ids = [
            id(None, "ci"),
            id(None, "../ci"),
            id(None, "c/i"),
            id(login, "ci"),
            id(login, "local"),
            id(Some("https://other.example"), "ci"),
        ];
        for (place, one) in ids.iter().enumerate() {
            assert!(ids.iter().skip(place + 1).all(|other| other != one), "{ids:?}");
            assert!(one != Knowledge::LOCAL_USER);
        }
    }
}
