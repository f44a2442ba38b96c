//! Makes every character of a text visible.

use marquetry_printable::{changes_layout, escaped};

/// Returns a text on one line, in which control characters, marks that reorder a text, and
/// characters without a glyph are escaped.
pub(crate) fn visible_line(text: &str) -> String {
    escaped(text, |character| {
        character.is_control() || changes_layout(character) || is_invisible(character)
    })
}

/// Returns whether a character is shown as nothing or as a space, though it is none
/// (`Default_Ignorable_Code_Point` of Unicode, and blanks of Hangul and Braille). Instructions for
/// models were hidden in the tags from U+E0000 on.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        for (text, want) in [
            ("é 日本 🙂", "é 日本 🙂"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{e0041}", "\\u{e0041}"),
            ("\u{1b}[31m\n", "\\u{1b}[31m\\n"),
        ] {
            assert_eq!(visible_line(text), want);
        }
    }
}
