//! Records in a PostgreSQL database.

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use marquetry_database::{
    DatabaseError,
    postgres::{Lease, Parameter, PoolOptions, PostgresPool},
};
use tokio_postgres::Row;

use crate::{
    ContentChange, Expected, Put, Record, RecordFilter, RecordStore, RecordStoreError,
    labels::{Labels, labels},
    path::is_root,
    store::{check_count_limit, check_expected, check_put, check_unused},
};

/// A store of records in a PostgreSQL database (15 or newer), which any number of processes may use
/// at once. The database may hold other data, too, whose stores can share the pool
/// ([`Self::with_pool`]).
///
/// The names of its tables begin with `record_`. They are in the first schema of the search path.
pub struct PostgresRecords {
    pool: Arc<PostgresPool>,
    max_content_bytes: u64,
}

/// Options of a [`PostgresRecords`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresRecordsOptions {
    /// Largest content, in bytes; 64 MiB by default. PostgreSQL itself allows 1 GB.
    pub max_content_bytes: u64,
    /// Limits of the pool of connections.
    pub pool: PoolOptions,
}

impl Default for PostgresRecordsOptions {
    fn default() -> Self {
        Self { max_content_bytes: 64 << 20, pool: PoolOptions::default() }
    }
}

/// Version of the tables, and of the rules that derive labels from records. Tables with another
/// version cannot be read.
const VERSION: i64 = 1;

/// Texts are stored as bytes, because PostgreSQL's text cannot contain a NUL. Values that may be
/// too long for an index are stored as hashes: `key` of the URI, `organization`, `lies_in` of the
/// group that contains a record, `place` of the path of a group. Writers lock the single row of
/// `record_state`, so that only one writes at a time.
const TABLES: &str = "
    CREATE TABLE record_state (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL);
    CREATE TABLE record_item (
        number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key bytea NOT NULL UNIQUE,
        uri bytea NOT NULL,
        organization bytea NOT NULL,
        revision bigint NOT NULL,
        place bytea UNIQUE,
        lies_in bytea,
        labels bigint[] NOT NULL,
        fields bytea NOT NULL,
        content bytea
    );
    CREATE INDEX record_item_uri ON record_item (organization, substring(uri from 1 for 1000));
    CREATE INDEX record_item_lies_in ON record_item (lies_in) WHERE lies_in IS NOT NULL;
    CREATE INDEX record_item_labels ON record_item USING gin (labels);
";

impl PostgresRecords {
    /// Opens the database at this URL, `postgres://user:password@host:port/database`, and creates
    /// missing tables.
    ///
    /// # Errors
    ///
    /// Returns an error if a newer version of this program wrote the tables
    /// ([`DatabaseError::NewerSchema`]), or if the URL is not valid ([`DatabaseError::Unusable`]).
    pub async fn open(url: &str) -> Result<Self, RecordStoreError> {
        Self::open_with(url, PostgresRecordsOptions::default()).await
    }

    /// Opens the database at this URL, with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] does.
    pub async fn open_with(
        url: &str,
        options: PostgresRecordsOptions,
    ) -> Result<Self, RecordStoreError> {
        let pool = Arc::new(PostgresPool::new(url, options.pool)?);
        Self::with_pool(pool, options.max_content_bytes).await
    }

    /// Opens the database of a pool, which other stores may share. A content may have at most
    /// `max_content_bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] does.
    pub async fn with_pool(
        pool: Arc<PostgresPool>,
        max_content_bytes: u64,
    ) -> Result<Self, RecordStoreError> {
        let tables = format!("{TABLES} INSERT INTO record_state (version) VALUES ({VERSION})");
        pool.create_tables("record_state", &tables).await?;
        let client = pool.get().await?;
        let found = client.query_one("SELECT version FROM record_state", &[]).await?;
        client.done();
        match found.try_get(0)? {
            VERSION => Ok(Self { pool, max_content_bytes }),
            found if found > VERSION => {
                Err(DatabaseError::NewerSchema { found, known: VERSION }.into())
            }
            found => {
                let message = format!("the schema version of the records is {found}");
                Err(DatabaseError::Damaged(message).into())
            }
        }
    }

    async fn select<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        read: impl Fn(&Row) -> Result<T, RecordStoreError>,
    ) -> Result<Vec<T>, RecordStoreError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, parameters).await?;
        client.done();
        rows.iter().map(read).collect()
    }
}

