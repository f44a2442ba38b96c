//! The chapter of a chunk.

use serde::{Deserialize, Serialize};

/// A chapter of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chapter {
    /// Position among the chapters of the text, from 1, independent of a number in the heading.
    pub number: usize,
    /// Title without `Chapter 3:` or `##`; the whole line if nothing else is left.
    pub title: String,
}

impl Chapter {
    /// Returns a chapter by its position, from 1, and its title.
    pub fn new(number: usize, title: impl Into<String>) -> Self {
        Self { number, title: title.into() }
    }
}
