//! The tables, and what must be so before they are used.

use std::time::{Duration, Instant};

use libsql::{Connection, Error, params};

use super::wait;
use crate::store::{EmbeddingModel, StoreError};

/// Raised when the tables change, what their values hold, or the rules by which terms are made of
/// texts.
const VERSION: i64 = 3;

/// Who finds the database locked waits this long.
const BUSY: Duration = Duration::from_secs(10);

/// Who ends waits this long for others at the file.
const ENDING: Duration = Duration::from_secs(1);

const TABLES: &str = "
CREATE TABLE rag_setting (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- URIs and contents are blobs, since a text that holds a NUL does not come back whole.
-- A document that was deleted stays as a number and a URI, so that other processes hear of it and nobody gets its number.
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
-- What the index in memory is made of: vectors and terms.
CREATE TABLE rag_rows (document INTEGER PRIMARY KEY, count INTEGER NOT NULL, rows BLOB NOT NULL);
CREATE TABLE rag_term (number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
";

/// Of every version so far.
const FORGET_TABLES: &str = "
DROP TABLE rag_setting; DROP TABLE rag_document; DROP TABLE rag_chunk; DROP TABLE rag_rows; DROP TABLE rag_term;
";

/// What [`StoreError`] an engine's error is.
pub(crate) fn error(error: Error) -> StoreError {
    match &error {
        Error::SqliteFailure(code, message) => match code & 0xff {
            5 | 6 => StoreError::Busy,
            8 => StoreError::ReadOnly,
            11 => StoreError::Damaged(message.clone()),
            26 => StoreError::Unusable("it is no database; name another file".to_owned()),
            13 => StoreError::Full,
            _ => StoreError::engine(error),
        },
        _ => StoreError::engine(error),
    }
}

/// What each connection needs.
pub(crate) fn prepare(connection: &Connection, read_only: bool) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY).map_err(error)?;
    if read_only {
        return Ok(());
    }
    // In WAL mode `NORMAL` survives a killed process; a power failure may cost the last commits, and damages nothing.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";
    let started = Instant::now();
    loop {
        match wait(connection.execute_batch(pragmas)).map_err(error) {
            // Where several make a database at once, SQLite asks one of them to let the others go first, and does not
            // wait by itself.
            Err(StoreError::Busy) if started.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done.map(drop),
        }
    }
}

/// Refuses a database that is somebody else's: one with tables, and none of ours.
///
/// # Errors
///
/// [`StoreError::Unusable`] with the name of one of the tables. Nothing was changed.
pub(crate) fn check_own(connection: &Connection) -> Result<(), StoreError> {
    // Another process may be making or ending it right now.
    connection.busy_timeout(BUSY).map_err(error)?;
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' \
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'libsql\\_%' ESCAPE '\\' \
        ORDER BY name IN ('rag_setting', 'record_setting') DESC, name LIMIT 1";
    let mut rows = wait(connection.query(sql, ())).map_err(error)?;
    let Some(row) = wait(rows.next()).map_err(error)? else { return Ok(()) };
    let table: String = row.get(0).map_err(error)?;
    if ["rag_setting", "record_setting"].contains(&table.as_str()) {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "it is a database of another program, with a table {table:?} and none of ours; name another file"
    )))
}

