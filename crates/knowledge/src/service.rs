//! The requests of MCP clients, served from one database.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_protocol::server::{ChangeListener, Principal, RequestContext};
use marquetry_rag::{Caller, Embedder};
use tokio::{sync::OnceCell, task::JoinSet};

use crate::{
    access::Access,
    announce::{Announcer, Readers, UpdateAnnouncer},
    failure::{ErrorCode, Failure},
    identity::{group_uri, user_id},
    knowledge::Knowledge,
    location::DatabaseLocation,
    models::Models,
    options::KnowledgeOptions,
    watch::{Reader, WatchList},
    work::Job,
};

/// Serves the requests of MCP clients from one database.
///
/// The database is opened when the first record is stored, or at the first read if it exists. A
/// service that stores nothing creates no file.
pub struct KnowledgeService {
    options: KnowledgeOptions,
    opened: OnceCell<Knowledge>,
    models: Models,
    listener: Arc<dyn ChangeListener>,
    watched: Arc<WatchList>,
    readers: Arc<Readers>,
    /// Announces changed records. It ends with the service.
    tasks: Mutex<JoinSet<()>>,
}

impl KnowledgeService {
    /// Creates a service with these options. `listener` is notified of changed records and lists;
    /// `Arc::new(())` ignores it.
    #[must_use]
    pub fn new(options: KnowledgeOptions, listener: Arc<dyn ChangeListener>) -> Self {
        let models = Models::new(&options);
        Self {
            options,
            opened: OnceCell::new(),
            models,
            listener,
            watched: Arc::default(),
            readers: Arc::default(),
            tasks: Mutex::default(),
        }
    }

    /// Returns the maximum length of a passage, in bytes.
    pub(crate) fn max_passage_bytes(&self) -> NonZeroUsize {
        self.options.config.max_passage_bytes
    }

    /// Returns the embedding model with a name; without one, the model to which the database
    /// belongs. The database is not created.
    pub(crate) async fn embedder(
        &self,
        model: Option<&str>,
        cx: &RequestContext,
    ) -> Result<Arc<dyn Embedder>, Failure> {
        let access = self.open_existing(cx).await?;
        let own = access.map(|access| access.knowledge.pipeline.embedder().clone());
        match (model, own) {
            (None, Some(own)) => Ok(own),
            (None, None) => self.models.first(&self.options).await,
            (Some(name), Some(own)) if *name == own.model().identity => Ok(own),
            (Some(name), _) => self.models.named(name, &self.options).await,
        }
    }

    /// Checks that a database belongs to the model of this name, if there is one.
    pub(crate) async fn check_model(
        &self,
        model: Option<&str>,
        database: &Knowledge,
    ) -> Result<(), Failure> {
        match model {
            Some(name) => self.models.check(name, &database.pipeline, &self.options).await,
            None => Ok(()),
        }
    }

    /// Returns the job of a request that needs no record.
    pub(crate) fn job(&self, cx: &RequestContext) -> Job {
        // The same name as in requests that need records, so that both share one count.
        Job::new(&self.options.config, &self.caller(cx.principal().map(AsRef::as_ref)).user)
    }

    /// Returns the user of a principal without opening the database; without a principal, the local
    /// user.
    #[must_use]
    pub fn caller(&self, principal: Option<&Principal>) -> Caller {
        let organization = &self.options.config.organization;
        let id = principal.map_or_else(
            || Knowledge::LOCAL_USER.to_owned(),
            |principal| user_id(principal, organization),
        );
        let mut caller = Caller::new(organization, &id).expect("user_id returns valid ids");
        let groups = principal.iter().flat_map(|principal| &principal.groups);
        caller.groups.extend(groups.map(|group| group_uri(group, organization)));
        caller
    }

