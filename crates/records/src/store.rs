//! Where records are kept.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;

use marquetry_database::DatabaseError;

use crate::{Record, administrators, model::GROUP, path};

/// A place that keeps records with their contents. It knows nothing of who asks: that is `Records`.
///
/// What is put at once appears at once or not at all, also when the process dies in between or the call is dropped. `conformance::check`,
/// behind the feature `conformance`, tests a store.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// Keeps records, each new or in the place of the one with its URI, and says what is kept now: with the revision
    /// that it got, 1 for a new one, and for one that was there when it was made. Later ones see earlier ones.
    ///
    /// # Errors
    ///
    /// Those of [`RecordStoreError`]; nothing is kept of any of them then.
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError>;

    /// Keeps one record, as [`Self::put_all`] does.
    async fn put(&self, put: Put) -> Result<Record, RecordStoreError> {
        let kept = self.put_all(vec![put]).await?.pop();
        kept.ok_or_else(|| DatabaseError::damaged("a record was kept and not given back").into())
    }

    /// The record with this URI, in the form that [`Record::uri`] gives.
    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError>;

    /// The bytes of a record; None if it has none, or is not there.
    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError>;

    /// Removes a record, of this revision if one is given, and gives it back; None if it was not there.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Conflict`], and [`RecordStoreError::NotEmpty`] for a group in which something lies.
    async fn delete(
        &self,
        uri: &str,
        revision: Option<u64>,
    ) -> Result<Option<Record>, RecordStoreError> {
        self.delete_unless(uri, revision, None).await
    }

    /// Removes a record as [`Self::delete`] does, unless others than itself pass a filter: those that need it. No other
    /// can come to do so in between.
    ///
    /// # Errors
    ///
    /// Those of [`Self::delete`], and [`RecordStoreError::InUse`].
    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError>;

    /// Records that pass the filter, in the order of the bytes of their URIs.
    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError>;

    /// How many records pass the filter, its `after` and `limit` left aside.
    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError>;

    /// A number that is another one as soon as another process has changed something here, for whoever looks for such
    /// changes now and then. None if this store cannot tell without looking at the records themselves.
    async fn data_version(&self) -> Result<Option<i64>, RecordStoreError> {
        Ok(None)
    }

    /// Moves what was written to where it stays: a database in a file has everything in that one file then.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Busy`] if others are still at it, so that not all was moved; nothing is lost.
    async fn checkpoint(&self) -> Result<(), RecordStoreError> {
        Ok(())
    }
}

/// A record that is to be kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Put {
    /// The record; its revision and, if it is there already, its `created` do not count.
    pub record: Record,
    /// What becomes of its bytes.
    pub content: ContentChange,
    /// What must be there before.
    pub expected: Expected,
    /// URIs of records that must be there, such as its tags.
    pub needs: BTreeSet<String>,
    /// How many records there may be of some kind, this one included.
    pub at_most: Option<AtMost>,
}

impl Put {
    /// A record that must not be there yet.
    pub fn new(record: Record) -> Self {
        let (content, expected) = (ContentChange::Keep, Expected::Absent);
        Self { record, content, expected, needs: BTreeSet::new(), at_most: None }
    }

    /// A record in the place of the one of this revision, with its bytes.
    pub fn update(record: Record, revision: u64) -> Self {
        Self { expected: Expected::Revision(revision), ..Self::new(record) }
    }

    /// A record, whatever is there now.
    pub fn any(record: Record) -> Self {
        Self { expected: Expected::Any, ..Self::new(record) }
    }

    /// The same with bytes.
    #[must_use]
    pub fn with_content(self, content: impl Into<Vec<u8>>) -> Self {
        Self { content: ContentChange::Set(content.into()), ..self }
    }
}

/// How many records may pass a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtMost {
    /// Which records count.
    pub filter: RecordFilter,
    /// How many there may be.
    pub count: u64,
}

/// What becomes of the bytes of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContentChange {
    /// They stay as they are.
    #[default]
    Keep,
    /// They become these.
    Set(Vec<u8>),
    /// There are none any more.
    Remove,
}

/// What must be there for a record to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything.
    Any,
    /// Nothing.
    Absent,
    /// The record with this revision.
    Revision(u64),
}

/// Which records are meant. What is empty or None does not restrict, with the exception of the organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordFilter {
    /// Of this organisation.
    pub organization: String,
    /// Of one of these types.
    pub types: Vec<String>,
    /// Directly in the group of this path, written as records have it.
    pub group: Option<String>,
    /// With just this name.
    pub name: Option<String>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// Of one of these owners.
    pub owners: Vec<String>,
    /// Of none of these owners.
    pub not_owners: Vec<String>,
    /// Anywhere but in the home of this owner: what others share with them.
    pub not_in_home_of: Option<String>,
    /// For one of these: as owner, reader, writer, or reader of the place where it lies (`Records::principals`).
    /// Some without any: there are none.
    pub readers: Option<BTreeSet<String>>,
    /// Groups with one of these among their `members`.
    pub members: Vec<String>,
    /// After this URI.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl RecordFilter {
    /// All records of an organisation.
    pub fn new(organization: impl Into<String>) -> Self {
        Self { organization: organization.into(), ..Self::default() }
    }

    /// Whether a record passes, whatever `after` and `limit` are. This is what each store's queries must agree with.
    pub fn matches(&self, record: &Record) -> bool {
        let any = |values: &[String], value: Option<&String>| {
            values.is_empty() || value.is_some_and(|value| values.contains(value))
        };
        record.organization == self.organization
            && any(&self.types, Some(&record.kind))
            && self.group.as_ref().is_none_or(|group| record.group.as_ref() == Some(group))
            && self.name.as_ref().is_none_or(|name| record.name == *name)
            && self.tags.iter().all(|tag| record.tags.contains(tag))
            && any(&self.owners, record.owner.as_ref())
            && !record.owner.as_ref().is_some_and(|owner| self.not_owners.contains(owner))
            && self.not_in_home_of.as_ref().is_none_or(|owner| home_of(record) != Some(owner))
            && self.readers.as_ref().is_none_or(|readers| {
                record_readers(record).iter().any(|reader| readers.contains(reader))
            })
            && (self.members.is_empty()
                || members(record).any(|member| self.members.iter().any(|one| one == member)))
    }
}

