//! Records in one libSQL file.

mod query;
mod schema;

use std::path::Path;

use async_trait::async_trait;
use libsql::{Connection, params};
use marquetry_database::{
    DatabaseError,
    libsql::{
        Prepared, Tables, TablesOptions, checkpoint, error, get, json, number, select, transaction,
        wait,
    },
};

use self::{query::NumberedRecord, schema::SCHEMA};
use crate::{
    ContentChange, Expected, Put, Record, RecordFilter, RecordStore, RecordStoreError,
    labels::labels,
    path::is_root,
    store::{check_count_limit, check_expected, check_put, check_unused},
};

/// A store of records in one file. The file may hold other data, too, and several processes may use
/// it at once.
///
/// Records are not cached in memory. A process that is killed while it writes leaves the old
/// records or the new ones. The names of its tables begin with `record_`; other tables are not
/// touched.
pub struct LibsqlRecords {
    tables: Tables<Writer>,
    max_content_bytes: u64,
}

/// Options of a [`LibsqlRecords`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibsqlRecordsOptions {
    /// Largest size of the database in bytes, for writes of this store; beyond it they fail with
    /// [`DatabaseError::Full`]. No limit by default.
    pub max_bytes: Option<u64>,
    /// Largest content, in bytes; 64 MiB by default. SQLite itself allows 1 GB.
    pub max_content_bytes: u64,
    /// Opens the file for reading only: nothing is created or changed in the file or beside it, and
    /// writes fail with [`DatabaseError::ReadOnly`].
    pub read_only: bool,
}

impl Default for LibsqlRecordsOptions {
    fn default() -> Self {
        Self { max_bytes: None, max_content_bytes: 64 << 20, read_only: false }
    }
}

impl LibsqlRecords {
    /// Opens the records in a file, and creates a missing file. Its directory must exist.
    ///
    /// # Errors
    ///
    /// Returns an error if a newer version of this program wrote the tables
    /// ([`DatabaseError::NewerSchema`]), or if the file is not a database
    /// ([`DatabaseError::Unusable`]).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, RecordStoreError> {
        Self::open_with(path, LibsqlRecordsOptions::default()).await
    }

    /// Opens the records in a file, with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] does.
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: LibsqlRecordsOptions,
    ) -> Result<Self, RecordStoreError> {
        let LibsqlRecordsOptions { max_bytes, max_content_bytes, read_only } = options;
        let options = TablesOptions { max_bytes, read_only };
        let tables = Tables::open(path.as_ref(), &SCHEMA, options, Writer::new).await?;
        Ok(Self { tables, max_content_bytes })
    }
}

#[async_trait]
impl RecordStore for LibsqlRecords {
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError> {
        let uris = puts
            .iter()
            .map(|put| check_put(put, self.max_content_bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let puts: Vec<_> = uris.into_iter().zip(puts).collect();
        if puts.is_empty() {
            return Ok(Vec::new());
        }
        self.tables.write(move |writer| writer.put_all(puts)).await
    }

    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError> {
        let uri = uri.to_owned();
        let found = self.tables.read(move |connection| query::find(connection, &uri)).await?;
        Ok(found.map(|found| found.record))
    }

    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        let uri = uri.to_owned();
        let bytes = self.tables.read(move |connection| {
            let sql = "SELECT c.bytes FROM record_item i JOIN record_content c ON c.item = i.number \
                WHERE i.uri = ?";
            let found = select::<_, DatabaseError>(connection, sql, params![uri.as_bytes()], |row| {
                get::<Vec<u8>>(row, 0)
            })?;
            Ok::<_, DatabaseError>(found.into_iter().next())
        });
        Ok(bytes.await?)
    }

    async fn content_length(&self, uri: &str) -> Result<Option<u64>, RecordStoreError> {
        let uri = uri.to_owned();
        let length = self.tables.read(move |connection| {
            let sql = "SELECT length(c.bytes) FROM record_item i JOIN record_content c \
                ON c.item = i.number WHERE i.uri = ?";
            let found =
                select::<_, DatabaseError>(connection, sql, params![uri.as_bytes()], |row| {
                    get::<u64>(row, 0)
                })?;
            Ok::<_, DatabaseError>(found.into_iter().next())
        });
        Ok(length.await?)
    }

    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        let uri = uri.to_owned();
        let used_by = used_by.cloned();
        self.tables.write(move |writer| writer.delete(&uri, revision, used_by.as_ref())).await
    }

    async fn data_version(&self) -> Result<Option<i64>, RecordStoreError> {
        // Writes of this store itself do not count.
        Ok(self.tables.write(Writer::data_version).await?)
    }

    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError> {
        let filter = filter.clone();
        Ok(self.tables.read(move |connection| query::list(connection, &filter)).await?)
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        let filter = filter.clone();
        Ok(self.tables.read(move |connection| query::count(connection, &filter)).await?)
    }

