//! Changes of records, as subscribers receive them.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Caller, Record, administrators, store::record_readers};

/// A change of a record. Subscribers receive changes made through the same `Records`, but not those of other
/// processes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordEvent {
    /// The kind of the change.
    pub change: RecordChange,
    /// [`Record::uri`].
    pub uri: String,
    /// [`Record::resource_uri`], under which clients read and subscribe to it.
    pub resource_uri: String,
    /// Its type.
    pub kind: String,
    /// Its revision after the change, or when it was removed.
    pub revision: u64,
    /// URIs of all who may read it after the change, or could before its removal: compare with `Records::principals`.
    pub readers: Arc<BTreeSet<String>>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordChange {
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It was removed.
    Deleted,
}

impl RecordEvent {
    pub(crate) fn new(change: RecordChange, record: &Record) -> Option<Self> {
        let mut readers = record_readers(record);
        readers.insert(administrators(&record.organization));
        Some(Self {
            change,
            uri: record.uri()?,
            resource_uri: record.resource_uri()?,
            kind: record.kind.clone(),
            revision: record.revision,
            readers: Arc::new(readers),
        })
    }

    /// Whether a caller with these principals may learn of it.
    pub fn is_for(&self, principals: &BTreeSet<String>) -> bool {
        self.readers.iter().any(|reader| principals.contains(reader))
    }

    /// Whether a caller may learn of it as user, group member or administrator. Groups that others share are not
    /// considered.
    pub fn is_directly_for(&self, caller: &Caller) -> bool {
        self.is_for(&caller.names())
    }
}
