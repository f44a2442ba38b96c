//! Searches the lines of a text.

use std::{collections::VecDeque, fmt, time::Duration};

use crate::{
    QueryLimits,
    limits::{Deadline, Stopped},
    matcher::{LineMatcher, MatchError, MatcherOptions, WORD_BOUNDARY},
};

/// Longest pattern, in bytes, and most words.
const MAX_PATTERN_BYTES: usize = 4_000;
const MAX_WORDS: usize = 20;
/// Bytes of short lines between two looks at the clock. Each line counts as one more.
const BYTES_PER_LOOK: usize = 4 << 10;
/// Part of a long line that is shown before its match, in bytes.
const BEFORE_MATCH_BYTES: usize = 100;

/// What a line must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pattern {
    /// A match of a regular expression, in the syntax of the crate `regex`.
    Regex(String),
    /// Each of these words, in any order.
    Words(Vec<String>),
}

/// A search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchRequest {
    /// What a line must contain.
    pub pattern: Pattern,
    /// Whether upper and lower case differ.
    pub is_case_sensitive: bool,
    /// Lines that are shown before and after each line that matches.
    pub context: usize,
    /// Maximum number of lines that match in the output.
    pub max_matches: usize,
    /// Whether the last matches are shown instead of the first.
    pub from_end: bool,
    /// Longest part of a line that is shown, in bytes.
    pub max_line_bytes: usize,
}

impl SearchRequest {
    /// Creates a search for 10 lines, each with a line of context on both sides, in any case.
    #[must_use]
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            is_case_sensitive: false,
            context: 1,
            max_matches: 10,
            from_end: false,
            max_line_bytes: 300,
        }
    }
}

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchMatch {
    /// Number of the line, from 1.
    pub line: u64,
    /// Whether the line matches; the others are its context.
    pub is_match: bool,
    /// The line, or the part of a long line around its match.
    pub text: String,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchOutput {
    /// Lines that match, with their context, in the order of the text.
    pub lines: Vec<SearchMatch>,
    /// Number of lines that match in the whole text.
    pub total: u64,
    /// Number of these that are in `lines`.
    pub shown: u64,
    /// Number of lines of the text.
    pub text_lines: u64,
}

impl fmt::Display for SearchOutput {
    /// Writes the lines as `grep -n` does: `12:` before a match, `13-` before context, `--` between
    /// groups.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for SearchMatch { line, is_match, text } in &self.lines {
            if last.is_some_and(|last| last + 1 != *line) {
                writeln!(f, "--")?;
            }
            let mark = if *is_match { ':' } else { '-' };
            writeln!(f, "{line}{mark}{text}")?;
            last = Some(*line);
        }
        Ok(())
    }
}

/// Why a search is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The pattern is empty, and would match every line.
    #[error("the pattern is empty")]
    Empty,
    /// The regular expression is not valid, or too large.
    #[error("the regular expression is not valid: {0}")]
    Regex(String),
    /// The pattern is too long.
    #[error("the pattern has more than {MAX_PATTERN_BYTES} bytes or {MAX_WORDS} words")]
    TooLong,
    /// A line is too long for a part of the regular expression.
    #[error("line {line}: {WORD_BOUNDARY}")]
    WordBoundary {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The search took too long.
    #[error("the search took longer than {} ms and was stopped", .0.as_millis())]
    Time(Duration),
    /// The search was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
}

