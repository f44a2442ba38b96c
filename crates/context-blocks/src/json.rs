//! Writes blocks as JSON, for scripts that count text in UTF-16.

use serde_json::{Map, Value};

use crate::{Block, parse::Parsed};

impl Parsed<'_> {
    /// Returns the blocks as a JSON array with the fields that the seed's JavaScript expects:
    /// `type`, `uri`, `ephemeral`, `raw`, `start`, `end`, `data`, and for an inline resource
    /// `inline`, `resourceType` and `tags` (seed 003, part 6). `start` and `end` count UTF-16
    /// units. `text` is the parsed text.
    ///
    /// # Panics
    ///
    /// If `text` is shorter than the parsed text.
    pub fn to_json(&self, text: &str) -> Value {
        let mut counter = Utf16Counter { text, at: 0, units: 0 };
        self.blocks
            .iter()
            .map(|block| {
                let start = counter.units_until(block.span().start);
                let end = counter.units_until(block.span().end);
                block_to_json(block, start, end)
            })
            .collect()
    }
}

/// Counts the UTF-16 units of a text, in one pass.
struct Utf16Counter<'t> {
    text: &'t str,
    at: usize,
    units: usize,
}

impl Utf16Counter<'_> {
    /// Returns the number of units before the byte `end`, which must not decrease.
    fn units_until(&mut self, end: usize) -> usize {
        self.units += self.text[self.at..end].chars().map(char::len_utf16).sum::<usize>();
        self.at = end;
        self.units
    }
}

fn block_to_json(block: &Block<'_>, start: usize, end: usize) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), block.kind().into());
    if let Some(uri) = block.uri() {
        fields.insert("uri".to_owned(), uri.into());
    }
    fields.insert("ephemeral".to_owned(), block.is_ephemeral().into());
    fields.insert("raw".to_owned(), block.raw().into());
    fields.insert("start".to_owned(), start.into());
    fields.insert("end".to_owned(), end.into());
    if block.is_inline() {
        fields.insert("inline".to_owned(), true.into());
        if let Some(media_type) = block.media_type() {
            fields.insert("resourceType".to_owned(), media_type.into());
        }
        fields.insert("tags".to_owned(), block.tags().into());
    } else {
        fields.insert("data".to_owned(), block.json());
    }
    Value::Object(fields)
}
