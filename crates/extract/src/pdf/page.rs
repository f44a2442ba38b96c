//! Collects the glyphs of a page, as the interpreter draws them.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    panic::resume_unwind,
};

use hayro_interpret::{
    BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, SoftMask,
    font::{Glyph, GlyphRun},
    hayro_cmap::{BfString, WritingMode},
    hayro_syntax::object::{Dict, String as PdfString},
    kurbo::{Affine, BezPath, Point, Vec2},
};
use marquetry_reading_order::{KASHIDA, PlacedGlyph, is_joined, push_plain};

use super::strings;
use crate::{ExtractError, Limits, Stop};

/// The reason why reading a page ended. It is thrown as a panic, because the interpreter cannot be
/// stopped in another way.
pub(super) struct PageStopped(pub(super) ExtractError);

/// Maximum number of glyphs that are arranged together. A page has some thousands; those of a page
/// with more would fill the memory, so it is arranged in parts.
const MAX_GLYPHS: usize = 1 << 18;

/// Collects the text of a page.
pub(super) struct PageText {
    glyphs: Vec<PlacedGlyph>,
    /// Text of the parts that are arranged already.
    text: String,
    /// Length of the texts of all glyphs.
    length: usize,
    drawn: DrawnGlyphs,
    /// Start of the last run of filled glyphs.
    filled: Option<Point>,
    /// Depth of marked content, and the text that replaces its glyphs.
    depth: usize,
    replaced: Option<Replacement>,
    unknown: usize,
    has_images: bool,
    has_shapes: bool,
    has_spaces: bool,
    stop: Stop,
    limits: Limits,
}

/// Marked content whose glyphs stand for another text (`ActualText`; ISO 32000-2, 14.9.4).
struct Replacement {
    text: String,
    depth: usize,
    /// The first glyph, which gets the text, and reaches as far as the other ones in its line.
    glyph: Option<PlacedGlyph>,
}

/// Units per font size: glyphs are measured in thousandths of it (ISO 32000-2, 9.2.4).
const UNITS: f64 = 1000.0;

impl PageText {
    pub(super) fn new(stop: Stop, limits: Limits) -> Self {
        Self {
            glyphs: Vec::new(),
            text: String::new(),
            length: 0,
            drawn: DrawnGlyphs::default(),
            filled: None,
            depth: 0,
            replaced: None,
            unknown: 0,
            has_images: false,
            has_shapes: false,
            has_spaces: false,
            stop,
            limits,
        }
    }

    /// Number of glyphs without a Unicode character.
    pub(super) fn unknown(&self) -> usize {
        self.unknown
    }

    /// Returns whether an image was drawn.
    pub(super) fn has_images(&self) -> bool {
        self.has_images
    }

    /// Returns whether a shape was drawn, which may be the outline of a letter.
    pub(super) fn has_shapes(&self) -> bool {
        self.has_shapes
    }

    /// Returns the text in reading order.
    pub(super) fn finish(mut self) -> String {
        self.end_replacement();
        self.arrange();
        self.text
    }