/// Searches the lines of a text. The time is linear in the length of the text.
///
/// # Errors
///
/// Returns an error if the pattern is empty or not valid, or if the search exceeds its time.
pub fn search(
    text: &str,
    request: &SearchRequest,
    limits: &QueryLimits,
) -> Result<SearchOutput, SearchError> {
    let deadline = Deadline::start(limits);
    let matcher = Matcher::new(request)?;
    let mut window = Window::new(request, limits.max_output_bytes);
    let mut look = || {
        deadline.check().map_err(|stopped| match stopped {
            Stopped::Cancelled => SearchError::Cancelled,
            Stopped::Late => SearchError::Time(limits.time),
            // A search does not look at the memory.
            #[cfg(any(feature = "jq", feature = "sql"))]
            Stopped::Memory(_) => SearchError::Time(limits.time),
        })
    };
    let mut bytes = BYTES_PER_LOOK;
    for (number, line) in (1..).zip(text.lines()) {
        bytes += line.len() + 1;
        if bytes >= BYTES_PER_LOOK {
            bytes = 0;
            look()?;
        }
        let found = matcher.find(line, &mut look).map_err(|error| match error {
            MatchError::Stopped(error) => error,
            MatchError::WordBoundary => SearchError::WordBoundary { line: number },
        })?;
        window.push(number, line, found);
    }
    Ok(window.finish())
}

/// Finds the pattern in a line.
struct Matcher(Vec<LineMatcher>);

impl Matcher {
    fn new(request: &SearchRequest) -> Result<Self, SearchError> {
        let sources = match &request.pattern {
            Pattern::Regex(source) => vec![source.clone()],
            Pattern::Words(words) => words.iter().map(|word| regex::escape(word)).collect(),
        };
        if sources.is_empty() || sources.iter().all(|source| source.trim().is_empty()) {
            return Err(SearchError::Empty);
        }
        let bytes: usize = sources.iter().map(String::len).sum();
        if bytes > MAX_PATTERN_BYTES || sources.len() > MAX_WORDS {
            return Err(SearchError::TooLong);
        }
        let options = MatcherOptions {
            case_insensitive: !request.is_case_sensitive,
            ..MatcherOptions::default()
        };
        let built = sources.iter().map(|source| LineMatcher::new(source, options));
        built.collect::<Result<_, _>>().map(Self).map_err(SearchError::Regex)
    }

    /// Returns the place of the first match in a line.
    fn find<E>(
        &self,
        line: &str,
        look: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, MatchError<E>> {
        let mut first = None;
        for matcher in &self.0 {
            let Some(start) = matcher.find(line, look)? else { return Ok(None) };
            first = Some(first.map_or(start, |first: usize| first.min(start)));
        }
        Ok(first)
    }
}

/// Collects matches and their context, within limits.
struct Window<'r> {
    request: &'r SearchRequest,
    max_bytes: usize,
    /// Lines before the current one that may become context.
    before: VecDeque<SearchMatch>,
    /// Lines after a match that are still context.
    after: usize,
    lines: VecDeque<SearchMatch>,
    bytes: usize,
    is_full: bool,
    shown: u64,
    total: u64,
    text_lines: u64,
}

impl<'r> Window<'r> {
    fn new(request: &'r SearchRequest, max_bytes: usize) -> Self {
        Self {
            request,
            max_bytes,
            before: VecDeque::new(),
            after: 0,
            lines: VecDeque::new(),
            bytes: 0,
            is_full: false,
            shown: 0,
            total: 0,
            text_lines: 0,
        }
    }

    fn push(&mut self, number: u64, line: &str, found: Option<usize>) {
        self.text_lines = number;
        let Some(start) = found else {
            let shown = self.shown_line(number, line, None);
            if self.after > 0 {
                self.after -= 1;
                self.add(shown);
            } else if self.request.context > 0 && !self.is_full {
                if self.before.len() == self.request.context {
                    self.before.pop_front();
                }
                self.before.push_back(shown);
            }
            return;
        };
        self.total += 1;
        if self.is_full {
            return;
        }
        if !self.request.from_end && self.shown == self.request.max_matches as u64 {
            self.is_full = true;
            self.after = 0;
            return;
        }
        let shown = self.shown_line(number, line, Some(start));
        let before = std::mem::take(&mut self.before);
        let needed: usize = before.iter().chain([&shown]).map(cost).sum();
        let fits = self.bytes + needed <= self.max_bytes;
        if !self.request.from_end && !fits && self.shown > 0 {
            self.is_full = true;
            self.after = 0;
            return;
        }
        // The first match is shown even if there is no room for its context, or for itself.
        if fits || self.request.from_end {
            for line in before {
                self.add(line);
            }
        }
        self.shown += 1;
        self.add(shown);
        self.after = self.request.context;
        if self.request.from_end {
            while self.shown > self.request.max_matches as u64 {
                self.drop_first_match();
            }
        }
    }

