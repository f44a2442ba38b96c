//! Classes of characters that tokenizers treat alike.

/// A class of characters. A run of one class is weighed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Letters of the Latin alphabet, with their accents.
    Letter,
    Digit,
    WhiteSpace,
    Punctuation,
    Han,
    Kana,
    Hangul,
    Cyrillic,
    Thai,
    /// Letters and marks of all other scripts.
    OtherLetter,
    /// Dashes and quotation marks of typography, and punctuation of Chinese and Japanese.
    WidePunctuation,
    Symbol,
    /// Pictures above U+1F000, and the marks of skin and of flags.
    Emoji,
    /// What joins emoji, or selects their form.
    Joiner,
    /// Lines and blocks of which tables are drawn.
    Box,
}

pub(crate) fn class_of(character: char) -> Class {
    match character {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        '0'..='9' => Class::Digit,
        ' ' | '\t' | '\r' | '\n' => Class::WhiteSpace,
        '\0'..='\x7f' => Class::Punctuation,
        '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Class::Letter,
        '\u{400}'..='\u{52f}' => Class::Cyrillic,
        '\u{e00}'..='\u{eff}' => Class::Thai,
        '\u{3040}'..='\u{30ff}' => Class::Kana,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}' => Class::Han,
        '\u{ac00}'..='\u{d7af}' => Class::Hangul,
        '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => Class::Joiner,
        '\u{2500}'..='\u{259f}' => Class::Box,
        '\u{1f000}'..='\u{1ffff}' => Class::Emoji,
        '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' => {
            Class::WidePunctuation
        }
        // Marks that combine with letters are not alphabetic themselves.
        '\u{250}'..='\u{1fff}' => Class::OtherLetter,
        other if other.is_alphabetic() => Class::OtherLetter,
        _ => Class::Symbol,
    }
}
