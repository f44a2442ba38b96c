//! The text of a document with the places of pages and headings.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

/// The text of a document, and what is known of it. All places are in bytes of [`Self::content`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Extracted {
    /// What a reader of the document sees, as text.
    pub content: String,
    /// Where the document is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_uri: Option<String>,
    /// The media type that the document was read as, without parameters.
    pub mime_type: String,
    /// Its title, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The encoding that the text was in, by its name in the Encoding Standard; only where the format leaves it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// How many pages it has, where it has pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_count: Option<u32>,
    /// How many characters (Unicode scalar values) the content has.
    pub character_count: usize,
    /// Where pages are, in order; there may be fewer than [`Self::page_count`] says.
    pub pages: Vec<Page>,
    /// Where headings are, in order; none for formats that know none.
    pub headings: Vec<Heading>,
    /// Whether a sentence may go on after a line break, as in plain text; false where each line stands for itself.
    pub wrapped: bool,
    /// What the document says of itself: `author`, `description`, `language` and the like.
    pub metadata: BTreeMap<String, String>,
    /// What was lost on the way.
    pub problems: Vec<Problem>,
}

impl Extracted {
    /// A document of this text, of which nothing else is known.
    pub fn new(content: String) -> Self {
        Self { content, ..Self::default() }
    }
}

/// A page of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page {
    /// Its number, from 1, in the order of the document.
    pub number: u32,
    /// Where its text is.
    pub span: Range<usize>,
}

impl Page {
    /// A page with this number, from 1, and the place of its text.
    pub fn new(number: u32, span: Range<usize>) -> Self {
        Self { number, span }
    }
}

/// A heading in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Heading {
    /// 1 for the highest.
    pub level: u8,
    /// Its text.
    pub title: String,
    /// Where it is.
    pub span: Range<usize>,
}

impl Heading {
    /// A heading of a level, from 1 for the highest, with the place of its text.
    pub fn new(level: u8, title: impl Into<String>, span: Range<usize>) -> Self {
        Self { level, title: title.into(), span }
    }
}

/// What was lost when a document was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// Bytes that mean nothing in the encoding; U+FFFD stands for them.
    #[error("{count} places are no valid {encoding}")]
    InvalidBytes {
        /// How many places.
        count: usize,
        /// The encoding.
        encoding: String,
    },
    /// NUL characters; spaces stand for them.
    #[error("{count} NUL characters")]
    Nul {
        /// How many.
        count: usize,
    },
    /// Text that no reader of the document sees, left out: it may have been written for language models alone.
    #[error("{count} passages that a reader does not see")]
    Hidden {
        /// How many passages.
        count: usize,
    },
    /// The document is not what it is said to be; its text was taken as it stands.
    #[error("taken as plain text: {reason}")]
    TakenAsText {
        /// What is wrong, and where.
        reason: String,
    },
    /// A page without its text.
    #[error("page {number}: {reason}")]
    Page {
        /// Its number.
        number: u32,
        /// What is wrong.
        reason: String,
    },
    /// Something small.
    #[error("{reason}")]
    Other {
        /// What is wrong, and where.
        reason: String,
    },
}
