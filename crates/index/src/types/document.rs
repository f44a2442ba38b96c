//! Documents and their chunks.

use std::{collections::BTreeSet, fmt, num::ParseIntError, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chapter::Chapter;

/// What is known of a document whose chunks are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Document {
    /// Its one and only name: an `am7://` or `file://` URI, or any other text.
    pub uri: String,
    /// The type of the record behind it, such as `data.data` (the seed's `vectorReferenceType`).
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The id of the record behind it (the seed's `vectorReferenceObjectId`).
    pub object_id: Option<String>,
    /// In which of the seed's vector models its chunks belong; [`Self::VECTOR_MODEL`] by default.
    pub vector_model: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Who may read it: URIs of users and groups, the owner among them. A document without readers is found only by
    /// searches that do not filter by readers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub readers: BTreeSet<String>,
    /// Names or URIs of tags.
    pub tags: BTreeSet<String>,
    /// Anything else to filter by or to show.
    pub metadata: Map<String, Value>,
    /// What it was before its text was extracted.
    pub media_type: Option<String>,
    /// A hash of its bytes; whoever indexes chooses which.
    pub content_hash: Option<String>,
    /// What to call it.
    pub title: Option<String>,
    /// What it is called where it lies, such as the name of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Document {
    /// Where chunks belong that are not said to belong elsewhere.
    pub const VECTOR_MODEL: &str = "common.vectorModelStore";
    /// Where the chunks of chats belong.
    pub const CHAT_HISTORY: &str = "olio.vectorChatHistory";
    /// Under which name of its metadata it says of which revision of its record its chunks are made.
    pub const RECORD_REVISION: &str = "recordRevision";

    /// A document of which nothing but its URI is known.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            kind: None,
            object_id: None,
            vector_model: Self::VECTOR_MODEL.to_owned(),
            owner: None,
            readers: BTreeSet::new(),
            tags: BTreeSet::new(),
            metadata: Map::new(),
            media_type: None,
            content_hash: None,
            title: None,
            name: None,
        }
    }

    /// A document that stands for a record.
    pub fn of_record(
        uri: impl Into<String>,
        kind: impl Into<String>,
        object_id: impl Into<String>,
    ) -> Self {
        Self { kind: Some(kind.into()), object_id: Some(object_id.into()), ..Self::new(uri) }
    }
}

/// A chunk that is to be kept. Its place among the chunks of its document is where it stands in the list of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewChunk {
    /// What is searched and shown.
    pub content: String,
    /// Where it stands in the text of the document, in bytes.
    pub span: Range<usize>,
    /// On which page it begins, from 1.
    pub page: Option<u32>,
    /// The chapter that it is in.
    pub chapter: Option<Chapter>,
    /// The headings above it, the highest first.
    pub headings: Vec<String>,
    /// Its vector, of any length but of the model's dimension. All zeros: it is found by its words alone.
    pub vector: Vec<f32>,
}

impl NewChunk {
    /// A stored chunk with its vector, to be stored again.
    pub(crate) fn again(chunk: StoredChunk, vector: Vec<f32>) -> Self {
        let StoredChunk { content, span, page, chapter, headings, .. } = chunk;
        Self { content, span, page, chapter, headings, vector }
    }

    /// A chunk that says no more than its text.
    pub fn of_text(content: impl Into<String>, vector: Vec<f32>) -> Self {
        let content = content.into();
        let span = 0..content.len();
        Self { span, content, page: None, chapter: None, headings: Vec::new(), vector }
    }
}

/// A chunk as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredChunk {
    /// Its id in this store.
    pub id: ChunkId,
    /// The URI of its document (the seed's `vectorReferenceUri`).
    pub document: String,
    /// What is searched and shown.
    pub content: String,
    /// Where it stands in the text of the document, in bytes.
    pub span: Range<usize>,
    /// On which page it begins, from 1.
    pub page: Option<u32>,
    /// The chapter that it is in.
    pub chapter: Option<Chapter>,
    /// The headings above it, the highest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Its place among the chunks of its document, from 0.
    pub index: u32,
    /// How many chunks its document has (the seed's `chunkCount`).
    pub count: u32,
}

/// A chunk's name within its store: `12-3` is chunk 3 of the document that the store numbers 12.
///
/// A document keeps its number when it is replaced, and no other ever gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChunkId {
    pub(crate) document: u32,
    pub(crate) index: u32,
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.document, self.index)
    }
}

/// A text is not a [`ChunkId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a chunk")]
pub struct ChunkIdError(String);

impl FromStr for ChunkId {
    type Err = ChunkIdError;

    fn from_str(text: &str) -> Result<Self, ChunkIdError> {
        let parse = |(document, index): (&str, &str)| {
            Ok::<_, ParseIntError>(Self { document: document.parse()?, index: index.parse()? })
        };
        let id = text.split_once('-').and_then(|parts| parse(parts).ok());
        // One spelling only: `+1-02` reads as a number, too.
        id.filter(|id| id.to_string() == text).ok_or_else(|| ChunkIdError(text.to_owned()))
    }
}

impl TryFrom<String> for ChunkId {
    type Error = ChunkIdError;

    fn try_from(text: String) -> Result<Self, ChunkIdError> {
        text.parse()
    }
}

impl From<ChunkId> for String {
    fn from(id: ChunkId) -> Self {
        id.to_string()
    }
}
