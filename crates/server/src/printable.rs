//! Makes untrusted text safe for a terminal.

use std::io::{self, Write};

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

/// Returns whether a character changes the display order of other characters, or separates lines or
/// paragraphs.
fn changes_layout(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character in a line of the log could begin another line or reorder this one.
fn forges_line(character: char) -> bool {
    matches!(character, '\n' | '\r') || changes_layout(character)
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

/// A writer for lines of the log, which contain text of upstreams. Line ends in that text could
/// forge a line of the log, and other characters could reorder it.
///
/// The subscriber writes one line at a time, with its end, and escapes the control characters that
/// a terminal acts on.
pub(crate) struct PrintableLines<W>(pub(crate) W);

impl<W: Write> Write for PrintableLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let without_end = line.strip_suffix(b"\n").unwrap_or(line);
        match str::from_utf8(without_end) {
            Ok(text) if text.contains(forges_line) => {
                self.0.write_all(escaped(text, forges_line).as_bytes())?;
                self.0.write_all(&line[without_end.len()..])?;
            }
            _ => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
    fn characters_that_reorder_a_line_of_the_log_are_escaped() {
        let mut lines = PrintableLines(Vec::new());
        lines.write_all("INFO \u{1b}[1mé\u{202e}b\u{2066}\n".as_bytes()).unwrap();
        lines.write_all(b"\xff\n").unwrap();
        lines.write_all("a\u{202e}b".as_bytes()).unwrap();
        assert_eq!(lines.0, b"INFO \x1b[1m\xc3\xa9\\u{202e}b\\u{2066}\n\xff\na\\u{202e}b");
    }

    #[test]
    fn errors_of_upstreams_cannot_forge_lines_of_the_log() {
        let mut lines = PrintableLines(Vec::new());
        lines.write_all(b"WARN refused error=no\n2026-01-01 ERROR forged\r\n").unwrap();
        assert_eq!(lines.0, b"WARN refused error=no\\n2026-01-01 ERROR forged\\r\n");
    }
}
