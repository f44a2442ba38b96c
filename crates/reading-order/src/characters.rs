//! Characters of glyphs: their plain forms, and the direction of their script.

use unicode_normalization::UnicodeNormalization as _;

/// Appends the characters of a glyph. Forms that fonts have for a position in a word, such as
/// ligatures and the shapes of Arabic letters, become the letters that a reader would type.
pub fn push_plain(meaning: &str, text: &mut String) {
    for character in meaning.chars() {
        match ligature(character) {
            Some(letters) => text.push_str(letters),
            None if is_presentation_form(character) => text.extend([character].into_iter().nfkc()),
            // Line breaks are determined by positions.
            None if character.is_control() => text.push(' '),
            None if is_direction_mark(character) => {}
            None => text.push(character),
        }
    }
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

/// Returns whether a character is a form of a letter: Hebrew and Arabic presentation forms, and
/// radicals, which fonts share with the Chinese characters of the same shape.
fn is_presentation_form(character: char) -> bool {
    matches!(character,
        '\u{fb1d}'..='\u{fb4f}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{2f00}'..='\u{2fdf}' | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe48}')
}

/// Returns whether a character only sets the direction of others, which positions determine.
fn is_direction_mark(character: char) -> bool {
    matches!(character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns whether a character belongs to a script that is written from right to left.
pub(crate) fn is_right_to_left(character: char) -> bool {
    matches!(character,
        '\u{590}'..='\u{65f}' | '\u{66d}'..='\u{6ef}' | '\u{6fa}'..='\u{8ff}'
        | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// Returns whether a character is a letter or digit that is written from left to right.
pub(crate) fn is_left_to_right(character: char) -> bool {
    character.is_alphanumeric() && !is_right_to_left(character)
}

/// Returns whether a character may be written below the one before it in vertical writing.
pub(crate) fn is_upright(character: char) -> bool {
    matches!(character,
        '\u{3000}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff60}'
        | '\u{20000}'..='\u{3134f}')
}

/// The sign that lengthens the line between two Arabic letters.
pub const KASHIDA: char = '\u{640}';

/// Returns whether a character is an Arabic letter, which may be joined with the next one.
#[must_use]
pub fn is_joined(character: char) -> bool {
    matches!(character, '\u{620}'..='\u{64a}' | '\u{66e}'..='\u{6d3}')
}

/// Removes the signs that lengthen words. They change no word. A last one stands for a letter that
/// is written alone, as in the abbreviation of the Hijri era.
pub(crate) fn without_kashidas(text: String) -> String {
    if !text.contains(KASHIDA) {
        return text;
    }
    let mut short = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let is_within = rest.peek().is_some_and(|next| is_joined(*next));
        if character != KASHIDA || !is_within {
            short.push(character);
        }
    }
    short
}

/// Returns the combining form of an accent that is drawn by itself.
pub(crate) fn combining_accent(text: &str) -> Option<char> {
    Some(match text {
        "`" => '\u{300}',
        "\u{b4}" => '\u{301}',
        "\u{2c6}" => '\u{302}',
        "\u{2dc}" => '\u{303}',
        "\u{af}" => '\u{304}',
        "\u{2d8}" => '\u{306}',
        "\u{2d9}" => '\u{307}',
        "\u{a8}" => '\u{308}',
        "\u{2da}" => '\u{30a}',
        "\u{2dd}" => '\u{30b}',
        "\u{2c7}" => '\u{30c}',
        "\u{b8}" => '\u{327}',
        "\u{2db}" => '\u{328}',
        _ => return None,
    })
}

/// Returns the bracket that faces the other way.
pub(crate) fn mirrored(character: char) -> char {
    match character {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        other => other,
    }
}
