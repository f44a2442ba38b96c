//! The chapter of a chunk.

use serde::{Deserialize, Serialize};

/// The chapter that a chunk is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chapter {
    /// Its place among the chapters of the text, from 1, whatever number it calls itself.
    pub number: usize,
    /// Its title, without `Chapter 3:` or `##`; the whole line if there is no other title.
    pub title: String,
}

impl Chapter {
    /// A chapter by its place, from 1, and its title.
    pub fn new(number: usize, title: impl Into<String>) -> Self {
        Self { number, title: title.into() }
    }
}
