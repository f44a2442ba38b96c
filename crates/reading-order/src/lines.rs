//! Joins the glyphs of a page into lines.

use kurbo::Vec2;

use crate::{characters::is_upright, glyph::PlacedGlyph};

/// A piece of a line, without large gaps. Places are measured along and across the direction of
/// writing, so that turned and vertical writing is arranged as horizontal writing is.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) glyphs: Vec<LineGlyph>,
    /// Number of the direction of writing, in the order in which directions occur.
    pub(crate) direction: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Position of the baseline. It grows from line to line.
    pub(crate) base: f64,
    /// The largest size of a font.
    pub(crate) size: f64,
}

/// A glyph in its line.
#[derive(Clone, Debug)]
pub(crate) struct LineGlyph {
    pub(crate) text: String,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) base: f64,
    pub(crate) size: f64,
}

/// Largest distance between baselines in a line, by the size of the font. Indices are up to half a
/// line higher or lower.
const RISE: f64 = 0.6;
/// Largest gap in a piece of a line, by the size of the font. Columns are as far apart.
const GAP: f64 = 0.9;

/// Joins glyphs, in the order in which they were drawn.
pub(crate) fn of_glyphs(mut glyphs: Vec<PlacedGlyph>) -> Vec<Line> {
    turn_upright(&mut glyphs);
    let mut directions: Vec<Vec2> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    for PlacedGlyph { text, origin, end, direction, size } in glyphs {
        // The angle of this cosine is four degrees.
        let known = directions.iter().position(|known| known.dot(direction) > 0.9975);
        let number = known.unwrap_or_else(|| {
            directions.push(direction);
            directions.len() - 1
        });
        let along = directions[number];
        let glyph = LineGlyph {
            text,
            start: origin.to_vec2().dot(along),
            end: end.to_vec2().dot(along),
            base: origin.to_vec2().dot(next_line(along)),
            size,
        };
        match lines.last_mut() {
            Some(line) if line.direction == number && line.takes(&glyph) => line.push(glyph),
            _ => lines.push(Line::of(glyph, number)),
        }
    }
    lines
}

/// Returns the direction in which lines follow each other.
fn next_line(direction: Vec2) -> Vec2 {
    Vec2::new(-direction.y, direction.x)
}

/// Sets the direction of characters that stand below one another.
///
/// Browsers draw vertical writing with fonts for horizontal writing, character by character.
fn turn_upright(glyphs: &mut [PlacedGlyph]) {
    /// Fewer characters below one another may be those of a table.
    const FEWEST: usize = 3;
    let mut from = 0;
    let mut is_vertical = false;
    while from < glyphs.len() {
        let column = glyphs[from..].windows(2).take_while(|pair| is_below(&pair[0], &pair[1]));
        let to = from + 1 + column.count();
        // The last column may be shorter.
        let is_rest = is_vertical
            && is_upright_glyph(&glyphs[from])
            && glyphs.get(to).is_none_or(|next| !is_beside(&glyphs[to - 1], next));
        is_vertical = to - from >= FEWEST || is_rest;
        if is_vertical {
            glyphs[from..to].iter_mut().for_each(turn);
        }
        from = to;
    }
}

fn is_upright_glyph(glyph: &PlacedGlyph) -> bool {
    glyph.text.chars().all(is_upright)
}

fn is_below(glyph: &PlacedGlyph, next: &PlacedGlyph) -> bool {
    let way = next.origin - glyph.origin;
    let down = way.dot(next_line(glyph.direction));
    is_upright_glyph(glyph)
        && is_upright_glyph(next)
        && glyph.direction.dot(next.direction) > 0.9975
        && way.dot(glyph.direction).abs() < 0.3 * glyph.size
        && (0.5 * glyph.size..1.7 * glyph.size).contains(&down)
}

fn is_beside(glyph: &PlacedGlyph, next: &PlacedGlyph) -> bool {
    let way = next.origin - glyph.origin;
    way.dot(next_line(glyph.direction)).abs() < RISE * glyph.size
        && way.dot(glyph.direction).abs() < 2.0 * glyph.size
}

fn turn(glyph: &mut PlacedGlyph) {
    let down = next_line(glyph.direction);
    let middle = glyph.origin.midpoint(glyph.end);
    glyph.origin = middle - down * (0.88 * glyph.size);
    glyph.end = glyph.origin + down * glyph.size;
    glyph.direction = down;
}

impl Line {
    fn of(glyph: LineGlyph, direction: usize) -> Self {
        Self {
            direction,
            start: glyph.start.min(glyph.end),
            end: glyph.end.max(glyph.start),
            base: glyph.base,
            size: glyph.size,
            glyphs: vec![glyph],
        }
    }

    fn takes(&self, glyph: &LineGlyph) -> bool {
        let Some(last) = self.glyphs.last() else { return true };
        let size = last.size.max(glyph.size);
        if (glyph.base - last.base).abs() > RISE * size {
            return false;
        }
        let gap = glyph.start - last.end;
        let is_forward = gap >= -1.5 * size && gap <= GAP * size;
        // Some programs draw Hebrew and Arabic from right to left.
        let gap_to_the_left = last.start - glyph.end;
        is_forward || (gap_to_the_left >= -0.5 * size && gap_to_the_left <= GAP * size)
    }

    fn push(&mut self, glyph: LineGlyph) {
        self.start = self.start.min(glyph.start);
        self.end = self.end.max(glyph.end);
        self.size = self.size.max(glyph.size);
        self.glyphs.push(glyph);
    }

    /// Returns whether another piece is in the same line.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        (self.base - other.base).abs() <= RISE * self.size.min(other.size)
    }

    /// Returns whether two pieces are one above the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Appends a piece of the same line.
    pub(crate) fn join(&mut self, other: Self) {
        let is_after = other.start > self.end - 0.5 * self.size;
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.size = self.size.max(other.size);
        self.glyphs.extend(other.glyphs);
        if !is_after {
            self.glyphs.sort_by(|left, right| left.start.total_cmp(&right.start));
        }
    }

    /// Returns the characters of the line, in no order.
    pub(crate) fn characters(&self) -> impl Iterator<Item = char> + '_ {
        self.glyphs.iter().flat_map(|glyph| glyph.text.chars())
    }
}