#[async_trait]
impl RecordStore for PostgresRecords {
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError> {
        let max = self.max_content_bytes;
        let uris = puts.iter().map(|put| check_put(put, max)).collect::<Result<Vec<_>, _>>()?;
        if puts.is_empty() {
            return Ok(Vec::new());
        }
        let mut client = self.pool.get().await?;
        let kept = put_all(&mut client, uris.into_iter().zip(puts)).await;
        client.done();
        kept
    }

    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError> {
        let sql = "SELECT fields FROM record_item WHERE key = $1";
        Ok(self.select(sql, &[&key(uri)], |row| record(row, 0)).await?.pop())
    }

    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        let sql = "SELECT content FROM record_item WHERE key = $1";
        let mut contents =
            self.select(sql, &[&key(uri)], |row| Ok(row.try_get::<_, Option<Vec<u8>>>(0)?)).await?;
        Ok(contents.pop().flatten())
    }

    async fn content_length(&self, uri: &str) -> Result<Option<u64>, RecordStoreError> {
        let sql = "SELECT octet_length(content) FROM record_item WHERE key = $1";
        let lengths =
            self.select(sql, &[&key(uri)], |row| Ok(row.try_get::<_, Option<i32>>(0)?)).await;
        Ok(lengths?.pop().flatten().map(|length| length.unsigned_abs().into()))
    }

    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        let mut client = self.pool.get().await?;
        let deleted = delete(&mut client, uri, revision, used_by).await;
        client.done();
        deleted
    }

    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError> {
        let query = Query::new(filter);
        // The index contains only the beginnings of URIs.
        let sql = format!(
            "SELECT fields FROM record_item WHERE ($1::bytea IS NULL OR uri > $1 AND \
             substring(uri from 1 for 1000) >= substring($1 from 1 for 1000)) AND {} \
             ORDER BY substring(uri from 1 for 1000), uri LIMIT $2",
            query.sql(3)
        );
        let after = filter.after.as_deref().map(str::as_bytes);
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        self.select(&sql, &query.parameters(&[&after, &limit]), |row| record(row, 0)).await
    }

    async fn bytes(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        let query = Query::new(filter);
        let sql = format!(
            "SELECT coalesce(sum(octet_length(fields) + coalesce(octet_length(content), 0)), 0) \
                ::bigint FROM record_item WHERE {}",
            query.sql(1)
        );
        let mut sums = self
            .select(&sql, &query.parameters(&[]), |row| {
                Ok(row.try_get::<_, i64>(0)?.cast_unsigned())
            })
            .await?;
        Ok(sums.pop().unwrap_or(0))
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        let query = Query::new(filter);
        let sql = format!("SELECT count(*) FROM record_item WHERE {}", query.sql(1));
        let mut counts = self
            .select(&sql, &query.parameters(&[]), |row| {
                Ok(row.try_get::<_, i64>(0)?.cast_unsigned())
            })
            .await?;
        Ok(counts.pop().unwrap_or(0))
    }
}

/// A filter as SQL.
struct Query {
    organization: Vec<u8>,
    groups: Vec<Vec<i64>>,
    not: Vec<i64>,
}

impl Query {
    fn new(filter: &RecordFilter) -> Self {
        let Labels { groups, not } = Labels::of(filter);
        Self { organization: key(&filter.organization), groups, not }
    }

    /// Returns the condition, whose parameters begin with this number.
    fn sql(&self, first: usize) -> String {
        let groups = self.groups.iter().map(|_| "labels &&");
        let not = (!self.not.is_empty()).then_some("NOT labels &&").into_iter();
        let tests = ["organization ="].into_iter().chain(groups).chain(not).zip(first..);
        let tests: Vec<_> = tests.map(|(test, number)| format!("{test} ${number}")).collect();
        tests.join(" AND ")
    }

