//! The index of vectors, which is created in the background.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::Transaction;
use marquetry_database::{DatabaseError, postgres::PostgresPool};
use tokio_postgres::Client;

use super::half::HalfVector;
use crate::types::StoreError;

/// Name of the index.
const INDEX: &str = "rag_vector_embedding";

/// Returns whether the index is complete; no row if our schema has no such table.
const IS_VALID: &str = "SELECT indisvalid FROM pg_index \
    WHERE indexrelid = to_regclass(quote_ident(current_schema()) || '.' || $1::text)";

/// A lock so that only one process creates the index of these tables. Other programs are unlikely
/// to use this number.
const LOCK: &str = "SELECT pg_try_advisory_lock(1836151409::bigint << 32 | \
    to_regclass(quote_ident(current_schema()) || '.rag_vector')::oid::bigint)";

/// Pause before another attempt, or another check whether a different process has created the
/// index.
const PAUSE: Duration = Duration::from_secs(30);

/// The index of vectors. Until it is complete, all vectors are compared one by one.
pub(super) struct VectorIndex {
    pool: Arc<PostgresPool>,
    dimension: usize,
    /// See [`PostgresOptions::scan_up_to`](super::PostgresOptions::scan_up_to).
    scan_up_to: u32,
    creation: Arc<Creation>,
}

/// The progress of the creation of the index, as this process knows it.
#[derive(Default)]
struct Creation {
    is_valid: AtomicBool,
    /// Whether a task of this process is creating the index, or was refused permission.
    is_in_progress: AtomicBool,
    /// The last error.
    problem: Mutex<Option<String>>,
}

impl VectorIndex {
    pub(super) fn new(pool: Arc<PostgresPool>, dimension: usize, scan_up_to: u32) -> Self {
        Self { pool, dimension, scan_up_to, creation: Arc::default() }
    }

    /// Returns whether a database with this number of chunks needs an index.
    fn is_wanted(&self, chunks: i64) -> bool {
        chunks > self.scan_up_to.into() && self.dimension <= HalfVector::MAX_INDEXED
    }

    /// Returns whether a search of this process has found the index complete.
    pub(super) fn is_valid(&self) -> bool {
        self.creation.is_valid.load(Ordering::Relaxed)
    }

    /// Returns whether the index can be used in a database with this number of chunks. Starts
    /// creating a missing one.
    pub(super) async fn serves(
        &self,
        transaction: &Transaction<'_>,
        chunks: i64,
    ) -> Result<bool, StoreError> {
        if !self.is_wanted(chunks) {
            return Ok(false);
        }
        if !self.creation.is_valid.load(Ordering::Relaxed) {
            let statement = transaction.prepare_cached(IS_VALID).await?;
            let found = transaction.query_opt(&statement, &[&INDEX]).await?;
            if !found.map_or(Ok(false), |row| row.try_get(0))? {
                self.create_if_needed(chunks);
                return Ok(false);
            }
            self.creation.is_valid.store(true, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Creates the index in the background, if a database with this number of chunks needs one and
    /// lacks it.
    pub(super) fn create_if_needed(&self, chunks: i64) {
        let creation = &self.creation;
        if !self.is_wanted(chunks)
            || creation.is_valid.load(Ordering::Relaxed)
            || creation.is_in_progress.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let pool = Arc::clone(&self.pool);
        let creation = Arc::clone(creation);
        tokio::spawn(async move {
            match create(&pool).await {
                Ok(true) => creation.is_valid.store(true, Ordering::Relaxed),
                Ok(false) => {
                    drop(pool);
                    tokio::time::sleep(PAUSE).await;
                }
                // The next attempt would be refused as well. If another process creates the index,
                // it is used.
                Err(failure @ DatabaseError::Denied(_)) => return creation.log(failure),
                // Another attempt may succeed: the disk may be full now, or the connection may be
                // lost.
                Err(failure) => {
                    creation.log(failure);
                    drop(pool);
                    tokio::time::sleep(PAUSE).await;
                }
            }
            creation.is_in_progress.store(false, Ordering::Relaxed);
        });
    }
}

impl Creation {
    /// Logs why the index was not created, once for each reason.
    fn log(&self, failure: DatabaseError) {
        let problem = failure.to_string();
        let mut last = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&problem) {
            tracing::warn!(
                %problem,
                "failed to create the vector index; until it exists, each search compares all vectors one by one"
            );
            *last = Some(problem);
        }
    }
}

/// Creates the index in one step, which takes a fraction of the time of adding vectors one by one.
/// Others can read and write meanwhile. Returns false if another process is creating it.
async fn create(pool: &PostgresPool) -> Result<bool, DatabaseError> {
    let client = pool.connect().await?;
    // Creating it may exceed the usual statement timeout, and waits for current transactions.
    client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
    let is_ours: Option<bool> = client.query_one(LOCK, &[]).await?.try_get(0)?;
    if is_ours != Some(true) {
        return Ok(false);
    }
    match is_valid(&client).await? {
        Some(true) => return Ok(true),
        // Another process was interrupted while it created the index.
        Some(false) => {
            client.batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")).await?;
        }
        None => {}
    }
    let create = format!(
        "CREATE INDEX CONCURRENTLY {INDEX} ON rag_vector USING hnsw (embedding halfvec_cosine_ops)"
    );
    client.batch_execute(&create).await?;
    Ok(is_valid(&client).await? == Some(true))
}

async fn is_valid(client: &Client) -> Result<Option<bool>, DatabaseError> {
    let found = client.query_opt(IS_VALID, &[&INDEX]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}
