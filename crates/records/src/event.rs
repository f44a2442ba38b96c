//! What became of records.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Caller, Record, administrators, store::record_readers};

/// What happened to a record. Only what was done by way of the same `Records` is heard of, so nothing that another process did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordEvent {
    /// What happened.
    pub change: RecordChange,
    /// [`Record::uri`].
    pub uri: String,
    /// [`Record::resource_uri`], under which it is read and subscribed to.
    pub resource_uri: String,
    /// Its type.
    pub kind: String,
    /// Which revision it has now, or had when it was removed.
    pub revision: u64,
    /// Who could read it after the change, or before it was removed: compare with `Records::principals`.
    pub readers: Arc<BTreeSet<String>>,
}

/// What happened to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordChange {
    /// It is new.
    Created,
    /// It is not what it was.
    Updated,
    /// It is gone.
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

    /// Whether somebody with these principals may hear of it.
    pub fn is_for(&self, principals: &BTreeSet<String>) -> bool {
        self.readers.iter().any(|reader| principals.contains(reader))
    }

    /// Whether a caller may hear of it by the caller's own names, without what others share by groups.
    pub fn is_directly_for(&self, caller: &Caller) -> bool {
        self.is_for(&caller.names())
    }
}
