#![doc = include_str!("../README.md")]

mod characters;

use crate::characters::{Class, run_of};

/// A thousandth of a token: the unit of the weights below.
///
/// The weights were fitted by least squares of the relative error, on 670 pieces of 1,500 to 3,000
/// characters (code, configuration, JSON, CSV, logs, HTML, tables, hashes, prose in 17 languages).
/// The fit is to the mean of the counts of `o200k_base` and of the tokenizer that Anthropic has
/// published where they differ by at most a quarter, and to 3 % above `o200k_base` elsewhere.
type Milli = u64;

/// A part of a word: `camelCase` has two.
const WORD_PART: Milli = 905;
/// Each letter of a part after the fifth. Frequent words are one token, rare ones are not.
const LONG_WORD_LETTER: Milli = 220;
const SHORT_WORD_LETTERS: u64 = 5;
/// Each letter of a part in capitals.
const CAPITAL: Milli = 62;
/// Each letter with an accent.
const ACCENTED: Milli = 1150;
/// Three digits.
const DIGITS: Milli = 1115;
/// White space before a digit, which is not in one token with it as it is with a word.
const SPACE_BEFORE_DIGIT: Milli = 596;
/// Each character of a word in which lower case, upper case and digits alternate: Base64.
const MIXED: Milli = 640;
/// The same for letters of one case and digits: hashes in hexadecimal form.
const HASH: Milli = 572;
/// A run of punctuation, and each character of it.
const PUNCTUATION: Milli = 686;
const PUNCTUATION_CHARACTER: Milli = 159;
/// White space with a line end. Behind punctuation it is mostly in one token with it.
const LINE_END: Milli = 869;
const LINE_END_BEHIND_PUNCTUATION: Milli = 307;
/// Two or more blanks at the beginning of a line.
const INDENTATION: Milli = 949;
/// Two or more blanks elsewhere.
const GAP: Milli = 1900;
/// Each blank that is not in the first token of a run: tokens hold about 80.
const FURTHER_BLANK: Milli = 12;
const BLANKS_OF_A_TOKEN: u64 = 80;
/// A run of letters of another alphabet, and each letter.
const OTHER_WORD: Milli = 321;
const OTHER_LETTER: Milli = 395;
/// Each character of these scripts. The fit gave 884 for Han characters and 334 for Cyrillic
/// letters, because its pieces were manuals. Plain texts have about 700 and 250.
const HAN: Milli = 770;
const KANA: Milli = 800;
const HANGUL: Milli = 778;
const CYRILLIC: Milli = 285;
const THAI: Milli = 511;
/// Most of it is in one token with a character beside it.
const WIDE_PUNCTUATION: Milli = 100;
const SYMBOL: Milli = 1160;
const EMOJI: Milli = 1950;
const JOINER: Milli = 1200;
/// A run of lines of a drawn table, and each character of it.
const BOX_RUN: Milli = 1869;
const BOX_CHARACTER: Milli = 200;

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
    let mut previous = None;
    // End of a word of letters and digits that was found not to be mixed, from the end of the text.
    let mut is_plain_until = usize::MAX;
    while let Some(first) = rest.as_bytes().first() {
        if first.is_ascii_alphanumeric() && is_plain_until >= rest.len() {
            let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric());
            let word = &rest[..end.unwrap_or(rest.len())];
            if is_mixed(word) {
                let has_both_cases = word.bytes().any(|it| it.is_ascii_lowercase())
                    && word.bytes().any(|it| it.is_ascii_uppercase());
                total += word.len() as u64 * if has_both_cases { MIXED } else { HASH };
                rest = &rest[word.len()..];
                previous = Some(Class::Letter);
                continue;
            }
            is_plain_until = rest.len() - word.len();
        }
        let (class, run) = run_of(rest);
        rest = &rest[run.len()..];
        total += if class == Class::WhiteSpace {
            white_space(run, previous, rest.starts_with(|next: char| next.is_ascii_digit()))
        } else {
            weight(class, run)
        };
        previous = Some(class);
    }
    total.div_ceil(1000)
}

/// Number and length in bytes of the pieces by which a long text is estimated.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 512;