impl Record {
    /// Returns the URIs of everybody who may read the record: its owner, readers and writers, the place where it lies, and
    /// the administrators of its organisation. A caller may read it if one of [`Records::principals`] is among them.
    ///
    /// [`Records::principals`]: crate::Records::principals
    pub fn readable_by(&self) -> BTreeSet<String> {
        let mut readers = record_readers(self);
        readers.insert(administrators(&self.organization));
        readers
    }
}

/// All who may read a record, its organisation's administrators left aside: owner, readers, writers, and those who
/// read the place where it lies.
pub(crate) fn record_readers(record: &Record) -> BTreeSet<String> {
    let Record { owner, readers, writers, .. } = record;
    let named = owner.iter().chain(readers).chain(writers).cloned();
    named.chain(record.lies_in()).collect()
}

/// The members that a group names.
pub(crate) fn members(record: &Record) -> impl Iterator<Item = &str> {
    let members = record.attributes.get("members").filter(|_| record.kind == GROUP);
    members
        .and_then(|members| members.as_array())
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str())
}

/// In whose home a record lies.
pub(crate) fn home_of(record: &Record) -> Option<&String> {
    record
        .owner
        .as_ref()
        .filter(|_| record.group.as_ref().is_some_and(|path| path.starts_with('~')))
}

/// What every store refuses to keep; the URI of a record that it does not.
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

/// How deep attributes may be nested: JSON that is deeper does not read.
const MAX_DEPTH: usize = 100;

/// Whether attributes are not nested deeper than [`MAX_DEPTH`]. It walks without recursion.
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

/// That what is there is what is expected.
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

/// That no more are there than there may be.
pub(crate) fn check_at_most(at_most: &AtMost, found: u64) -> Result<(), RecordStoreError> {
    let max = at_most.count;
    if found > max { Err(RecordStoreError::TooMany { found, max }) } else { Ok(()) }
}

/// That nothing uses a record that is to be removed; so many pass the filter of those that do.
pub(crate) fn check_unused(
    record: &Record,
    used_by: &RecordFilter,
    found: u64,
) -> Result<(), RecordStoreError> {
    let count = found.saturating_sub(u64::from(used_by.matches(record)));
    if count > 0 { Err(RecordStoreError::InUse { count }) } else { Ok(()) }
}

/// Why a store of records did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordStoreError {
    /// Another revision is there than the one that was expected.
    #[error("{}", conflict(uri, *expected, *found))]
    Conflict {
        /// Of which record.
        uri: String,
        /// The revision that should be there; None: nothing should be.
        expected: Option<u64>,
        /// The revision that is there; None: nothing is.
        found: Option<u64>,
    },
    /// There is a group with this path already.
    #[error("there is a group {path} already")]
    PathTaken {
        /// The path.
        path: String,
    },
    /// A record is to lie in a group that is not there.
    #[error("there is no group {path}")]
    NoGroup {
        /// The path of the group.
        path: String,
    },
    /// Something lies in a group that is to be removed, renamed or moved.
    #[error("the group {path} is not empty")]
    NotEmpty {
        /// The path of the group.
        path: String,
    },
    /// Other records need one that is to be removed.
    #[error("{count} other records need it")]
    InUse {
        /// How many.
        count: u64,
    },
    /// A record that another needs is not there (any more).
    #[error("there is no record {0}, which is needed")]
    Missing(String),
    /// There would be more records of some kind than there may be.
    #[error("there would be {found} records, and there may be {max}")]
    TooMany {
        /// How many.
        found: u64,
        /// How many there may be.
        max: u64,
    },
    /// A record whose parts make no URI.
    #[error(
        "a record needs an organisation, a type and an object id that may stand in a URI, not {organization:?}, {kind:?} and {object_id:?}"
    )]
    NoUri {
        /// The organisation.
        organization: String,
        /// The type.
        kind: String,
        /// The object id.
        object_id: String,
    },
    /// A record in a home that has no owner.
    #[error("{0} lies in a home (~) and has no owner")]
    NoOwner(String),
    /// This cannot be the path of a group.
    #[error("{0:?} is not the path of a group: it begins with ~ or /, and has no empty names")]
    Path(String),
    /// The attributes of a record are nested too deep.
    #[error("the attributes are nested deeper than {max} levels")]
    TooDeep {
        /// How deep they may be.
        max: usize,
    },
    /// The bytes of a record are more than the store takes.
    #[error("the content has {bytes} bytes, more than max_content_bytes ({max})")]
    ContentTooLarge {
        /// How many it has.
        bytes: u64,
        /// How many it may have.
        max: u64,
    },
    /// The database could not do it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl RecordStoreError {
    /// Whether another revision is there than the one that was expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

fn conflict(uri: &str, expected: Option<u64>, found: Option<u64>) -> String {
    match (expected, found) {
        (Some(expected), Some(found)) => {
            format!("{uri} was changed meanwhile: it has revision {found}, not {expected}")
        }
        (Some(_), None) => format!("{uri} was removed meanwhile"),
        (None, _) => format!("{uri} is there already"),
    }
}
