//! What is to become of a record.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::ContentChange;

/// A record that is to be made, as its maker says it.
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
    /// Its type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its object id; a UUID if None. Only administrators choose those of users and groups, since a name that was
    /// free may still stand among the readers of somebody's records.
    pub object_id: Option<String>,
    /// The path of the group that it is to lie in: `~/Notes`, `~alice/Notes`, `/Shared/Papers`. Groups that are not
    /// there are made. None: it lies nowhere, and is found by its URI, type and name.
    pub group: Option<String>,
    /// Whose it is to be; the caller's if None, or the one's in whose home it lies. Only administrators choose.
    pub owner: Option<String>,
    /// URIs or names of tags.
    pub tags: BTreeSet<String>,
    /// Who may read it: URIs of users and groups.
    pub readers: BTreeSet<String>,
    /// Who may change it: URIs of users and groups.
    pub writers: BTreeSet<String>,
    /// What its bytes are.
    pub media_type: Option<String>,
    /// What else there is to say.
    pub attributes: Map<String, Value>,
    /// Its bytes.
    pub content: Option<Vec<u8>>,
    /// Whether it is of a file that was indexed, whose object id is reserved for it.
    pub(crate) is_of_file: bool,
}

impl NewRecord {
    /// The same with an object id that is reserved for the records of files, so that nobody else takes the id of a file
    /// before it is indexed. For indexers of files alone.
    pub fn file_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: Some(object_id.into()), is_of_file: true, ..self }
    }

    /// A record of a type with a name.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// The same with an object id.
    pub fn object_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: Some(object_id.into()), ..self }
    }

    /// The same in a group, by its path.
    pub fn group(self, path: impl Into<String>) -> Self {
        Self { group: Some(path.into()), ..self }
    }

    /// The same with one tag more, by URI or name.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.insert(tag.into());
        self
    }

    /// The same with one reader more.
    pub fn reader(mut self, uri: impl Into<String>) -> Self {
        self.readers.insert(uri.into());
        self
    }

    /// The same with one writer more.
    pub fn writer(mut self, uri: impl Into<String>) -> Self {
        self.writers.insert(uri.into());
        self
    }

    /// The same with an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// The same with bytes, and what they are.
    pub fn content(self, media_type: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { media_type: Some(media_type.into()), content: Some(content.into()), ..self }
    }
}

/// What is to change of a record. What is None stays.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordPatch {
    /// The revision that was seen; if it is another by now, nothing changes.
    pub revision: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// The path of the group to move it to, where `~` is its owner's home; Some(None) takes it out of its group.
    pub group: Option<Option<String>>,
    /// To whom it is given; for administrators.
    pub owner: Option<String>,
    /// Its tags, by URI or name.
    pub tags: Option<BTreeSet<String>>,
    /// Who may read it.
    pub readers: Option<BTreeSet<String>>,
    /// Who may change it.
    pub writers: Option<BTreeSet<String>>,
    /// What its bytes are.
    pub media_type: Option<Option<String>>,
    /// Attributes that are set, or removed where the value is null. Others stay.
    pub attributes: Map<String, Value>,
    /// What becomes of its bytes.
    pub content: ContentChange,
}

impl RecordPatch {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// The same with a name.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The same, if the record is still of this revision.
    #[must_use]
    pub fn revision(self, revision: u64) -> Self {
        Self { revision: Some(revision), ..self }
    }
}
