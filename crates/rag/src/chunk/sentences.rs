//! Finds sentences: by the rules of Unicode (UAX #29), with corrections for abbreviations, ordinal
//! numbers and line breaks.

use std::{borrow::Cow, ops::Range};

use icu_segmenter::SentenceSegmenter;

use super::abbreviations::FullStops;

/// Passes each sentence of `section` to `handle`, as its span in `text` without surrounding white
/// space. If lines are wrapped, a sentence may continue after a line break.
pub(super) fn for_each_sentence<E>(
    text: &str,
    section: Range<usize>,
    is_wrapped: bool,
    full_stops: FullStops,
    mut handle: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let start = section.start;
    let section = &text[section];
    let unwrapped =
        if is_wrapped { Cow::Owned(unwrap_lines(section)) } else { Cow::Borrowed(section) };
    let segmenter = SentenceSegmenter::new(Default::default());
    // The sentence before the current one. It continues if it ends in an abbreviation.
    let mut last: Option<Range<usize>> = None;
    let mut segment_start = 0;
    for segment_end in segmenter.segment_str(&unwrapped).skip(1) {
        let segment = trim_span(section, segment_start..segment_end);
        segment_start = segment_end;
        if segment.is_empty() {
            continue;
        }
        if let Some(last) = &mut last
            && full_stops.goes_on(&section[last.clone()], &section[segment.clone()])
            && !unwrapped[last.end..segment.start].contains(['\n', '\r'])
        {
            last.end = segment.end;
        } else if let Some(sentence) = last.replace(segment) {
            handle(start + sentence.start..start + sentence.end)?;
        }
    }
    match last {
        Some(sentence) => handle(start + sentence.start..start + sentence.end),
        None => Ok(()),
    }
}

/// Returns the span without the white space around its text.
fn trim_span(text: &str, span: Range<usize>) -> Range<usize> {
    let inner = &text[span.clone()];
    let start = span.start + (inner.len() - inner.trim_start().len());
    // In blank text, the trimmed end lies before the trimmed start.
    let end = (span.start + inner.trim_end().len()).max(start);
    start..end
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
        if continues_on(line, next) {
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
fn continues_on(line: &str, next: &str) -> bool {
    /// Shortest line, in bytes, that counts as full. A shorter one is a heading or an item of a
    /// list.
    const MIN_WRAPPED_BYTES: usize = 40;
    !next.is_empty()
        && line.len() >= MIN_WRAPPED_BYTES
        && !line.trim_start().starts_with('#')
        && !line.starts_with('|')
        && !begins_block(next)
}

/// Returns whether a line begins a block of its own, such as a heading, a quotation or an item of a
/// list.
fn begins_block(line: &str) -> bool {
    let marker = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['#', '|', '>', '*', '-', '+', '•', '`', '~', '=', '<', '{', '['])
        || (marker.len() < line.len() && marker.starts_with(['.', ')']))
}
