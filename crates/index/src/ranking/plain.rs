//! Normalises texts for search.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Removes compatibility forms, accents that do not distinguish words, and characters that only
/// join letters.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    // Marks are separate characters only in the decomposed form. The composed form puts the others
    // back on their letters, so that an n-gram does not begin with a mark.
    let plain: String = text
        .nfkd()
        .filter(|&character| !is_removable_mark(character) && !only_joins(character))
        .nfc()
        .collect();
    plain.into()
}

/// Returns whether a character only joins letters, or shows where a word may be divided: soft
/// hyphen, zero-width joiners, Arabic tatweel.
fn only_joins(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{640}')
}

/// Returns whether a mark can be removed: marks of Latin, Greek and Cyrillic, Arabic vowels and
/// Hebrew points. In other scripts a mark changes the letter, as in Devanagari, Thai and Bengali,
/// or the sound, as in Japanese.
pub(super) fn is_removable_mark(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}'
        | '\u{5c4}'..='\u{5c5}' | '\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}' | '\u{6e7}'..='\u{6e8}' | '\u{6ea}'..='\u{6ed}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{2de0}'..='\u{2dff}'
        | '\u{a66f}'..='\u{a67d}' | '\u{fe20}'..='\u{fe2f}')
}
