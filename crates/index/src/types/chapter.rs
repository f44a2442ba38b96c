//! The chapter that a chunk belongs to.

use serde::{Deserialize, Serialize};

/// A chapter of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chapter {
    /// 1-based position among the chapters of the text, whatever number the heading has.
    pub number: usize,
    /// Title without a prefix such as `Chapter 3:` or `##`. The whole line if nothing would be
    /// left.
    pub title: String,
}

impl Chapter {
    /// Creates a chapter with a 1-based position and a title.
    pub fn new(number: usize, title: impl Into<String>) -> Self {
        Self { number, title: title.into() }
    }
}
