//! Lines of the log that are safe for a terminal.

use marquetry_printable::{changes_layout, escaped, printable_json};

/// The form of lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineForm {
    /// One line of text for each event.
    Text,
    /// Text with the escape sequences for colours, which the subscriber writes. It escapes the
    /// escape characters in values itself.
    ColouredText,
    /// One JSON object for each event.
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
}
