//! An open database.

use marquetry_rag::{Caller, DatabaseError, Pipeline, RecordError, Records, StoreError};

use crate::{
    error::KnowledgeError,
    location::DatabaseLocation,
    open::{self, Use},
    options::KnowledgeOptions,
    work::Job,
};

/// An open database of records and passages, with its embedding model.
#[derive(Clone)]
pub struct Knowledge {
    /// Records, with owners and permissions.
    pub records: Records,
    /// Finds passages, and indexes documents.
    pub pipeline: Pipeline,
    /// The first part of the URIs of all records here.
    pub(crate) organization: String,
    /// Whether nothing can be changed. Searches then leave stale passages out and do not renew
    /// them.
    pub(crate) is_read_only: bool,
    /// The user on whose behalf documents are processed, with time limits.
    pub(crate) job: Job,
}

impl Knowledge {
    /// The object id of the user of a request without a principal: on this machine, or through a
    /// server without authentication.
    pub const LOCAL_USER: &str = "local";

    /// Opens the database of these options. A file that does not exist is created.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened, or if another model filled it.
    pub async fn open(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        Self::open_for(options, Use::Change).await
    }

    /// Opens the database as [`Self::open`] does, and removes vectors of another model. Records
    /// stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened.
    pub async fn open_reset(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        Self::open_for(options, Use::Reset).await
    }

    async fn open_for(options: &KnowledgeOptions, wanted: Use) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = open::open(options, wanted).await?;
        let organization = options.config.organization.clone();
        let job = Job::new(&options.config, Self::LOCAL_USER);
        Ok(Self { records, pipeline, organization, is_read_only: wanted == Use::Read, job })
    }

    /// Opens a database for reading, even if the file or its folder is not writable.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] does.
    pub async fn open_to_read(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        let first = match Self::open(options).await {
            Err(KnowledgeError::Store(problem)) => problem,
            opened => return opened,
        };
        // A PostgreSQL server decides about permissions itself.
        if !matches!(options.database, Ok(DatabaseLocation::File(_))) {
            return Err(first.into());
        }
        // Which error it is depends on what cannot be written.
        use DatabaseError::{Engine, ReadOnly};
        if !matches!(first, StoreError::Database(ReadOnly | Engine(_))) {
            return Err(first.into());
        }
        match Self::open_for(options, Use::Read).await {
            Err(KnowledgeError::Store(StoreError::Database(Engine(_)))) => Err(first.into()),
            opened => opened,
        }
    }

    /// Opens the records of a file for reading, without an embedding model: searches find nothing,
    /// and a model that cannot be reached causes no delay. A database in PostgreSQL is opened as by
    /// [`Self::open_to_read`].
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] does.
    pub async fn open_records(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        let Ok(DatabaseLocation::File(path)) = &options.database else {
            return Self::open_to_read(options).await;
        };
        match open::records_alone(path, &options.config).await {
            Ok((records, pipeline)) => {
                let organization = options.config.organization.clone();
                let job = Job::new(&options.config, Self::LOCAL_USER);
                Ok(Self { records, pipeline, organization, is_read_only: true, job })
            }
            // This reports the error of the file.
            Err(_) => Self::open_to_read(options).await,
        }
    }

    /// Creates an empty database in memory with the built-in model, whatever database and model the
    /// options name.
    ///
    /// # Errors
    ///
    /// Returns an error if the model and the store do not fit together.
    pub fn in_memory(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = open::in_memory()?;
        let organization = options.config.organization.clone();
        let job = Job::new(&options.config, Self::LOCAL_USER);
        Ok(Self { records, pipeline, organization, is_read_only: false, job })
    }

    /// Moves the write-ahead log into the database file, unless other processes still use it.
    pub async fn close(&self) {
        if let Err(problem) = self.records.store().checkpoint().await {
            tracing::debug!(%problem, "records stay in the log beside the database");
        }
        if let Err(problem) = self.pipeline.store().checkpoint().await {
            tracing::debug!(%problem, "chunks stay in the log beside the database");
        }
    }

    /// Returns the local user, who owns the database and is its administrator.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's record cannot be created.
    pub async fn local(&self) -> Result<Caller, RecordError> {
        self.user(Self::LOCAL_USER, Self::LOCAL_USER, true).await
    }

    /// Returns a user by object id. The first call creates the record.
    pub(crate) async fn user(
        &self,
        id: &str,
        name: &str,
        is_admin: bool,
    ) -> Result<Caller, RecordError> {
        let caller = self.records.caller(&self.organization, id, is_admin).await?;
        if !self.is_read_only {
            self.records.ensure_user(&caller, name).await?;
        }
        Ok(caller)
    }
}
