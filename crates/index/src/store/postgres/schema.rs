//! The tables of chunks.

use marquetry_database::{DatabaseError, postgres::PostgresPool};
use tokio_postgres::Row;

use super::half::HalfVector;
use crate::{EmbeddingModel, types::StoreError};

/// Version of the tables. Tables of other versions cannot be read. Raise the version if the tables
/// change, or the rules that derive terms from texts.
const VERSION: i64 = 5;

/// Texts are stored as bytes: PostgreSQL's text cannot contain a NUL, and in some databases not
/// every character.
///
/// - `rag_state` has one row. Writers lock it, so that only one writes at a time.
/// - `rag_document`: `key` is the hash of the URI, which may be too long for an index; `labels` are
///   the values of filters.
/// - `rag_chunk`: `packed` is the vector in the form of the other stores, and the chunk's terms.
///   Vectors that are scanned are in `rag_vector`.
/// - `rag_vector` is created again for each model. It always exists, so that no table of another
///   schema is used instead.
/// - `rag_term`: `chunks` is the number of chunks with the term.
/// - `rag_reader` and `rag_reader_term`: for each label of a reader, the number of readable chunks,
///   their total length, and the number of them that have a term. They determine the weights of
///   words, so that scores reveal nothing about unreadable chunks.
/// - `rag_posting`: the chunks of a block of documents that have a term, with the frequency of the
///   term and the length of the chunk.
const TABLES: &str = "
    CREATE TABLE rag_state (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        version bigint NOT NULL,
        model bytea NOT NULL,
        dimension bigint NOT NULL,
        chunks bigint NOT NULL DEFAULT 0,
        length bigint NOT NULL DEFAULT 0,
        block integer NOT NULL DEFAULT 0,
        filled bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE rag_document (
        number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key bytea NOT NULL UNIQUE,
        uri bytea NOT NULL,
        labels bigint[] NOT NULL,
        readers bigint[] NOT NULL,
        fields bytea NOT NULL,
        block integer NOT NULL,
        chunks integer NOT NULL
    );
    CREATE INDEX rag_document_labels ON rag_document USING gin (labels);
    CREATE INDEX rag_document_uri ON rag_document (substring(uri from 1 for 1000));
    CREATE TABLE rag_chunk (
        document integer NOT NULL,
        place integer NOT NULL,
        packed bytea NOT NULL,
        fields bytea NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (document, place)
    );
    CREATE TABLE rag_vector ();
    CREATE TABLE rag_term (
        number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        term bytea NOT NULL UNIQUE,
        chunks integer NOT NULL
    ) WITH (fillfactor = 70);
    CREATE TABLE rag_reader (
        label bigint PRIMARY KEY,
        chunks bigint NOT NULL,
        length bigint NOT NULL
    ) WITH (fillfactor = 70);
    CREATE TABLE rag_reader_term (
        term integer NOT NULL,
        label bigint NOT NULL,
        chunks integer NOT NULL,
        PRIMARY KEY (term, label)
    ) WITH (fillfactor = 70);
    CREATE TABLE rag_posting (
        term integer NOT NULL,
        block integer NOT NULL,
        postings bytea NOT NULL,
        PRIMARY KEY (term, block)
    ) WITH (fillfactor = 70);
    ALTER TABLE rag_chunk ALTER COLUMN packed SET STORAGE EXTERNAL;
    ALTER TABLE rag_posting ALTER COLUMN postings SET STORAGE EXTERNAL;
";

/// Drops the tables of every version so far.
const FORGET_TABLES: &str = "DROP TABLE rag_state, rag_document, rag_chunk, rag_vector, rag_term, rag_posting; \
    DROP TABLE IF EXISTS rag_reader, rag_reader_term;";

/// The row of `rag_state`, which writers and searches read first.
pub(super) struct StateRow {
    /// Number of all chunks.
    pub(super) chunks: i64,
    /// Number of terms of all chunks.
    pub(super) length: i64,
    /// Block of postings to which new documents are added.
    pub(super) block: i32,
    /// Number of chunks in that block.
    pub(super) filled: i64,
}

/// Reads a [`StateRow`].
pub(super) const SELECT_STATE: &str =
    "SELECT model, dimension, chunks, length, block, filled FROM rag_state";

impl StateRow {
    /// Reads the row, and refuses another model: another process may have reset the database in the
    /// meantime.
    pub(super) fn read(row: &Row, model: &EmbeddingModel) -> Result<Self, StoreError> {
        let stored = stored_model(row)?;
        if stored != *model {
            return Err(StoreError::OtherModel { stored, wanted: model.clone() });
        }
        Ok(Self {
            chunks: row.try_get(2)?,
            length: row.try_get(3)?,
            block: row.try_get(4)?,
            filled: row.try_get(5)?,
        })
    }
}

/// Creates missing tables, and refuses tables that cannot be used.
pub(super) async fn check(
    pool: &PostgresPool,
    model: &EmbeddingModel,
    reset: bool,
) -> Result<(), StoreError> {
    if model.dimension == 0 || model.dimension > HalfVector::MAX_DIMENSION {
        let max = HalfVector::MAX_DIMENSION;
        let message =
            format!("vectors have {} numbers, and pgvector's have 1 to {max}", model.dimension);
        return Err(DatabaseError::Unusable(message).into());
    }
    extension(pool).await?;
    let version = format!(
        "{TABLES} INSERT INTO rag_state (version, model, dimension) VALUES ({VERSION}, '', 0)"
    );
    pool.create_tables("rag_state", &version).await?;
    if reset {
        let is_older = format!("SELECT version BETWEEN 1 AND {VERSION} - 1 FROM rag_state");
        pool.run_if(&is_older, &format!("{FORGET_TABLES} {version}")).await?;
    }

    let mut client = pool.get().await?;
    // Writers lock the row; most readers need not wait for them.
    let row = client.query_one(VERSION_AND_MODEL, &[]).await?;
    if model_of_version(&row)? == *model {
        client.done();
        return Ok(());
    }
    let transaction = client.transaction().await?;
    let row = transaction.query_one(&format!("{VERSION_AND_MODEL} FOR UPDATE"), &[]).await?;
    let stored = model_of_version(&row)?;
    if stored != *model {
        let some = transaction.query_opt("SELECT 1 FROM rag_document LIMIT 1", &[]).await?;
        if some.is_some() && !reset {
            return Err(StoreError::OtherModel { stored, wanted: model.clone() });
        }
        // Rows are deleted and tables not truncated, so that concurrent readers still see all old
        // rows.
        let forget = format!(
            "DELETE FROM rag_document; DELETE FROM rag_chunk; DELETE FROM rag_term; DELETE FROM rag_posting;
             DELETE FROM rag_reader; DELETE FROM rag_reader_term;
             DROP TABLE rag_vector;
             CREATE TABLE rag_vector (
                document integer NOT NULL,
                place integer NOT NULL,
                embedding halfvec({}) NOT NULL,
                PRIMARY KEY (document, place)
             );
             ALTER TABLE rag_vector ALTER COLUMN embedding SET STORAGE PLAIN",
            model.dimension
        );
        transaction.batch_execute(&forget).await?;
        let set = "UPDATE rag_state SET model = $1, dimension = $2, chunks = 0, length = 0, block = 0, filled = 0";
        transaction.execute(set, &[&model.identity.as_bytes(), &(model.dimension as i64)]).await?;
    }
    transaction.commit().await?;
    client.done();
    Ok(())
}

const VERSION_AND_MODEL: &str = "SELECT model, dimension, version FROM rag_state";

/// Returns the model of tables that have the current version.
fn model_of_version(row: &Row) -> Result<EmbeddingModel, StoreError> {
    let found: i64 = row.try_get(2)?;
    match found {
        VERSION => stored_model(row),
        newer if newer > VERSION => {
            Err(DatabaseError::NewerSchema { found, known: VERSION }.into())
        }
        older if older > 0 => Err(StoreError::OlderSchema { found, needed: VERSION }),
        _ => Err(StoreError::damaged(format!("its schema version is {found}"))),
    }
}

/// Creates the extension pgvector if it is missing.
async fn extension(pool: &PostgresPool) -> Result<(), StoreError> {
    const NEEDED: &str = "the extension `vector` (pgvector) 0.8 or newer is needed";
    let version = "SELECT extversion FROM pg_extension WHERE extname = 'vector'";
    let client = pool.get().await?;
    let mut found = client.query_opt(version, &[]).await?;
    if found.is_none() {
        // If two processes create it at the same time, the second one fails, but the extension
        // exists.
        let made = client.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await;
        found = client.query_opt(version, &[]).await?;
        if let (None, Err(error)) = (&found, made) {
            let why = match DatabaseError::from(error) {
                DatabaseError::Engine(why) => why.to_string(),
                DatabaseError::Denied(why) => why,
                other => return Err(other.into()),
            };
            return Err(DatabaseError::Unusable(format!(
                "{NEEDED}, and creating it failed: {why}"
            ))
            .into());
        }
    }
    client.done();
    let Some(found) = found else {
        return Err(DatabaseError::Unusable(NEEDED.to_owned()).into());
    };
    let found: String = found.try_get(0)?;
    let mut parts = found.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next(), parts.next()) < (Some(0), Some(8)) {
        return Err(DatabaseError::Unusable(format!("{NEEDED}, and it is {found}")).into());
    }
    Ok(())
}

fn stored_model(row: &Row) -> Result<EmbeddingModel, StoreError> {
    let identity: Vec<u8> = row.try_get(0)?;
    let identity = String::from_utf8(identity).map_err(StoreError::damaged)?;
    let dimension: i64 = row.try_get(1)?;
    let dimension = usize::try_from(dimension)
        .map_err(|_| StoreError::damaged(format!("the dimension is {dimension}")))?;
    Ok(EmbeddingModel { identity, dimension })
}
