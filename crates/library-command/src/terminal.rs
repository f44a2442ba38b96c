//! Prints untrusted text on a terminal, without control characters and with highlights.

use std::{
    io::{self, IsTerminal as _},
    ops::Range,
};

use marquetry_printable::changes_layout;
use marquetry_rag::index::densest;

/// Highlights text on standard output if that is a terminal with colours.
#[derive(Clone, Copy)]
pub(crate) struct Highlighter {
    is_on: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// A search term.
    Match,
    /// A title.
    Title,
    /// A detail.
    Faint,
}

impl Highlighter {
    /// Highlights on a terminal that has colours, unless `NO_COLOR` is set (no-color.org).
    pub(crate) fn of_stdout() -> Self {
        let has_no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { is_on: io::stdout().is_terminal() && !is_dumb && !has_no_color }
    }

    /// Returns a text in a style, on one line.
    pub(crate) fn show(self, style: Style, text: &str) -> String {
        let text = clean(text);
        if !self.is_on || text.is_empty() {
            return text;
        }
        let code = match style {
            Style::Match => "1;33",
            Style::Title => "1",
            Style::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Returns the part of a passage with the most search terms, which are highlighted.
    pub(crate) fn snippet(self, passage: &str, found: &[Range<usize>]) -> String {
        let part = part(passage, found);
        let mut shown = String::new();
        let mut from = part.start;
        if part.start > 0 {
            shown.push_str("… ");
        }
        let within = found.iter().filter(|span| part.start <= span.start && span.end <= part.end);
        for span in within {
            shown.push_str(&clean(&passage[from..span.start]));
            shown.push_str(&self.show(Style::Match, &passage[span.clone()]));
            from = span.end;
        }
        shown.push_str(&clean(&passage[from..part.end]));
        if part.end < passage.len() {
            shown.push_str(" …");
        }
        shown
    }
}

/// Length of a snippet in bytes: a few lines.
const SNIPPET: usize = 320;
/// Maximum bytes of a snippet before the first search term.
const BEFORE: usize = 80;

/// Returns the range of a passage that is shown.
fn part(passage: &str, found: &[Range<usize>]) -> Range<usize> {
    if passage.len() <= SNIPPET {
        return 0..passage.len();
    }
    // The page that is shown beside the snippet is that of these words.
    let first = densest(found).first().map_or(0, |word| word.start);
    let mut start = first.saturating_sub(BEFORE);
    start = start.min(passage.len() - SNIPPET);
    start = passage.ceil_char_boundary(start);
    if start > 0 {
        // Start at a word, unless it is very long.
        let word = passage[start..].find(char::is_whitespace).filter(|length| *length < BEFORE / 2);
        let is_inside = !passage[..start].ends_with(char::is_whitespace);
        start += word.filter(|_| is_inside).map_or(0, |length| length + 1);
    }
    let end = passage.floor_char_boundary(start + SNIPPET);
    let end = match passage[start..end].rfind(char::is_whitespace) {
        Some(length) if end < passage.len() && length > SNIPPET - BEFORE => start + length,
        _ => end,
    };
    start..end
}

/// Returns a text on one line, without control characters and without characters that change the
/// writing direction.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut is_space = false;
    for character in text.chars() {
        if character.is_whitespace() {
            if !is_space {
                clean.push(' ');
            }
            is_space = true;
            continue;
        }
        is_space = false;
        clean.push(if acts_on_terminal(character) { '\u{FFFD}' } else { character });
    }
    clean
}

/// Returns a text with its tabs and line ends, but without other control characters and characters
/// that change the writing direction.
pub(crate) fn clean_lines(text: &str) -> String {
    text.split_inclusive(['\n', '\t']).map(clean_part).collect()
}

fn clean_part(part: &str) -> String {
    let text = part.trim_end_matches(['\r', '\n', '\t']);
    let end = part[text.len()..].replace('\r', "");
    text.replace(acts_on_terminal, "\u{FFFD}") + &end
}

fn acts_on_terminal(character: char) -> bool {
    character.is_control() || changes_layout(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Highlighter = Highlighter { is_on: true };

    #[test]
    fn terms_are_highlighted_and_control_characters_replaced() {
        let passage = "a\u{1b}[31m red\n\tfox\u{202e}";
        let fox = passage.find("fox").unwrap();
        let shown = ON.snippet(passage, std::slice::from_ref(&(fox..fox + 3)));
        assert_eq!(shown, "a\u{FFFD}[31m red \u{1b}[1;33mfox\u{1b}[0m\u{FFFD}");
        let plain = Highlighter { is_on: false };
        assert_eq!(plain.snippet("a fox", std::slice::from_ref(&(2..5))), "a fox");
    }

    #[test]
    fn contents_act_on_no_terminal() {
        let shown = clean_lines("a\u{1b}[2J\tb\r\n\u{9b}c\rd\u{202e}\n");
        assert_eq!(shown, "a\u{FFFD}[2J\tb\n\u{FFFD}c\u{FFFD}d\u{FFFD}\n");
    }

    #[test]
    fn a_long_passage_is_shown_where_most_terms_are() {
        let passage = format!(
            "{}needle {}needle needle{}",
            "öde ".repeat(200),
            "hay ".repeat(100),
            " hay".repeat(200)
        );
        let found = marquetry_rag::highlights(&passage, "needle");
        let part = part(&passage, &found);
        assert_eq!(passage[part.clone()].matches("needle").count(), 2);
        assert!(part.len() <= SNIPPET);
        let shown = ON.snippet(&passage, &found);
        assert!(shown.starts_with("… hay") && shown.ends_with("hay …"), "{shown}");
    }

    #[test]
    fn any_passage_has_a_part() {
        for length in [0, 1, 319, 320, 321, 400, 5_000] {
            for letter in ["x", "ö", "東", "x "] {
                let passage = letter.repeat(length);
                let part = part(&passage, &[]);
                assert!(passage.get(part).is_some(), "{letter} {length}");
            }
        }
    }
}
