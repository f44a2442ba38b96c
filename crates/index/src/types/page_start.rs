//! Pages inside of a chunk.

use serde::{Deserialize, Serialize};

/// A page that begins inside a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PageStart {
    /// Number of the page, from 1.
    pub page: u32,
    /// Start of the page in [`StoredChunk::content`](crate::StoredChunk::content), in bytes of
    /// UTF-8.
    pub offset: usize,
}

impl PageStart {
    /// Returns a page by its number, from 1, with its start in the content of the chunk.
    pub fn new(page: u32, offset: usize) -> Self {
        Self { page, offset }
    }
}
