//! Records to be created, and changes of records.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::ContentChange;

/// A record to be created.
///
/// ```
/// use marquetry_records::NewRecord;
///
/// let note = NewRecord::new("data.note", "Flour").group("~/Notes").attribute("text", "Type 550.");
/// assert_eq!(note.attributes["text"], "Type 550.");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct NewRecord {
    /// The type.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The object id; a UUID if `None`. Only administrators choose the ids of users and groups,
    /// because records may still have a removed user or group of that id among their readers.
    pub object_id: Option<String>,
    /// The path of the group that contains the record: `~/Notes`, `~alice/Notes`, `/Shared/Papers`.
    /// Missing groups are created. `None`: the record is in no group, and is found by URI, type and
    /// name.
    pub group: Option<String>,
    /// URI of the owner. By default the owner of the home that contains the record, else the
    /// caller. Only administrators may set it.
    pub owner: Option<String>,
    /// URIs or names of tags.
    pub tags: BTreeSet<String>,
    /// URIs of users and groups that may read the record.
    pub readers: BTreeSet<String>,
    /// URIs of users and groups that may change the record.
    pub writers: BTreeSet<String>,
    /// The media type of the content.
    pub media_type: Option<String>,
    /// Further attributes.
    pub attributes: Map<String, Value>,
    /// The content.
    pub content: Option<Vec<u8>>,
    /// Whether the record belongs to an indexed file, whose object id is reserved.
    pub(crate) is_of_file: bool,
}

impl NewRecord {
    /// Sets an object id of the range that is reserved for indexed files (UUIDs of version 8), so
    /// that other records cannot take the id of a file before it is indexed. For indexers of files
    /// only.
    pub fn file_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: Some(object_id.into()), is_of_file: true, ..self }
    }

    /// Returns a record of a type with a name.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// Sets the object id.
    pub fn object_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: Some(object_id.into()), ..self }
    }

    /// Sets the group, by its path.
    pub fn group(self, path: impl Into<String>) -> Self {
        Self { group: Some(path.into()), ..self }
    }

    /// Adds a tag, by URI or name.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.insert(tag.into());
        self
    }

    /// Adds a reader, by URI.
    pub fn reader(mut self, uri: impl Into<String>) -> Self {
        self.readers.insert(uri.into());
        self
    }

    /// Adds a writer, by URI.
    pub fn writer(mut self, uri: impl Into<String>) -> Self {
        self.writers.insert(uri.into());
        self
    }

    /// Sets an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets the content and its media type.
    pub fn content(self, media_type: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { media_type: Some(media_type.into()), content: Some(content.into()), ..self }
    }
}

/// A change of a record. Fields that are `None` stay unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordPatch {
    /// The revision on which the change is based. If the record has another revision by now, the
    /// change is refused.
    pub revision: Option<u64>,
    /// The new name.
    pub name: Option<String>,
    /// The path of the group to which the record moves, where `~` is its owner's home; `Some(None)`
    /// removes the record from its group.
    pub group: Option<Option<String>>,
    /// URI of the new owner. Only administrators may set it.
    pub owner: Option<String>,
    /// The new tags, by URI or name.
    pub tags: Option<BTreeSet<String>>,
    /// URIs of users and groups that may read the record.
    pub readers: Option<BTreeSet<String>>,
    /// URIs of users and groups that may change the record.
    pub writers: Option<BTreeSet<String>>,
    /// The media type of the content; `Some(None)` removes it.
    pub media_type: Option<Option<String>>,
    /// Attributes to set; null removes one. Others stay unchanged.
    pub attributes: Map<String, Value>,
    /// Change of the content.
    pub content: ContentChange,
}

impl RecordPatch {
    /// Returns a patch that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the revision that the change is based on.
    #[must_use]
    pub fn revision(self, revision: u64) -> Self {
        Self { revision: Some(revision), ..self }
    }
}
