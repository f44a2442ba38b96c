//! Makes diagrams safe for a terminal.

use std::fmt::Write as _;

use crate::changes_layout;

/// Prepares the text of a diagram, whose tabs and line ends stay. Other unsafe characters become
/// `<U+001B>`, which PlantUML reads as the character.
#[must_use]
pub fn printable_diagram(diagram: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagrams_keep_their_layout() {
        let shown = printable_diagram("A -> B: \u{1b}[2J\r\n\tnote\r\u{202e}\u{9b}é");
        assert_eq!(shown, "A -> B: <U+001B>[2J\n\tnote<U+000D><U+202E><U+009B>é");
    }
}
