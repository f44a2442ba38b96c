//! The trait of stores of records.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;

use marquetry_database::DatabaseError;

use crate::{Record, RecordStoreError, administrators, model::GROUP, path};

/// A store of records with their contents. It checks no permissions: [`Records`](crate::Records)
/// does.
///
/// Records of one call become visible together or not at all, even if the process dies or the call
/// is dropped. `conformance::check`, behind the feature `conformance`, tests a store.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// Stores records, each as a new one or in place of the record with its URI, and returns them
    /// as stored: with their new revision (1 for a new record), and with the original `created` of
    /// a replaced one. A later record of the list sees the earlier ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a record cannot be stored; then none of them is.
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError>;

    /// Stores one record, as [`Self::put_all`] does.
    async fn put(&self, put: Put) -> Result<Record, RecordStoreError> {
        let kept = self.put_all(vec![put]).await?.pop();
        kept.ok_or_else(|| DatabaseError::damaged("a record was kept and not given back").into())
    }

    /// Returns the record with this URI, spelt as [`Record::uri`] spells it.
    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError>;

    /// Returns the content of a record in bytes; `None` if the record has none or does not exist.
    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError>;

    /// Returns the length of that content in bytes, without reading it.
    async fn content_length(&self, uri: &str) -> Result<Option<u64>, RecordStoreError>;

    /// Removes a record and returns it; `None` if it did not exist. If a revision is given, it must
    /// be the current one.
    ///
    /// # Errors
    ///
    /// Returns an error if the record has another revision ([`RecordStoreError::Conflict`]), or if
    /// it is a group that holds records ([`RecordStoreError::NotEmpty`]).
    async fn delete(
        &self,
        uri: &str,
        revision: Option<u64>,
    ) -> Result<Option<Record>, RecordStoreError> {
        self.delete_unless(uri, revision, None).await
    }

    /// Removes a record as [`Self::delete`] does, unless records that refer to it pass the filter
    /// `used_by`. Check and removal are one transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::delete`] does, or if other records use this one
    /// ([`RecordStoreError::InUse`]).
    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError>;

    /// Returns the records that pass the filter, in the byte order of their URIs.
    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError>;

    /// Counts the records that pass the filter; `after` and `limit` are ignored.
    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError>;

    /// Returns the bytes of the records that pass the filter, as JSON and with their contents;
    /// `after` and `limit` are ignored.
    async fn bytes(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError>;

    /// Returns a number that differs after another process has changed the store, for callers that
    /// poll for changes. None if the store has no such number.
    async fn data_version(&self) -> Result<Option<i64>, RecordStoreError> {
        Ok(None)
    }

    /// Moves all written data to its final place: a database in a file is then complete in that one
    /// file.
    ///
    /// # Errors
    ///
    /// Returns an error if other connections prevent it ([`DatabaseError::Busy`]); no data is lost.
    async fn checkpoint(&self) -> Result<(), RecordStoreError> {
        Ok(())
    }
}

/// A record to be stored, with its conditions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Put {
    /// The record. Its revision is ignored, and so is `created` if the record exists already.
    pub record: Record,
    /// Change of the content.
    pub content: ContentChange,
    /// The required state of the URI before the put.
    pub expected: Expected,
    /// URIs of records that must exist, such as the record's tags.
    pub required_uris: BTreeSet<String>,
    /// A limit on the number of records, this one included.
    pub count_limit: Option<CountLimit>,
}

impl Put {
    /// Returns a put of a record that must not exist yet.
    pub fn new(record: Record) -> Self {
        let content = ContentChange::Keep;
        let expected = Expected::Absent;
        Self { record, content, expected, required_uris: BTreeSet::new(), count_limit: None }
    }

    /// Returns a put that replaces the record of this revision and keeps its content.
    pub fn update(record: Record, revision: u64) -> Self {
        Self { expected: Expected::Revision(revision), ..Self::new(record) }
    }

    /// Returns a put that creates or replaces a record.
    pub fn any(record: Record) -> Self {
        Self { expected: Expected::Any, ..Self::new(record) }
    }

