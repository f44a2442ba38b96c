//! Sizes of answers: without an argument that asks for more, an answer has at most
//! [`DEFAULT_TOKENS`].

use marquetry_protocol::types::{CallToolResult, Content};
use serde::Serialize;

/// Tokens of an answer to a call that asks for no other size: text and structured content together,
/// because some clients show their models both.
pub const DEFAULT_TOKENS: u64 = 2_000;

/// The size that an answer may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerSize {
    /// The call asks for no size: at most [`DEFAULT_TOKENS`].
    Default,
    /// The call asks for a size: at most this many bytes in each of the two copies of the data, as
    /// text and as structured content.
    Bytes(usize),
}

impl AnswerSize {
    /// Returns the size for a call that names a count or a length, if `is_named`.
    pub(super) fn of(is_named: bool, max_answer_bytes: usize) -> Self {
        if is_named { Self::Bytes(max_answer_bytes / 2) } else { Self::Default }
    }

    /// Returns the room for the data, in the unit of [`Self::cost`].
    pub(super) fn room(self) -> usize {
        /// Tokens beside the items of a list: names of members, a note, a cursor.
        const OTHER_TOKENS: u64 = 160;
        match self {
            Self::Default => usize::try_from(DEFAULT_TOKENS - OTHER_TOKENS).unwrap_or(usize::MAX),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns the cost of an item that the answer has as JSON in both copies.
    pub(super) fn cost(self, item: &impl Serialize) -> usize {
        let json = serde_json::to_string(item).unwrap_or_default();
        match self {
            Self::Default => {
                usize::try_from(2 * marquetry_tokens::estimate(&json)).unwrap_or(usize::MAX)
            }
            Self::Bytes(_) => json.len(),
        }
    }

    /// Cuts a text that alone is longer than an answer of the default size, and says how to get all
    /// of it.
    pub(super) fn cut(self, text: &mut String, how: &str) {
        /// Share of one copy of the text: the other copy, and its escapes, need room, too.
        const SHARE: u64 = DEFAULT_TOKENS / 3;
        let shown = marquetry_tokens::beginning_within(text, SHARE).len();
        if matches!(self, Self::Default) && shown < text.len() {
            let bytes = text.len();
            text.truncate(shown);
            text.push_str(&format!("… (cut, {bytes} bytes; {how})"));
        }
    }
}

/// Estimates the tokens of an answer for a client that shows its model text and structured content.
pub(super) fn tokens_of(result: &CallToolResult) -> u64 {
    let texts = result.content.iter().map(|item| match item {
        Content::Text { text, .. } => marquetry_tokens::estimate(text),
        Content::Resource { resource, .. } => {
            let text = resource.text.as_deref().unwrap_or_default();
            marquetry_tokens::estimate(text) + marquetry_tokens::estimate(&resource.uri)
        }
        _ => 0,
    });
    let structured = result.structured_content.as_ref();
    texts.sum::<u64>() + structured.map_or(0, |data| marquetry_tokens::estimate(&data.to_string()))
}

/// Returns the largest number up to `most` for which `fits` holds; it must hold for all smaller
/// ones, and is assumed to hold for `least`.
pub(super) fn largest(least: usize, most: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(most) {
        return most;
    }
    let mut fitting = least;
    let mut too_large = most;
    while too_large > fitting + 1 {
        let middle = fitting.midpoint(too_large);
        if fits(middle) {
            fitting = middle;
        } else {
            too_large = middle;
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_that_fits_is_found() {
        for limit in 3..40 {
            assert_eq!(largest(3, 30, |number| number <= limit), limit.min(30));
        }
    }
}
