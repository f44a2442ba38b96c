#![doc = include_str!("../README.md")]

mod bidi;
mod characters;
mod columns;
mod glyph;
mod hyphens;
mod lines;
mod order;

pub use kurbo;

pub use crate::{
    characters::{KASHIDA, is_joined, push_plain},
    glyph::PlacedGlyph,
};

/// Returns the text of the glyphs of a page, which are in the order in which they were drawn. Lines
/// are separated by a line break, and paragraphs and columns by an empty line.
#[must_use]
pub fn text(glyphs: Vec<PlacedGlyph>) -> String {
    order::text(lines::of_glyphs(glyphs))
}

#[cfg(test)]
mod tests {
    use kurbo::{Point, Vec2};

    use super::*;

    /// Returns the text of glyphs with these texts, left ends, widths, sizes and heights above the
    /// baseline.
    fn line(glyphs: &[(&str, f64, f64, f64, f64)]) -> String {
        let glyphs = glyphs.iter().map(|&(text, x, width, size, rise)| PlacedGlyph {
            text: text.to_owned(),
            origin: Point::new(x, 100.0 - rise),
            end: Point::new(x + width, 100.0 - rise),
            direction: Vec2::new(1.0, 0.0),
            size,
        });
        text(glyphs.collect())
    }

    #[test]
    fn the_number_of_a_note_is_no_part_of_its_first_word() {
        let word = [("O", 3.0, 6.0, 10.0, 0.0), ("x", 9.0, 6.0, 10.0, 0.0)];
        for (mark, want) in [
            (("1", 0.0, 3.0, 6.0, 3.0), "1 Ox"),
            // Not raised, or not smaller.
            (("1", 0.0, 3.0, 6.0, 0.0), "1Ox"),
            (("1", 0.0, 3.0, 10.0, 3.0), "1Ox"),
        ] {
            assert_eq!(line(&[&[mark], &word[..]].concat()), want);
        }
        // A mark within the line stays with its word.
        let mark = ("2", 15.0, 3.0, 6.0, 3.0);
        assert_eq!(line(&[&word[..], &[mark]].concat()), "Ox2");
    }

    #[test]
    fn a_space_below_a_letter_does_not_split_a_word() {
        let hebrew = [
            ("א", 32.0, 6.0, 10.0, 0.0),
            ("ב", 26.0, 6.0, 10.0, 0.0),
            ("ג", 20.0, 6.0, 10.0, 0.0),
            (" ", 17.0, 3.0, 10.0, 0.0),
        ];
        let latin = [("S", 0.0, 6.0, 10.0, 0.0), ("a", 6.0, 6.0, 10.0, 0.0)];
        let end = (" ", 0.0, 3.0, 10.0, 0.0);
        assert_eq!(line(&[&hebrew[..], &latin, &[end]].concat()), "אבג Sa");
    }

    #[test]
    fn words_that_are_lengthened_are_the_same_words() {
        let word = [
            ("ذ", 0.0, 5.0, 10.0, 0.0),
            ("ـ", 5.0, 5.0, 10.0, 0.0),
            ("ـ", 8.0, 5.0, 10.0, 0.0),
            ("ن", 13.0, 5.0, 10.0, 0.0),
        ];
        assert_eq!(line(&word), "نذ");
        assert_eq!(line(&[("ـ", 0.0, 5.0, 10.0, 0.0), ("ه", 5.0, 5.0, 10.0, 0.0)]), "هـ");
    }
}
