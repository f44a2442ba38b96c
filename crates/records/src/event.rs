//! Events about changes of records, for subscribers.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Caller, Record, administrators, store::record_readers};

/// A change of a record. Subscribers receive changes made through the same `Records`, but not those
/// of other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordEvent {
    /// The kind of the change.
    pub change: RecordChange,
    /// [`Record::uri`].
    pub uri: String,
    /// [`Record::resource_uri`], under which clients read and subscribe to it.
    pub resource_uri: String,
    /// Type of the record.
    pub kind: String,
    /// Revision of the record after the change; after a removal, the last revision.
    pub revision: u64,
    /// URIs of all principals that may read the record after the change, or could read it before
    /// its removal. Compare them with `Records::principals`.
    pub readers: Arc<BTreeSet<String>>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordChange {
    /// The record was created.
    Created,
    /// The record was changed.
    Updated,
    /// The record was removed.
    Deleted,
}

impl RecordEvent {
    /// Returns the event of a change after which the record is as given. `None` if the record has
    /// no URI.
    #[must_use]
    pub fn new(change: RecordChange, record: &Record) -> Option<Self> {
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

    /// Returns whether a caller with these principals may learn of the change.
    pub fn is_for(&self, principals: &BTreeSet<String>) -> bool {
        self.readers.iter().any(|reader| principals.contains(reader))
    }

    /// Returns whether a caller may learn of the change as user, group member or administrator.
    /// Groups that others share are not considered.
    pub fn is_directly_for(&self, caller: &Caller) -> bool {
        self.is_for(&caller.names())
    }
}
