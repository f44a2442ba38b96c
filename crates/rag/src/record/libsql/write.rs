//! Changing records.

use libsql::{Connection, params, params::IntoParams};

use super::query::{Found, find};
use crate::{
    StoreError,
    record::{
        ContentChange, Expected, Put, Record, RecordStoreError, labels::labels, path::is_root,
        store::check_expected,
    },
    store::libsql::{
        schema::{error, transaction},
        select, wait,
    },
};

pub(super) fn put_all(
    connection: &Connection,
    puts: Vec<(String, Put)>,
) -> Result<Vec<Record>, RecordStoreError> {
    transaction(connection, "BEGIN IMMEDIATE", || {
        puts.into_iter().map(|(uri, put_one)| put(connection, &uri, put_one)).collect()
    })
}

pub(super) fn delete(
    connection: &Connection,
    uri: &str,
    revision: Option<u64>,
) -> Result<Option<Record>, RecordStoreError> {
    transaction(connection, "BEGIN IMMEDIATE", || {
        let Some(Found { number, record }) = find(connection, uri)? else { return Ok(None) };
        if let Some(revision) = revision {
            check_expected(uri, Expected::Revision(revision), Some(record.revision))?;
        }
        check_empty(connection, &record)?;
        for table in
            ["record_label WHERE item", "record_content WHERE item", "record_item WHERE number"]
        {
            execute(connection, &format!("DELETE FROM {table} = ?"), params![number])?;
        }
        Ok(Some(record))
    })
}

fn put(connection: &Connection, uri: &str, put: Put) -> Result<Record, RecordStoreError> {
    let Put { mut record, content, expected } = put;
    let old = find(connection, uri)?;
    check_expected(uri, expected, old.as_ref().map(|old| old.record.revision))?;
    let (place, lies_in) = (record.is_place(), record.lies_in());
    if let Some(old) = old.as_ref().filter(|old| old.record.is_place() != place) {
        check_empty(connection, &old.record)?;
    }
    let is_there = |place: &str| {
        let sql = "SELECT 1 FROM record_item WHERE place = ? AND uri <> ?";
        is_any(connection, sql, params![place.as_bytes(), uri.as_bytes()])
    };
    if let (Some(place), Some(path)) = (&place, record.path())
        && is_there(place)?
    {
        return Err(RecordStoreError::PathTaken { path });
    }
    if let (Some(lies_in), Some(group)) = (&lies_in, &record.group)
        && !is_root(group)
        && !is_there(lies_in)?
    {
        return Err(RecordStoreError::NoGroup { path: group.clone() });
    }
    record.revision = old.as_ref().map_or(0, |old| old.record.revision) + 1;
    if let Some(old) = &old {
        record.created = old.record.created;
    }
    let fields = serde_json::to_string(&record).map_err(StoreError::engine)?;
    let revision = i64::try_from(record.revision).map_err(StoreError::engine)?;
    let bytes = |text: Option<String>| text.map(String::into_bytes);
    let sql = "INSERT INTO record_item (uri, organization, revision, place, lies_in, fields) \
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (uri) DO UPDATE SET revision = excluded.revision, \
        place = excluded.place, lies_in = excluded.lies_in, fields = excluded.fields RETURNING number";
    let organization = record.organization.as_bytes();
    let values =
        params![uri.as_bytes(), organization, revision, bytes(place), bytes(lies_in), fields];
    let number = select(connection, sql, values, |row| row.get::<i64>(0).map_err(error))?.pop();
    let number = number.ok_or_else(|| StoreError::Damaged("a record has no number".to_owned()))?;

    let new = labels(&record);
    // Most changes leave all that a record is found by as it is.
    if old.is_none_or(|old| labels(&old.record) != new) {
        execute(connection, "DELETE FROM record_label WHERE item = ?", params![number])?;
        for label in new {
            let sql = "INSERT INTO record_label (label, item) VALUES (?, ?)";
            execute(connection, sql, params![label, number])?;
        }
    }
    match content {
        ContentChange::Keep => {}
        ContentChange::Set(bytes) => {
            let sql = "INSERT OR REPLACE INTO record_content (item, bytes) VALUES (?, ?)";
            execute(connection, sql, params![number, bytes])?;
        }
        ContentChange::Remove => {
            execute(connection, "DELETE FROM record_content WHERE item = ?", params![number])?;
        }
    }
    Ok(record)
}

fn check_empty(connection: &Connection, group: &Record) -> Result<(), RecordStoreError> {
    let (Some(place), Some(path)) = (group.is_place(), group.path()) else { return Ok(()) };
    let sql = "SELECT 1 FROM record_item WHERE lies_in = ? LIMIT 1";
    if is_any(connection, sql, params![place.as_bytes()])? {
        return Err(RecordStoreError::NotEmpty { path });
    }
    Ok(())
}

fn is_any(connection: &Connection, sql: &str, params: impl IntoParams) -> Result<bool, StoreError> {
    Ok(!select(connection, sql, params, |_| Ok(()))?.is_empty())
}

fn execute(connection: &Connection, sql: &str, params: impl IntoParams) -> Result<(), StoreError> {
    wait(connection.execute(sql, params)).map(drop).map_err(error)
}
