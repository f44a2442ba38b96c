//! The engine: its errors, and the setup of connections.
//!
//! Futures of a local libSQL database do their work when they are polled for the first time, so
//! that [`wait`] blocks.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use libsql::{Connection, Error, Row, Value};
use serde::de::DeserializeOwned;

use super::row::{Column, converted};
use crate::DatabaseError;

/// Longest wait of a connection for a locked database.
const BUSY: Duration = Duration::from_secs(10);

/// Longest wait of [`checkpoint`] for other processes.
const ENDING: Duration = Duration::from_secs(1);

/// Converts an error of the engine.
pub fn error(error: Error) -> DatabaseError {
    match &error {
        Error::SqliteFailure(code, message) => match code & 0xff {
            5 | 6 => DatabaseError::Busy,
            8 => DatabaseError::ReadOnly,
            11 => DatabaseError::Damaged(message.clone()),
            26 => DatabaseError::Unusable(
                "it is not a database; restore it from a copy, or name another file".to_owned(),
            ),
            13 => DatabaseError::Full,
            _ => DatabaseError::engine(error),
        },
        _ => DatabaseError::engine(error),
    }
}

/// Sets up a connection.
pub(super) fn prepare(connection: &Connection, read_only: bool) -> Result<(), DatabaseError> {
    connection.busy_timeout(BUSY).map_err(error)?;
    if read_only {
        return Ok(());
    }
    // In WAL mode `NORMAL` survives a killed process; a power failure may cost the last commits,
    // and damages nothing.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";
    let started = Instant::now();
    loop {
        match wait(connection.execute_batch(pragmas)).map_err(error) {
            // If several processes create a database at once, SQLite returns "busy" to one of them
            // without waiting.
            Err(DatabaseError::Busy) if started.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done.map(drop),
        }
    }
}

/// Checks the tables, as [`LibsqlFile::check_tables`](super::LibsqlFile::check_tables) does.
pub(super) fn check_tables(connection: &Connection, ours: &[&str]) -> Result<(), DatabaseError> {
    // Another process may be creating or closing it.
    connection.busy_timeout(BUSY).map_err(error)?;
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' \
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'libsql\\_%' ESCAPE '\\' ORDER BY name";
    let tables = select(connection, sql, (), |row| get::<String>(row, 0))?;
    let Some(table) = tables.first() else { return Ok(()) };
    if tables.iter().any(|table| ours.contains(&table.as_str())) {
        return Ok(());
    }
    Err(DatabaseError::Unusable(format!(
        "it is a database of another program, with a table {table:?}; name another file"
    )))
}

/// Limits the size of the database, in bytes, for writes of this connection.
///
/// # Errors
///
/// Returns an error if the database fails.
pub fn limit(connection: &Connection, bytes: u64) -> Result<(), DatabaseError> {
    let page = number(connection, "PRAGMA page_size")?.unwrap_or(4_096).max(1);
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
    wait(connection.query(&format!("PRAGMA max_page_count = {}", pages.max(1)), ()))
        .map_err(error)?;
    Ok(())
}

/// Moves the log (`-wal`) into the file, so that the file alone is complete.
///
/// # Errors
///
/// Returns an error if other connections use the file ([`DatabaseError::Busy`]); the rest then
/// stays in the log.
pub fn checkpoint(connection: &Connection) -> Result<(), DatabaseError> {
    connection.busy_timeout(ENDING).map_err(error)?;
    let busy = number(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    connection.busy_timeout(BUSY).map_err(error)?;
    if busy? == Some(0) { Ok(()) } else { Err(DatabaseError::Busy) }
}

/// Sets how many bytes of the file are mapped into memory.
///
/// # Errors
///
/// Returns an error if the database fails.
pub fn map(connection: &Connection, bytes: u64) -> Result<(), DatabaseError> {
    wait(connection.query(&format!("PRAGMA mmap_size = {bytes}"), ())).map_err(error)?;
    Ok(())
}

/// Returns the first column of the first row as a number; None without rows.
///
/// # Errors
///
/// Returns an error if the engine fails.
pub fn number(connection: &Connection, sql: &str) -> Result<Option<i64>, DatabaseError> {
    let mut rows = wait(connection.query(sql, ())).map_err(error)?;
    match wait(rows.next()).map_err(error)? {
        Some(row) => get(&row, 0).map(Some),
        None => Ok(None),
    }
}

/// Runs work in a transaction that begins with the statement `begin`; an error rolls it back.
///
/// # Errors
///
/// Returns an error if the database fails.
pub fn transaction<T, E: From<DatabaseError>>(
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
        // Some errors have rolled back already; otherwise closing the connection does.
        let _ = wait(connection.execute("ROLLBACK", ()));
    }
    done
}

/// Returns all rows of a query, each converted by `read`.
///
/// # Errors
///
/// Returns an error if the engine or `read` fails.
pub fn select<T, E: From<DatabaseError>>(
    connection: &Connection,
    sql: &str,
    params: impl libsql::params::IntoParams,
    read: impl Fn(&Row) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut rows = wait(connection.query(sql, params)).map_err(error)?;
    let mut all = Vec::new();
    while let Some(row) = wait(rows.next()).map_err(error)? {
        all.push(read(&row)?);
    }
    Ok(all)
}

/// Returns a column of a row of a file, counted from 0. The engine's own conversion panics at the
/// types that a damaged file may have.
///
/// # Errors
///
/// Returns an error if its value has another type ([`DatabaseError::Damaged`]).
pub fn get<T: Column>(row: &libsql::Row, column: i32) -> Result<T, DatabaseError> {
    converted(value(row, column)?, column)
}

/// Returns the value of a column. The binding panics at a text that is not UTF-8, which a damaged
/// file may have.
pub(super) fn value(row: &libsql::Row, column: i32) -> Result<Value, DatabaseError> {
    catch_unwind(AssertUnwindSafe(|| row.get_value(column)))
        .map_err(|_| DatabaseError::damaged(format_args!("column {column} of a row is not UTF-8")))?
        .map_err(error)
}

/// Reads a column that holds a text as a blob.
///
/// # Errors
///
/// Returns an error if the database fails.
pub fn text(row: &Row, column: i32) -> Result<String, DatabaseError> {
    let bytes: Vec<u8> = get(row, column)?;
    String::from_utf8(bytes).map_err(|error| DatabaseError::Damaged(error.to_string()))
}

/// Reads a column that holds JSON.
///
/// # Errors
///
/// Returns an error if it does not parse ([`DatabaseError::Damaged`]).
pub fn json<T: DeserializeOwned>(row: &Row, column: i32) -> Result<T, DatabaseError> {
    let text: String = get(row, column)?;
    serde_json::from_str(&text).map_err(|error| DatabaseError::Damaged(error.to_string()))
}

/// Returns the output of a future of the engine. Those of a local database work when they are
/// polled, and block.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::yield_now();
    }
}
