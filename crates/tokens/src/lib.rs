#![doc = include_str!("../README.md")]

mod characters;

use crate::characters::{Class, class_of};

/// A thousandth of a token: the unit of the weights below.
///
/// The weights were fitted by least squares of the relative error, on 330 pieces of 6,000
/// characters (code, JSON, CSV, logs, HTML, prose in 30 languages), between the counts of
/// `o200k_base` and of the tokenizer that Anthropic has published, and at most 12 % above
/// `o200k_base`.
type Milli = u64;

/// A part of a word: `camelCase` has two.
const WORD_PART: Milli = 846;
/// Each letter of a part after the fifth. Frequent words are one token, rare ones are not.
const LONG_WORD_LETTER: Milli = 312;
const SHORT_WORD_LETTERS: u64 = 5;
/// Each letter of a part in capitals.
const CAPITAL: Milli = 46;
/// Each letter with an accent.
const ACCENTED: Milli = 1264;
/// Three digits, and each digit.
const DIGITS: Milli = 1096;
const DIGIT: Milli = 85;
/// Each character of a word in which lower case, upper case and digits alternate: Base64.
const MIXED: Milli = 634;
/// The same for letters of one case and digits: hashes in hexadecimal form.
const HASH: Milli = 430;
/// A run of punctuation, and each character of it.
const PUNCTUATION: Milli = 530;
const PUNCTUATION_CHARACTER: Milli = 197;
/// White space with a line end. Other white space belongs to the word after it.
const LINE_END: Milli = 1467;
/// Each character of long white space: tokens hold about 80.
const WHITE_SPACE_CHARACTER: Milli = 12;
/// A run of letters of another alphabet, and each letter.
const OTHER_WORD: Milli = 321;
const OTHER_LETTER: Milli = 395;
/// Each character of these scripts. The fit gave 966 for Han characters, because the pieces were
/// technical and partly in old characters; plain texts have about 700. It gave 309 for Cyrillic
/// letters, of which plain texts have 240.
const HAN: Milli = 800;
const KANA: Milli = 696;
const HANGUL: Milli = 778;
const CYRILLIC: Milli = 270;
const THAI: Milli = 511;
/// Most of it is in one token with a character beside it.
const WIDE_PUNCTUATION: Milli = 100;
/// Each symbol, such as an emoji. The pieces had few; most emoji have one or two tokens.
const SYMBOL: Milli = 1200;

/// Estimates the number of tokens of a text, without a tokenizer, in one pass.
///
/// ```
/// assert_eq!(marquetry_tokens::estimate(""), 0);
/// // o200k_base has 10.
/// assert_eq!(marquetry_tokens::estimate("The quick brown fox jumps over the lazy dog."), 9);
/// ```
#[must_use]
pub fn estimate(text: &str) -> u64 {
    let mut total = 0;
    let mut rest = text;
    // End of a word of letters and digits that was found not to be mixed, from the end of the text.
    let mut is_plain_until = usize::MAX;
    while let Some(first) = rest.chars().next() {
        let class = class_of(first);
        if matches!(class, Class::Letter | Class::Digit)
            && first.is_ascii()
            && is_plain_until >= rest.len()
        {
            let word = prefix(rest, |it| it.is_ascii_alphanumeric());
            if is_mixed(word) {
                let has_both_cases = word.bytes().any(|it| it.is_ascii_lowercase())
                    && word.bytes().any(|it| it.is_ascii_uppercase());
                total += word.len() as u64 * if has_both_cases { MIXED } else { HASH };
                rest = &rest[word.len()..];
                continue;
            }
            is_plain_until = rest.len() - word.len();
        }
        let run = prefix(rest, |it| class_of(it) == class);
        total += weight(class, run);
        rest = &rest[run.len()..];
    }
    total.div_ceil(1000)
}

/// Estimates the number of tokens of a text from its beginning, if it is long: at most `max_bytes`
/// are read.
#[must_use]
pub fn estimate_from_beginning(text: &str, max_bytes: usize) -> u64 {
    let beginning = &text[..text.floor_char_boundary(max_bytes)];
    if beginning.is_empty() {
        return 0;
    }
    let tokens = u128::from(estimate(beginning));
    let scaled = tokens * text.len() as u128 / beginning.len() as u128;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn prefix(text: &str, mut belongs: impl FnMut(char) -> bool) -> &str {
    &text[..text.find(|it| !belongs(it)).unwrap_or(text.len())]
}

fn weight(class: Class, run: &str) -> Milli {
    match class {
        Class::Letter => words(run),
        Class::Digit => characters(run).div_ceil(3) * DIGITS + characters(run) * DIGIT,
        Class::WhiteSpace => {
            let line_end = if run.contains('\n') { LINE_END } else { 0 };
            line_end + (characters(run) - 1) * WHITE_SPACE_CHARACTER
        }
        Class::Punctuation => PUNCTUATION + characters(run) * PUNCTUATION_CHARACTER,
        Class::Han => characters(run) * HAN,
        Class::Kana => characters(run) * KANA,
        Class::Hangul => characters(run) * HANGUL,
        Class::Cyrillic => characters(run) * CYRILLIC,
        Class::Thai => characters(run) * THAI,
        Class::OtherLetter => OTHER_WORD + characters(run) * OTHER_LETTER,
        Class::WidePunctuation => characters(run) * WIDE_PUNCTUATION,
        Class::Symbol => characters(run) * SYMBOL,
    }
}

fn characters(run: &str) -> u64 {
    run.chars().count() as u64
}

/// Returns the weight of a run of Latin letters, which may be several words in camel case.
fn words(run: &str) -> Milli {
    let mut total = 0;
    let mut part = Part::default();
    let mut letters = run.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_upper = letter.is_uppercase();
        // `Case` after `camel`, and `Name` after `HTML`.
        let starts_part = is_upper
            && part.letters > 0
            && (!part.is_upper || letters.peek().is_some_and(|next| next.is_lowercase()));
        if starts_part {
            total += part.weight();
            part = Part::default();
        }
        part.is_upper = is_upper && (part.is_upper || part.letters == 0);
        part.letters += 1;
        // Vietnamese letters, from U+1E00, are in the weights of their words.
        if !letter.is_ascii() && letter < '\u{1e00}' {
            total += ACCENTED;
        }
    }
    total + part.weight()
}

/// A part of a word in camel case.
#[derive(Default)]
struct Part {
    letters: u64,
    /// Whether all letters are capitals.
    is_upper: bool,
}

impl Part {
    fn weight(&self) -> Milli {
        let capitals = if self.is_upper && self.letters > 1 { self.letters * CAPITAL } else { 0 };
        let long = self.letters.saturating_sub(SHORT_WORD_LETTERS) * LONG_WORD_LETTER;
        WORD_PART + long + capitals
    }
}

/// Returns whether a word of ASCII letters and digits changes between lower case, upper case and
/// digits so often that it is a hash, an id or Base64.
fn is_mixed(word: &str) -> bool {
    const SHORTEST: usize = 8;
    let bytes = word.as_bytes();
    let changes = bytes.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    bytes.len() >= SHORTEST && changes * 3 >= bytes.len()
}

fn kind(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
