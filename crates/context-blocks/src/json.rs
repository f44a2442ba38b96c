//! Writes blocks as JSON, for scripts that count text in UTF-16.

use serde_json::{Map, Value};

use crate::parse::Parsed;

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
        let mut at = 0;
        let mut units = 0;
        let mut units_until = |end: usize| {
            units += text[at..end].chars().map(char::len_utf16).sum::<usize>();
            at = end;
            units
        };
        let describe = |block: &crate::Block<'_>| {
            let mut fields = Map::new();
            fields.insert("type".to_owned(), block.kind().into());
            if let Some(uri) = block.uri() {
                fields.insert("uri".to_owned(), uri.into());
            }
            fields.insert("ephemeral".to_owned(), block.is_ephemeral().into());
            fields.insert("raw".to_owned(), block.raw().into());
            fields.insert("start".to_owned(), units_until(block.span().start).into());
            fields.insert("end".to_owned(), units_until(block.span().end).into());
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
        };
        self.blocks.iter().map(describe).collect()
    }
}
