//! Stores of documents and their chunks.

#[cfg(any(feature = "libsql", feature = "postgres"))]
mod codec;
#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub mod conformance;
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

/// A place that keeps documents with their chunks, and finds chunks by vector and by words.
///
/// A document's chunks are replaced as one: a reader sees all the old or all the new ones, never a mixture and never
/// none, also when the process dies in between. Filters are exact: they are applied before anything is ranked, so
/// that a narrow scope gives all it has. A call that is dropped before it answers is done as a whole or not at all; a
/// database on a server is told to stop what it does for nobody.
///
/// `conformance::check`, behind the feature `conformance`, tests a store.
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

    /// Documents that pass the filter, in the order of their URIs, from the first after `after`. Their content
    /// hashes tell an indexer which files are unchanged.
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
    /// Vectors are as exact as they are kept, and stored again they stay the same: a change of a document
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
    /// [`DatabaseError::Busy`](marquetry_database::DatabaseError::Busy) if others are still at it, so that not all was moved; nothing is lost.
    async fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
