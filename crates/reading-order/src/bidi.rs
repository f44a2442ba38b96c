//! Brings the characters of a line into logical order, in which a reader types them.
//!
//! Programs place Hebrew and Arabic glyph by glyph from left to right. This is the Unicode
//! Bidirectional Algorithm (UAX #9) backwards, without its explicit marks, which glyphs do not
//! have.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::{
    characters::{combining_accent, is_left_to_right, is_right_to_left, mirrored},
    lines::{Line, LineGlyph},
};

/// How the right-to-left words of a page are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// The first letter is on the right, as readers see it.
    Visually,
    /// The first letter is on the left, by programs that know no right-to-left scripts.
    Logically,
}

impl Drawn {
    /// Returns how words are drawn, by letters that only begin or end words.
    pub(crate) fn of(lines: &[Line]) -> Self {
        let mut visual = 0;
        let mut logical = 0;
        let right_to_left = lines.iter().filter(|line| line.characters().any(is_right_to_left));
        for line in right_to_left {
            let text = from_left(line).concat();
            for word in text.split(|at: char| !is_right_to_left(at)) {
                if word.chars().nth(1).is_none() {
                    continue;
                }
                visual +=
                    usize::from(word.starts_with(ends_words)) + usize::from(word.ends_with("لا"));
                logical +=
                    usize::from(word.ends_with(ends_words)) + usize::from(word.starts_with("ال"));
            }
        }
        if logical > visual { Self::Logically } else { Self::Visually }
    }
}

/// Returns whether a letter is only written at the end of a word.
fn ends_words(letter: char) -> bool {
    matches!(letter, 'ך' | 'ם' | 'ן' | 'ף' | 'ץ' | 'ة' | 'ى')
}

/// Returns whether most letters are of scripts that are written from right to left.
pub(crate) fn is_mostly_right_to_left(characters: impl Iterator<Item = char>) -> bool {
    let mut right = 0_usize;
    let mut left = 0_usize;
    for character in characters {
        right += usize::from(is_right_to_left(character));
        left += usize::from(character.is_alphabetic() && is_left_to_right(character));
    }
    right > left
}

/// Returns the text of a line in logical order.
pub(crate) fn logical(line: &Line, drawn: Drawn, is_right_to_left_page: bool) -> String {
    if !line.characters().any(is_right_to_left) {
        return from_left_to_right(&line.glyphs);
    }
    let items = from_left(line);
    if drawn == Drawn::Logically {
        return items.concat();
    }
    let is_right_to_left_line = is_right_to_left_page || is_mostly_right_to_left(line.characters());
    if is_right_to_left_line {
        return from_right(&items);
    }
    let mut text = String::new();
    let mut rest = items.as_slice();
    while let Some(start) = rest.iter().position(|item| kind(item) == Kind::Right) {
        text.push_str(&rest[..start].concat());
        let run = rest[start..].iter().take_while(|item| kind(item) != Kind::Left);
        let run = &rest[start..start + run.count()];
        let end = run.iter().rposition(|item| kind(item) == Kind::Right).map_or(0, |at| at + 1);
        text.push_str(&from_right(&run[..end]));
        rest = &rest[start + end..];
    }
    text.push_str(&rest.concat());
    text
}

/// The direction of a glyph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Right,
    Left,
    Number,
    /// A sign that belongs to the number beside it.
    Sign,
    /// A sign that belongs to numbers on both sides of it.
    Separator,
    Other,
}

fn kind(item: &str) -> Kind {
    if item.chars().any(is_right_to_left) {
        return Kind::Right;
    }
    match item.chars().next() {
        Some(first) if first.is_numeric() => Kind::Number,
        Some(first) if first.is_alphabetic() => Kind::Left,
        Some('%' | '$' | '€' | '£' | '₪' | '°' | '#') => Kind::Sign,
        Some('.' | ',' | ':' | '/' | '-' | '+') => Kind::Separator,
        _ => Kind::Other,
    }
}

/// Returns the text of glyphs in the order from left to right, which is read from right to left.
fn from_right(items: &[String]) -> String {
    // Pieces from left to right; those of several glyphs are read from left to right.
    let mut pieces: Vec<&[String]> = Vec::new();
    let mut from = 0;
    while from < items.len() {
        let to = from + left_to_right_length(&items[from..]).max(1);
        pieces.push(&items[from..to]);
        from = to;
    }
    let brackets = pieces.iter().rev().filter(|piece| piece.len() == 1);
    let first = brackets.flat_map(|piece| piece[0].chars()).find(|it| mirrored(*it) != *it);
    // Most fonts tell the shape of a bracket, not the character for which it stands.
    let are_mirrored = first.is_some_and(|first| matches!(first, ')' | ']' | '}' | '>' | '»'));
    let mut text = String::new();
    for piece in pieces.into_iter().rev() {
        match piece {
            [item] if are_mirrored => text.extend(item.chars().map(mirrored)),
            _ => text.extend(piece.iter().map(String::as_str)),
        }
    }
    text
}

