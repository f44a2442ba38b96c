//! A store in a PostgreSQL database with pgvector.

mod filter;
mod half;
mod postings;
mod schema;
mod search;
mod vector_index;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_database::{
    DatabaseError,
    postgres::{Lease, Parameter, PoolOptions, PostgresPool},
};
use tokio_postgres::{IsolationLevel, Row};

use self::{
    filter::{Condition, key},
    vector_index::VectorIndex,
    writer::Batch,
};
use super::{ChunkStore, blocking, codec, fields::ChunkFields};
use crate::{
    EmbeddingModel,
    ranking::{Analyzer, Language},
    types::{
        ChunkId, Document, Filter, Hit, NewChunk, SearchRequest, StoreError, StoredChunk,
        check_documents, check_request,
    },
};

/// Options of a [`PostgresStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// Whether to delete the documents of another model or of an older version of this program.
    pub reset: bool,
    /// Maximum number of chunks whose vectors are compared one by one, which is exact; 20,000 by
    /// default, up to which an index is not faster (with 256 numbers each). If more chunks pass the
    /// filter, an approximate vector index is used. A database with more chunks gets such an index,
    /// which is created concurrently with reads and writes; until it is complete, all vectors are
    /// compared.
    pub scan_up_to: u32,
    /// Limits of the pool of connections.
    pub pool: PoolOptions,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { reset: false, scan_up_to: 20_000, pool: PoolOptions::default() }
    }
}

/// A store in a PostgreSQL database (15 or newer) with pgvector (0.8 or newer), which any number of
/// processes may use at once.
///
/// The names of its tables begin with `rag_`. They are in the first schema of the search path. Each
/// search sees one state of the database. Words are ranked exactly as in the other stores. If few
/// chunks pass the filter ([`PostgresOptions::scan_up_to`]), all their vectors are compared.
/// Otherwise an approximate index finds the nearest chunks, which are then ordered exactly; if the
/// index finds too few that pass the filter, all vectors are compared.
pub struct PostgresStore {
    model: EmbeddingModel,
    pool: Arc<PostgresPool>,
    index: VectorIndex,
    scan_up_to: u32,
}

impl PostgresStore {
    /// Opens the database at this URL, `postgres://user:password@host:port/database`, and creates
    /// missing tables. The connection to another machine uses TLS and checks the certificate
    /// against the roots in the file of `?sslrootcert=`, or else against Mozilla's.
    /// `?sslmode=disable` turns TLS off.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be used: [`StoreError::OtherModel`] if it has
    /// vectors of another model, which [`PostgresOptions::reset`] deletes;
    /// [`DatabaseError::Unusable`] if the URL is not valid, or the server lacks pgvector.
    pub async fn open(url: &str, model: EmbeddingModel) -> Result<Self, StoreError> {
        Self::open_with(url, model, PostgresOptions::default()).await
    }

    /// Opens the database at this URL, with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] would.
    pub async fn open_with(
        url: &str,
        model: EmbeddingModel,
        options: PostgresOptions,
    ) -> Result<Self, StoreError> {
        let pool = PostgresPool::new(url, options.pool)?;
        schema::check(&pool, &model, options.reset).await?;
        let pool = Arc::new(pool);
        let index = VectorIndex::new(Arc::clone(&pool), model.dimension, options.scan_up_to);
        Ok(Self { model, pool, index, scan_up_to: options.scan_up_to })
    }

    /// Checks a URL and the file of its `?sslrootcert=`, without connecting to the server.
    ///
    /// # Errors
    ///
    /// Returns [`DatabaseError::Unusable`] if the URL or the file is not valid.
    pub fn check_url(url: &str) -> Result<(), DatabaseError> {
        PostgresPool::new(url, PoolOptions::default()).map(drop)
    }

    /// Returns the pool, for stores of other data in the same database.
    pub fn pool(&self) -> &Arc<PostgresPool> {
        &self.pool
    }

    async fn get(&self) -> Result<Lease, StoreError> {
        Ok(self.pool.get().await?)
    }

    async fn select<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let client = self.get().await?;
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, parameters).await?;
        client.done();
        rows.iter().map(read).collect()
    }
}

