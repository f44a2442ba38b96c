//! Splits texts into words, and words into stems.

use std::collections::HashMap;

use snowball_stemmers_rs::{Algorithm, Stemmer};

/// Longest word, in bytes. The rest of a longer run of letters is ignored.
const MAX_WORD_BYTES: usize = 64;

/// Words that say nothing about a tool.
const STOP_WORDS: &str = "a about all also am an and any are as at be been being but by can could did do does done \
    each either for from had has have he her here him his how i if in into is it its itself just let like many may me \
    might more most much must my need now of off on once one only or other our out please shall she should so some \
    such than that the their them then there these they this those through to too under until up us use used user \
    using very via want was we were what when where whether which while who whom whose why will with within without \
    would yes you your";

/// Converts words to stems.
pub(crate) struct Stems {
    stemmer: Stemmer,
    stop_words: Vec<&'static str>,
}

impl Default for Stems {
    fn default() -> Self {
        let mut stop_words: Vec<_> = STOP_WORDS.split_whitespace().collect();
        stop_words.sort_unstable();
        Self { stemmer: Stemmer::create(Algorithm::English), stop_words }
    }
}

impl Stems {
    /// Returns the stem of a word in lower case; `None` for a stop word.
    pub(crate) fn of(&self, word: &str) -> Option<String> {
        if self.stop_words.binary_search(&word).is_ok() {
            return None;
        }
        Some(self.stemmer.stem(word).into_owned())
    }

    /// Passes the stem of each word of a text to `emit`. A word of several parts, such as `GitHub`,
    /// is followed by its parts.
    pub(crate) fn for_each(&self, text: &str, mut emit: impl FnMut(String)) {
        for_each_word(text, |word, parts| {
            let whole = self.of(&word);
            whole.into_iter().for_each(&mut emit);
            for part in parts {
                self.of(&part).into_iter().for_each(&mut emit);
            }
        });
    }

    /// Returns the stems of a text, in order.
    pub(crate) fn all(&self, text: &str) -> Vec<String> {
        let mut stems = Vec::new();
        self.for_each(text, |stem| stems.push(stem));
        stems
    }
}

/// Counts the stems of a text.
#[derive(Debug, Default)]
pub(crate) struct StemCounts {
    /// How often the text has each stem.
    pub(crate) counts: HashMap<String, u32>,
    /// Number of stems, with repetitions.
    pub(crate) length: u32,
}

impl StemCounts {
    pub(crate) fn add(&mut self, stems: &Stems, text: &str) {
        stems.for_each(text, |stem| {
            *self.counts.entry(stem).or_default() += 1;
            self.length += 1;
        });
    }
}

/// Passes each word of a text to `emit`, in lower case, with its parts if it has several: words in
/// camel case are split at capitals, and words with digits around them.
pub(crate) fn for_each_word(text: &str, mut emit: impl FnMut(String, Vec<String>)) {
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let run = crate::text::beginning(run, MAX_WORD_BYTES);
        let parts = parts(run);
        let parts = if parts.len() > 1 { parts } else { Vec::new() };
        emit(run.to_lowercase(), parts);
    }
}

/// Returns the parts of a word in lower case: `getHTTPResponse2` has get, http, response and 2.
fn parts(run: &str) -> Vec<String> {
    let chars: Vec<char> = run.chars().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..=chars.len() {
        if at == chars.len() || is_border(&chars, at) {
            parts.push(chars[start..at].iter().collect::<String>().to_lowercase());
            start = at;
        }
    }
    parts
}

/// Returns whether a part of a word begins at a character that is not the first.
fn is_border(chars: &[char], at: usize) -> bool {
    let before = chars[at - 1];
    let here = chars[at];
    if before.is_numeric() != here.is_numeric() {
        return true;
    }
    if !here.is_uppercase() {
        return false;
    }
    // The last capital of `HTTPResponse` begins the next part.
    !before.is_uppercase() || chars.get(at + 1).is_some_and(|next| next.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        assert_eq!(Stems::default().all(text), want, "{text}");
    }

    #[test]
    fn names_are_split() {
        check("create_issue", &["creat", "issu"]);
        check("getHTTPResponse2", &["gethttpresponse2", "get", "http", "respons", "2"]);
        check("API-patch-page", &["api", "patch", "page"]);
        check("GitHub", &["github", "git", "hub"]);
        check("PDFs", &["pdfs", "pd", "fs"]);
        check("", &[]);
        check("..!", &[]);
    }

    #[test]
    fn words_are_stemmed_and_stop_words_left_out() {
        check("Lists the directories that are being renamed", &["list", "directori", "renam"]);
        check("the of", &[]);
        check("Grüße 你好", &["grüße", "你好"]);
    }

    #[test]
    fn a_long_word_is_cut() {
        assert_eq!(Stems::default().all(&"é".repeat(10_000)), ["é".repeat(32)]);
    }
}
