#![doc = include_str!("../README.md")]

mod diagram;

use std::fmt::Write as _;

pub use self::diagram::printable_diagram;

/// Escapes control characters except line feeds, and characters that change the layout of a text.
pub fn printable(text: &str) -> String {
    escaped(text, |character| {
        character != '\n' && (character.is_control() || changes_layout(character))
    })
}

/// Escapes as [`printable`] does, but leaves tabs and the carriage returns of line ends as they
/// are: for texts whose layout and bytes matter.
pub fn printable_text(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix("\r\n") {
            Some(line) => (line, "\r\n"),
            None => (line, ""),
        };
        printable.push_str(&escaped(line, |character| {
            !matches!(character, '\n' | '\t')
                && (character.is_control() || changes_layout(character))
        }));
        printable.push_str(end);
    }
    printable
}

/// Escapes as [`printable`] does, and line feeds, too, so that the text stays on one line.
pub fn printable_line(text: &str) -> String {
    escaped(text, |character| character.is_control() || changes_layout(character))
}

/// Escapes, in the notation of JSON, the characters of a JSON text that a terminal would act on.
/// Its values do not change.
///
/// Serializers leave DEL, C1 controls and characters that change the layout as they are; these can
/// only stand inside strings.
pub fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for character in json.chars() {
        let is_c1 = character.is_control() && !character.is_ascii_control();
        if is_c1 || character == '\u{7f}' || changes_layout(character) {
            _ = write!(printable, "\\u{:04x}", u32::from(character));
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Escapes the characters of a text that `is_unsafe` selects, as string literals of Rust do.
pub fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Returns whether a character changes the display order of other characters, or separates lines or
/// paragraphs.
pub fn changes_layout(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("no\u{1b}[31m é\r\nnext\u{9b}"), "no\\u{1b}[31m é\\r\nnext\\u{9b}");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(printable_line("a\nerror: b\u{202e}é"), "a\\nerror: b\\u{202e}é");
    }

    #[test]
    fn texts_keep_their_tabs_and_line_ends() {
        assert_eq!(printable_text("a\tb\r\n\u{1b}[2J\rc\n\n"), "a\tb\r\n\\u{1b}[2J\\rc\n\n");
        assert_eq!(printable_text("\r\n\u{202e}\r"), "\r\n\\u{202e}\\r");
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a\u{9b}": "é\n\u{7f}\u{202e}\u{1b}\u{2028}\t"});
        let printed = printable_json(&value.to_string());
        assert_eq!(printed, r#"{"a\u009b":"é\n\u007f\u202e\u001b\u2028\t"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