    /// Arranges the glyphs so far into text.
    fn arrange(&mut self) {
        self.drawn = DrawnGlyphs::default();
        let text = marquetry_reading_order::text(std::mem::take(&mut self.glyphs));
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&text);
    }

    /// Returns whether glyphs with these characters, without white space, are drawn in a rectangle.
    pub(super) fn shows(&self, text: &str, low: Point, high: Point) -> bool {
        let within = self.glyphs.iter().filter(|glyph| {
            let Point { x, y } = glyph.origin;
            (low.x..=high.x).contains(&x) && (low.y..=high.y).contains(&y)
        });
        let drawn: String = within.map(|glyph| glyph.text.as_str()).collect();
        let letters = text.chars().filter(|character| !character.is_whitespace());
        let drawn = drawn.chars().filter(|character| !character.is_whitespace());
        drawn.collect::<String>().contains(&letters.collect::<String>())
    }

    /// Adds a text that the interpreter does not draw to its line.
    pub(super) fn add_text(&mut self, text: &str, origin: Point, end: Point, size: f64) {
        let mut plain = String::new();
        push_plain(text, &mut plain);
        let direction = Vec2::new(1.0, 0.0);
        self.length += plain.len();
        self.insert(vec![PlacedGlyph { text: plain, origin, end, direction, size }]);
    }

    /// Moves the glyphs of a rectangle to their line. Values of forms are drawn after the page.
    pub(super) fn move_to_line(&mut self, low: Point, high: Point) {
        let (moved, others) = std::mem::take(&mut self.glyphs).into_iter().partition(|glyph| {
            let Point { x, y } = glyph.origin;
            (low.x..=high.x).contains(&x) && (low.y..=high.y).contains(&y)
        });
        self.glyphs = others;
        self.insert(moved);
    }

    /// Inserts glyphs behind the text before them in their line, or behind the last text above
    /// them.
    fn insert(&mut self, glyphs: Vec<PlacedGlyph>) {
        let Some(PlacedGlyph { origin, size, .. }) = glyphs.first() else { return };
        let beside = self.glyphs.iter().rposition(|other| {
            (other.origin.y - origin.y).abs() < 0.8 * size && other.end.x <= origin.x + size
        });
        let before =
            beside.or_else(|| self.glyphs.iter().rposition(|other| other.origin.y < origin.y));
        let at = before.map_or(0, |at| at + 1);
        drop(self.glyphs.splice(at..at, glyphs));
    }

    /// Returns whether a glyph without a meaning is one that lengthens the line between two Arabic
    /// letters (kashida). LibreOffice writes it so in justified text. Where spaces have no meaning
    /// either, it may be a space.
    fn is_kashida(&self, advance: f64) -> bool {
        /// Widest kashida, in thousandths of the font size. Letters are wider.
        const WIDEST: f64 = 400.0;
        let last = self.glyphs.last().and_then(|last| last.text.chars().next_back());
        advance < WIDEST && self.has_spaces && last.is_some_and(is_joined)
    }

    /// Ends the reading of the page if its limits are reached.
    pub(super) fn check(&self) {
        let may_go_on = self.stop.check().map_err(ExtractError::from);
        if let Err(error) = may_go_on.and_then(|()| self.limits.check_content(self.length)) {
            resume_unwind(Box::new(PageStopped(error)));
        }
    }

    fn add(&mut self, glyph: PlacedGlyph) {
        match &mut self.replaced {
            Some(replaced) => replaced.add(glyph),
            None => self.push(glyph),
        }
    }

    fn push(&mut self, glyph: PlacedGlyph) {
        if self.drawn.is_again(&glyph) {
            return;
        }
        self.length += glyph.text.len();
        self.has_spaces |= glyph.text == " ";
        self.glyphs.push(glyph);
        // A single run may have any length.
        if self.glyphs.len() >= 2 * MAX_GLYPHS {
            self.arrange();
        }
    }

    fn end_replacement(&mut self) {
        let Some(Replacement { text, glyph: Some(mut glyph), .. }) = self.replaced.take() else {
            return;
        };
        let is_hyphen = matches!(glyph.text.as_str(), "-" | "\u{2010}" | "\u{ad}");
        // Some programs replace the hyphen of a word that is broken at the line end by nothing.
        glyph.text = if text.is_empty() && is_hyphen { "\u{ad}".to_owned() } else { text };
        if !glyph.text.is_empty() {
            self.push(glyph);
        }
    }
}

impl Replacement {
    fn add(&mut self, glyph: PlacedGlyph) {
        let Some(first) = &mut self.glyph else {
            self.glyph = Some(glyph);
            return;
        };
        let way = glyph.origin - first.origin;
        let is_same_line = way.cross(first.direction).abs() < 0.6 * first.size;
        if !is_same_line {
            return;
        }
        // Glyphs of right-to-left scripts may be drawn from right to left.
        if way.dot(first.direction) < 0.0 {
            first.origin = glyph.origin;
        }
        if (glyph.end - first.end).dot(first.direction) > 0.0 {
            first.end = glyph.end;
        }
    }
}

/// The glyphs that were drawn, by their places.
///
/// Some programs print bold letters twice, next to each other; others print shadows.
#[derive(Default)]
struct DrawnGlyphs(HashMap<(i32, i32), Vec<(u64, Point)>>);

impl DrawnGlyphs {
    /// Side of a square of places, in points.
    const SQUARE: f64 = 4.0;
    /// Largest distance between the copies of a glyph, by the size of the font. The narrowest
    /// letters are twice as wide.
    const DISTANCE: f64 = 0.12;
    /// Maximum number of glyphs of a square that are compared. It bounds the time for a page with
    /// all glyphs at one place.
    const COMPARED: usize = 32;

