//! Finds secrets in texts: as they are, escaped as JSON, encoded for URLs or decoded, line by line, and where a text was cut within one.

use std::ops::Range;

use super::{CUT, SHORTEST_MIXED_SECRET, is_long_enough, plain::Plain};

/// Shortest line of a secret of several lines that is searched for by itself.
const SHORTEST_LINE: usize = 16;

/// Longest beginning of an escape that a cut leaves, such as `\ud83d\ude0`.
const LONGEST_CUT_ESCAPE: usize = 11;

/// Searches a text for all secrets in one pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Searcher {
    /// For each first byte, the texts to find.
    patterns: Vec<Vec<Vec<u8>>>,
}

impl Searcher {
    /// Secrets that are too short are left out: they would be found by chance.
    pub(super) fn new(secrets: &[String]) -> Self {
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
        let mut patterns = Vec::new();
        if !all.is_empty() {
            patterns.resize(256, Vec::new());
        }
        for pattern in all {
            patterns[usize::from(pattern[0])].push(pattern);
        }
        Self { patterns }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the places of secrets: in order, apart from each other, and between characters.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        if self.is_empty() {
            return Vec::new();
        }
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        self.find_in(bytes, bytes, |at| at, &mut found);
        if bytes.iter().any(|byte| matches!(byte, b'\\' | b'%' | b'+')) {
            let plain = Plain::of(bytes);
            self.find_in(&plain.text, bytes, |at| plain.place(at), &mut found);
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

    /// Searches `text`, whose bytes have their places in `original`.
    fn find_in(
        &self,
        text: &[u8],
        original: &[u8],
        place: impl Fn(usize) -> usize,
        found: &mut Vec<Range<usize>>,
    ) {
        for (start, first) in text.iter().enumerate() {
            for pattern in &self.patterns[usize::from(*first)] {
                let pairs = pattern.iter().zip(&text[start..]);
                let mut equal = pairs.take_while(|(one, other)| one == other).count();
                // Whole characters: the first byte of a `…` may be that of the next character of the secret.
                let is_within_character = |at| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
                while equal > 0 && equal < pattern.len() && is_within_character(start + equal) {
                    equal -= 1;
                }
                let end = place(start + equal);
                if equal == pattern.len() {
                    found.push(place(start)..end);
                } else if equal >= SHORTEST_MIXED_SECRET
                    && let Some(cut) = cut_at(&original[end..])
                {
                    found.push(place(start)..end + cut);
                }
            }
        }
    }
}

/// Returns the length of the mark of a cut at the beginning of a text, with the beginning of an escape before it.
fn cut_at(text: &[u8]) -> Option<usize> {
    let is_escape = |byte: &&u8| byte.is_ascii_hexdigit() || matches!(byte, b'\\' | b'%' | b'u');
    let escape = text.iter().take(LONGEST_CUT_ESCAPE).take_while(is_escape).count();
    let mut mark = [0; CUT.len_utf8()];
    let mark = CUT.encode_utf8(&mut mark).as_bytes();
    text[escape..].starts_with(mark).then_some(escape + mark.len())
}
