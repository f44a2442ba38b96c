//! Finds known secrets in texts: as they are, escaped as JSON, encoded for URLs or decoded, line by
//! line, and where a text was cut within one.

use std::ops::Range;

use crate::{
    CUT_MARK,
    plain::Plain,
    token::{SHORTEST_MIXED_SECRET, is_long_enough},
};

/// Shortest line of a secret of several lines that is searched for by itself.
const SHORTEST_LINE: usize = 16;

/// Longest beginning of an escape that a cut leaves, such as `\ud83d\ude0`.
const LONGEST_CUT_ESCAPE: usize = 11;

/// Maximum number of secrets that are searched for, and of their bytes: each is searched for in
/// every text.
const MAX_PATTERNS: usize = 1_000;
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// Searches texts for secrets, in a time that grows with the length of the text, whatever it
/// contains.
#[derive(Clone, Default)]
pub(crate) struct Searcher {
    patterns: Vec<Pattern>,
}

/// A text to find, with the table of Knuth, Morris and Pratt.
#[derive(Clone)]
struct Pattern {
    bytes: Vec<u8>,
    /// For each length, the longest shorter beginning that these bytes end with.
    fall_back: Vec<usize>,
}

impl Pattern {
    fn new(bytes: Vec<u8>) -> Self {
        let mut pattern = Self { fall_back: vec![0; bytes.len() + 1], bytes };
        let mut matched = 0;
        for at in 1..pattern.bytes.len() {
            matched = pattern.after(matched, pattern.bytes[at]);
            pattern.fall_back[at + 1] = matched;
        }
        pattern
    }

    /// Returns how many bytes of the beginning match after one more byte of the text.
    fn after(&self, mut matched: usize, byte: u8) -> usize {
        loop {
            if self.bytes.get(matched) == Some(&byte) {
                return matched + 1;
            }
            if matched == 0 {
                return 0;
            }
            matched = self.fall_back[matched];
        }
    }
}

impl Searcher {
    /// Secrets that are too short are left out: they would be found by chance.
    pub(crate) fn new(secrets: &[String]) -> Self {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let plain = Plain::of(secret.as_bytes()).text;
            let lines = plain.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii);
            // The first and the last line of a key say only what it is.
            let lines = lines.filter(|it| it.len() >= SHORTEST_LINE && !it.starts_with(b"-----"));
            all.extend(lines.map(<[u8]>::to_vec));
            all.extend([secret.as_bytes().to_vec(), plain]);
        }
        all.retain(|pattern| is_long_enough(pattern));
        all.sort();
        all.dedup();
        Self { patterns: all.into_iter().map(Pattern::new).collect() }
    }

    /// Returns whether there is more to search for than can be searched for in all texts.
    pub(crate) fn is_too_large(&self) -> bool {
        let bytes: usize = self.patterns.iter().map(|pattern| pattern.bytes.len()).sum();
        self.patterns.len() > MAX_PATTERNS || bytes > MAX_PATTERN_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the places of secrets: in order, apart from each other, and between characters.
    pub(crate) fn find(&self, text: &str) -> Vec<Range<usize>> {
        if self.is_empty() {
            return Vec::new();
        }
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        self.find_in(bytes, bytes, |at| at, &mut found);
        if bytes.iter().any(|byte| matches!(byte, b'\\' | b'%' | b'+')) {
            let plain = Plain::of(bytes);
            self.find_in(&plain.text, bytes, |at| plain.original(at), &mut found);
        }
        for Range { start, end } in &mut found {
            *start = text.floor_char_boundary(*start);
            *end = text.ceil_char_boundary(*end);
        }
        found.sort_by_key(|range| range.start);
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    }

    /// Searches `text`, and returns offsets in `original`.
    fn find_in(
        &self,
        text: &[u8],
        original: &[u8],
        original_offset: impl Fn(usize) -> usize,
        found: &mut Vec<Range<usize>>,
    ) {
        for pattern in &self.patterns {
            let length = pattern.bytes.len();
            let mut matched = 0;
            for (at, byte) in text.iter().enumerate() {
                if matched >= SHORTEST_MIXED_SECRET
                    && let Some(cut) = cut_at(&original[original_offset(at)..])
                {
                    found.push(original_offset(at - matched)..original_offset(at) + cut);
                }
                matched = pattern.after(matched, *byte);
                if matched == length {
                    found.push(original_offset(at + 1 - length)..original_offset(at + 1));
                }
            }
        }
    }
}

/// Returns the length of the mark of a cut at the beginning of a text, with the beginning of an
/// escape before it.
fn cut_at(text: &[u8]) -> Option<usize> {
    let escape = text
        .iter()
        .take(LONGEST_CUT_ESCAPE)
        .take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'\\' | b'%' | b'u'))
        .count();
    let mut mark = [0; CUT_MARK.len_utf8()];
    let mark = CUT_MARK.encode_utf8(&mut mark).as_bytes();
    text[escape..].starts_with(mark).then_some(escape + mark.len())
}
