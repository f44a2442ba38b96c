//! Opening what is kept.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_rag::{
    EmbeddingModel, LibsqlStore, Pipeline, PipelineError, StaticModel, StoreError,
};

/// Why there is no knowledge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KnowledgeError {
    #[error("knowledge.database: {0}")]
    Nowhere(String),
    #[error("knowledge.database: this program was built without PostgreSQL")]
    NoPostgres,
    #[error("knowledge.database: {path:?} cannot be opened: {error}")]
    Folder { path: PathBuf, error: io::Error },
    #[error("knowledge.database: {path:?} cannot be opened: {error}")]
    File { path: PathBuf, error: StoreError },
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

/// A database in a file.
pub(super) async fn file(path: &Path) -> Result<Pipeline, KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        make_private(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let model = StaticModel::built_in();
    let store = LibsqlStore::open(path, EmbeddingModel::default()).await;
    let store = store.map_err(|error| KnowledgeError::File { path: path.to_owned(), error })?;
    Ok(Pipeline::new(Arc::new(store), Arc::new(model))?)
}

/// Makes a folder that only its owner looks into; one that is there stays as it is.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
