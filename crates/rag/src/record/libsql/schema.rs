//! The tables, and what must be so before they are used.

use libsql::Connection;

use crate::{
    StoreError,
    store::libsql::{
        schema::{error, number, transaction},
        wait,
    },
};

/// Raised when the tables change, or the rules by which labels are made of records.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE record_setting (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- What may hold a NUL is a blob, since such a text does not come back whole.
-- `lies_in` is the place where a record lies, `place` the one that a group is.
CREATE TABLE record_item (
    number INTEGER PRIMARY KEY,
    uri BLOB NOT NULL UNIQUE,
    organization BLOB NOT NULL,
    revision INTEGER NOT NULL,
    place BLOB UNIQUE,
    lies_in BLOB,
    fields TEXT NOT NULL
);
CREATE INDEX record_item_lies_in ON record_item (lies_in) WHERE lies_in IS NOT NULL;
CREATE TABLE record_label (
    label INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (label, item)
) WITHOUT ROWID;
CREATE INDEX record_label_item ON record_label (item, label);
CREATE TABLE record_content (item INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
INSERT INTO record_setting VALUES ('schema', 1);
";

/// Makes the tables if there are none, and refuses those that we cannot use.
pub(super) fn check(connection: &Connection, read_only: bool) -> Result<(), StoreError> {
    let begin = if read_only { "BEGIN" } else { "BEGIN IMMEDIATE" };
    transaction(connection, begin, || {
        let there = "SELECT count(*) FROM sqlite_schema WHERE name = 'record_setting'";
        if number(connection, there)? == Some(0) {
            wait(connection.execute_batch(TABLES)).map_err(error)?;
        }
        match number(connection, "SELECT value FROM record_setting WHERE name = 'schema'")? {
            Some(VERSION) => Ok(()),
            Some(found) if found > VERSION => {
                Err(StoreError::NewerSchema { found, known: VERSION })
            }
            _ => Err(StoreError::Damaged("the records have no known schema version".to_owned())),
        }
    })
}
