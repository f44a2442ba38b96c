//! Makes untrusted text safe for a terminal.

use std::fmt::Write as _;

/// Escapes control characters except line feeds, and characters that change the layout of a text.
/// Parts of a message may come from another server, or from a file that another person wrote.
pub(crate) fn printable(message: &str) -> String {
    escaped(message, |character| {
        character != '\n' && (character.is_control() || changes_layout(character))
    })
}

/// Prepares a message as [`printable`] does, on one line: names of files may contain line breaks.
pub(crate) fn printable_line(message: &str) -> String {
    escaped(message, |character| character.is_control() || changes_layout(character))
}

/// Prepares the text of a diagram, whose tabs and line ends stay. Other unsafe characters become
/// `<U+001B>`, which PlantUML reads as the character.
pub(crate) fn printable_diagram(diagram: &str) -> String {
    let mut printable = String::with_capacity(diagram.len());
    for character in diagram.replace("\r\n", "\n").chars() {
        let is_unsafe = character.is_control() && !matches!(character, '\n' | '\t');
        if is_unsafe || changes_layout(character) {
            _ = write!(printable, "<U+{:04X}>", u32::from(character));
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Returns whether a character changes the display order of other characters, or separates lines or
/// paragraphs.
fn changes_layout(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes what a terminal would act on in a text of JSON. Serializers leave DEL, C1 controls and
/// characters that change the layout as they are; they can only stand inside strings.
pub(crate) fn printable_json(json: &str) -> String {
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

fn escaped(message: &str, is_unsafe: impl Fn(char) -> bool) -> String {
    let mut printable = String::with_capacity(message.len());
    for character in message.chars() {
        if is_unsafe(character) {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The form of lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineForm {
    Text,
    /// Text with the escape sequences for colours, which the subscriber writes. It escapes the
    /// escape characters in values itself.
    ColouredText,
    Json,
}

/// Prepares a line of the log without its end. It contains text of upstreams: line ends in it could
/// forge a line, and other characters could reorder it.
pub(crate) fn printable_log_line(line: &str, form: LineForm) -> String {
    match form {
        LineForm::Json => printable_json(line),
        LineForm::Text => escaped(line, is_unsafe_in_log),
        LineForm::ColouredText => {
            escaped(line, |character| character != '\u{1b}' && is_unsafe_in_log(character))
        }
    }
}

fn is_unsafe_in_log(character: char) -> bool {
    (character.is_control() && character != '\t') || changes_layout(character)
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
    fn errors_of_upstreams_cannot_forge_lines_of_the_log() {
        let line = "WARN error=no\n2026-01-01 ERROR forged\r\u{202e}\u{9b}2J\u{7f}\u{1b}[2J\té";
        assert_eq!(
            printable_log_line(line, LineForm::Text),
            "WARN error=no\\n2026-01-01 ERROR forged\\r\\u{202e}\\u{9b}2J\\u{7f}\\u{1b}[2J\té"
        );
        let coloured = printable_log_line("\u{1b}[1mé\u{61c}\n\u{85}", LineForm::ColouredText);
        assert_eq!(coloured, "\u{1b}[1mé\\u{61c}\\n\\u{85}");
    }

    #[test]
    fn diagrams_keep_their_layout() {
        let shown = printable_diagram("A -> B: \u{1b}[2J\r\n\tnote\r\u{202e}\u{9b}é");
        assert_eq!(shown, "A -> B: <U+001B>[2J\n\tnote<U+000D><U+202E><U+009B>é");
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a\u{9b}": "é\n\u{7f}\u{202e}\u{1b}\u{2028}\t"});
        let printed = printable_json(&value.to_string());
        assert_eq!(printed, r#"{"a\u009b":"é\n\u007f\u202e\u001b\u2028\t"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