    /// Adds a glyph. Returns whether a glyph with the same characters was drawn at its place
    /// before.
    fn is_again(&mut self, glyph: &PlacedGlyph) -> bool {
        let distance = (Self::DISTANCE * glyph.size).min(Self::SQUARE);
        let mut hasher = DefaultHasher::new();
        glyph.text.hash(&mut hasher);
        let hash = hasher.finish();
        // The conversion saturates.
        let x = (glyph.origin.x / Self::SQUARE).floor() as i32;
        let y = (glyph.origin.y / Self::SQUARE).floor() as i32;
        for column in x.saturating_sub(1)..=x.saturating_add(1) {
            for row in y.saturating_sub(1)..=y.saturating_add(1) {
                let Some(drawn) = self.0.get(&(column, row)) else { continue };
                let is_again = (drawn.iter().rev().take(Self::COMPARED))
                    .any(|(other, at)| *other == hash && (*at - glyph.origin).hypot() < distance);
                if is_again {
                    return true;
                }
            }
        }
        self.0.entry((x, y)).or_default().push((hash, glyph.origin));
        false
    }
}

fn advance(glyph: &Glyph<'_>) -> f64 {
    let advance = match glyph {
        Glyph::Outline(glyph) => glyph.advance_width(),
        Glyph::Type3(glyph) => glyph.advance_width(),
    };
    advance.map_or(UNITS / 2.0, f64::from)
}

/// Returns the place of a glyph; [`None`] if it has no size.
fn placed(
    text: String,
    transform: Affine,
    advance: f64,
    writing_mode: WritingMode,
) -> Option<PlacedGlyph> {
    /// The position above the baseline from which vertical writing goes down; the usual value of
    /// fonts (ISO 32000-2, 9.7.4.3).
    const TOP: f64 = 880.0;
    let origin = transform * Point::ZERO;
    let em = transform * Point::new(UNITS, 0.0) - origin;
    let size = em.hypot();
    if !size.is_finite() || size <= 0.0 || !origin.is_finite() {
        return None;
    }
    Some(match writing_mode {
        WritingMode::Horizontal => {
            let end = transform * Point::new(advance, 0.0);
            PlacedGlyph { text, origin, end, direction: em / size, size }
        }
        WritingMode::Vertical => {
            let top = transform * Point::new(advance / 2.0, TOP);
            let bottom = transform * Point::new(advance / 2.0, TOP - UNITS);
            let direction = (bottom - top) / (bottom - top).hypot();
            PlacedGlyph { text, origin: top, end: bottom, direction, size }
        }
    })
}

impl Device<'_> for PageText {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, '_>, props: DrawProps<'_>, mode: &DrawMode) {
        self.check();
        if self.glyphs.len() >= MAX_GLYPHS {
            self.arrange();
        }
        let start =
            run.glyphs().first().map(|glyph| props.transform * glyph.transform() * Point::ZERO);
        match mode {
            // The outlines of the glyphs that were filled before (text rendering mode 2).
            DrawMode::Stroke(_) if start.is_some() && self.filled == start => return,
            DrawMode::Fill(_) => self.filled = start,
            _ => self.filled = None,
        }
        for glyph in run.glyphs() {
            let meaning = match glyph.as_unicode() {
                Some(BfString::Char(character)) => character.to_string(),
                Some(BfString::String(text)) => text,
                // The text of the marked content is known.
                None if self.replaced.is_some() => "\u{fffd}".to_owned(),
                None if self.is_kashida(advance(glyph)) => KASHIDA.to_string(),
                None => {
                    self.unknown += 1;
                    continue;
                }
            };
            let mut text = String::new();
            push_plain(&meaning, &mut text);
            let transform = props.transform * glyph.transform();
            let glyph = placed(text, transform, advance(glyph), run.writing_mode());
            if let Some(glyph) = glyph.filter(|glyph| !glyph.text.is_empty()) {
                self.add(glyph);
            }
        }
    }

    fn begin_marked_content(&mut self, _: &[u8], properties: Option<&Dict<'_>>) {
        self.depth = self.depth.saturating_add(1);
        let text = properties.and_then(|it| it.get::<PdfString<'_>>(b"ActualText"));
        if let Some(text) = text.filter(|_| self.replaced.is_none()) {
            let mut plain = String::new();
            push_plain(&strings::text(text.as_bytes()), &mut plain);
            self.replaced = Some(Replacement { text: plain, depth: self.depth, glyph: None });
        }
    }

    fn end_marked_content(&mut self) {
        if self.replaced.as_ref().is_some_and(|replaced| replaced.depth == self.depth) {
            self.end_replacement();
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'_>, _: &DrawMode) {
        self.check();
        self.has_shapes = true;
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.check();
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {
        self.check();
    }

    fn draw_image(&mut self, _: Image<'_, '_>, _: ImageDrawProps<'_>) {
        self.check();
        self.has_images = true;
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