    /// Sets the content.
    #[must_use]
    pub fn with_content(self, content: impl Into<Vec<u8>>) -> Self {
        Self { content: ContentChange::Set(content.into()), ..self }
    }
}

/// A limit on the number of records that pass a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountLimit {
    /// The records that are counted.
    pub filter: RecordFilter,
    /// The maximum number of them.
    pub max: u64,
}

/// Change of the content of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContentChange {
    /// The content stays.
    #[default]
    Keep,
    /// The content is replaced by these bytes.
    Set(Vec<u8>),
    /// The content is removed.
    Remove,
}

/// The required state of a URI before a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A record may exist or not.
    Any,
    /// No record exists.
    Absent,
    /// The record exists with this revision.
    Revision(u64),
}

/// A filter of records. A condition that is empty or None does not restrict; exceptions:
/// `organization`, and `readers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordFilter {
    /// Records of this organisation.
    pub organization: String,
    /// Records of one of these types.
    pub types: Vec<String>,
    /// Records directly in the group of this path, spelt as in [`Record::group`].
    pub group: Option<String>,
    /// Records with exactly this name.
    pub name: Option<String>,
    /// Records with all of these tags.
    pub tags: Vec<String>,
    /// Records of one of these owners.
    pub owners: Vec<String>,
    /// Only records that belong to none of these owners.
    pub not_owners: Vec<String>,
    /// Records outside of the home of this owner.
    pub not_in_home_of: Option<String>,
    /// Records that one of these may read: as owner, reader, writer, or reader of the group that
    /// holds the record (`Records::principals`). An empty set lets no record pass.
    pub readers: Option<BTreeSet<String>>,
    /// Groups that have one of these among their `members`.
    pub members: Vec<String>,
    /// Records whose URI comes after this one.
    pub after: Option<String>,
    /// Maximum records that are returned.
    pub limit: Option<usize>,
}

impl RecordFilter {
    /// Returns a filter that all records of an organisation pass.
    pub fn new(organization: impl Into<String>) -> Self {
        Self { organization: organization.into(), ..Self::default() }
    }

    /// Returns whether a record passes, apart from `after` and `limit`. The queries of each store
    /// must agree with this.
    pub fn matches(&self, record: &Record) -> bool {
        record.organization == self.organization
            && allows(&self.types, Some(&record.kind))
            && self.group.as_ref().is_none_or(|group| record.group.as_ref() == Some(group))
            && self.name.as_ref().is_none_or(|name| record.name == *name)
            && self.tags.iter().all(|tag| record.tags.contains(tag))
            && allows(&self.owners, record.owner.as_ref())
            && !record.owner.as_ref().is_some_and(|owner| self.not_owners.contains(owner))
            && self.not_in_home_of.as_ref().is_none_or(|owner| home_of(record) != Some(owner))
            && self.readers.as_ref().is_none_or(|readers| {
                record_readers(record).iter().any(|reader| readers.contains(reader))
            })
            && (self.members.is_empty()
                || members(record).any(|member| self.members.iter().any(|one| one == member)))
    }
}

/// Returns whether a list in a filter allows a value. An empty list allows any value.
fn allows(values: &[String], value: Option<&String>) -> bool {
    values.is_empty() || value.is_some_and(|value| values.contains(value))
}

impl Record {
    /// Returns the URIs of all who may read the record: its owner, readers and writers, the group
    /// that contains it, and the administrators of its organisation. A caller may read it if one of
    /// [`Records::principals`] is among them.
    ///
    /// [`Records::principals`]: crate::Records::principals
    pub fn readable_by(&self) -> BTreeSet<String> {
        let mut readers = record_readers(self);
        readers.insert(administrators(&self.organization));
        readers
    }
}

/// Returns the URIs of all who may read a record, except the administrators: owner, readers,
/// writers, and the readers of the group that contains it.
pub(crate) fn record_readers(record: &Record) -> BTreeSet<String> {
    let Record { owner, readers, writers, .. } = record;
    let named = owner.iter().chain(readers).chain(writers).cloned();
    named.chain(record.containing_place()).collect()
}

