//! Writes of records.

use libsql::{Connection, params};

use marquetry_database::{
    DatabaseError,
    libsql::{Prepared, checkpoint, error, get, json, number, transaction, wait},
};

use super::query::{self, NumberedRecord};
use crate::{
    ContentChange, Expected, Put, Record, RecordFilter, RecordStoreError,
    labels::labels,
    path::is_root,
    store::{check_at_most, check_expected, check_unused},
};

/// The connection for writing, with its prepared statements.
pub(super) struct Writer {
    find: Prepared,
    is_place: Prepared,
    is_full: Prepared,
    put: Prepared,
    drop: Prepared,
    add_labels: Prepared,
    drop_labels: Prepared,
    put_content: Prepared,
    drop_content: Prepared,
    connection: Connection,
}

impl Writer {
    pub(super) fn new(connection: Connection) -> Result<Self, DatabaseError> {
        Ok(Self {
            find: Prepared::new(
                &connection,
                "SELECT number, fields FROM record_item WHERE uri = ?",
            )?,
            is_place: Prepared::new(
                &connection,
                "SELECT 1 FROM record_item WHERE place = ? AND uri <> ?",
            )?,
            is_full: Prepared::new(
                &connection,
                "SELECT 1 FROM record_item WHERE lies_in = ? LIMIT 1",
            )?,
            put: Prepared::new(
                &connection,
                "INSERT INTO record_item (uri, organization, revision, place, lies_in, fields) \
                 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (uri) DO UPDATE SET \
                 revision = excluded.revision, place = excluded.place, lies_in = excluded.lies_in, \
                 fields = excluded.fields RETURNING number",
            )?,
            drop: Prepared::new(&connection, "DELETE FROM record_item WHERE number = ?")?,
            add_labels: Prepared::new(
                &connection,
                "INSERT INTO record_label (label, item) SELECT value, ?1 FROM json_each(?2)",
            )?,
            drop_labels: Prepared::new(&connection, "DELETE FROM record_label WHERE item = ?")?,
            put_content: Prepared::new(
                &connection,
                "INSERT OR REPLACE INTO record_content (item, bytes) VALUES (?, ?)",
            )?,
            drop_content: Prepared::new(&connection, "DELETE FROM record_content WHERE item = ?")?,
            connection,
        })
    }

    pub(super) fn checkpoint(&self) -> Result<(), DatabaseError> {
        checkpoint(&self.connection)
    }

    pub(super) fn data_version(&self) -> Result<Option<i64>, DatabaseError> {
        number(&self.connection, "PRAGMA data_version")
    }

    pub(super) fn put_all(
        &self,
        puts: Vec<(String, Put)>,
    ) -> Result<Vec<Record>, RecordStoreError> {
        transaction(&self.connection, "BEGIN IMMEDIATE", || {
            puts.into_iter().map(|(uri, put)| self.put(&uri, put)).collect()
        })
    }

    pub(super) fn delete(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        transaction(&self.connection, "BEGIN IMMEDIATE", || {
            let Some(NumberedRecord { number, record }) = self.find(uri)? else { return Ok(None) };
            if let Some(revision) = revision {
                check_expected(uri, Expected::Revision(revision), Some(record.revision))?;
            }
            self.check_empty(&record)?;
            if let Some(used_by) = used_by {
                check_unused(&record, used_by, query::count(&self.connection, used_by)?)?;
            }
            for statement in [&self.drop_labels, &self.drop_content, &self.drop] {
                statement.execute(params![number])?;
            }
            Ok(Some(record))
        })
    }

    fn put(&self, uri: &str, put: Put) -> Result<Record, RecordStoreError> {
        let Put { mut record, content, expected, needs, at_most } = put;
        let old = self.find(uri)?;
        check_expected(uri, expected, old.as_ref().map(|old| old.record.revision))?;
        let place = record.is_place();
        let lies_in = record.lies_in();
        if let Some(old) = old.as_ref().filter(|old| old.record.is_place() != place) {
            self.check_empty(&old.record)?;
        }
        if let (Some(place), Some(path)) = (&place, record.path())
            && self.is_taken(place, uri)?
        {
            return Err(RecordStoreError::PathTaken { path });
        }
        if let (Some(lies_in), Some(group)) = (&lies_in, &record.group)
            && !is_root(group)
            && !self.is_taken(lies_in, uri)?
        {
            return Err(RecordStoreError::NoGroup { path: group.clone() });
        }
        for needed in needs {
            if self.find(&needed)?.is_none() {
                return Err(RecordStoreError::Missing(needed));
            }
        }
        record.revision = old.as_ref().map_or(0, |old| old.record.revision) + 1;
        if let Some(old) = &old {
            record.created = old.record.created;
        }
        let fields = serde_json::to_string(&record).map_err(DatabaseError::engine)?;
        let revision = i64::try_from(record.revision).map_err(DatabaseError::engine)?;
        let place = place.map(String::into_bytes);
        let lies_in = lies_in.map(String::into_bytes);
        let organization = record.organization.as_bytes();
        let values = params![uri.as_bytes(), organization, revision, place, lies_in, fields];
        let kept = self.put.number(values)?;
        let number = kept.ok_or_else(|| DatabaseError::damaged("a record has no number"))?;

        let new = labels(&record);
        // Most changes do not affect the labels of a record.
        if old.as_ref().is_none_or(|old| labels(&old.record) != new) {
            if old.is_some() {
                self.drop_labels.execute(params![number])?;
            }
            self.add_labels.execute(params![number, query::list_of(&new)])?;
        }
        if let Some(at_most) = at_most {
            check_at_most(&at_most, query::count(&self.connection, &at_most.filter)?)?;
        }
        match content {
            ContentChange::Keep => {}
            ContentChange::Set(bytes) => self.put_content.execute(params![number, bytes])?,
            ContentChange::Remove => self.drop_content.execute(params![number])?,
        }
        Ok(record)
    }

    /// Returns whether another record than `uri` is a group at this place.
    fn is_taken(&self, place: &str, uri: &str) -> Result<bool, DatabaseError> {
        Ok(self.is_place.number(params![place.as_bytes(), uri.as_bytes()])?.is_some())
    }

    fn find(&self, uri: &str) -> Result<Option<NumberedRecord>, DatabaseError> {
        let mut rows = self.find.query(params![uri.as_bytes()])?;
        let found = match wait(rows.next()).map_err(error)? {
            Some(row) => Some(NumberedRecord { number: get(&row, 0)?, record: json(&row, 1)? }),
            None => None,
        };
        // A statement that was not read to its end keeps its transaction open.
        self.find.reset();
        Ok(found)
    }

    fn check_empty(&self, group: &Record) -> Result<(), RecordStoreError> {
        let (Some(place), Some(path)) = (group.is_place(), group.path()) else { return Ok(()) };
        if self.is_full.number(params![place.as_bytes()])?.is_some() {
            return Err(RecordStoreError::NotEmpty { path });
        }
        Ok(())
    }
}
