#![doc = include_str!("../README.md")]

mod bidi;
mod characters;
mod columns;
mod glyph;
mod hyphens;
mod lines;
mod order;

pub use kurbo;

pub use crate::{characters::push_plain, glyph::PlacedGlyph};

/// Returns the text of the glyphs of a page, which are in the order in which they were drawn. Lines
/// are separated by a line break, and paragraphs and columns by an empty line.
#[must_use]
pub fn text(glyphs: Vec<PlacedGlyph>) -> String {
    order::text(lines::of_glyphs(glyphs))
}
