//! Opening what is kept.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_rag::{
    Embedder, LibsqlOptions, LibsqlRecords, LibsqlRecordsOptions, LibsqlStore, MemoryRecords,
    MemoryStore, Pipeline, PipelineError, RecordLimits, RecordStoreError, Records, RemoteEmbedder,
    StaticModel, StoreError,
};

use crate::config::{KnowledgeConfig, KnowledgePlace, environment};

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
    #[error("knowledge.database: {0}")]
    Store(#[from] StoreError),
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
    Read,
}

/// Opens the database that the configuration names.
pub(super) async fn open(
    config: &KnowledgeConfig,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let remote = config.embedding.remote(&environment).map_err(|(key, problem)| {
        KnowledgeError::Embedding(format!("knowledge.embedding.{key}: {problem}"))
    })?;
    let embedder: Arc<dyn Embedder> = match remote {
        None => Arc::new(StaticModel::built_in()),
        Some(options) => {
            let remote = RemoteEmbedder::open(options).await;
            Arc::new(remote.map_err(|error| KnowledgeError::Embedding(error.to_string()))?)
        }
    };
    let mut limits = RecordLimits::default();
    limits.max_content_bytes =
        usize::try_from(config.max_content_bytes.get()).unwrap_or(usize::MAX);
    match config.place().map_err(KnowledgeError::Nowhere)? {
        KnowledgePlace::File(path) => file(&path, embedder, limits, wanted).await,
        KnowledgePlace::Postgres(url) => postgres(&url, embedder, limits).await,
    }
}

/// A database in a PostgreSQL.
#[cfg(feature = "postgres")]
async fn postgres(
    url: &str,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let mut options = marquetry_rag::PostgresOptions::default();
    options.max_content_bytes = limits.max_content_bytes as u64;
    let model = embedder.model().clone();
    let chunks = marquetry_rag::PostgresStore::open_with(url, model, options).await?;
    let records = chunks.records().await?;
    let pipeline = Pipeline::new(Arc::new(chunks), embedder)?;
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(
    _: &str,
    _: Arc<dyn Embedder>,
    _: RecordLimits,
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

/// A database in a file.
async fn file(
    path: &Path,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|_| wanted == Use::Change) {
        make_private(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let read_only = wanted == Use::Read;
    let mut options = LibsqlOptions::default();
    // A file that is named by mistake stays what it is.
    (options.only_ours, options.read_only) = (true, read_only);
    let model = embedder.model().clone();
    let chunks =
        LibsqlStore::open_with(path, model, options).await.map_err(|error| match error {
            StoreError::Unusable(problem) if !problem.contains(&*path.to_string_lossy()) => {
                StoreError::Unusable(format!("{}: {problem}", path.display()))
            }
            error => error,
        })?;
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