/// Returns the `members` of a group.
pub(crate) fn members(record: &Record) -> impl Iterator<Item = &str> {
    let members = record.attributes.get("members").filter(|_| record.kind == GROUP);
    members
        .and_then(|members| members.as_array())
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str())
}

/// Returns the owner of the home that contains a record.
pub(crate) fn home_of(record: &Record) -> Option<&String> {
    record
        .owner
        .as_ref()
        .filter(|_| record.group.as_ref().is_some_and(|path| path.starts_with('~')))
}

/// Checks a put by the rules of every store, and returns the URI of the record.
pub(crate) fn check_put(put: &Put, max_content_bytes: u64) -> Result<String, RecordStoreError> {
    let record = &put.record;
    let uri = record.uri().ok_or_else(|| RecordStoreError::NoUri {
        organization: record.organization.clone(),
        kind: record.kind.clone(),
        object_id: record.object_id.clone(),
    })?;
    if let Some(group) = &record.group {
        if !path::is_stored(group) {
            return Err(RecordStoreError::Path(group.clone()));
        }
        if group.starts_with('~') && record.owner.is_none() {
            return Err(RecordStoreError::NoOwner(uri));
        }
        if record.kind == GROUP && (record.name.is_empty() || record.name.contains('/')) {
            return Err(RecordStoreError::Path(path::join(group, &record.name)));
        }
    }
    if !is_shallow(record) {
        return Err(RecordStoreError::TooDeep { max: MAX_DEPTH });
    }
    if let ContentChange::Set(content) = &put.content {
        let bytes = content.len() as u64;
        if bytes > max_content_bytes {
            return Err(RecordStoreError::ContentTooLarge { bytes, max: max_content_bytes });
        }
    }
    Ok(uri)
}

/// Maximum depth of attributes: serde_json does not parse much deeper JSON.
const MAX_DEPTH: usize = 100;

/// Returns whether attributes are nested at most [`MAX_DEPTH`] levels deep. Does not recurse.
fn is_shallow(record: &Record) -> bool {
    let mut next: Vec<(usize, &Value)> = record.attributes.values().map(|one| (1, one)).collect();
    while let Some((depth, value)) = next.pop() {
        if depth > MAX_DEPTH {
            return false;
        }
        match value {
            Value::Array(list) => next.extend(list.iter().map(|one| (depth + 1, one))),
            Value::Object(values) => next.extend(values.values().map(|one| (depth + 1, one))),
            _ => {}
        }
    }
    true
}

/// Checks that the found revision is the expected one.
pub(crate) fn check_expected(
    uri: &str,
    expected: Expected,
    found: Option<u64>,
) -> Result<(), RecordStoreError> {
    let fits = match expected {
        Expected::Any => true,
        Expected::Absent => found.is_none(),
        Expected::Revision(revision) => found == Some(revision),
    };
    let expected = match expected {
        Expected::Revision(revision) => Some(revision),
        Expected::Any | Expected::Absent => None,
    };
    if fits {
        Ok(())
    } else {
        Err(RecordStoreError::Conflict { uri: uri.to_owned(), expected, found })
    }
}

/// Checks that `found` records are within a limit.
pub(crate) fn check_count_limit(limit: &CountLimit, found: u64) -> Result<(), RecordStoreError> {
    let max = limit.max;
    if found > max { Err(RecordStoreError::TooMany { found, max }) } else { Ok(()) }
}

/// Checks that no other record refers to `record`, which is to be removed. `found` is the number of
/// records that pass the filter, perhaps with `record` itself among them.
pub(crate) fn check_unused(
    record: &Record,
    used_by: &RecordFilter,
    found: u64,
) -> Result<(), RecordStoreError> {
    let count = found.saturating_sub(u64::from(used_by.matches(record)));
    if count > 0 { Err(RecordStoreError::InUse { count }) } else { Ok(()) }
}
