//! Makes diagrams and lines of the log safe for a terminal.

use std::fmt::Write as _;

use marquetry_printable::{changes_layout, escaped, printable_json};

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
}