    async fn bytes(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        let filter = filter.clone();
        Ok(self.tables.read(move |connection| query::bytes(connection, &filter)).await?)
    }

    async fn checkpoint(&self) -> Result<(), RecordStoreError> {
        Ok(self.tables.write(Writer::checkpoint).await?)
    }
}

impl std::fmt::Debug for LibsqlRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LibsqlRecords")
            .field("max_content_bytes", &self.max_content_bytes)
            .finish_non_exhaustive()
    }
}

/// The connection for writing, with its prepared statements.
struct Writer {
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
    fn new(connection: Connection) -> Result<Self, DatabaseError> {
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

    fn checkpoint(&self) -> Result<(), DatabaseError> {
        checkpoint(&self.connection)
    }

    fn data_version(&self) -> Result<Option<i64>, DatabaseError> {
        number(&self.connection, "PRAGMA data_version")
    }

    fn put_all(&self, puts: Vec<(String, Put)>) -> Result<Vec<Record>, RecordStoreError> {
        transaction(&self.connection, "BEGIN IMMEDIATE", || {
            puts.into_iter().map(|(uri, put)| self.put(&uri, put)).collect()
        })
    }

    fn delete(
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
        let Put { mut record, content, expected, required_uris, count_limit } = put;
        let old = self.find(uri)?;
        check_expected(uri, expected, old.as_ref().map(|old| old.record.revision))?;
        let place = record.own_place();
        let lies_in = record.containing_place();
        if let Some(old) = old.as_ref().filter(|old| old.record.own_place() != place) {
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
        for needed in required_uris {
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
        if let Some(limit) = count_limit {
            check_count_limit(&limit, query::count(&self.connection, &limit.filter)?)?;
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
        let (Some(place), Some(path)) = (group.own_place(), group.path()) else { return Ok(()) };
        if self.is_full.number(params![place.as_bytes()])?.is_some() {
            return Err(RecordStoreError::NotEmpty { path });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use libsql::Builder;
    use marquetry_database::libsql::damages;

    use super::*;
    use crate::conformance;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        let folder = tempfile::tempdir().unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        conformance::check(async || {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            LibsqlRecords::open(folder.path().join(format!("{number}.db"))).await.unwrap()
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn databases_of_newer_programs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(LibsqlRecords::open(&path).await.unwrap());
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let newer = "UPDATE record_setting SET value = 2 WHERE name = 'schema'";
        connection.execute(newer, ()).await.unwrap();
        let error = LibsqlRecords::open(&path).await.unwrap_err();
        let RecordStoreError::Database(DatabaseError::NewerSchema { found: 2, known: 1 }) = error
        else {
            panic!("{error}");
        };
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let records = LibsqlRecords::open(&path).await.unwrap();
        let record = Record::new("data.note", "x").with_object_id("a");
        records.put(Put::new(record)).await.unwrap();
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        connection.execute("UPDATE record_item SET fields = '{'", ()).await.unwrap();
        let error = records.get("am7://default/data.note/a").await.unwrap_err();
        let want = format!("the database is damaged: {}: ", path.display());
        assert!(error.to_string().starts_with(&want), "{error}");
        assert!(error.to_string().contains("; restore the file from a copy"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn values_of_other_types_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let records = LibsqlRecords::open(&path).await.unwrap();
        let put = Put::new(Record::new("data.note", "x").with_object_id("a"));
        records.put(put.with_content(b"content".to_vec())).await.unwrap();
        records.checkpoint().await.unwrap();
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        let damages = damages(&connection).unwrap();
        assert!(damages.len() > 50, "{damages:?}");
        let mut refused = 0;
        for (at, damage) in damages.iter().enumerate() {
            let damaged = folder.path().join(format!("{at}.db"));
            std::fs::copy(&path, &damaged).unwrap();
            let connection = Builder::new_local(&damaged).build().await.unwrap().connect().unwrap();
            if connection.execute(damage, ()).await.is_err() {
                // The schema does not let it in.
                continue;
            }
            drop(connection);
            let Ok(records) = LibsqlRecords::open(&damaged).await else {
                refused += 1;
                continue;
            };
            let uri = "am7://default/data.note/a";
            let filter = RecordFilter::default();
            let put = Put::any(Record::new("data.note", "x").with_object_id("a"));
            let errors = [
                records.get(uri).await.err(),
                records.content(uri).await.err(),
                records.list(&filter).await.err(),
                records.count(&filter).await.err(),
                records.data_version().await.err(),
                records.put(put).await.err(),
                records.delete_unless(uri, None, None).await.err(),
            ];
            for error in errors.into_iter().flatten() {
                assert!(matches!(error, RecordStoreError::Database(_)), "{damage}: {error}");
                refused += 1;
            }
        }
        assert!(refused > 20, "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.db");
        std::fs::write(&text, "This is not a database. ".repeat(100)).unwrap();
        let error = LibsqlRecords::open(&text).await.unwrap_err();
        assert!(error.to_string().contains("text.db: it is not a database"), "{error}");
    }
}
