//! Documents and their chunks.

use std::{collections::BTreeSet, fmt, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{chapter::Chapter, page_start::PageStart};

/// A document whose chunks are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Document {
    /// Unique name: an `am7://` or `file://` URI, or any other text.
    pub uri: String,
    /// Type of the document's record, such as `data.data` (the seed's `vectorReferenceType`).
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Id of the document's record (the seed's `vectorReferenceObjectId`).
    pub object_id: Option<String>,
    /// The seed's vector model for the document's chunks; [`Self::VECTOR_MODEL`] by default.
    pub vector_model: String,
    /// URI of the owner.
    pub owner: Option<String>,
    /// URIs of the users and groups that may read the document, including the owner. A document
    /// without readers is found only by searches without a filter of readers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub readers: BTreeSet<String>,
    /// Names or URIs of tags.
    pub tags: BTreeSet<String>,
    /// Further values, for filters or for display.
    pub metadata: Map<String, Value>,
    /// Media type of the source from which the text was extracted.
    pub media_type: Option<String>,
    /// Hash of the source's bytes, by a function that the indexer chooses.
    pub content_hash: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// Name of its source, such as a file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Document {
    /// The default vector model.
    pub const VECTOR_MODEL: &str = "common.vectorModelStore";
    /// The vector model of the chunks of chats.
    pub const CHAT_HISTORY: &str = "olio.vectorChatHistory";
    /// The key in `metadata` of the revision of the record from which the chunks were made.
    pub const RECORD_REVISION: &str = "recordRevision";

    /// Returns a document with this URI and no other values.
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

    /// Returns a document for a record.
    pub fn of_record(
        uri: impl Into<String>,
        kind: impl Into<String>,
        object_id: impl Into<String>,
    ) -> Self {
        Self { kind: Some(kind.into()), object_id: Some(object_id.into()), ..Self::new(uri) }
    }
}

/// A chunk to be stored. Its index is its position in the list of the chunks of its document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewChunk {
    /// The text, which is searched and shown.
    pub content: String,
    /// Span in the text of the document, in bytes of UTF-8.
    pub span: Range<usize>,
    /// The page on which the chunk begins, from 1.
    pub page: Option<u32>,
    /// The pages that begin inside the chunk, in order.
    pub page_starts: Vec<PageStart>,
    /// The chapter.
    pub chapter: Option<Chapter>,
    /// The headings above the chunk, outermost first.
    pub headings: Vec<String>,
    /// The vector, of the model's dimension and any norm. If it is all zeros, the chunk is found
    /// only by its words.
    pub vector: Vec<f32>,
}

impl NewChunk {
    /// Returns a stored chunk with its vector, in the form in which it can be stored again.
    pub(crate) fn from_stored(chunk: StoredChunk, vector: Vec<f32>) -> Self {
        let StoredChunk { content, span, page, page_starts, chapter, headings, .. } = chunk;
        Self { content, span, page, page_starts, chapter, headings, vector }
    }

    /// Returns a chunk with this text and vector, and no other values.
    pub fn of_text(content: impl Into<String>, vector: Vec<f32>) -> Self {
        let content = content.into();
        let span = 0..content.len();
        Self {
            span,
            content,
            page: None,
            page_starts: Vec::new(),
            chapter: None,
            headings: Vec::new(),
            vector,
        }
    }
}

/// A stored chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredChunk {
    /// Id in this store.
    pub id: ChunkId,
    /// URI of the document (the seed's `vectorReferenceUri`).
    pub document: String,
    /// The text, which is searched and shown.
    pub content: String,
    /// Span in the text of the document, in bytes of UTF-8.
    pub span: Range<usize>,
    /// The page on which the chunk begins, from 1.
    pub page: Option<u32>,
    /// The pages that begin inside the chunk, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_starts: Vec<PageStart>,
    /// The chapter.
    pub chapter: Option<Chapter>,
    /// The headings above the chunk, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Index among the chunks of the document, from 0.
    pub index: u32,
    /// Number of chunks of the document (the seed's `chunkCount`).
    pub count: u32,
}

impl StoredChunk {
    /// Returns the page at an offset in the content.
    pub fn page_at(&self, offset: usize) -> Option<u32> {
        let before = self.page_starts.partition_point(|start| start.offset <= offset);
        before.checked_sub(1).map_or(self.page, |last| Some(self.page_starts[last].page))
    }
}

/// The id of a chunk within its store: `12-3` is chunk 3 of document number 12.
///
/// A document keeps its number when it is replaced; numbers are never used again.
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

/// A text that is not a [`ChunkId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a chunk id")]
pub struct ChunkIdError(String);

impl FromStr for ChunkId {
    type Err = ChunkIdError;

    fn from_str(text: &str) -> Result<Self, ChunkIdError> {
        text.split_once('-')
            .and_then(|(document, index)| {
                Some(Self { document: document.parse().ok()?, index: index.parse().ok()? })
            })
            // Only one spelling is valid, but `+1-02` also parses as numbers.
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| ChunkIdError(text.to_owned()))
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
