//! Tracks passages that the model already sees, so that they are not cited again.

use std::collections::HashSet;

use marquetry_context_blocks::blocks;
use serde_json::Value;

use super::block::{Offsets, Passage};

/// Shortest text, in bytes, that is looked for in messages. Shorter ones such as "Yes." are in most
/// messages.
const MIN_QUOTE_BYTES: usize = 32;

/// The text of the messages, and the passages that were chosen so far.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    /// Passages by document and span.
    passages_by_offsets: HashSet<(String, Offsets)>,
    /// Texts of passages and whole messages.
    contents: HashSet<String>,
    /// Messages that may quote a passage.
    messages: Vec<String>,
}

impl VisibleText {
    /// Creates the set from the last messages, up to this many bytes together.
    pub(super) fn of_messages(messages: &[String], mut bytes: usize) -> Self {
        let mut known = Self::default();
        for message in messages.iter().rev() {
            let Some(left) = bytes.checked_sub(message.len()) else { break };
            bytes = left;
            let mut plain = String::new();
            let mut from = 0;
            for block in blocks(message) {
                let span = block.span();
                plain.push_str(&message[from..span.start]);
                plain.push('\n');
                from = span.end;
                known.add_cited(&block.payload().data);
            }
            plain.push_str(&message[from..]);
            let plain = plain_words(&plain);
            if !plain.is_empty() {
                known.contents.insert(plain.clone());
                known.messages.push(plain);
            }
        }
        known
    }

    /// Adds the passages in a block of an earlier answer.
    fn add_cited(&mut self, data: &Value) {
        for result in data["results"].as_array().into_iter().flatten() {
            if let Some(content) = result["content"].as_str() {
                self.contents.insert(plain_words(content));
            }
            let offsets = serde_json::from_value::<Offsets>(result["offsets"].clone());
            if let (Some(uri), Ok(offsets)) = (result["uri"].as_str(), offsets) {
                self.passages_by_offsets.insert((uri.to_owned(), offsets));
            }
        }
        for message in data["messages"].as_array().into_iter().flatten() {
            if let Some(content) = message["content"].as_str() {
                self.contents.insert(plain_words(content));
            }
        }
    }

    /// Adds a passage, and returns whether it is new.
    pub(super) fn is_new(&mut self, passage: &Passage) -> bool {
        let key = passage.offsets.map(|offsets| (passage.uri.clone(), offsets));
        if key.as_ref().is_some_and(|key| self.passages_by_offsets.contains(key)) {
            return false;
        }
        if !self.is_new_text(&passage.content) {
            return false;
        }
        self.passages_by_offsets.extend(key);
        true
    }

    /// Adds a text, and returns whether it is new.
    pub(super) fn is_new_text(&mut self, content: &str) -> bool {
        let content = plain_words(content);
        let is_quoted = content.len() >= MIN_QUOTE_BYTES
            && self.messages.iter().any(|message| message.contains(&content));
        !content.is_empty() && !is_quoted && self.contents.insert(content)
    }
}

/// Returns the words with single spaces between them, so that line breaks and indentation make no
/// difference.
fn plain_words(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    plain
}