/// Refuses what we cannot read. Nothing is made or changed.
pub(super) fn check_readable(
    connection: &Connection,
    model: &EmbeddingModel,
) -> Result<(), StoreError> {
    check_own(connection)?;
    if number(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'rag_setting'")?
        == Some(0)
    {
        return Err(StoreError::ReadOnly);
    }
    check_version(connection)?;
    match stored_model(connection)? {
        Some(stored) if stored != *model => {
            Err(StoreError::OtherModel { stored, wanted: model.clone() })
        }
        _ => Ok(()),
    }
}

fn check_version(connection: &Connection) -> Result<(), StoreError> {
    match number(connection, "SELECT value FROM rag_setting WHERE name = 'schema'")? {
        Some(VERSION) => Ok(()),
        Some(found) if found > VERSION => Err(StoreError::NewerSchema { found, known: VERSION }),
        Some(found) if found > 0 => Err(StoreError::OlderSchema { found, needed: VERSION }),
        _ => Err(StoreError::Damaged("no known schema version".to_owned())),
    }
}

/// Makes the tables if there are none, and refuses those that we cannot use.
///
/// With `reset`, what was indexed with another model or by an older version is thrown away.
pub(super) fn check(
    connection: &Connection,
    model: &EmbeddingModel,
    reset: bool,
) -> Result<(), StoreError> {
    transaction(connection, "BEGIN IMMEDIATE", || {
        let there = "SELECT count(*) FROM sqlite_schema WHERE name = 'rag_setting'";
        let mut is_there = number(connection, there)? != Some(0);
        if is_there
            && reset
            && matches!(check_version(connection), Err(StoreError::OlderSchema { .. }))
        {
            wait(connection.execute_batch(FORGET_TABLES)).map_err(error)?;
            is_there = false;
        }
        if !is_there {
            wait(connection.execute_batch(TABLES)).map_err(error)?;
            let set = "INSERT INTO rag_setting VALUES ('schema', ?), ('revision', 0)";
            wait(connection.execute(set, params![VERSION])).map_err(error)?;
        }
        check_version(connection)?;
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

/// Keeps this connection from making the database larger than this.
pub(crate) fn limit(connection: &Connection, bytes: u64) -> Result<(), StoreError> {
    let page = number(connection, "PRAGMA page_size")?.unwrap_or(4_096).max(1);
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
    wait(connection.query(&format!("PRAGMA max_page_count = {}", pages.max(1)), ()))
        .map_err(error)?;
    Ok(())
}

/// Moves what is in the log (`-wal`) into the file, so that the file alone has everything.
///
/// # Errors
///
/// [`StoreError::Busy`] if others are still at the file; the rest stays in the log then, where nothing is lost.
pub(crate) fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(ENDING).map_err(error)?;
    let busy = number(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    connection.busy_timeout(BUSY).map_err(error)?;
    if busy? == Some(0) { Ok(()) } else { Err(StoreError::Busy) }
}

/// How much of the file is mapped into memory.
pub(super) fn map(connection: &Connection, bytes: u64) -> Result<(), StoreError> {
    wait(connection.query(&format!("PRAGMA mmap_size = {bytes}"), ())).map_err(error)?;
    Ok(())
}

/// The model that the vectors are from.
pub(super) fn stored_model(connection: &Connection) -> Result<Option<EmbeddingModel>, StoreError> {
    let sql = "SELECT m.value, d.value FROM rag_setting m, rag_setting d \
        WHERE m.name = 'model' AND d.name = 'dimension'";
    let mut rows = wait(connection.query(sql, ())).map_err(error)?;
    let Some(row) = wait(rows.next()).map_err(error)? else { return Ok(None) };
    let identity: String = row.get(0).map_err(error)?;
    let dimension: i64 = row.get(1).map_err(error)?;
    let dimension = usize::try_from(dimension)
        .map_err(|_| StoreError::Damaged(format!("the dimension is {dimension}")))?;
    Ok(Some(EmbeddingModel { identity, dimension }))
}

pub(crate) fn number(connection: &Connection, sql: &str) -> Result<Option<i64>, StoreError> {
    let mut rows = wait(connection.query(sql, ())).map_err(error)?;
    match wait(rows.next()).map_err(error)? {
        Some(row) => row.get(0).map(Some).map_err(error),
        None => Ok(None),
    }
}

/// Does all of it or nothing.
pub(crate) fn transaction<T, E: From<StoreError>>(
    connection: &Connection,
    begin: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    wait(connection.execute(begin, ())).map_err(error)?;
    let done = work().and_then(|done| {
        wait(connection.execute("COMMIT", ())).map_err(error)?;
        Ok(done)
    });
    if done.is_err() && !connection.is_autocommit() {
        // Some errors roll back by themselves; what remains is rolled back when the connection goes.
        let _ = wait(connection.execute("ROLLBACK", ()));
    }
    done
}
