//! Queries for records.

use libsql::{Connection, Value, params};

use marquetry_database::{
    DatabaseError,
    libsql::{get, json, select},
};

use crate::{
    Record, RecordFilter,
    labels::{Label, Labels},
};

/// A record with its number in this database.
pub(super) struct NumberedRecord {
    pub(super) number: i64,
    pub(super) record: Record,
}

pub(super) fn find(
    connection: &Connection,
    uri: &str,
) -> Result<Option<NumberedRecord>, DatabaseError> {
    let sql = "SELECT number, fields FROM record_item WHERE uri = ?";
    let mut found = select(connection, sql, params![uri.as_bytes()], |row| {
        Ok::<_, DatabaseError>(NumberedRecord { number: get(row, 0)?, record: json(row, 1)? })
    })?;
    Ok(found.pop())
}

pub(super) fn list(
    connection: &Connection,
    filter: &RecordFilter,
) -> Result<Vec<Record>, DatabaseError> {
    let Query { from, mut values } = Query::new(connection, filter)?;
    let after = filter.after.clone().unwrap_or_default().into_bytes();
    let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
    values.extend([Value::Blob(after), Value::Integer(limit)]);
    let sql = format!("SELECT i.fields {from} AND i.uri > ? ORDER BY i.uri LIMIT ?");
    select(connection, &sql, values, |row| json(row, 0))
}

pub(super) fn count(connection: &Connection, filter: &RecordFilter) -> Result<u64, DatabaseError> {
    number(connection, filter, "count(*)")
}

/// Returns the bytes of the fields and contents of records. SQLite finds the length of a content
/// without reading it.
pub(super) fn bytes(connection: &Connection, filter: &RecordFilter) -> Result<u64, DatabaseError> {
    let sum = "coalesce(sum(length(CAST(i.fields AS BLOB)) + coalesce( \
        (SELECT length(c.bytes) FROM record_content c WHERE c.item = i.number), 0)), 0)";
    number(connection, filter, sum)
}

fn number(
    connection: &Connection,
    filter: &RecordFilter,
    what: &str,
) -> Result<u64, DatabaseError> {
    let Query { from, values } = Query::new(connection, filter)?;
    let sql = format!("SELECT {what} {from}");
    let number = select(connection, &sql, values, |row| get::<i64>(row, 0))?.pop();
    Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
}

struct Query {
    /// `FROM … WHERE …`
    from: String,
    values: Vec<Value>,
}

/// Number of records below which they are looked up one by one. Above it, a scan in their order is
/// cheaper.
const FEW: usize = 2_000;

impl Query {
    fn new(connection: &Connection, filter: &RecordFilter) -> Result<Self, DatabaseError> {
        let Labels { groups, not } = Labels::of(filter);
        let mut smallest: Option<(usize, usize)> = None;
        for (place, group) in groups.iter().enumerate() {
            let size = size(connection, group)?;
            if size < smallest.map_or(FEW, |(_, least)| least) {
                smallest = Some((place, size));
            }
        }
        let mut values = Vec::new();
        let mut from = "FROM ".to_owned();
        if let Some((place, _)) = smallest {
            // SQLite executes a cross join in the order in which it is written.
            from.push_str(
                "(SELECT DISTINCT item FROM record_label WHERE label IN (SELECT value FROM json_each(?))) few \
                 CROSS JOIN record_item i ON i.number = few.item",
            );
            values.push(list_of(&groups[place]));
        } else {
            from.push_str("record_item i");
        }
        from.push_str(" WHERE i.organization = ?");
        values.push(Value::Blob(filter.organization.clone().into_bytes()));
        for (place, group) in groups.iter().enumerate() {
            if smallest.is_none_or(|(smallest, _)| smallest != place) {
                from.push_str(
                    " AND EXISTS (SELECT 1 FROM record_label l WHERE l.item = i.number \
                     AND l.label IN (SELECT value FROM json_each(?)))",
                );
                values.push(list_of(group));
            }
        }
        if !not.is_empty() {
            from.push_str(
                " AND NOT EXISTS (SELECT 1 FROM record_label l WHERE l.item = i.number \
                 AND l.label IN (SELECT value FROM json_each(?)))",
            );
            values.push(list_of(&not));
        }
        Ok(Self { from, values })
    }
}

/// Counts the records with one of these labels, up to [`FEW`].
fn size(connection: &Connection, labels: &[Label]) -> Result<usize, DatabaseError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM record_label \
        WHERE label IN (SELECT value FROM json_each(?)) LIMIT ?)";
    let values = params![list_of(labels), FEW as i64];
    let size = select(connection, sql, values, |row| get::<i64>(row, 0))?.pop();
    Ok(size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0))
}

pub(super) fn list_of(labels: &[Label]) -> Value {
    let labels: Vec<_> = labels.iter().map(Label::to_string).collect();
    Value::Text(format!("[{}]", labels.join(",")))
}