    fn parameters<'a>(&'a self, before: &[Parameter<'a>]) -> Vec<Parameter<'a>> {
        let not = Some(&self.not).filter(|not| !not.is_empty());
        let labels = self.groups.iter().chain(not).map(|labels| labels as Parameter<'a>);
        before.iter().copied().chain([&self.organization as Parameter<'a>]).chain(labels).collect()
    }
}

/// Waits for the lock of writers.
async fn lock(transaction: &Transaction<'_>) -> Result<(), RecordStoreError> {
    execute(transaction, "SELECT version FROM record_state FOR UPDATE", &[]).await
}

async fn put_all(
    client: &mut Lease,
    puts: impl Iterator<Item = (String, Put)>,
) -> Result<Vec<Record>, RecordStoreError> {
    let transaction = client.transaction().await?;
    lock(&transaction).await?;
    let mut kept = Vec::new();
    for (uri, put_one) in puts {
        kept.push(put(&transaction, &uri, put_one).await?);
    }
    transaction.commit().await?;
    Ok(kept)
}

async fn delete(
    client: &mut Lease,
    uri: &str,
    revision: Option<u64>,
    used_by: Option<&RecordFilter>,
) -> Result<Option<Record>, RecordStoreError> {
    let transaction = client.transaction().await?;
    lock(&transaction).await?;
    let Some(record) = find(&transaction, uri).await? else { return Ok(None) };
    if let Some(revision) = revision {
        check_expected(uri, Expected::Revision(revision), Some(record.revision))?;
    }
    check_empty(&transaction, &record).await?;
    if let Some(used_by) = used_by {
        check_unused(&record, used_by, count(&transaction, used_by).await?)?;
    }
    execute(&transaction, "DELETE FROM record_item WHERE key = $1", &[&key(uri)]).await?;
    transaction.commit().await?;
    Ok(Some(record))
}

async fn put(
    transaction: &Transaction<'_>,
    uri: &str,
    put: Put,
) -> Result<Record, RecordStoreError> {
    let Put { mut record, content, expected, required_uris, count_limit } = put;
    let old = find(transaction, uri).await?;
    check_expected(uri, expected, old.as_ref().map(|old| old.revision))?;
    let place = record.own_place();
    let lies_in = record.containing_place();
    if let Some(old) = old.as_ref().filter(|old| old.own_place() != place) {
        check_empty(transaction, old).await?;
    }
    let uri_key = key(uri);
    if let (Some(place), Some(path)) = (&place, record.path())
        && is_taken(transaction, place, &uri_key).await?
    {
        return Err(RecordStoreError::PathTaken { path });
    }
    if let (Some(lies_in), Some(group)) = (&lies_in, &record.group)
        && !is_root(group)
        && !is_taken(transaction, lies_in, &uri_key).await?
    {
        return Err(RecordStoreError::NoGroup { path: group.clone() });
    }
    for needed in required_uris {
        if find(transaction, &needed).await?.is_none() {
            return Err(RecordStoreError::Missing(needed));
        }
    }
    record.revision = old.as_ref().map_or(0, |old| old.revision) + 1;
    if let Some(old) = &old {
        record.created = old.created;
    }
    let fields = serde_json::to_vec(&record).map_err(DatabaseError::engine)?;
    let revision = i64::try_from(record.revision).map_err(DatabaseError::engine)?;
    let sql = "INSERT INTO record_item (key, uri, organization, revision, place, lies_in, labels, fields) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let update = "UPDATE record_item SET uri = $2, organization = $3, revision = $4, place = $5, lies_in = $6, \
        labels = $7, fields = $8 WHERE key = $1";
    let parameters: [Parameter<'_>; 8] = [
        &uri_key,
        &uri.as_bytes(),
        &key(&record.organization),
        &revision,
        &place.map(|place| key(&place)),
        &lies_in.map(|place| key(&place)),
        &labels(&record),
        &fields,
    ];
    execute(transaction, if old.is_some() { update } else { sql }, &parameters).await?;
    if let Some(limit) = count_limit {
        check_count_limit(&limit, count(transaction, &limit.filter).await?)?;
    }
    let bytes = match content {
        ContentChange::Keep => return Ok(record),
        ContentChange::Set(bytes) => Some(bytes),
        ContentChange::Remove => None,
    };
    let sql = "UPDATE record_item SET content = $2 WHERE key = $1";
    execute(transaction, sql, &[&uri_key, &bytes]).await?;
    Ok(record)
}

async fn find(
    transaction: &Transaction<'_>,
    uri: &str,
) -> Result<Option<Record>, RecordStoreError> {
    let sql = "SELECT fields FROM record_item WHERE key = $1";
    let statement = transaction.prepare_cached(sql).await?;
    let found = transaction.query_opt(&statement, &[&key(uri)]).await?;
    found.map(|row| record(&row, 0)).transpose()
}

async fn count(
    transaction: &Transaction<'_>,
    filter: &RecordFilter,
) -> Result<u64, RecordStoreError> {
    let query = Query::new(filter);
    let sql = format!("SELECT count(*) FROM record_item WHERE {}", query.sql(1));
    let statement = transaction.prepare_cached(&sql).await?;
    let row = transaction.query_one(&statement, &query.parameters(&[])).await?;
    Ok(row.try_get::<_, i64>(0)?.cast_unsigned())
}

async fn check_empty(
    transaction: &Transaction<'_>,
    group: &Record,
) -> Result<(), RecordStoreError> {
    let (Some(place), Some(path)) = (group.own_place(), group.path()) else { return Ok(()) };
    let sql = "SELECT 1 FROM record_item WHERE lies_in = $1 LIMIT 1";
    if is_any(transaction, sql, &[&key(&place)]).await? {
        return Err(RecordStoreError::NotEmpty { path });
    }
    Ok(())
}

/// Returns whether another record than that of `uri_key` is a group at this place.
async fn is_taken(
    transaction: &Transaction<'_>,
    place: &str,
    uri_key: &[u8],
) -> Result<bool, RecordStoreError> {
    let sql = "SELECT 1 FROM record_item WHERE place = $1 AND key <> $2";
    is_any(transaction, sql, &[&key(place), &uri_key]).await
}

async fn is_any(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<bool, RecordStoreError> {
    let statement = transaction.prepare_cached(sql).await?;
    Ok(!transaction.query(&statement, parameters).await?.is_empty())
}

async fn execute(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<(), RecordStoreError> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, parameters).await?;
    Ok(())
}

fn key(text: &str) -> Vec<u8> {
    blake3::hash(text.as_bytes()).as_bytes().to_vec()
}

fn record(row: &Row, column: usize) -> Result<Record, RecordStoreError> {
    let bytes: &[u8] = row.try_get(column)?;
    serde_json::from_slice(bytes).map_err(|error| DatabaseError::damaged(error).into())
}

impl From<tokio_postgres::Error> for RecordStoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl std::fmt::Debug for PostgresRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresRecords").field("pool", &self.pool).finish_non_exhaustive()
    }
}
