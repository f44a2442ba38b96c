//! Stores of documents and their chunks.

#[cfg(any(feature = "libsql", feature = "postgres"))]
mod codec;
#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub mod conformance;
#[cfg(any(feature = "libsql", feature = "postgres"))]
mod fields;
#[cfg(feature = "libsql")]
mod libsql;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;

use async_trait::async_trait;
use marquetry_database::blocking;
use marquetry_embed::EmbeddingModel;

#[cfg(feature = "libsql")]
pub use self::libsql::{LibsqlOptions, LibsqlStore};
pub use self::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresOptions, PostgresStore};
use crate::types::{
    ChunkId, Document, Filter, Hit, NewChunk, SearchRequest, StoreError, StoredChunk,
};

/// A store of documents with their chunks, which finds chunks by vector and by words.
///
/// The chunks of a document are replaced atomically: a reader sees all old or all new ones, never a
/// mixture, even if the process dies. Filters are exact: they are applied before the ranking, so
/// that a narrow filter still returns all its chunks. A call that is dropped takes effect
/// completely or not at all; on a server its statement is cancelled.
///
/// `conformance::check`, behind the feature `conformance`, tests a store.
#[async_trait]
pub trait ChunkStore: Send + Sync + 'static {
    /// Returns the model of the vectors.
    fn model(&self) -> &EmbeddingModel;

    /// Stores documents with their chunks in place of their former chunks, and returns the number
    /// of chunks stored.
    ///
    /// On an error no document is stored. Storing many documents at once is faster than one by one.
    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError>;

    /// Stores one document, as [`Self::replace_all`] does.
    async fn replace(&self, document: Document, chunks: Vec<NewChunk>) -> Result<u64, StoreError> {
        self.replace_all(vec![(document, chunks)]).await
    }

    /// Removes the documents that pass the filter, and returns the number of their chunks. An empty
    /// filter removes all.
    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// Returns a document without its chunks.
    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError>;

    /// Returns documents that pass the filter, in the order of their URIs, starting after `after`.
    /// Their content hashes tell an indexer which files are unchanged.
    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError>;

    /// Returns the chunks of one document in order; an empty list for an unknown document.
    async fn chunks(&self, uri: &str) -> Result<Vec<StoredChunk>, StoreError> {
        self.first_chunks(uri, usize::MAX).await
    }

    /// Returns the first chunks of one document in order, at most `limit`.
    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError>;

    /// Returns the chunks of one document with their vectors, as [`Self::replace`] takes them; an
    /// empty list for an unknown document. The vectors have the precision of the store. Storing
    /// them again does not change them, so a changed document needs vectors only for its new
    /// chunks.
    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError>;

    /// Returns one chunk with its document. If the document was replaced, the id may refer to
    /// another chunk.
    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError>;

    /// Counts the chunks of the documents that pass the filter.
    async fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// Returns the best chunks, best first. The list is empty if the request has neither words nor
    /// a vector, or has the limit 0.
    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError>;

    /// Returns whether searches by vector use an approximate index at present, which may miss a few
    /// of the nearest chunks. The default implementation returns false.
    fn is_approximate(&self) -> bool {
        false
    }

    /// Moves all written data to its final place. A database in a file is then complete in that one
    /// file, which can be copied alone. Call it after the last write; the store stays usable.
    ///
    /// # Errors
    ///
    /// Returns [`DatabaseError::Busy`](marquetry_database::DatabaseError::Busy) if other
    /// connections prevent it; no data is lost.
    async fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
