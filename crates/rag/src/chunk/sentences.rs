//! Finds sentences: by the rules of Unicode (UAX #29), with corrections for abbreviations and line
//! breaks.

use std::{borrow::Cow, ops::Range};

use icu_segmenter::SentenceSegmenter;

/// Passes each sentence of a part of the text to a function, as its span without surrounding white
/// space. If lines are wrapped, a sentence may continue after a line break.
pub(crate) fn each_sentence<E>(
    text: &str,
    part: Range<usize>,
    is_wrapped: bool,
    mut see: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let start = part.start;
    let part = &text[part];
    let unwrapped = if is_wrapped { Cow::Owned(unwrap_lines(part)) } else { Cow::Borrowed(part) };
    let segmenter = SentenceSegmenter::new(Default::default());
    let mut open: Option<Range<usize>> = None;
    let mut from = 0;
    for to in segmenter.segment_str(&unwrapped).skip(1) {
        let sentence = trim(part, from..to);
        from = to;
        if sentence.is_empty() {
            continue;
        }
        match &mut open {
            Some(last)
                if ends_in_abbreviation(&part[last.clone()])
                    && is_one_line(&unwrapped[last.end..sentence.start]) =>
            {
                last.end = sentence.end;
            }
            _ => {
                if let Some(last) = open.replace(sentence) {
                    see(start + last.start..start + last.end)?;
                }
            }
        }
    }
    open.map_or(Ok(()), |last| see(start + last.start..start + last.end))
}

fn trim(text: &str, span: Range<usize>) -> Range<usize> {
    let inner = &text[span.clone()];
    let start = span.start + (inner.len() - inner.trim_start().len());
    start..(span.start + inner.trim_end().len()).max(start)
}

fn is_one_line(between: &str) -> bool {
    !between.contains(['\n', '\r'])
}

/// Replaces line breaks that only wrap a paragraph by spaces: Unicode's rules end a sentence at
/// every line break. Offsets do not change.
fn unwrap_lines(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut line_start = 0;
    while let Some(length) = text[line_start..].find('\n') {
        let end = line_start + length;
        let line = text[line_start..end].trim_end();
        let rest = &text[end + 1..];
        let next = rest.split('\n').next().unwrap_or(rest).trim();
        if wraps(line, next) {
            bytes[end] = b' ';
            if bytes[..end].ends_with(b"\r") {
                bytes[end - 1] = b' ';
            }
        }
        line_start = end + 1;
    }
    String::from_utf8(bytes).expect("line breaks are single bytes, and so are spaces")
}

/// Returns whether a paragraph continues from one line to the next.
fn wraps(line: &str, next: &str) -> bool {
    // Shortest line, in bytes, that counts as full. A shorter one is a heading or an item of a
    // list.
    const SHORTEST_WRAPPED: usize = 40;
    !next.is_empty()
        && line.len() >= SHORTEST_WRAPPED
        && !line.trim_start().starts_with('#')
        && !line.starts_with('|')
        && !begins_block(next)
}

/// Returns whether a line begins a block of its own, such as a heading, a quotation or an item of a
/// list.
fn begins_block(line: &str) -> bool {
    let marker = line.trim_start_matches(|at: char| at.is_ascii_digit());
    line.starts_with(['#', '|', '>', '*', '-', '+', '•', '`', '~', '=', '<', '{', '['])
        || (marker.len() < line.len() && marker.starts_with(['.', ')']))
}

/// Abbreviations in lower case. A full stop after them does not end a sentence.
const ABBREVIATIONS: [&str; 49] = [
    "adm", "al", "approx", "art", "assoc", "capt", "cf", "ch", "col", "dept", "dr", "ed", "eds",
    "eq", "eqs", "ex", "fig", "figs", "gen", "gov", "hon", "lt", "maj", "messrs", "mlle", "mme",
    "mr", "mrs", "ms", "mt", "no", "nos", "op", "pp", "pres", "prof", "rep", "rev", "sec", "sen",
    "sgt", "sr", "st", "supt", "tab", "univ", "vol", "vols", "vs",
];

/// Returns whether the text ends in a full stop that belongs to a word: `Dr.`, `J.`, `e.g.`.
fn ends_in_abbreviation(text: &str) -> bool {
    /// Longest abbreviation, in bytes.
    const LONGEST: usize = 64;
    let Some(whole) = text.strip_suffix('.') else { return false };
    let before = &whole[whole.ceil_char_boundary(whole.len().saturating_sub(LONGEST))..];
    let word = before
        .rsplit(|at: char| at.is_whitespace() || matches!(at, '(' | '[' | '"' | '“'))
        .next()
        .unwrap_or(before);
    let mut letters = word.chars();
    let is_initial = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    let is_dotted = word.contains('.') && word.split('.').all(|part| part.chars().count() == 1);
    // The word may begin before this part.
    if word.len() == before.len() && before.len() < whole.len() {
        return false;
    }
    let is_title = matches!(
        word,
        "Dr" | "Mr" | "Mrs" | "Ms" | "Prof" | "St" | "Capt" | "Gen" | "Rev" | "Sen" | "Gov"
    );
    if is_initial || is_dotted || is_title {
        return true;
    }
    let lower = word.to_lowercase();
    // "No." on its own is an answer, not an abbreviation.
    ABBREVIATIONS.contains(&lower.as_str()) && whole.len() > lower.len()
}
