//! Errors of stores.

use marquetry_database::DatabaseError;
use marquetry_embed::EmbeddingModel;

use super::request::SearchRequest;

/// An error of an operation of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database was filled with vectors of another model.
    #[error(
        "the database has vectors of {:?} ({} numbers), the model is {:?} ({} numbers): \
         reset the database for this model and index the documents again",
        stored.identity, stored.dimension, wanted.identity, wanted.dimension
    )]
    OtherModel {
        /// The model in the database.
        stored: EmbeddingModel,
        /// The model with which the database was opened.
        wanted: EmbeddingModel,
    },
    /// A vector has another dimension than the model.
    #[error("a vector has {got} numbers instead of the model's {wanted}")]
    Dimension {
        /// The model's dimension.
        wanted: usize,
        /// The vector's dimension.
        got: usize,
    },
    /// A vector contains NaN or infinity.
    #[error("a vector has a value that is not finite")]
    NotFinite,
    /// A document has no URI.
    #[error("a document has no URI")]
    NoUri,
    /// The query is longer than
    /// [`SearchRequest::MAX_TEXT_BYTES`](crate::SearchRequest::MAX_TEXT_BYTES).
    #[error("the query has {bytes} bytes, more than {}", SearchRequest::MAX_TEXT_BYTES)]
    QueryTooLong {
        /// Length of the query, in bytes.
        bytes: usize,
    },
    /// The request asks for more hits than
    /// [`SearchRequest::MAX_LIMIT`](crate::SearchRequest::MAX_LIMIT).
    #[error("{limit} hits are more than the maximum of {}", SearchRequest::MAX_LIMIT)]
    LimitTooLarge {
        /// Number of hits.
        limit: usize,
    },
    /// A parameter of the fusion is negative or NaN.
    #[error("k and the weight of a search must be finite numbers that are not negative")]
    Fusion,
    /// The database failed.
    #[error(transparent)]
    Database(DatabaseError),
    /// An older version of this program wrote the index, in a form that this version does not read.
    #[error(
        "the index in the database has schema version {found}, from an older version of this program; this one needs {needed}: \
         index again with `marquetry index --reset PATH…`, which keeps the records, or use another database"
    )]
    OlderSchema {
        /// Version of the database.
        found: i64,
        /// Version that this program reads.
        needed: i64,
    },
}

impl StoreError {
    /// Wraps an error of an engine.
    #[cfg(any(feature = "libsql", feature = "postgres"))]
    pub(crate) fn engine(
        error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        DatabaseError::engine(error).into()
    }

    /// Reports stored values that no version of this program writes.
    #[cfg(any(feature = "libsql", feature = "postgres"))]
    pub(crate) fn damaged(what: impl std::fmt::Display) -> Self {
        DatabaseError::damaged(what).into()
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::OlderSchema { found, needed } => Self::OlderSchema { found, needed },
            error => Self::Database(error),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        DatabaseError::from(error).into()
    }
}
