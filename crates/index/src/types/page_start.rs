//! Pages inside of a chunk.

use serde::{Deserialize, Serialize};

use super::StoredChunk;

/// A page that begins inside a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PageStart {
    /// Number of the page, from 1.
    pub page: u32,
    /// Start of the page in [`StoredChunk::content`], in bytes of UTF-8.
    pub offset: usize,
}

impl PageStart {
    /// Returns a page by its number, from 1, with its start in the content of the chunk.
    pub fn new(page: u32, offset: usize) -> Self {
        Self { page, offset }
    }
}

impl StoredChunk {
    /// Returns the page at an offset in the content.
    pub fn page_at(&self, offset: usize) -> Option<u32> {
        let before = self.page_starts.partition_point(|start| start.offset <= offset);
        before.checked_sub(1).map_or(self.page, |last| Some(self.page_starts[last].page))
    }
}
