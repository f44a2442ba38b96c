//! Finds the words of a question in a text.

use std::{collections::HashSet, ops::Range};

use super::{
    language::Language,
    plain::plain,
    words::{Analyzer, by_script, is_part_of_word},
};
use crate::types::SearchRequest;

/// Returns the spans of the words in a text that match a question: in order, in bytes of UTF-8,
/// without overlap.
///
/// Words are compared by their stems, as in a search.
///
/// ```
/// let text = "Loaves were baked in the old bakery.";
/// let found = marquetry_index::highlights(text, "How do I bake a loaf?");
/// assert_eq!(found.into_iter().map(|span| &text[span]).collect::<Vec<_>>(), ["baked"]);
/// ```
pub fn highlights(text: &str, question: &str) -> Vec<Range<usize>> {
    let mut analyzer = Analyzer::default();
    let question = &question[..question.floor_char_boundary(SearchRequest::MAX_TEXT_BYTES)];
    // Words of the text are stemmed in its language, so no other stem of the question can match.
    let language = Language::of_plain(&plain(text)).unwrap_or(Language::ENGLISH);
    let wanted = analyzer.question(question, SearchRequest::MAX_TERMS, &[language]);
    let wanted: HashSet<String> = wanted.into_iter().flat_map(|word| word.terms).collect();
    let mut found: Vec<Range<usize>> = Vec::new();
    if wanted.is_empty() {
        return found;
    }
    for span in words(text) {
        let mut is_wanted = false;
        analyzer.analyze(&text[span.clone()], language, |term, _| {
            is_wanted |= wanted.contains(term);
        });
        match found.last_mut() {
            _ if !is_wanted => {}
            Some(last) if span.start < last.end => last.end = span.end,
            _ => found.push(span),
        }
    }
    found
}

/// Returns the spans of words. In scripts without spaces, these are overlapping n-grams, as in the
/// index.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    for run in runs(text) {
        let mut start = run.start;
        for (part, size) in by_script(&text[run]) {
            let span = start..start + part.len();
            start = span.end;
            let Some(size) = size else {
                words.push(span);
                continue;
            };
            let bounds: Vec<usize> =
                part.char_indices().map(|(at, _)| span.start + at).chain([span.end]).collect();
            if bounds.len() <= size + 1 {
                words.push(span);
            } else {
                words.extend(bounds.windows(size + 1).map(|bound| bound[0]..bound[size]));
            }
        }
    }
    words
}

/// Returns the densest part of the words of [`highlights`]: the most words that fit into a few
/// lines. Of several such parts, returns the first.
///
/// ```
/// let text = format!("A mill. {} Rye from the mill.", "Nothing. ".repeat(99));
/// let found = marquetry_index::highlights(&text, "mill for rye");
/// let best = marquetry_index::densest(&found);
/// assert_eq!(best.iter().map(|span| &text[span.clone()]).collect::<Vec<_>>(), ["Rye", "mill"]);
/// ```
pub fn densest(found: &[Range<usize>]) -> &[Range<usize>] {
    /// Maximum number of bytes from the first of the words to the last.
    const MAX: usize = 240;
    let mut best = 0..0;
    let mut end = 0;
    for start in 0..found.len() {
        end = end.max(start + 1);
        while found.get(end).is_some_and(|word| word.end <= found[start].start + MAX) {
            end += 1;
        }
        if end - start > best.len() {
            best = start..end;
        }
    }
    &found[best]
}

/// Returns runs of letters and digits, with their combining marks.
fn runs(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_part_of_word)?;
        let length = text[start..].find(|character| !is_part_of_word(character));
        from = length.map_or(text.len(), |length| start + length);
        Some(start..from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_stems_without_case_and_accents() {
        check("Running, RUNS; runner", "run", &["Running", "RUNS"]);
        check("Crème brûlée", "creme", &["Crème"]);
        check("Cre\u{300}me", "crème", &["Cre\u{300}me"]);
        check("the cat and the dog", "the and", &[]);
        check("", "x", &[]);
        check("x", "", &[]);
        check("东京都的天气", "东京", &["东京"]);
        check("ผมชอบภาษาไทยมาก", "ภาษาไทย", &["ภาษาไทย"]);
        check("계약서를 새로 작성했다", "계약서", &["계약서"]);
        check("이 API를 호출한다", "api", &["API"]);
        check("call getUserName() now", "user", &["getUserName"]);
        check("the user_name field", "user_name", &["user", "name"]);
        check("Los algoritmos de la ciudad", "algoritmo", &["algoritmos"]);
        check("\"a\" OR (b*) NEAR'c';--", "near OR * ' --", &["NEAR"]);
    }

    #[track_caller]
    fn check(text: &str, question: &str, want: &[&str]) {
        let found: Vec<&str> =
            highlights(text, question).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, want);
    }
}
