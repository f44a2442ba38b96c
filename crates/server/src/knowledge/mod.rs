//! What the server knows: documents that are found by what they say, and other records.

pub(crate) mod chat;
mod failure;
mod library;
mod open;
pub(crate) mod prompts;
mod resource;
mod search;
mod text;
mod vectorize;
mod watch;
mod work;

use marquetry_rag::{Caller, DatabaseError, Pipeline, RecordError, Records, StoreError};

use self::open::Use;

pub(crate) use self::{
    failure::{ErrorCode, Failure},
    library::{Access, Library},
    open::KnowledgeError,
    resource::{RECORD_META, SEARCH_RESOURCES, completed_by_us, search_resources, templates},
    search::{Passage, Question},
    text::text_of,
    vectorize::Chunking,
    work::{Job, embedded, worked},
};
use crate::config::{KnowledgeConfig, KnowledgePlace};

/// The open database with the model that fills it, for the server and the command line alike.
#[derive(Clone)]
pub(crate) struct Knowledge {
    /// Records, and who may do what with them.
    pub(crate) records: Records,
    /// Finds passages, and makes documents findable.
    pub(crate) pipeline: Pipeline,
    /// Of which organisation whoever works here is.
    pub(crate) organization: String,
    /// Whether nothing can be changed: what is stale is left out then, and not set right.
    pub(crate) is_read_only: bool,
    /// In whose name documents are worked on, and how long that may take.
    pub(crate) job: Job,
}

impl Knowledge {
    /// The object id of the user that somebody is who is asked for no token: on this machine, or through a server
    /// without `[auth]`.
    pub(crate) const LOCAL_USER: &str = "local";

    /// Opens what the configuration says; a file that is not there is made.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or was filled by another model.
    pub(crate) async fn open(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        Self::open_for(config, Use::Change).await
    }

    /// The same; vectors of another model are thrown away. Records stay.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub(crate) async fn open_anew(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        Self::open_for(config, Use::Reset).await
    }

    async fn open_for(config: &KnowledgeConfig, wanted: Use) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = open::open(config, wanted).await?;
        let organization = config.organization.clone();
        let job = Job::new(config, Self::LOCAL_USER);
        Ok(Self { records, pipeline, organization, is_read_only: wanted == Use::Read, job })
    }

    /// Opens what is there, to be read for a moment; a file or folder that cannot be written is read as it is.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) async fn open_to_read(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        let first = match Self::open(config).await {
            Err(KnowledgeError::Store(problem)) => problem,
            opened => return opened,
        };
        // A server says itself what it lets somebody do.
        if !matches!(config.place(), Ok(KnowledgePlace::File(_))) {
            return Err(first.into());
        }
        // Which of several errors it is depends on what exactly cannot be written.
        use DatabaseError::{Engine, ReadOnly};
        if !matches!(first, StoreError::Database(ReadOnly | Engine(_))) {
            return Err(first.into());
        }
        match Self::open_for(config, Use::Read).await {
            Err(KnowledgeError::Store(StoreError::Database(Engine(_)))) => Err(first.into()),
            opened => opened,
        }
    }

    /// Opens records alone, to be read for a moment: no model makes vectors for it, so that one that cannot be reached
    /// keeps nobody waiting, and no passage is found. What only a server has is opened as a whole.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) async fn open_records(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        let Ok(KnowledgePlace::File(path)) = config.place() else {
            return Self::open_to_read(config).await;
        };
        match open::records_alone(&path, config).await {
            Ok((records, pipeline)) => {
                let organization = config.organization.clone();
                let job = Job::new(config, Self::LOCAL_USER);
                Ok(Self { records, pipeline, organization, is_read_only: true, job })
            }
            // What is wrong with the file is said as always.
            Err(_) => Self::open_to_read(config).await,
        }
    }

    /// Nothing yet, and nothing that stays.
    ///
    /// # Errors
    ///
    /// The model and the store do not fit.
    pub(crate) fn in_memory(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = open::in_memory()?;
        let organization = config.organization.clone();
        let job = Job::new(config, Self::LOCAL_USER);
        Ok(Self { records, pipeline, organization, is_read_only: false, job })
    }

    /// Moves what was written to where it stays, at the end. Where others still use the database, they do it.
    pub(crate) async fn close(&self) {
        if let Err(problem) = self.records.store().checkpoint().await {
            tracing::debug!(%problem, "records stay in the log beside the database");
        }
        if let Err(problem) = self.pipeline.store().checkpoint().await {
            tracing::debug!(%problem, "chunks stay in the log beside the database");
        }
    }

    /// Who works on this machine, or comes through a server that asks nobody who they are. The database is theirs, so
    /// that they administrate it.
    pub(crate) async fn local(&self) -> Result<Caller, RecordError> {
        self.user(Self::LOCAL_USER, Self::LOCAL_USER, true).await
    }

    /// A user by object id, with a record, made at first sight.
    async fn user(&self, id: &str, name: &str, is_admin: bool) -> Result<Caller, RecordError> {
        let caller = self.records.caller(&self.organization, id, is_admin).await?;
        if !self.is_read_only {
            self.records.ensure_user(&caller, name).await?;
        }
        Ok(caller)
    }
}