    /// Returns whether knowledge is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.options.config.enabled
    }

    /// Returns the first part of the URIs of all records.
    pub(crate) fn organization(&self) -> &str {
        &self.options.config.organization
    }

    /// Opens the database on behalf of a request's caller; creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn open(&self, cx: &RequestContext) -> Result<Access, Failure> {
        let access = self.open_for(cx.principal().map(AsRef::as_ref)).await?;
        Ok(access.with_memory(cx.memory()))
    }

    /// Opens the database on behalf of a request's caller if it exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn open_existing(&self, cx: &RequestContext) -> Result<Option<Access>, Failure> {
        let access = self.open_existing_for(cx.principal().map(AsRef::as_ref)).await?;
        Ok(access.map(|access| access.with_memory(cx.memory())))
    }

    /// Opens the database as [`Self::open`] does, on behalf of a principal; without one, of the
    /// local user.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn open_for(&self, principal: Option<&Principal>) -> Result<Access, Failure> {
        let knowledge = self.opened().await?.clone();
        self.access(knowledge, principal).await
    }

    async fn access(
        &self,
        knowledge: Knowledge,
        principal: Option<&Principal>,
    ) -> Result<Access, Failure> {
        let access = Access::of(knowledge, principal).await?;
        self.readers.add(&access.caller, principal);
        Ok(access)
    }

    /// Opens the database as [`Self::open_existing`] does, on behalf of a principal; without one,
    /// of the local user.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn open_existing_for(
        &self,
        principal: Option<&Principal>,
    ) -> Result<Option<Access>, Failure> {
        if self.exists() { self.open_for(principal).await.map(Some) } else { Ok(None) }
    }

    /// Opens the database as [`Self::open_existing`] does, only to list records. Does not wait for
    /// an embedding model that cannot be reached.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn existing_records(&self, cx: &RequestContext) -> Result<Option<Access>, Failure> {
        if !self.exists() {
            return Ok(None);
        }
        let principal = cx.principal().map(AsRef::as_ref);
        let is_file = matches!(self.options.database, Ok(DatabaseLocation::File(_)));
        if self.opened.initialized() || !is_file {
            return self.open_for(principal).await.map(Some);
        }
        let knowledge = Knowledge::open_records(&self.options).await?;
        self.access(knowledge, principal).await.map(Some)
    }

    fn exists(&self) -> bool {
        self.options.config.enabled
            && (self.opened.initialized()
                || match &self.options.database {
                    Ok(DatabaseLocation::File(path)) => path.exists(),
                    Ok(DatabaseLocation::Postgres(_)) => true,
                    Ok(DatabaseLocation::Memory) | Err(_) => false,
                })
    }

    /// Watches a record until [`Self::unwatch`]: the listener is notified of its changes, including
    /// those of other processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller cannot read the record.
    pub async fn watch(&self, uri: &str, cx: &RequestContext) -> Result<(), Failure> {
        let access = self
            .open_existing(cx)
            .await?
            .ok_or_else(|| Failure::new(ErrorCode::NotFound, format!("no record {uri}")))?;
        let record = access.watched(uri).await?;
        let principal = cx.principal().map(|principal| (**principal).clone());
        let watcher = Reader { caller: access.caller.clone(), principal };
        let updates = self.updates(&access.knowledge);
        if self.watched.add(uri, &record, watcher) {
            tokio::spawn(updates.poll_changes());
        }
        Ok(())
    }

    /// Ends one [`Self::watch`] of this URI.
    pub fn unwatch(&self, uri: &str) {
        self.watched.remove(uri);
    }

    /// Tries whether the database can be read, if it exists. Before the first request has opened a
    /// file, this does not wait for an embedding model.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened or read.
    pub async fn try_database(&self) -> Result<(), Failure> {
        let is_file = matches!(self.options.database, Ok(DatabaseLocation::File(_)));
        if !self.exists() {
            Ok(())
        } else if self.opened.initialized() || !is_file {
            Ok(self.opened().await?.try_read().await?)
        } else {
            Ok(Knowledge::try_database(&self.options).await?)
        }
    }

    /// Moves the write-ahead log into the database file, if the database was opened.
    pub async fn close(&self) {
        if let Some(knowledge) = self.opened.get() {
            knowledge.close().await;
        }
    }

    fn updates(&self, knowledge: &Knowledge) -> UpdateAnnouncer {
        UpdateAnnouncer {
            records: knowledge.records.clone(),
            listener: self.listener.clone(),
            watched: self.watched.clone(),
        }
    }

    async fn opened(&self) -> Result<&Knowledge, Failure> {
        let open = async {
            let knowledge = Knowledge::open(&self.options).await?;
            let updates = self.updates(&knowledge);
            let announcer = Announcer { updates, readers: self.readers.clone() };
            let events = knowledge.records.subscribe();
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(announcer.run(events));
            Ok(knowledge)
        };
        self.opened.get_or_try_init(|| open).await
    }
}
