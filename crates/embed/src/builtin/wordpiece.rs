//! BERT's WordPiece tokenizer, lower-cased: words by white space and punctuation, then the longest
//! known pieces of each.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The tokens of BERT's uncased vocabulary. Makes no special tokens and leaves out words that it
/// cannot spell.
pub(super) struct WordPiece {
    ids: HashMap<&'static str, u32>,
    longest: usize,
}

impl WordPiece {
    /// Returns a tokenizer of a vocabulary with one token a line.
    pub(super) fn new(vocabulary: &'static str) -> Self {
        let ids: HashMap<_, _> = vocabulary.lines().zip(0..).collect();
        let longest = ids.keys().map(|token| token.len()).max().unwrap_or_default();
        Self { ids, longest }
    }

    /// Appends the ids of a text's tokens.
    pub(super) fn tokenize(&self, text: &str, ids: &mut Vec<u32>) {
        let mut scratch = String::new();
        divide(text, |word| self.spell(word, &mut scratch, ids));
    }

    /// Calls back for each word of a text, with whether it is a token as a whole. Punctuation is
    /// skipped.
    pub(super) fn words(&self, text: &str, mut see: impl FnMut(&str, bool)) {
        divide(text, |word| {
            if !word.is_empty() && !word.starts_with(is_punctuation) {
                see(word, self.ids.contains_key(word.as_str()));
            }
            word.clear();
        });
    }

    /// Appends the pieces of a word, the longest first, and empties it.
    fn spell(&self, word: &mut String, scratch: &mut String, ids: &mut Vec<u32>) {
        // The longest word that BERT's own tokenizer accepts.
        const LONGEST_WORD: usize = 100;
        let before = ids.len();
        let mut from = 0;
        if word.chars().nth(LONGEST_WORD).is_some() {
            from = word.len();
        }
        while from < word.len() {
            let Some((id, length)) = self.longest_piece(&word[from..], from > 0, scratch) else {
                ids.truncate(before);
                break;
            };
            ids.push(id);
            from += length;
        }
        word.clear();
    }

    /// Returns the longest token that the text begins with, and its length in the text.
    fn longest_piece(
        &self,
        text: &str,
        continues: bool,
        scratch: &mut String,
    ) -> Option<(u32, usize)> {
        scratch.clear();
        if continues {
            scratch.push_str("##");
        }
        let prefix = scratch.len();
        scratch.push_str(text);
        let mut end = scratch.floor_char_boundary(self.longest);
        while end > prefix {
            if let Some(&id) = self.ids.get(&scratch[..end]) {
                return Some((id, end - prefix));
            }
            end = scratch.floor_char_boundary(end - 1);
        }
        None
    }
}

/// Passes each word of a text to `take`, which empties it; some words are empty.
fn divide(text: &str, mut take: impl FnMut(&mut String)) {
    let mut word = String::new();
    for character in text.chars().filter(|&character| !is_dropped(character)) {
        if character.is_ascii() {
            add(character.to_ascii_lowercase(), &mut word, &mut take);
        } else {
            // Lower-cased and without accents, in that order, as the vocabulary was made.
            for part in character.to_lowercase().nfd().filter(|&part| !is_accent(part)) {
                add(part, &mut word, &mut take);
            }
        }
    }
    take(&mut word);
}

/// Adds a character to a word, or ends the word. Punctuation and ideographs are words of their own.
#[inline]
fn add(character: char, word: &mut String, take: &mut impl FnMut(&mut String)) {
    if character.is_whitespace() {
        take(word);
    } else if is_punctuation(character) || is_ideograph(character) {
        take(word);
        word.push(character);
        take(word);
    } else {
        word.push(character);
    }
}

/// Returns whether a character is dropped: control and format characters, and the replacement
/// character.
fn is_dropped(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control() && !matches!(character, '\t' | '\n' | '\r');
    }
    let category = character.general_category();
    character == '\u{FFFD}'
        || matches!(category, GeneralCategory::Control | GeneralCategory::Format)
}

/// Returns whether a character is a mark on another letter (category Mn).
fn is_accent(character: char) -> bool {
    character.general_category() == GeneralCategory::NonspacingMark
}

/// Returns whether a character is an ASCII symbol or Unicode punctuation, as in BERT's tokenizer.
fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Returns whether a character is an ideograph: each is a word.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B820}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `testdata/tokens.json` has texts, many of them random, and the ids that the `tokenizers`
    /// library 0.23 gives for the same vocabulary, but for characters that became marks after its
    /// version of Unicode.
    #[test]
    fn tokens_match_the_tokenizers_library() {
        let cases: Vec<(String, Vec<u32>)> =
            serde_json::from_str(include_str!("testdata/tokens.json")).unwrap();
        let tokens = WordPiece::new(include_str!("../../model/vocab.txt"));
        let different = cases.iter().filter_map(|(text, expected)| {
            let mut ids = Vec::new();
            tokens.tokenize(text, &mut ids);
            (&ids != expected).then_some((text, ids, expected))
        });
        assert_eq!(different.collect::<Vec<_>>(), []);
        assert!(cases.len() > 400);
    }
}