    /// Adds a line to the output. Context that does not fit ends the output; from the end, the
    /// first lines make room.
    fn add(&mut self, line: SearchMatch) {
        let bytes = cost(&line);
        let fits = self.bytes + bytes <= self.max_bytes;
        if !line.is_match && !fits && !self.request.from_end {
            self.is_full = true;
            self.after = 0;
            return;
        }
        self.bytes += bytes;
        self.lines.push_back(line);
        while self.request.from_end && self.bytes > self.max_bytes && self.lines.len() > 1 {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= cost(&line);
            self.shown -= u64::from(line.is_match);
        }
    }

    /// Drops the first match with its context, and the lines that only it had as context.
    fn drop_first_match(&mut self) {
        while self.lines.front().is_some_and(|line| !line.is_match) {
            self.drop_first();
        }
        self.drop_first();
        let context = self.request.context as u64;
        let next = self.lines.iter().find(|line| line.is_match).map(|line| line.line);
        while let (Some(next), Some(first)) = (next, self.lines.front())
            && first.line + context < next
        {
            self.drop_first();
        }
    }

    /// Returns a line as it is shown; a long one is cut around its match.
    fn shown_line(&self, number: u64, line: &str, found: Option<usize>) -> SearchMatch {
        let max = self.request.max_line_bytes;
        let text = if line.len() <= max {
            line.to_owned()
        } else {
            let start = found.unwrap_or(0).saturating_sub(BEFORE_MATCH_BYTES.min(max / 2));
            let start = line.floor_char_boundary(start);
            let end = line.floor_char_boundary(start.saturating_add(max));
            let head = if start > 0 { "…" } else { "" };
            let tail = if end < line.len() { "…" } else { "" };
            format!("{head}{}{tail}", &line[start..end])
        };
        SearchMatch { line: number, is_match: found.is_some(), text }
    }

    fn finish(self) -> SearchOutput {
        SearchOutput {
            lines: self.lines.into(),
            total: self.total,
            shown: self.shown,
            text_lines: self.text_lines,
        }
    }
}

