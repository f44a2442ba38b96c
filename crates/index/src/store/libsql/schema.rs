//! The tables, and the checks before they are used.

use libsql::{Connection, params};
use marquetry_database::{
    DatabaseError,
    libsql::{LibsqlFile, Schema, error, get, number, transaction, wait},
};

use crate::{EmbeddingModel, types::StoreError};

/// The tables. `FORGET_TABLES` drops those of every version so far. Raise the version if the tables
/// change, or the meaning of their values, or the rules that derive terms from texts.
const SCHEMA: Schema = Schema {
    settings: "rag_setting",
    version: 5,
    tables: TABLES,
    // Terms are made when a document is indexed, so an older index cannot be read.
    migrations: &[],
};

/// Tables that identify a database of this program.
pub(super) const OURS: [&str; 2] = ["rag_setting", "record_setting"];

const TABLES: &str = "
CREATE TABLE rag_setting (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- URIs and contents are blobs, since a text that holds a NUL does not come back whole.
-- A deleted document stays as a number and a URI: other processes see the deletion, and the number is not used again.
CREATE TABLE rag_document (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    uri BLOB NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    live INTEGER NOT NULL,
    labels BLOB NOT NULL,
    fields TEXT NOT NULL
);
CREATE INDEX rag_document_revision ON rag_document (revision);
CREATE TABLE rag_chunk (
    document INTEGER NOT NULL,
    place INTEGER NOT NULL,
    fields TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (document, place)
);
-- The vectors and terms from which the index in memory is made.
CREATE TABLE rag_rows (document INTEGER PRIMARY KEY, count INTEGER NOT NULL, rows BLOB NOT NULL);
CREATE TABLE rag_term (number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
";

const FORGET_TABLES: &str = "
DROP TABLE rag_setting; DROP TABLE rag_document; DROP TABLE rag_chunk; DROP TABLE rag_rows; DROP TABLE rag_term;
";

/// Checks that version and model are supported. Changes nothing.
pub(super) fn check_readable(
    file: &LibsqlFile,
    connection: &Connection,
    model: &EmbeddingModel,
) -> Result<(), StoreError> {
    file.check_tables(&OURS)?;
    if !SCHEMA.exists(connection)? {
        return Err(DatabaseError::ReadOnly.into());
    }
    SCHEMA.check(connection)?;
    match stored_model(connection)? {
        Some(stored) if stored != *model => {
            Err(StoreError::OtherModel { stored, wanted: model.clone() })
        }
        _ => Ok(()),
    }
}

/// Creates missing tables, and refuses tables that cannot be used.
///
/// With `reset`, deletes data of another model or of an older version.
pub(super) fn check(
    connection: &Connection,
    model: &EmbeddingModel,
    reset: bool,
) -> Result<(), StoreError> {
    transaction(connection, "BEGIN IMMEDIATE", || {
        let mut exists = SCHEMA.exists(connection)?;
        if exists
            && reset
            && matches!(SCHEMA.check(connection), Err(DatabaseError::OlderSchema { .. }))
        {
            wait(connection.execute_batch(FORGET_TABLES)).map_err(error)?;
            exists = false;
        }
        if !exists {
            SCHEMA.create(connection)?;
            let set = "INSERT INTO rag_setting VALUES ('revision', 0)";
            wait(connection.execute(set, ())).map_err(error)?;
        }
        SCHEMA.check(connection)?;
        let empty = number(connection, "SELECT count(*) FROM rag_document WHERE live")? == Some(0);
        match stored_model(connection)? {
            Some(stored) if stored == *model => Ok(()),
            Some(stored) if !empty && !reset => {
                Err(StoreError::OtherModel { stored, wanted: model.clone() })
            }
            _ => {
                let forget = "
                    UPDATE rag_setting SET value = value + 1 WHERE name = 'revision';
                    UPDATE rag_document SET live = 0, labels = x'', fields = '', revision =
                        (SELECT value FROM rag_setting WHERE name = 'revision');
                    DELETE FROM rag_chunk;
                    DELETE FROM rag_rows;";
                wait(connection.execute_batch(forget)).map_err(error)?;
                let set =
                    "INSERT OR REPLACE INTO rag_setting VALUES ('model', ?), ('dimension', ?)";
                let dimension = model.dimension as i64;
                wait(connection.execute(set, params![model.identity.clone(), dimension]))
                    .map_err(error)?;
                Ok(())
            }
        }
    })
}

/// Returns the model that made the vectors.
pub(super) fn stored_model(connection: &Connection) -> Result<Option<EmbeddingModel>, StoreError> {
    let sql = "SELECT m.value, d.value FROM rag_setting m, rag_setting d \
        WHERE m.name = 'model' AND d.name = 'dimension'";
    let mut rows = wait(connection.query(sql, ())).map_err(error)?;
    let Some(row) = wait(rows.next()).map_err(error)? else { return Ok(None) };
    let identity: String = get(&row, 0)?;
    let dimension: i64 = get(&row, 1)?;
    let dimension = usize::try_from(dimension)
        .map_err(|_| StoreError::damaged(format_args!("the dimension is {dimension}")))?;
    Ok(Some(EmbeddingModel { identity, dimension }))
}
