//! An open database, and how it is opened.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use marquetry_atomic_file::create_folder;
use marquetry_rag::{
    Caller, DatabaseError, EmbedError, Embedder, Filter, LibsqlOptions, LibsqlRecords,
    LibsqlRecordsOptions, LibsqlStore, MemoryRecords, MemoryStore, Pipeline, Prefixed, RecordError,
    RecordFilter, RecordLimits, RecordStoreError, Records, RemoteEmbedder, StaticModel, StoreError,
};

use crate::{
    config::{EmbeddingChoice, EmbeddingConfig, KnowledgeConfig},
    error::KnowledgeError,
    location::DatabaseLocation,
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
        let embedder = embedder(&options.config.embedding, "embedding", options).await?;
        let limits = limits(&options.config);
        let (records, pipeline) = match options.location()? {
            DatabaseLocation::Memory => memory(embedder, limits)?,
            DatabaseLocation::File(path) => file(path, embedder, limits, wanted).await?,
            DatabaseLocation::Postgres(url) => postgres(url, embedder, limits, wanted).await?,
        };
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
        match Self::open_records_alone(options, path).await {
            // This reports the error of the file.
            Err(_) => Self::open_to_read(options).await,
            opened => opened,
        }
    }

    /// Tries whether the database of these options can be opened, and changes nothing. A file that
    /// does not exist yet will be created, and an older one will be migrated. The passages in a
    /// file are read too, unless their embedding model is a remote one.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] would.
    pub async fn try_database(options: &KnowledgeOptions) -> Result<(), KnowledgeError> {
        let path = match options.location()? {
            DatabaseLocation::Memory => return Ok(()),
            DatabaseLocation::Postgres(url) => return reach_postgres(url).await,
            DatabaseLocation::File(path) => path,
        };
        if !path.metadata().is_ok_and(|found| found.len() > 0) {
            return Ok(());
        }
        let opened = match options.config.embedding.choice(options.variables()) {
            Ok(EmbeddingChoice::BuiltIn) => Self::open_for(options, Use::Read).await,
            _ => Self::open_records_alone(options, path).await,
        };
        match opened {
            Ok(knowledge) => knowledge.try_read().await,
            // Opening it for changes creates the tables, or migrates them.
            Err(
                KnowledgeError::Store(StoreError::Database(DatabaseError::ReadOnly))
                | KnowledgeError::Records(RecordStoreError::Database(
                    DatabaseError::ReadOnly | DatabaseError::OlderSchema { .. },
                )),
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tries whether records and passages can be read.
    ///
    /// # Errors
    ///
    /// Returns an error if a store fails.
    pub async fn try_read(&self) -> Result<(), KnowledgeError> {
        let mut filter = RecordFilter::new(&self.organization);
        filter.limit = Some(1);
        self.records.store().list(&filter).await?;
        self.pipeline.store().documents(&Filter::default(), None, 1).await?;
        Ok(())
    }

    async fn open_records_alone(
        options: &KnowledgeOptions,
        path: &Path,
    ) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = records_alone(path, &options.config).await?;
        let organization = options.config.organization.clone();
        let job = Job::new(&options.config, Self::LOCAL_USER);
        Ok(Self { records, pipeline, organization, is_read_only: true, job })
    }

    /// Creates an empty database in memory with the built-in model, whatever database and model the
    /// options name.
    ///
    /// # Errors
    ///
    /// Returns an error if the model and the store do not fit together.
    pub fn in_memory(options: &KnowledgeOptions) -> Result<Self, KnowledgeError> {
        let (records, pipeline) = in_memory()?;
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

    /// Returns the number of documents of the local user if no other user can read any of the first
    /// thousand: the documents of a server whose users find none of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn unshared_documents(&self) -> Result<Option<u64>, RecordError> {
        let local = self.local().await?;
        let mut filter = RecordFilter::new(&self.organization);
        filter.types = vec!["data.data".to_owned(), "auth.group".to_owned()];
        filter.owners = vec![local.user.clone()];
        filter.limit = Some(1_000);
        let records = self.records.list(&local, &filter).await?.records;
        if records.iter().any(|record| !record.readers.is_empty() || !record.writers.is_empty()) {
            return Ok(None);
        }
        filter.types = vec!["data.data".to_owned()];
        let count = self.records.count(&local, &filter).await?;
        Ok(Some(count).filter(|count| *count > 0))
    }

    /// Returns the local user, who owns the database and is its administrator.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's record cannot be created.
    pub async fn local(&self) -> Result<Caller, RecordError> {
        let caller = self.records.caller(&self.organization, Self::LOCAL_USER, true).await?;
        self.ensure_user(caller, Self::LOCAL_USER).await
    }

    /// Returns a user by object id, who is in these groups besides those of records. The first call
    /// creates the record.
    pub(crate) async fn user(
        &self,
        id: &str,
        name: &str,
        groups: &BTreeSet<String>,
    ) -> Result<Caller, RecordError> {
        let caller = self.records.caller_in_groups(&self.organization, id, groups).await?;
        self.ensure_user(caller, name).await
    }

    async fn ensure_user(&self, caller: Caller, name: &str) -> Result<Caller, RecordError> {
        if !self.is_read_only {
            self.records.ensure_user(&caller, name).await?;
        }
        Ok(caller)
    }
}

/// Purpose of an open database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Change,
    /// For writing, after vectors of another model were removed.
    Reset,
    Read,
}

