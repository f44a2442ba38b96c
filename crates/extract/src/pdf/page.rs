//! Arranges the glyphs of a page into lines of text.

use std::panic::resume_unwind;

use hayro_interpret::{
    BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, SoftMask,
    font::{Glyph, GlyphRun},
    hayro_cmap::BfString,
    kurbo::{BezPath, Point, Vec2},
};

use crate::Stop;
use crate::{ExtractError, Limits};

/// The reason why reading a page ended. It is thrown as a panic, because the interpreter cannot be
/// stopped in another way.
pub(super) struct PageStopped(pub(super) ExtractError);

/// Collects the text of a page.
pub(super) struct PageText {
    text: String,
    last: Option<GlyphPosition>,
    /// Start of the last run of filled glyphs.
    filled: Option<Point>,
    unknown: usize,
    stop: Stop,
    limits: Limits,
}

/// Position of a glyph, in points from the upper left corner.
struct GlyphPosition {
    origin: Point,
    /// Expected position of the next glyph of a word.
    end: Point,
    /// The direction of writing, of length 1.
    direction: Vec2,
    /// The size of the font.
    size: f64,
    length: usize,
}

/// Units per font size: glyphs are measured in thousandths of it (ISO 32000-2, 9.2.4).
const UNITS: f64 = 1000.0;

impl PageText {
    pub(super) fn new(stop: Stop, limits: Limits) -> Self {
        Self { text: String::new(), last: None, filled: None, unknown: 0, stop, limits }
    }

    /// Number of glyphs without a Unicode character.
    pub(super) fn unknown(&self) -> usize {
        self.unknown
    }

    pub(super) fn finish(self) -> String {
        let lines: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        lines.join("\n").trim().to_owned()
    }

    fn check(&self) {
        let may_go_on = self.stop.check().map_err(ExtractError::from);
        if let Err(error) = may_go_on.and_then(|()| self.limits.check_content(self.text.len())) {
            resume_unwind(Box::new(PageStopped(error)));
        }
    }

    fn add(&mut self, meaning: &str, placed: GlyphPosition) {
        if let Some(last) = &self.last {
            // Some programs print bold letters twice.
            let is_again = (placed.origin - last.origin).hypot() < 0.1 * last.size
                && self.text[self.text.len() - last.length..] == *meaning;
            if is_again {
                return;
            }
            self.text.push_str(between(last, &placed, self.text.ends_with(char::is_whitespace)));
        }
        let before = self.text.len();
        for character in meaning.chars() {
            match ligature(character) {
                Some(letters) => self.text.push_str(letters),
                // Line breaks are determined by positions.
                None if character.is_control() => self.text.push(' '),
                None => self.text.push(character),
            }
        }
        self.last = Some(GlyphPosition { length: self.text.len() - before, ..placed });
    }
}

/// The separator between two glyphs: none, a space, or the end of a line or a paragraph.
fn between(last: &GlyphPosition, next: &GlyphPosition, is_apart: bool) -> &'static str {
    let size = last.size.max(next.size);
    let way = next.origin - last.end;
    let along = way.dot(last.direction);
    let across = way.cross(last.direction).abs();
    let is_turned = last.direction.dot(next.direction) < 0.9;
    // Indices are up to half a line higher or lower.
    if is_turned || across > 0.6 * size || along < -1.5 * size {
        // Down is to the right of the direction of writing.
        let is_next_line = way.cross(last.direction) < 0.0 && across < 1.9 * size && !is_turned;
        return if is_next_line { "\n" } else { "\n\n" };
    }
    // Spaces between words are a quarter of the font size and more; gaps between letters are seldom
    // a tenth.
    if along > 0.17 * size && !is_apart { " " } else { "" }
}

/// Returns the letters of a ligature.
fn ligature(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{FB00}' => "ff",
        '\u{FB01}' => "fi",
        '\u{FB02}' => "fl",
        '\u{FB03}' => "ffi",
        '\u{FB04}' => "ffl",
        '\u{FB05}' | '\u{FB06}' => "st",
        _ => return None,
    })
}

fn advance(glyph: &Glyph<'_>) -> f64 {
    let advance = match glyph {
        Glyph::Outline(glyph) => glyph.advance_width(),
        Glyph::Type3(glyph) => glyph.advance_width(),
    };
    advance.map_or(UNITS / 2.0, f64::from)
}

impl Device<'_> for PageText {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, '_>, props: DrawProps<'_>, mode: &DrawMode) {
        self.check();
        let start =
            run.glyphs().first().map(|glyph| props.transform * glyph.transform() * Point::ZERO);
        match mode {
            // The outlines of the glyphs that were filled before (text rendering mode 2).
            DrawMode::Stroke(_) if start.is_some() && self.filled == start => return,
            DrawMode::Fill(_) => self.filled = start,
            _ => self.filled = None,
        }
        for glyph in run.glyphs() {
            let transform = props.transform * glyph.transform();
            let origin = transform * Point::ZERO;
            let em = transform * Point::new(UNITS, 0.0) - origin;
            let size = em.hypot();
            let meaning = match glyph.as_unicode() {
                Some(BfString::Char(character)) => character.to_string(),
                Some(BfString::String(text)) => text,
                None => {
                    self.unknown += 1;
                    continue;
                }
            };
            if !size.is_finite() || size <= 0.0 || meaning.is_empty() {
                continue;
            }
            let end = transform * Point::new(advance(glyph), 0.0);
            let placed = GlyphPosition { origin, end, direction: em / size, size, length: 0 };
            self.add(&meaning, placed);
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'_>, _: &DrawMode) {
        self.check();
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.check();
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {
        self.check();
    }

    fn draw_image(&mut self, _: Image<'_, '_>, _: ImageDrawProps<'_>) {
        self.check();
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
