//! Errors of opening a database.

use std::{io, path::PathBuf};

use marquetry_rag::{PipelineError, RecordStoreError, StoreError};

/// Why a database could not be opened. Each message names a setting of
/// [`KnowledgeConfig`](crate::config::KnowledgeConfig) by its key in `marquetry.toml`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnowledgeError {
    /// No database is configured.
    #[error("knowledge.database: {0}")]
    NoLocation(String),
    /// The crate was built without its feature `postgres`.
    #[error("knowledge.database: this program was built without PostgreSQL (feature `postgres`)")]
    NoPostgres,
    /// The folder of a new database could not be created.
    #[error("knowledge.database: {path:?} cannot be created: {error}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The vectors in the database belong to another embedding model.
    #[error(
        "knowledge.database: it has vectors of {stored:?}, and knowledge.embedding says {wanted:?}: name that model or another database, or \
         remove the vectors and index again with `marquetry index --reset PATH…` (records stay; records that are not files must be vectorized again)"
    )]
    OtherModel {
        /// The model that filled the database.
        stored: String,
        /// The configured model.
        wanted: String,
    },
    /// The store of passages failed.
    #[error("knowledge.database: {0}")]
    Store(StoreError),
    /// The store of records failed.
    #[error("knowledge.database: {0}")]
    Records(#[from] RecordStoreError),
    /// The embedding model cannot be used.
    #[error("{0}")]
    Embedding(String),
    /// The model and the store do not fit together.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
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
