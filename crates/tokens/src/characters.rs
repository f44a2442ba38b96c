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

/// The classes of the ASCII characters. Most texts have few others.
static ASCII: [Class; 128] = {
    let mut classes = [Class::Punctuation; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' | b'\r' | b'\n' => Class::WhiteSpace,
            _ => Class::Punctuation,
        };
        byte += 1;
    }
    classes
};

/// Returns the class of the first character of a text, and the characters of that class at its
/// beginning.
pub(crate) fn run_of(text: &str) -> (Class, &str) {
    let Some(first) = text.chars().next() else { return (Class::Symbol, text) };
    let class = class_of(first);
    let bytes = text.as_bytes();
    let mut end = first.len_utf8();
    while let Some(&byte) = bytes.get(end) {
        if byte.is_ascii() {
            if ASCII[usize::from(byte)] != class {
                break;
            }
            end += 1;
        } else {
            match text[end..].chars().next() {
                Some(next) if class_of(next) == class => end += next.len_utf8(),
                _ => break,
            }
        }
    }
    (class, &text[..end])
}

fn class_of(character: char) -> Class {
    if let Some(class) = ASCII.get(character as usize) {
        return *class;
    }
    match character {
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