/// Opens an embedding model. `section` is its place in `[knowledge]`, for errors; the options have
/// the environment variables.
pub(crate) async fn embedder(
    config: &EmbeddingConfig,
    section: &str,
    options: &KnowledgeOptions,
) -> Result<Arc<dyn Embedder>, KnowledgeError> {
    let choice = config
        .choice(options.variables())
        .map_err(|invalid| KnowledgeError::Embedding(format!("knowledge.{section}.{invalid}")))?;
    let model: Arc<dyn Embedder> = match choice {
        EmbeddingChoice::BuiltIn => {
            // Opening takes some time at the first call.
            let ready = tokio::task::spawn_blocking(StaticModel::built_in).await;
            Arc::new(ready.map_err(|error| KnowledgeError::Embedding(error.to_string()))?)
        }
        #[cfg(feature = "transformer")]
        EmbeddingChoice::Transformer(folder) => {
            let options = marquetry_rag::TransformerOptions::new(folder);
            Arc::new(marquetry_rag::Transformer::open(options).await.map_err(|error| {
                KnowledgeError::Embedding(format!("knowledge.{section}.folder: {error}"))
            })?)
        }
        EmbeddingChoice::Remote(options) => Arc::new(
            RemoteEmbedder::open(*options)
                .await
                .map_err(|error: EmbedError| KnowledgeError::Embedding(error.to_string()))?,
        ),
    };
    let [query, passage] =
        [&config.query_prefix, &config.passage_prefix].map(|it| it.as_deref().unwrap_or(""));
    Ok(match (query, passage) {
        ("", "") => model,
        (query, passage) => Arc::new(Prefixed::new(model, query, passage)),
    })
}

/// Opens a database in PostgreSQL.
#[cfg(feature = "postgres")]
async fn postgres(
    url: &str,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let mut options = marquetry_rag::PostgresOptions::default();
    options.reset = wanted == Use::Reset;
    let model = embedder.model().clone();
    let chunks = marquetry_rag::PostgresStore::open_with(url, model, options).await?;
    let max_content_bytes = limits.max_content_bytes as u64;
    let records =
        marquetry_rag::PostgresRecords::with_pool(chunks.pool().clone(), max_content_bytes).await?;
    let pipeline = Pipeline::new(Arc::new(chunks), embedder)?;
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(
    _: &str,
    _: Arc<dyn Embedder>,
    _: RecordLimits,
    _: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    Err(KnowledgeError::NoPostgres)
}

/// Tries whether a PostgreSQL accepts a connection.
#[cfg(feature = "postgres")]
async fn reach_postgres(url: &str) -> Result<(), KnowledgeError> {
    use marquetry_database::postgres::{PoolOptions, PostgresPool};
    let pool = PostgresPool::new(url, PoolOptions::default()).map_err(StoreError::from)?;
    pool.connect().await.map(drop).map_err(|error| StoreError::from(error).into())
}

#[cfg(not(feature = "postgres"))]
async fn reach_postgres(_: &str) -> Result<(), KnowledgeError> {
    Err(KnowledgeError::NoPostgres)
}

/// Creates an empty database in memory, with the built-in model.
fn in_memory() -> Result<(Records, Pipeline), KnowledgeError> {
    memory(Arc::new(StaticModel::built_in()), RecordLimits::default())
}

/// Creates an empty database in memory.
fn memory(
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let chunks = MemoryStore::new(embedder.model().clone());
    let records = Records::with_limits(Arc::new(MemoryRecords::default()), limits);
    Ok((records, Pipeline::new(Arc::new(chunks), embedder)?))
}

/// Opens the records of an existing file for reading, with an empty index of passages.
async fn records_alone(
    path: &Path,
    config: &KnowledgeConfig,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let mut options = LibsqlRecordsOptions::default();
    options.read_only = true;
    let records = LibsqlRecords::open_with(path, options).await?;
    let (_, pipeline) = in_memory()?;
    let limits = limits(config);
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

fn limits(config: &KnowledgeConfig) -> RecordLimits {
    let mut limits = RecordLimits::default();
    limits.max_content_bytes =
        usize::try_from(config.max_content_bytes.get()).unwrap_or(usize::MAX);
    limits.max_owner_bytes = config.max_owner_bytes.get();
    limits
}

/// Opens a database in a file.
async fn file(
    path: &Path,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|_| wanted != Use::Read) {
        create_folder(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let read_only = wanted == Use::Read;
    let mut options = LibsqlOptions::default();
    // A file that was named by mistake must not change.
    (options.only_ours, options.read_only) = (true, read_only);
    options.reset = wanted == Use::Reset;
    let model = embedder.model().clone();
    let chunks = LibsqlStore::open_with(path, model, options).await?;
    let mut options = LibsqlRecordsOptions::default();
    options.read_only = read_only;
    options.max_content_bytes = limits.max_content_bytes as u64;
    let records = LibsqlRecords::open_with(path, options).await?;
    let pipeline = Pipeline::new(Arc::new(chunks), embedder)?;
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}