/// Estimates the number of tokens of a text by pieces of it, if it has more than 4 KiB. The time
/// does not grow with the text. The pieces lie at equal distances, since the middle of a text often
/// differs from its beginning.
///
/// ```
/// let text = "The quick brown fox jumps over the lazy dog. ".repeat(10_000);
/// let exact = marquetry_tokens::estimate(&text);
/// let by_pieces = marquetry_tokens::estimate_by_pieces(&text);
/// assert!(by_pieces.abs_diff(exact) < exact / 20);
/// ```
#[must_use]
pub fn estimate_by_pieces(text: &str) -> u64 {
    if text.len() <= PIECES * PIECE_BYTES {
        return estimate(text);
    }
    let mut tokens = 0;
    let mut bytes = 0;
    for piece in 0..PIECES {
        let start = (text.len() - PIECE_BYTES) / (PIECES - 1) * piece;
        let start = text.floor_char_boundary(start);
        let piece = &text[start..text.floor_char_boundary(start + PIECE_BYTES)];
        tokens += estimate(piece);
        bytes += piece.len();
    }
    let scaled = u128::from(tokens) * text.len() as u128 / bytes as u128;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns about the longest beginning of a text that has at most `max_tokens` by [`estimate`], in
/// whole characters. Reads at most 16 bytes for each token, which is more than texts of words have.
///
/// ```
/// let text = "The quick brown fox jumps over the lazy dog.";
/// assert_eq!(marquetry_tokens::beginning_within(text, 4), "The quick brown fox ");
/// assert_eq!(marquetry_tokens::beginning_within(text, 100), text);
/// ```
#[must_use]
pub fn beginning_within(text: &str, max_tokens: u64) -> &str {
    const MAX_BYTES_PER_TOKEN: u64 = 16;
    let max_bytes = max_tokens.saturating_mul(MAX_BYTES_PER_TOKEN);
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut too_long = text.floor_char_boundary(max_bytes);
    if estimate(&text[..too_long]) <= max_tokens {
        return &text[..too_long];
    }
    let mut fitting = 0;
    while too_long - fitting > 1 {
        let mut middle = text.floor_char_boundary(fitting.midpoint(too_long));
        if middle == fitting {
            middle = text.ceil_char_boundary(fitting + 1);
        }
        // All bytes between the two belong to one character.
        if middle == too_long {
            break;
        }
        if estimate(&text[..middle]) <= max_tokens {
            fitting = middle;
        } else {
            too_long = middle;
        }
    }
    &text[..fitting]
}

fn weight(class: Class, run: &str) -> Milli {
    match class {
        Class::Letter => words(run),
        Class::Digit => characters(run).div_ceil(3) * DIGITS,
        // Depends on its neighbours.
        Class::WhiteSpace => 0,
        Class::Punctuation => PUNCTUATION + characters(run) * PUNCTUATION_CHARACTER,
        Class::Han => characters(run) * HAN,
        Class::Kana => characters(run) * KANA,
        Class::Hangul => characters(run) * HANGUL,
        Class::Cyrillic => characters(run) * CYRILLIC,
        Class::Thai => characters(run) * THAI,
        Class::OtherLetter => OTHER_WORD + characters(run) * OTHER_LETTER,
        Class::WidePunctuation => characters(run) * WIDE_PUNCTUATION,
        Class::Symbol => characters(run) * SYMBOL,
        Class::Emoji => characters(run) * EMOJI,
        Class::Joiner => characters(run) * JOINER,
        Class::Box => BOX_RUN + characters(run) * BOX_CHARACTER,
    }
}

/// Returns the weight of white space. A single blank belongs to the word after it.
fn white_space(run: &str, previous: Option<Class>, is_before_digit: bool) -> Milli {
    let before_digit = if is_before_digit { SPACE_BEFORE_DIGIT } else { 0 };
    let length = (run.len() as u64).saturating_sub(BLANKS_OF_A_TOKEN) * FURTHER_BLANK;
    let Some(line_end) = run.rfind('\n') else {
        let gap = if run.len() > 1 && !is_before_digit { GAP } else { 0 };
        return before_digit + gap + length;
    };
    let is_behind_punctuation = previous == Some(Class::Punctuation);
    let line = if is_behind_punctuation { LINE_END_BEHIND_PUNCTUATION } else { LINE_END };
    match run.len() - line_end - 1 {
        0 => line + length,
        1 => line + before_digit + length,
        _ => line + INDENTATION + length,
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
