//! Where the lines of large texts begin, so that each read of a few lines does not read the whole
//! text again.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_artifacts::{Record, Version, store::ContentHash};

use super::{ArtifactTools, ToolError};

/// Bytes of a text that are read at once.
const BLOCK: u64 = 256 << 10;

/// Texts whose lines are remembered; an index has 16 bytes for each block.
const MAX_TEXTS: usize = 64;

/// The place of a line in a text.
pub(super) struct Line {
    /// Start of the line in bytes; the end of the text if there is no such line.
    pub(super) start: u64,
    /// Number of lines of the text.
    pub(super) total: u64,
}

/// The lines of one text.
struct LineIndex {
    /// The blocks that were read, in their order.
    blocks: Vec<Block>,
    /// Number of lines.
    total: u64,
}

struct Block {
    /// Start in bytes.
    start: u64,
    /// Number of lines that end before it.
    lines_before: u64,
}

/// The indexes of the texts that were read last, by the hash of their bytes. Equal texts of two
/// users share an index.
#[derive(Default)]
pub(super) struct LineIndexes(Mutex<VecDeque<(ContentHash, Arc<LineIndex>)>>);

impl LineIndexes {
    fn get(&self, hash: ContentHash) -> Option<Arc<LineIndex>> {
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = indexes.iter().position(|(known, _)| *known == hash)?;
        let entry = indexes.remove(at)?;
        let index = entry.1.clone();
        indexes.push_back(entry);
        Some(index)
    }

    fn insert(&self, hash: ContentHash, index: Arc<LineIndex>) {
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        indexes.retain(|(known, _)| *known != hash);
        if indexes.len() == MAX_TEXTS {
            indexes.pop_front();
        }
        indexes.push_back((hash, index));
    }
}

impl ArtifactTools {
    /// Finds the start of a line and counts all lines. The first search reads the whole text, one
    /// block at a time; later ones read one block.
    pub(super) async fn find_line(&self, record: &Record, line: u64) -> Result<Line, ToolError> {
        let index = if let Some(index) = self.line_indexes.get(record.hash) {
            index
        } else {
            let index = Arc::new(self.index_lines(record).await?);
            self.line_indexes.insert(record.hash, index.clone());
            index
        };
        let total = index.total;
        if line <= 1 {
            return Ok(Line { start: 0, total });
        }
        if line > total {
            return Ok(Line { start: record.size_bytes, total });
        }
        // The line begins after the end of the line before it.
        let ends_before = line - 1;
        let at = index.blocks.partition_point(|block| block.lines_before < ends_before) - 1;
        let Block { start, lines_before } = index.blocks[at];
        let end = index.blocks.get(at + 1).map_or(record.size_bytes, |next| next.start);
        let bytes = self.read_block(record, start..end).await?;
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let nth = usize::try_from(ends_before - lines_before - 1).unwrap_or(usize::MAX);
        let start =
            ends.nth(nth).map_or(record.size_bytes, |(offset, _)| start + offset as u64 + 1);
        Ok(Line { start, total })
    }

    async fn index_lines(&self, record: &Record) -> Result<LineIndex, ToolError> {
        let size = record.size_bytes;
        let mut blocks = Vec::new();
        let mut at = 0;
        let mut ended = 0;
        let mut open = false;
        while at < size {
            let range = at..size.min(at + BLOCK);
            let is_last = range.end == size;
            let block = self.read_block(record, range).await?;
            let text = match std::str::from_utf8(&block) {
                Ok(text) => text,
                // The block may end within a character; the next block starts with it.
                Err(error) if error.error_len().is_none() && !is_last => {
                    std::str::from_utf8(&block[..error.valid_up_to()]).unwrap_or_default()
                }
                Err(_) => "",
            };
            if text.is_empty() {
                return Err(ToolError::NotText(record.name.as_str().to_owned()));
            }
            blocks.push(Block { start: at, lines_before: ended });
            ended += text.matches('\n').count() as u64;
            open = !text.ends_with('\n');
            at += text.len() as u64;
        }
        Ok(LineIndex { blocks, total: ended + u64::from(open) })
    }

    async fn read_block(
        &self,
        record: &Record,
        range: Range<u64>,
    ) -> Result<bytes::Bytes, ToolError> {
        let version = Version::Number(record.version);
        Ok(self.store.read_range(&self.scope, &record.name, version, range).await?)
    }
}
