//! Opening what is kept.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_rag::{
    Embedder, LibsqlRecords, LibsqlRecordsOptions, LibsqlStore, Pipeline, PipelineError,
    RecordLimits, RecordStoreError, Records, StaticModel, StoreError,
};

use crate::config::{KnowledgeConfig, KnowledgePlace};

/// Why there is no knowledge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KnowledgeError {
    #[error("knowledge.database: {0}")]
    Nowhere(String),
    #[error("knowledge.database: this program was built without PostgreSQL")]
    NoPostgres,
    #[error("knowledge.database: {path:?} cannot be made: {error}")]
    Folder { path: PathBuf, error: io::Error },
    #[error("knowledge.database: {0}")]
    Store(#[from] StoreError),
    #[error("knowledge.database: {0}")]
    Records(#[from] RecordStoreError),
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

/// Opens the database that the configuration names.
pub(super) async fn open(config: &KnowledgeConfig) -> Result<(Records, Pipeline), KnowledgeError> {
    let embedder: Arc<dyn Embedder> = Arc::new(StaticModel::built_in());
    let mut limits = RecordLimits::default();
    limits.max_content_bytes =
        usize::try_from(config.max_content_bytes.get()).unwrap_or(usize::MAX);
    match config.place().map_err(KnowledgeError::Nowhere)? {
        KnowledgePlace::File(path) => file(&path, embedder, limits).await,
        KnowledgePlace::Postgres(_) => Err(KnowledgeError::NoPostgres),
    }
}

/// A database in a file.
async fn file(
    path: &Path,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        make_private(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let chunks = LibsqlStore::open(path, embedder.model().clone()).await?;
    let mut options = LibsqlRecordsOptions::default();
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
