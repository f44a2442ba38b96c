//! Where chunks are kept.

#[cfg(any(feature = "libsql", feature = "postgres"))]
mod codec;
#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub mod conformance;
mod context;
mod document;
pub(crate) mod filter;
#[cfg(feature = "libsql")]
pub(crate) mod libsql;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;

use async_trait::async_trait;

#[cfg(feature = "libsql")]
pub use self::libsql::{LibsqlOptions, LibsqlStore};
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresStore;
pub(crate) use self::{context::Context, document::check_vector};
pub use self::{
    document::{ChunkId, Document, NewChunk, StoredChunk},
    filter::Filter,
    memory::MemoryStore,
};
use crate::search::{Hit, SearchRequest};
pub(crate) use marquetry_embed::EmbeddingModel;

/// A place that keeps documents with their chunks, and finds chunks by vector and by words.
///
/// A document's chunks are replaced as one: a reader sees all the old or all the new ones, never a mixture and never
/// none, also when the process dies in between. Filters are exact: they are applied before anything is ranked, so
/// that a narrow scope gives all it has. A call that is dropped before it answers is done as a whole or not at all; a
/// database on a server is told to stop what it does for nobody.
///
/// Whoever writes a store proves it with `conformance::check`, behind the feature `conformance`.
#[async_trait]
pub trait ChunkStore: Send + Sync + 'static {
    /// The model whose vectors are kept here.
    fn model(&self) -> &EmbeddingModel;

    /// Keeps documents with their chunks, each in the place of what it had before, and says how many chunks are new.
    ///
    /// Nothing is kept of any of them when there is an error. Many documents at once are cheaper than one by one.
    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError>;

    /// Keeps one document, as [`Self::replace_all`] does.
    async fn replace(&self, document: Document, chunks: Vec<NewChunk>) -> Result<u64, StoreError> {
        self.replace_all(vec![(document, chunks)]).await
    }

    /// Removes the documents that pass the filter, and says how many chunks they had. An empty filter removes all.
    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// What is known of a document, without its chunks.
    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError>;

    /// Documents that pass the filter, in the order of their URIs, from the first after `after`. With their content
    /// hashes, whoever indexes knows which files are unchanged.
    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError>;

    /// The chunks of one document in their order; none if there is no such document.
    async fn chunks(&self, uri: &str) -> Result<Vec<StoredChunk>, StoreError> {
        self.first_chunks(uri, usize::MAX).await
    }

    /// At most so many of the first chunks of one document, in their order.
    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError>;

    /// The chunks of one document with their vectors, as [`Self::replace`] takes them; none if there is no such document.
    /// Vectors are as exact as they are kept, and kept again they stay what they are: whoever changes a document
    /// embeds only what is new in it.
    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError>;

    /// One chunk with its document. A chunk that was replaced is gone, though another may have its id now.
    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError>;

    /// How many chunks the documents have that pass the filter.
    async fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// The best chunks first. Without words and without a vector, or with the limit 0, there are none.
    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError>;

    /// Returns whether the store answers searches by vector from an approximate index at present, which may miss a few
    /// of the nearest chunks. By default it does not.
    fn is_approximate(&self) -> bool {
        false
    }

    /// Moves what was written to where it stays: a database in a file has everything in that one file then, which can
    /// be copied alone. To be called at the end; the store can be used on.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if others are still at it, so that not all was moved; nothing is lost.
    async fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database was made with another model.
    #[error(
        "the database has vectors of {:?} ({} numbers), the model is {:?} ({} numbers): \
         reset the database for this model and index the documents again",
        stored.identity, stored.dimension, wanted.identity, wanted.dimension
    )]
    OtherModel {
        /// The model in the database.
        stored: EmbeddingModel,
        /// The model that the database was opened with.
        wanted: EmbeddingModel,
    },
    /// A vector has the wrong length.
    #[error("a vector has {got} numbers, the model gives {wanted}")]
    Dimension {
        /// What the model gives.
        wanted: usize,
        /// What the vector has.
        got: usize,
    },
    /// A vector holds what is no number, or infinity.
    #[error("a vector holds a value that is not a finite number")]
    NotFinite,
    /// A document has no URI.
    #[error("a document has no URI")]
    NoUri,
    /// The query is longer than [`SearchRequest::MAX_TEXT_BYTES`].
    #[error("the query has {bytes} bytes, more than {}", SearchRequest::MAX_TEXT_BYTES)]
    QueryTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// More hits were asked for than [`SearchRequest::MAX_LIMIT`].
    #[error("{limit} hits were asked for, more than {}", SearchRequest::MAX_LIMIT)]
    LimitTooLarge {
        /// How many.
        limit: usize,
    },
    /// A parameter of the fusion is negative or no number.
    #[error("k and the weight of a search must be finite numbers from 0")]
    Fusion,
    /// A newer version of this program wrote the database.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}: use a newer one"
    )]
    NewerSchema {
        /// The version of the database.
        found: i64,
        /// The newest that we know.
        known: i64,
    },
    /// An older version of this program wrote what is indexed, in a form that is not read any more.
    #[error(
        "what is indexed in the database has schema version {found} of an older version of this program, and this one needs {needed}: \
         index anew with `marquetry index --reset PATH…`, which keeps the records, or use another database"
    )]
    OlderSchema {
        /// The version of the database.
        found: i64,
        /// The one that we read.
        needed: i64,
    },
    /// There is no room; nothing was changed.
    #[error("the database is full, or the disk is; nothing was changed")]
    Full,
    /// The database can be read and not be written; nothing was changed.
    #[error(
        "the database cannot be written: its file, its folder or its disk is read-only; nothing was changed"
    )]
    ReadOnly,
    /// Somebody else kept the database locked for too long; nothing was changed.
    #[error("the database is locked by another process; nothing was changed")]
    Busy,
    /// The database cannot be used at all.
    #[error("the database cannot be used: {0}")]
    Unusable(String),
    /// There is no connection to the database. Whether what was written last is there is not known.
    #[error("no connection to the database: {0}")]
    Disconnected(String),
    /// So many calls are at work that there is no connection left for this one.
    #[error("all {connections} connections to the database are in use (max_connections)")]
    NoConnection {
        /// How many there are.
        connections: usize,
    },
    /// The database did not answer in time; nothing was changed.
    #[error("the database took longer than it may (statement_timeout); nothing was changed")]
    Timeout,
    /// The store is about to end.
    #[error("the store is closed")]
    Closed,
    /// What is in the database cannot be.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// The database engine failed.
    #[error("the database failed: {0}")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub(crate) fn engine(
        error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        Self::Engine(error.into())
    }
}

/// Does something that takes long where that holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(StoreError::engine(stopped)),
        },
    }
}