/// Returns the number of glyphs at the beginning that are read from left to right: words and
/// numbers, and what is between words.
fn left_to_right_length(items: &[String]) -> usize {
    let mut length = 0;
    let mut has_letters = false;
    for (at, item) in items.iter().enumerate() {
        let is_adjacent = at == length;
        match kind(item) {
            Kind::Right => break,
            Kind::Left if is_adjacent || has_letters => {
                has_letters = true;
                length = at + 1;
            }
            Kind::Number if is_adjacent || has_letters => length = at + 1,
            // "1,500" and "12:30"
            Kind::Number if at == length + 1 && kind(&items[length]) == Kind::Separator => {
                length = at + 1;
            }
            Kind::Sign if is_adjacent => {
                let next = items.get(at + 1).map(|next| kind(next));
                if at > 0 || next == Some(Kind::Number) {
                    length = at + 1;
                }
            }
            Kind::Left | Kind::Number => break,
            // Between words anything may be, between numbers one sign.
            Kind::Sign | Kind::Separator | Kind::Other if !has_letters && !is_adjacent => break,
            Kind::Sign | Kind::Separator | Kind::Other if length == 0 => break,
            Kind::Sign | Kind::Separator | Kind::Other => {}
        }
    }
    length
}

/// Returns the glyphs of a line from left to right, with spaces between words, and with marks
/// behind their letters.
fn from_left(line: &Line) -> Vec<String> {
    let (marks, mut letters): (Vec<&LineGlyph>, Vec<&LineGlyph>) =
        line.glyphs.iter().partition(|glyph| glyph.text.chars().all(is_combining_mark));
    letters.sort_by(|left, right| left.start.total_cmp(&right.start));
    remove_covered_spaces(&mut letters);
    let mut texts: Vec<String> = letters.iter().map(|glyph| glyph.text.clone()).collect();
    for mark in marks {
        let next = letters.partition_point(|letter| letter.start <= mark.start);
        if let Some(text) = texts.get_mut(next.saturating_sub(1)) {
            text.push_str(&mark.text);
        }
    }
    let mut items: Vec<String> = Vec::with_capacity(texts.len());
    for (index, text) in texts.into_iter().enumerate() {
        if index > 0 && is_space_between(letters[index - 1], letters[index]) {
            items.push(" ".to_owned());
        }
        items.push(text);
    }
    items
}

/// Removes spaces that letters cover. Some programs draw the space at the end of a line again at
/// its left end.
fn remove_covered_spaces(glyphs: &mut Vec<&LineGlyph>) {
    let covered: Vec<bool> = (0..glyphs.len())
        .map(|at| {
            let last = at.checked_sub(1).and_then(|last| glyphs.get(last));
            let mut beside = [last, glyphs.get(at + 1)].into_iter().flatten();
            is_space(glyphs[at]) && beside.any(|other| covers(other, glyphs[at]))
        })
        .collect();
    let mut covered = covered.into_iter();
    glyphs.retain(|_| !covered.next().unwrap_or(false));
}

fn is_space(glyph: &LineGlyph) -> bool {
    glyph.text.chars().all(char::is_whitespace)
}

/// Returns whether a letter takes most of the place of a space.
fn covers(letter: &LineGlyph, space: &LineGlyph) -> bool {
    let shared = space.end.min(letter.end) - space.start.max(letter.start);
    !is_space(letter) && shared > 0.5 * (space.end - space.start)
}

/// Returns whether a space is between two glyphs that is not a glyph itself.
fn is_space_between(last: &LineGlyph, next: &LineGlyph) -> bool {
    // Spaces between words are a quarter of the font size and more; gaps between letters are seldom
    // a tenth.
    next.start - last.end > 0.17 * last.size.max(next.size)
        && !last.text.ends_with(char::is_whitespace)
        && !next.text.starts_with(char::is_whitespace)
}

/// Returns the text of a line in the order in which it is drawn.
fn from_left_to_right(glyphs: &[LineGlyph]) -> String {
    let mut text = String::new();
    let mut has_accents = false;
    let mut last: Option<&LineGlyph> = None;
    let noted = first_after_mark(glyphs);
    let mut rest = glyphs.iter().enumerate().peekable();
    while let Some((at, glyph)) = rest.next() {
        if noted == Some(at) || last.is_some_and(|last| is_space_between(last, glyph)) {
            text.push(' ');
        }
        // TeX draws an accent and a letter at the same place.
        let accent = combining_accent(&glyph.text);
        match (accent, rest.peek()) {
            (Some(accent), Some((_, next))) if is_over(glyph, next) => {
                text.push_str(with_dot(&next.text));
                text.push(accent);
                has_accents = true;
                last = rest.next().map(|(_, next)| next);
                continue;
            }
            (Some(accent), _) if last.is_some_and(|last| is_over(glyph, last)) => {
                text.push(accent);
                has_accents = true;
                continue;
            }
            _ => text.push_str(&glyph.text),
        }
        last = Some(glyph);
    }
    if has_accents { text.nfc().collect() } else { text }
}

/// Returns the first letter of a footnote, whose small raised number may stand beside it without a
/// space.
fn first_after_mark(glyphs: &[LineGlyph]) -> Option<usize> {
    let digits = glyphs.iter().take_while(|glyph| glyph.text.chars().all(char::is_numeric)).count();
    let first = glyphs.get(digits)?;
    let is_mark = digits > 0
        && glyphs[..digits]
            .iter()
            .all(|mark| mark.size < 0.85 * first.size && mark.base < first.base - 0.1 * first.size);
    (is_mark && first.text.starts_with(char::is_alphabetic)).then_some(digits)
}

/// Returns whether an accent is drawn over or below a letter.
fn is_over(accent: &LineGlyph, letter: &LineGlyph) -> bool {
    let shared = accent.end.min(letter.end) - accent.start.max(letter.start);
    letter.text.chars().next().is_some_and(char::is_alphabetic)
        && shared > 0.5 * (accent.end - accent.start).min(letter.end - letter.start)
}

fn with_dot(letter: &str) -> &str {
    match letter {
        "ı" => "i",
        "ȷ" => "j",
        other => other,
    }
}
