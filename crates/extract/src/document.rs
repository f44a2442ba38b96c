//! The text of a document with the spans of pages and headings.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

/// The text of a document, with its structure and metadata. All spans are byte ranges of
/// [`Self::content`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Extracted {
    /// The text that a reader of the document sees.
    pub content: String,
    /// The URI of the document ([`Hint::source_uri`](crate::Hint::source_uri)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_uri: Option<String>,
    /// The media type as which the document was read, without parameters.
    pub mime_type: String,
    /// The title, if the document declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The detected character encoding, by its name in the WHATWG Encoding Standard; only for
    /// formats that allow several encodings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Number of pages, for formats with pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_count: Option<u32>,
    /// Length of the content in characters (Unicode scalar values).
    pub character_count: usize,
    /// The pages, in order; at most [`Self::page_count`].
    pub pages: Vec<Page>,
    /// The headings, in order; empty for formats without headings.
    pub headings: Vec<Heading>,
    /// Whether a sentence may continue after a line break, as in plain text; false if each line is
    /// a unit.
    pub wrapped: bool,
    /// Metadata that the document declares: `author`, `description`, `language` and the like.
    pub metadata: BTreeMap<String, String>,
    /// Parts that could not be read, or were removed.
    pub problems: Vec<Problem>,
}

impl Extracted {
    /// Returns a document with this text and no other values.
    pub fn new(content: String) -> Self {
        Self { content, ..Self::default() }
    }
}

/// A page of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page {
    /// Number from 1, in the order of the document.
    pub number: u32,
    /// Span of the text.
    pub span: Range<usize>,
}

impl Page {
    /// Returns a page by its number, from 1, and the span of its text.
    pub fn new(number: u32, span: Range<usize>) -> Self {
        Self { number, span }
    }
}

/// A heading in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Heading {
    /// Level, from 1 for the highest.
    pub level: u8,
    /// Text of the heading.
    pub title: String,
    /// Span of the heading.
    pub span: Range<usize>,
}

impl Heading {
    /// Returns a heading of a level, from 1 for the highest, with the span of its text.
    pub fn new(level: u8, title: impl Into<String>, span: Range<usize>) -> Self {
        Self { level, title: title.into(), span }
    }
}

/// A part of a document that could not be read, or was removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// Bytes that are invalid in the encoding, replaced by U+FFFD.
    #[error("{count} places are not valid {encoding}")]
    InvalidBytes {
        /// Number of places.
        count: usize,
        /// The encoding.
        encoding: String,
    },
    /// NUL characters, replaced by spaces.
    #[error("{count} NUL characters")]
    Nul {
        /// Number of NUL characters.
        count: usize,
    },
    /// Text that is hidden from readers of the document. It is removed, because it may be an
    /// instruction for language models.
    #[error("{count} passages that are hidden from readers")]
    Hidden {
        /// Number of passages.
        count: usize,
    },
    /// The document does not have its declared format; it was read as plain text.
    #[error("read as plain text: {reason}")]
    TakenAsText {
        /// The reason, with its position.
        reason: String,
    },
    /// A page whose text could not be read.
    #[error("page {number}: {reason}")]
    Page {
        /// Page number, from 1.
        number: u32,
        /// The reason.
        reason: String,
    },
    /// Pages, or a document without pages, that have pictures and no text. Text in pictures is not
    /// recognised.
    #[error("{}", pictures(.pages))]
    Pictures {
        /// Page numbers, from 1, in order; empty for a document without pages.
        pages: Vec<u32>,
    },
    /// Parts that are left out because they are not text: data in base64, pictures of a notebook.
    #[error("{reason}")]
    NotText {
        /// What is left out.
        reason: String,
    },
    /// A problem of another kind.
    #[error("{reason}")]
    Other {
        /// The reason, with its position.
        reason: String,
    },
}

impl Problem {
    /// Returns whether a text that a reader of the document sees may be missing.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::InvalidBytes { .. }
            | Self::Page { .. }
            | Self::Pictures { .. }
            | Self::Other { .. } => true,
            Self::Nul { .. }
            | Self::Hidden { .. }
            | Self::TakenAsText { .. }
            | Self::NotText { .. } => false,
        }
    }
}

fn pictures(pages: &[u32]) -> String {
    /// Maximum number of pages that are named.
    const NAMED: usize = 10;
    let named: Vec<String> = pages.iter().take(NAMED).map(u32::to_string).collect();
    let named = named.join(", ");
    let place = match pages {
        [] => "it has".to_owned(),
        [_] => format!("page {named} has"),
        _ if pages.len() <= NAMED => format!("pages {named} have"),
        _ => format!("{} pages ({named}, …) have", pages.len()),
    };
    format!("{place} pictures and no text; text in pictures is not recognised")
}

/// Bytes of memory that a heading takes, or an open element or another small part while it is read.
/// Readers count them as text, because a document of nothing else would take many times its size.
pub(crate) const PART_BYTES: usize = 128;

/// Returns the problem of readings above characters, which would stand within words.
pub(crate) fn readings_left_out(count: usize) -> Problem {
    let reason = format!("{count} readings above characters (ruby) are left out");
    Problem::Other { reason }
}
