//! Texts as terms: the stems of their words.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::postings::Term;

/// Makes terms of words, and remembers those that it met.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    /// The stems of words; those of stop words are empty.
    stems: HashMap<Box<str>, Box<str>>,
}

/// English words that are in most texts and say little.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "between",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "how",
    "i", "if", "in", "into", "is", "it", "its", "may", "no", "not", "of", "on", "or", "other",
    "our", "s", "shall", "should", "so", "some", "such", "t", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "under", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "why", "will", "with", "would", "you",
];

/// A longer word counts by its beginning; most of those are no words.
const MAX_WORD_CHARS: usize = 64;
/// How many words are remembered, at most some ten megabytes of them.
const MAX_STEMS: usize = 1 << 16;

impl Default for Analyzer {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), stems: HashMap::new() }
    }
}

impl Analyzer {
    /// Shows every term of a text to `see`, in their order.
    ///
    /// Words are runs of letters and digits, without their case and accents. Those of Chinese and Japanese, which
    /// nothing divides, count as pairs of characters.
    pub(crate) fn analyze(&mut self, text: &str, mut see: impl FnMut(&str)) {
        if text.is_ascii() {
            self.words(text, &mut see);
        } else {
            let plain: String =
                text.nfkd().filter(|character| !is_combining_mark(*character)).collect();
            self.words(&plain, &mut see);
        }
    }

    /// The terms of a text by their numbers, each once and in order, with how often it has them (255 stands for more),
    /// and how many they are together.
    pub(crate) fn count<E>(
        &mut self,
        text: &str,
        mut number: impl FnMut(&str) -> Result<Term, E>,
    ) -> Result<(Vec<(Term, u8)>, u32), E> {
        let mut all = Vec::new();
        let mut failed = None;
        self.analyze(text, |term| match number(term) {
            Ok(number) => all.push(number),
            Err(error) => failed = failed.take().or(Some(error)),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        all.sort_unstable();
        let counted = all.chunk_by(|left, right| left == right);
        let counted = counted.map(|same| (same[0], u8::try_from(same.len()).unwrap_or(u8::MAX)));
        Ok((counted.collect(), u32::try_from(all.len()).unwrap_or(u32::MAX)))
    }

    /// The terms of a question, each once, up to so many.
    pub(crate) fn distinct(&mut self, text: &str, most: usize) -> Vec<String> {
        let (mut terms, mut seen) = (Vec::new(), HashSet::new());
        self.analyze(text, |term| {
            if terms.len() < most && !seen.contains(term) {
                seen.insert(term.to_owned());
                terms.push(term.to_owned());
            }
        });
        terms
    }

    fn words(&mut self, text: &str, see: &mut impl FnMut(&str)) {
        let mut word = String::new();
        for run in text.split(|character: char| !character.is_alphanumeric()) {
            if run.is_ascii() {
                word.clear();
                word.push_str(&run[..run.len().min(MAX_WORD_CHARS)]);
                word.make_ascii_lowercase();
                self.word(&word, see);
                continue;
            }
            let mut undivided =
                run.char_indices().filter(|(_, character)| is_undivided(*character)).peekable();
            if undivided.peek().is_none() {
                word.clear();
                word.extend(run.chars().take(MAX_WORD_CHARS).flat_map(char::to_lowercase));
                self.word(&word, see);
                continue;
            }
            for part in run.split(|character: char| !is_undivided(character)) {
                pairs(part, see);
            }
            for part in run.split(is_undivided) {
                word.clear();
                word.extend(part.chars().take(MAX_WORD_CHARS).flat_map(char::to_lowercase));
                self.word(&word, see);
            }
        }
    }

    fn word(&mut self, word: &str, see: &mut impl FnMut(&str)) {
        if word.is_empty() {
            return;
        }
        if let Some(stem) = self.stems.get(word) {
            if !stem.is_empty() {
                see(stem);
            }
            return;
        }
        let is_stop_word = STOP_WORDS.binary_search(&word).is_ok();
        let stem = if is_stop_word { Cow::Borrowed("") } else { self.stemmer.stem(word) };
        if !stem.is_empty() {
            see(&stem);
        }
        if self.stems.len() >= MAX_STEMS {
            self.stems.clear();
        }
        self.stems.insert(word.into(), stem.into());
    }
}

/// Characters of scripts that are written without spaces.
pub(super) fn is_undivided(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

fn pairs(run: &str, see: &mut impl FnMut(&str)) {
    let starts: Vec<_> = run.char_indices().map(|(at, _)| at).collect();
    if let [_] = starts[..] {
        see(run);
    }
    for (place, start) in starts.iter().enumerate().take(starts.len().saturating_sub(1)) {
        let end = starts.get(place + 2).copied().unwrap_or(run.len());
        see(&run[*start..end]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_terms() {
        check("The cats' running, and O'Brien ran!", "cat run o brien ran");
        check("Café NAÏVE Ｆｕｌｌ", "cafe naiv full");
        check("x=1; DROP INDEX a_b--", "x 1 drop index b");
        check("東京都 is 京", "東京 京都 京");
        check("第3章と", "第 章と 3");
        check("to be or not to be", "");
        check(&"a".repeat(100), &"a".repeat(64));
        check("", "");
    }

    #[track_caller]
    fn check(text: &str, want: &str) {
        let mut terms = Vec::new();
        Analyzer::default().analyze(text, |term| terms.push(term.to_owned()));
        assert_eq!(terms.join(" "), want);
    }

    #[test]
    fn stop_words_can_be_searched() {
        assert!(STOP_WORDS.is_sorted());
    }

    proptest! {
        #[test]
        fn any_text_has_terms_without_spaces(text: String) {
            Analyzer::default().analyze(&text, |term| {
                assert!(!term.is_empty() && !term.contains(char::is_whitespace));
            });
        }
    }
}