#[async_trait]
impl ChunkStore for PostgresStore {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    fn is_approximate(&self) -> bool {
        self.index.is_valid()
    }

    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError> {
        check_documents(&self.model, &documents)?;
        let batch = blocking(move || Batch::new(documents)).await?;
        let mut client = self.get().await?;
        let written = batch.write(&mut client, &self.model, &self.index).await;
        client.done();
        written
    }

    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError> {
        let mut client = self.get().await?;
        let deleted = writer::delete(&mut client, &self.model, &Condition::new(filter)).await;
        client.done();
        deleted
    }

    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError> {
        let sql = "SELECT fields FROM rag_document WHERE key = $1";
        let found = self.select(sql, &[&key(uri)], |row| json(row, 0)).await?;
        Ok(found.into_iter().next())
    }

    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let condition = Condition::new(filter);
        // The index contains only the beginnings of URIs.
        let sql = format!(
            "SELECT d.fields FROM rag_document d WHERE ($1::bytea IS NULL OR d.uri > $1 AND \
             substring(d.uri from 1 for 1000) >= substring($1 from 1 for 1000)) AND {} \
             ORDER BY substring(d.uri from 1 for 1000), d.uri LIMIT $2",
            condition.sql(3)
        );
        let after = after.map(str::as_bytes);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.select(&sql, &condition.parameters(&[&after, &limit]), |row| json(row, 0)).await
    }

    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "SELECT d.number, c.place, d.chunks, c.fields, c.content FROM rag_document d \
            JOIN rag_chunk c ON c.document = d.number WHERE d.key = $1 ORDER BY c.place LIMIT $2";
        self.select(sql, &[&key(uri), &limit], |row| chunk(row, uri)).await
    }

    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError> {
        let sql = "SELECT d.number, c.place, d.chunks, c.fields, c.content, c.packed FROM rag_document d \
            JOIN rag_chunk c ON c.document = d.number WHERE d.key = $1 ORDER BY c.place";
        self.select(sql, &[&key(uri)], |row| {
            let encoded = codec::rows(row.try_get(5)?, self.model.dimension)
                .next()
                .ok_or_else(|| StoreError::damaged("a chunk has no row"))??;
            Ok(NewChunk::from_stored(chunk(row, uri)?, encoded.vector()))
        })
        .await
    }

    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
        let (Ok(document), Ok(place)) = (i32::try_from(id.document), i32::try_from(id.index))
        else {
            return Ok(None);
        };
        let sql = "SELECT d.number, c.place, d.chunks, c.fields, c.content, d.fields FROM rag_document d \
            JOIN rag_chunk c ON c.document = d.number WHERE d.number = $1 AND c.place = $2";
        let found = self.select(sql, &[&document, &place], document_and_chunk).await?;
        Ok(found.into_iter().next())
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let condition = Condition::new(filter);
        let sql = if condition.is_empty() {
            "SELECT chunks FROM rag_state".to_owned()
        } else {
            let condition = condition.sql(1);
            format!(
                "SELECT coalesce(sum(d.chunks), 0)::bigint FROM rag_document d WHERE {condition}"
            )
        };
        let counts = self
            .select(&sql, &condition.parameters(&[]), |row| Ok(row.try_get::<_, i64>(0)?))
            .await?;
        Ok(counts.into_iter().map(i64::cast_unsigned).sum())
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
        check_request(request, &self.model)?;
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        // All terms are looked up at once, so languages without documents cost little time.
        let Ok(languages) = Language::of_store(|_| Ok::<_, std::convert::Infallible>(true));
        let max = SearchRequest::MAX_TERMS;
        let words = Analyzer::default().question(&request.text, max, &languages);
        let mut client = self.get().await?;
        // All statements see one snapshot. Dropping the transaction ends it without waiting.
        let transaction = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        // After a failed search, other statements may still run.
        let found = search::search(
            &transaction,
            &self.model,
            request,
            words,
            &self.index,
            self.scan_up_to.into(),
        )
        .await?;
        drop(transaction);
        client.done();
        Ok(found)
    }
}

/// Reads a chunk from the columns document, place, count, fields, content.
fn chunk(row: &Row, uri: &str) -> Result<StoredChunk, StoreError> {
    let document = unsigned(row, 0)?;
    let index = unsigned(row, 1)?;
    let count = unsigned(row, 2)?;
    let fields: ChunkFields<'_> = json(row, 3)?;
    let content = String::from_utf8(row.try_get(4)?).map_err(StoreError::damaged)?;
    Ok(fields.chunk(ChunkId { document, index }, uri, content, count))
}

/// Reads an unsigned number, which PostgreSQL stores as a signed one.
fn unsigned(row: &Row, column: usize) -> Result<u32, StoreError> {
    Ok(row.try_get::<_, i32>(column)?.cast_unsigned())
}

/// Reads a chunk as [`chunk`] does, and the document from the columns after it.
fn document_and_chunk(row: &Row) -> Result<(Document, StoredChunk), StoreError> {
    let document: Document = json(row, 5)?;
    let chunk = chunk(row, &document.uri)?;
    Ok((document, chunk))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row, column: usize) -> Result<T, StoreError> {
    let bytes: &[u8] = row.try_get(column)?;
    serde_json::from_slice(bytes).map_err(StoreError::damaged)
}
