//! Collects text as a page shows it: white space collapsed, blocks separated.

use crate::{Heading, document::PART_BYTES};

/// The separator between two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    #[default]
    None,
    Space,
    Line,
    Block,
}

/// Collects words.
#[derive(Default)]
pub(super) struct Flow {
    text: String,
    pending: Break,
    /// The separator before the next word.
    mark: &'static str,
    is_preformatted: bool,
    headings: Vec<Heading>,
    /// Level of the open heading, and the start of its text.
    heading: Option<(u8, Option<usize>)>,
}

impl Flow {
    /// Returns the bytes that are held.
    pub(super) fn len(&self) -> usize {
        self.text.len() + self.headings.len() * PART_BYTES
    }

    /// Sets the least separator before the next word.
    pub(super) fn set_break(&mut self, at_least: Break) {
        self.pending = self.pending.max(at_least);
    }

    /// Starts the line of the next word with this mark.
    pub(super) fn set_mark(&mut self, mark: &'static str) {
        self.set_break(Break::Line);
        self.mark = mark;
    }

    /// Writes this mark before the next word.
    pub(super) fn set_mark_in_line(&mut self, mark: &'static str) {
        self.set_break(Break::Space);
        if !self.mark.is_empty() {
            // The previous cell is empty; its mark stays.
            self.separate();
            self.set_break(Break::Space);
        }
        self.mark = mark;
    }

    pub(super) fn set_preformatted(&mut self, is_preformatted: bool) {
        self.is_preformatted = is_preformatted;
    }

    pub(super) fn start_heading(&mut self, level: u8) {
        self.end_heading();
        self.heading = Some((level, None));
    }

    pub(super) fn end_heading(&mut self) {
        let Some((level, Some(start))) = self.heading.take() else { return };
        // Preformatted text may have white space at its ends.
        let text = &self.text[start..];
        let start = start + (text.len() - text.trim_start().len());
        let text = text.trim();
        if !text.is_empty() {
            let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.headings.push(Heading { level, title, span: start..start + text.len() });
        }
        self.set_break(Break::Block);
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.is_preformatted {
            self.preformatted(text);
            return;
        }
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                self.word(word);
            }
            if word.len() < piece.len() {
                self.set_break(Break::Space);
            }
        }
    }

    /// Returns the text and its headings.
    pub(super) fn finish(mut self) -> (String, Vec<Heading>) {
        self.end_heading();
        // Preformatted text may end in white space.
        self.text.truncate(self.text.trim_end().len());
        (self.text, self.headings)
    }

    fn word(&mut self, word: &str) {
        self.separate();
        if let Some((_, start @ None)) = &mut self.heading {
            *start = Some(self.text.len());
        }
        self.text.push_str(word);
    }

    fn preformatted(&mut self, text: &str) {
        // The line break after `<pre>` is not part of the text; line breaks at the ends separate
        // blocks.
        let text =
            if self.pending >= Break::Line { text.trim_start_matches(['\r', '\n']) } else { text };
        if !text.is_empty() {
            self.word(text);
        }
    }

    fn separate(&mut self) {
        let already = self.text.len() - self.text.trim_end_matches('\n').len();
        let separator = match std::mem::take(&mut self.pending) {
            _ if self.text.is_empty() => "",
            Break::None => "",
            Break::Space if self.text.ends_with(char::is_whitespace) => "",
            Break::Space => " ",
            Break::Line => &"\n"[already.min(1)..],
            Break::Block => &"\n\n"[already.min(2)..],
        };
        self.text.push_str(separator);
        self.text.push_str(std::mem::take(&mut self.mark));
    }
}
