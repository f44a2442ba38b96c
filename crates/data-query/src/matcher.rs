//! Finds a regular expression in a text of any length, and can be stopped.

use regex::{Regex, RegexBuilder};
use regex_automata::{
    Input,
    hybrid::dfa::{Cache, Config, DFA},
    nfa::thompson,
    util::syntax,
};

/// Memory of a compiled regular expression, in bytes. A repetition such as `(a{1000}){1000}`
/// exceeds it.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Texts up to this length are searched at once. An expression with thousands of states needs
/// milliseconds for them.
const MAX_SHORT_BYTES: usize = 1 << 10;
/// Bytes of a long text between two looks at the clock.
const BYTES_PER_LOOK: usize = 256;
/// Part of a long text around a match in which its beginning is searched, in bytes.
const AROUND_MATCH_BYTES: usize = 512;

/// Error of a long text that has characters beyond ASCII, and a pattern with `\b`.
pub(crate) const WORD_BOUNDARY: &str =
    r"\b and \B need a line of at most 1,024 bytes, or one of ASCII: write (?-u:\b) instead";

/// Flags of a regular expression.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatcherOptions {
    pub(crate) case_insensitive: bool,
    pub(crate) ignore_whitespace: bool,
    pub(crate) dot_matches_new_line: bool,
}

/// Why a text cannot be searched to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchError<E> {
    Stopped(E),
    /// See [`WORD_BOUNDARY`].
    WordBoundary,
}

/// A regular expression. The search of a text is linear in its length; the factor is the size of
/// the expression, so that a text of megabytes may take hours.
pub(crate) struct LineMatcher {
    regex: Regex,
    /// For long texts, a byte at a time.
    dfa: DFA,
}

impl LineMatcher {
    pub(crate) fn new(source: &str, options: MatcherOptions) -> Result<Self, String> {
        let regex = RegexBuilder::new(source)
            .case_insensitive(options.case_insensitive)
            .ignore_whitespace(options.ignore_whitespace)
            .dot_matches_new_line(options.dot_matches_new_line)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|error| last_line(&error))?;
        let syntax = syntax::Config::new()
            .case_insensitive(options.case_insensitive)
            .ignore_whitespace(options.ignore_whitespace)
            .dot_matches_new_line(options.dot_matches_new_line);
        let dfa = DFA::builder()
            .configure(
                Config::new()
                    .unicode_word_boundary(true)
                    .cache_capacity(2 * MAX_REGEX_BYTES)
                    .skip_cache_capacity_check(true),
            )
            .syntax(syntax)
            .thompson(thompson::Config::new().nfa_size_limit(Some(2 * MAX_REGEX_BYTES)))
            .build(source)
            .map_err(|error| last_line(&error))?;
        Ok(Self { regex, dfa })
    }

    /// Returns the place of the first match in a text. `look` is called again and again during the
    /// search, and ends it by an error.
    pub(crate) fn find<E>(
        &self,
        text: &str,
        look: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, MatchError<E>> {
        if text.len() <= MAX_SHORT_BYTES {
            return Ok(self.regex.find(text).map(|found| found.start()));
        }
        let Some(end) = self.find_end(text, look)? else { return Ok(None) };
        let start = text.floor_char_boundary(end.saturating_sub(AROUND_MATCH_BYTES));
        let around = &text[start..text.floor_char_boundary(end + AROUND_MATCH_BYTES)];
        Ok(Some(self.regex.find(around).map_or(end, |found| start + found.start())))
    }

    /// Returns where a match ends.
    fn find_end<E>(
        &self,
        text: &str,
        look: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, MatchError<E>> {
        let mut cache = Cache::new(&self.dfa);
        let mut state = self
            .dfa
            .start_state_forward(&mut cache, &Input::new(text))
            .map_err(|_| MatchError::WordBoundary)?;
        for (index, byte) in text.bytes().enumerate() {
            if index % BYTES_PER_LOOK == 0 {
                look().map_err(MatchError::Stopped)?;
            }
            state = self
                .dfa
                .next_state(&mut cache, state, byte)
                .map_err(|_| MatchError::WordBoundary)?;
            if !state.is_tagged() {
                continue;
            }
            // The automaton tells a match one byte late.
            if state.is_match() {
                return Ok(Some(index));
            }
            if state.is_dead() {
                return Ok(None);
            }
            if state.is_quit() {
                return Err(MatchError::WordBoundary);
            }
        }
        let last = self.dfa.next_eoi_state(&mut cache, state);
        let last = last.map_err(|_| MatchError::WordBoundary)?;
        Ok(last.is_match().then_some(text.len()))
    }
}

/// Returns the last line of an error: the lines before it repeat the pattern and point into it.
fn last_line(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn matcher(source: &str) -> LineMatcher {
        LineMatcher::new(source, MatcherOptions::default()).unwrap()
    }

    fn find(source: &str, text: &str) -> Result<Option<usize>, MatchError<()>> {
        matcher(source).find(text, &mut || Ok(()))
    }

    #[test]
    fn long_texts_are_searched_as_short_ones() {
        let long = format!("{} needle {}end", "x".repeat(5_000), "y".repeat(5_000));
        assert_eq!(find("needle", &long), Ok(Some(5_001)));
        assert_eq!(find("n.e+dle y", &long), Ok(Some(5_001)));
        assert_eq!(find("^needle", &long), Ok(None));
        assert_eq!(find("end$", &long), Ok(Some(10_008)));
        assert_eq!(find(r"\bneedle\b", &long), Ok(Some(5_001)));
        assert_eq!(find("x needle y.*end", &long), Ok(Some(10_011)));
        assert_eq!(find("absent", &long), Ok(None));
        let umlauts = "ä".repeat(5_000) + " needle";
        assert_eq!(find("needle", &umlauts), Ok(Some(10_001)));
        assert_eq!(find(r"\bneedle", &umlauts), Err(MatchError::WordBoundary));
        assert_eq!(find(r"(?-u:\b)needle", &umlauts), Ok(Some(10_001)));
    }

    /// Without the automaton, this search takes minutes.
    #[test]
    fn a_search_of_a_long_text_can_be_stopped() {
        let mut random = 1_u32;
        let text: String = (0..2_000_000)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if random >> 31 == 0 { 'a' } else { 'b' }
            })
            .collect();
        let started = Instant::now();
        let found = matcher("a[ab]{3000}b[ab]{3000}c").find(&text, &mut || {
            if started.elapsed() > Duration::from_millis(50) { Err(()) } else { Ok(()) }
        });
        assert_eq!(found, Err(MatchError::Stopped(())));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn long_and_short_searches_agree(
            source in "[ab.]{1,4}([ab][+*?]|\\^|\\$|(a|bb)){0,3}",
            text in "[abc]{0,40}",
        ) {
            let matcher = matcher(&source);
            let end: Result<_, MatchError<()>> = matcher.find_end(&text, &mut || Ok(()));
            prop_assert_eq!(end.unwrap().is_some(), matcher.regex.is_match(&text), "{}", source);
        }
    }
}
