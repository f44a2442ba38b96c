//! BERT's uncased WordPiece tokenizer: splits text at white space and punctuation, then each word
//! into the longest pieces of the vocabulary.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longest word that is tokenized, in characters. BERT's own tokenizer has the same maximum.
const MAX_WORD_CHARS: usize = 100;

/// A tokenizer for BERT's uncased vocabulary. Emits no special tokens, and skips words that the
/// vocabulary does not cover.
pub(super) struct WordPiece {
    ids: HashMap<&'static str, u32>,
    max_token_bytes: usize,
}

impl WordPiece {
    /// Creates a tokenizer from a vocabulary with one token a line.
    pub(super) fn new(vocabulary: &'static str) -> Self {
        let ids: HashMap<_, _> = vocabulary.lines().zip(0..).collect();
        let max_token_bytes = ids.keys().map(|token| token.len()).max().unwrap_or_default();
        Self { ids, max_token_bytes }
    }

    /// Appends the ids of a text's tokens.
    pub(super) fn tokenize(&self, text: &str, ids: &mut Vec<u32>) {
        let mut buffer = String::new();
        split_words(text, |word| self.push_pieces(word, &mut buffer, ids));
    }

    /// Calls `visit` with each word of a text, and whether the whole word is a token. Skips
    /// punctuation.
    pub(super) fn for_each_word(&self, text: &str, mut visit: impl FnMut(&str, bool)) {
        split_words(text, |word| {
            if !word.starts_with(is_punctuation) {
                visit(word, self.ids.contains_key(word));
            }
        });
    }

    /// Appends the ids of a word's pieces, or nothing if some part of the word is not in the
    /// vocabulary.
    fn push_pieces(&self, word: &str, buffer: &mut String, ids: &mut Vec<u32>) {
        if word.chars().nth(MAX_WORD_CHARS).is_some() {
            return;
        }
        let before = ids.len();
        let mut start = 0;
        while start < word.len() {
            let Some((id, length)) = self.longest_piece(&word[start..], start > 0, buffer) else {
                ids.truncate(before);
                return;
            };
            ids.push(id);
            start += length;
        }
    }

    /// Returns the id of the longest token that the text begins with, and its length in the text.
    /// Tokens inside of a word have the prefix `##` in the vocabulary.
    fn longest_piece(
        &self,
        text: &str,
        is_inside_word: bool,
        buffer: &mut String,
    ) -> Option<(u32, usize)> {
        buffer.clear();
        if is_inside_word {
            buffer.push_str("##");
        }
        let prefix = buffer.len();
        buffer.push_str(text);
        let mut end = buffer.floor_char_boundary(self.max_token_bytes);
        while end > prefix {
            if let Some(&id) = self.ids.get(&buffer[..end]) {
                return Some((id, end - prefix));
            }
            end = buffer.floor_char_boundary(end - 1);
        }
        None
    }
}

/// Calls `visit` with each word of a text, normalized as BERT does.
fn split_words(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    for character in text.chars().filter(|&character| !is_dropped(character)) {
        if character.is_ascii() {
            push_char(character.to_ascii_lowercase(), &mut word, &mut visit);
        } else {
            // Lower case first, then no accents: the vocabulary was made in this order.
            for part in character.to_lowercase().nfd().filter(|&part| !is_accent(part)) {
                push_char(part, &mut word, &mut visit);
            }
        }
    }
    end_word(&mut word, &mut visit);
}

/// Adds a character to a word, or ends the word. Punctuation and ideographs are words of their own.
#[inline]
fn push_char(character: char, word: &mut String, visit: &mut impl FnMut(&str)) {
    if character.is_whitespace() {
        end_word(word, visit);
    } else if is_punctuation(character) || is_ideograph(character) {
        end_word(word, visit);
        word.push(character);
        end_word(word, visit);
    } else {
        word.push(character);
    }
}

#[inline]
fn end_word(word: &mut String, visit: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        visit(word.as_str());
        word.clear();
    }
}

/// Returns whether the tokenizer drops a character: a control or format character, or U+FFFD.
fn is_dropped(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control() && !matches!(character, '\t' | '\n' | '\r');
    }
    let category = character.general_category();
    character == '\u{FFFD}'
        || matches!(category, GeneralCategory::Control | GeneralCategory::Format)
}

/// Returns whether a character is a nonspacing mark (category Mn), such as a combining accent.
fn is_accent(character: char) -> bool {
    character.general_category() == GeneralCategory::NonspacingMark
}

/// Returns whether a character is an ASCII symbol or Unicode punctuation, as in BERT's tokenizer.
fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Returns whether a character is a CJK ideograph, which is a word of its own in BERT's tokenizer.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B820}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `testdata/tokens.json` has texts, many of them random, with the ids that version 0.23 of the
    /// `tokenizers` library gives for the same vocabulary. Characters that became marks after its
    /// version of Unicode are left out.
    #[test]
    fn tokens_match_the_tokenizers_library() {
        let cases: Vec<(String, Vec<u32>)> =
            serde_json::from_str(include_str!("testdata/tokens.json")).unwrap();
        assert!(cases.len() > 400);
        let tokenizer = WordPiece::new(include_str!("../../model/vocab.txt"));
        for (text, expected) in &cases {
            let mut ids = Vec::new();
            tokenizer.tokenize(text, &mut ids);
            assert_eq!(&ids, expected, "{text:?}");
        }
    }
}
