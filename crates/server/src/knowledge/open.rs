//! Opening what is kept.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_rag::{
    EmbedError, Embedder, LibsqlOptions, LibsqlRecords, LibsqlRecordsOptions, LibsqlStore,
    MemoryRecords, MemoryStore, Pipeline, PipelineError, Prefixed, RecordLimits, RecordStoreError,
    Records, RemoteEmbedder, StaticModel, StoreError,
};

use crate::config::{
    EmbeddingChoice, EmbeddingConfig, KnowledgeConfig, KnowledgePlace, environment,
};

/// Why there is no knowledge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KnowledgeError {
    #[error("knowledge.database: {0}")]
    Nowhere(String),
    #[cfg(not(feature = "postgres"))]
    #[error("knowledge.database: this program was built without PostgreSQL (feature `postgres`)")]
    NoPostgres,
    #[error("knowledge.database: {path:?} cannot be made: {error}")]
    Folder { path: PathBuf, error: io::Error },
    #[error(
        "knowledge.database: it has vectors of {stored:?}, and knowledge.embedding says {wanted:?}: name that model again, or another database, or \
         throw the vectors away and index anew with `marquetry index --reset PATH…` (records stay; those that are no files are found again once they are vectorized)"
    )]
    OtherModel { stored: String, wanted: String },
    #[error("knowledge.database: {0}")]
    Store(StoreError),
    #[error("knowledge.database: {0}")]
    Records(#[from] RecordStoreError),
    #[error("{0}")]
    Embedding(String),
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Change,
    /// The same, and vectors of another model are thrown away.
    Reset,
    Read,
}

impl From<StoreError> for KnowledgeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::OtherModel { stored, wanted } => {
                Self::OtherModel { stored: stored.identity, wanted: wanted.identity }
            }
            error => Self::Store(error),
        }
    }
}

/// Opens the database that the configuration names.
pub(super) async fn open(
    config: &KnowledgeConfig,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let embedder = embedder(&config.embedding).await?;
    let limits = limits(config);
    match config.place().map_err(KnowledgeError::Nowhere)? {
        KnowledgePlace::File(path) => file(&path, embedder, limits, wanted).await,
        KnowledgePlace::Postgres(url) => postgres(&url, embedder, limits, wanted).await,
    }
}

/// The model that the configuration names.
async fn embedder(config: &EmbeddingConfig) -> Result<Arc<dyn Embedder>, KnowledgeError> {
    let choice = config.choice(&environment).map_err(|(key, problem)| {
        KnowledgeError::Embedding(format!("knowledge.embedding.{key}: {problem}"))
    })?;
    let failed = |error: EmbedError| KnowledgeError::Embedding(error.to_string());
    let model: Arc<dyn Embedder> = match choice {
        EmbeddingChoice::BuiltIn => {
            // It is made ready at the first call, which takes a while.
            let ready = tokio::task::spawn_blocking(StaticModel::built_in).await;
            Arc::new(ready.map_err(|error| KnowledgeError::Embedding(error.to_string()))?)
        }
        #[cfg(feature = "transformer")]
        EmbeddingChoice::Transformer(folder) => {
            let options = marquetry_rag::TransformerOptions::new(folder);
            let failed =
                |error| KnowledgeError::Embedding(format!("knowledge.embedding.folder: {error}"));
            Arc::new(marquetry_rag::Transformer::open(options).await.map_err(failed)?)
        }
        EmbeddingChoice::Remote(options) => {
            Arc::new(RemoteEmbedder::open(*options).await.map_err(failed)?)
        }
    };
    let [query, passage] =
        [&config.query_prefix, &config.passage_prefix].map(|it| it.as_deref().unwrap_or(""));
    Ok(match (query, passage) {
        ("", "") => model,
        (query, passage) => Arc::new(Prefixed::new(model, query, passage)),
    })
}

/// A database in a PostgreSQL.
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

/// Nothing at all, which is forgotten when the process ends.
pub(super) fn in_memory() -> Result<(Records, Pipeline), KnowledgeError> {
    let embedder: Arc<dyn Embedder> = Arc::new(StaticModel::built_in());
    let chunks = MemoryStore::new(embedder.model().clone());
    let records = Records::new(Arc::new(MemoryRecords::default()));
    Ok((records, Pipeline::new(Arc::new(chunks), embedder)?))
}

/// The records of a file that is there, only to be read, beside chunks that nobody finds.
pub(super) async fn records_alone(
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
    limits
}

/// A database in a file.
async fn file(
    path: &Path,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|_| wanted != Use::Read) {
        make_private(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let read_only = wanted == Use::Read;
    let mut options = LibsqlOptions::default();
    // A file that is named by mistake stays what it is.
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

/// Makes a folder that only its owner looks into; one that is there stays as it is.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