/// Returns the bytes of a line in the output, with its number and its end.
fn cost(line: &SearchMatch) -> usize {
    line.text.len() + 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "one\ntwo error\nthree\nfour\nfive\nsix Error\nseven";

    fn regex(source: &str) -> SearchRequest {
        SearchRequest::new(Pattern::Regex(source.to_owned()))
    }

    #[track_caller]
    fn check(request: &SearchRequest, want: &str) -> SearchOutput {
        let output = search(TEXT, request, &QueryLimits::default()).unwrap();
        assert_eq!(output.to_string(), want);
        output
    }

    #[test]
    fn matches_come_with_their_context() {
        let mut request = regex("error");
        request.context = 1;
        let output =
            check(&request, "1-one\n2:two error\n3-three\n--\n5-five\n6:six Error\n7-seven\n");
        assert_eq!((output.total, output.shown, output.text_lines), (2, 2, 7));
        request.is_case_sensitive = true;
        request.context = 0;
        check(&request, "2:two error\n");
    }

    #[test]
    fn further_matches_are_counted() {
        let mut request = regex("e");
        request.context = 0;
        request.max_matches = 2;
        let output = check(&request, "1:one\n2:two error\n");
        assert_eq!((output.total, output.shown), (6, 2));
        request.from_end = true;
        check(&request, "6:six Error\n7:seven\n");
        request.max_matches = 1;
        check(&request, "7:seven\n");
    }

    #[test]
    fn words_may_stand_in_any_order() {
        let words = Pattern::Words(vec!["ERROR".to_owned(), "six".to_owned()]);
        let mut request = SearchRequest::new(words);
        request.context = 0;
        check(&request, "6:six Error\n");
    }

    #[test]
    fn long_lines_are_cut_around_their_match() {
        let text = format!("{}needle{}", "ä".repeat(5_000), "x".repeat(5_000));
        let mut request = regex("needle");
        request.max_line_bytes = 40;
        let output = search(&text, &request, &QueryLimits::default()).unwrap();
        let shown = &output.lines[0].text;
        assert!(shown.contains("needle") && shown.len() < 50, "{shown}");
    }

    #[test]
    fn bad_patterns_say_why() {
        let error = |source: &str| {
            search(TEXT, &regex(source), &QueryLimits::default()).unwrap_err().to_string()
        };
        assert_eq!(error(" "), "the pattern is empty");
        assert_eq!(error("(a"), "the regular expression is not valid: unclosed group");
        assert!(error("(a{1000}){1000}").contains("size limit"), "{}", error("(a{1000}){1000}"));
        assert_eq!(error(&"a".repeat(5_000)), SearchError::TooLong.to_string());
        let deep = format!("{}a{}", "(".repeat(1_500), ")".repeat(1_500));
        assert!(error(&deep).contains("nested parentheses"), "{}", error(&deep));
        let words = SearchRequest::new(Pattern::Words(vec!["a".to_owned(); 30]));
        let limits = QueryLimits::default();
        assert_eq!(search(TEXT, &words, &limits), Err(SearchError::TooLong));
    }

    #[test]
    fn searches_end_in_time_and_when_they_are_cancelled() {
        let text = "aaaa\n".repeat(1_000_000);
        // A regular expression on which a backtracking engine never ends.
        let request = regex("(a*)*(a*)*(a*)*$b");
        let limits = QueryLimits { time: Duration::from_millis(1), ..QueryLimits::default() };
        let output = search(&text, &request, &limits);
        assert!(matches!(output, Err(SearchError::Time(_))), "{output:?}");
        let limits = QueryLimits::default();
        limits.cancel.cancel();
        assert_eq!(search(&text, &request, &limits), Err(SearchError::Cancelled));
    }

    #[test]
    fn a_line_of_100_mb_is_searched() {
        let text = format!("{}needle{}\nend", "x".repeat(60 << 20), "y".repeat(40 << 20));
        let mut request = regex("needle");
        request.is_case_sensitive = true;
        let limits = QueryLimits { time: Duration::from_mins(1), ..QueryLimits::default() };
        let output = search(&text, &request, &limits).unwrap();
        assert_eq!((output.total, output.text_lines), (1, 2));
        assert!(output.lines[0].text.contains("xneedley"), "{}", output.lines[0].text);
        assert!(output.to_string().len() < 500);
    }

    proptest! {
        #[test]
        fn every_output_fits_and_counts_its_matches(
            text in "([ab\n]{0,30}){0,20}",
            context in 0_usize..4,
            max_matches in 1_usize..6,
            from_end: bool,
            max_output_bytes in 1_usize..200,
        ) {
            let mut request = regex("a");
            request.context = context;
            request.max_matches = max_matches;
            request.from_end = from_end;
            let limits = QueryLimits { max_output_bytes, ..QueryLimits::default() };
            let output = search(&text, &request, &limits).unwrap();
            let shown = output.lines.iter().filter(|line| line.is_match).count() as u64;
            prop_assert_eq!(shown, output.shown);
            prop_assert!(output.shown <= output.total && output.shown <= max_matches as u64);
            prop_assert_eq!(output.total as usize, text.lines().filter(|it| it.contains('a')).count());
            let numbers: Vec<_> = output.lines.iter().map(|line| line.line).collect();
            prop_assert!(numbers.is_sorted() && numbers.windows(2).all(|two| two[0] != two[1]));
            for line in &output.lines {
                prop_assert_eq!(&line.text, text.lines().nth(line.line as usize - 1).unwrap());
            }
            let bytes: usize = output.lines.iter().map(cost).sum();
            prop_assert!(bytes <= max_output_bytes || output.lines.len() == 1);
        }
    }
}
