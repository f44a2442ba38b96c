//! The glyphs of a page.

use kurbo::{Point, Vec2};

/// A glyph with its position, in points from the upper left corner.
#[derive(Clone, Debug)]
pub struct PlacedGlyph {
    /// The characters, in logical order.
    pub text: String,
    /// Beginning of the glyph on its baseline.
    pub origin: Point,
    /// Expected position of the next glyph of a word.
    pub end: Point,
    /// The direction of writing, of length 1.
    pub direction: Vec2,
    /// The size of the font.
    pub size: f64,
}
