//! Words of the same meaning, and phrases.

use std::{collections::HashMap, sync::LazyLock};

use crate::words::Stems;

/// Words of the same meaning, and phrases.
pub(crate) struct Synonyms {
    /// The stems that a stem finds, too.
    by_stem: HashMap<String, Vec<String>>,
    /// The replacements of phrases, by their first words.
    phrases: HashMap<&'static str, Vec<Phrase>>,
}

/// Words that mean others together.
struct Phrase {
    /// The words after the first one.
    rest: Vec<&'static str>,
    replacement: Vec<&'static str>,
}

impl Synonyms {
    /// Returns the tables of the crate, which the first call reads.
    pub(crate) fn built_in() -> &'static Self {
        static TABLES: LazyLock<Synonyms> = LazyLock::new(|| Synonyms::new(&Stems::default()));
        &TABLES
    }

    fn new(stems: &Stems) -> Self {
        let mut synonyms = Self { by_stem: HashMap::new(), phrases: HashMap::new() };
        for line in lines(include_str!("synonyms.txt")) {
            match line.split_once('>') {
                Some((left, right)) => synonyms.add(&stemmed(left, stems), &stemmed(right, stems)),
                None => synonyms.add(&stemmed(line, stems), &stemmed(line, stems)),
            }
        }
        for line in lines(include_str!("phrases.txt")) {
            let Some((phrase, replacement)) = line.split_once(':') else { continue };
            let mut words = phrase.split_whitespace();
            let Some(first) = words.next() else { continue };
            let phrase = Phrase {
                rest: words.collect(),
                replacement: replacement.split_whitespace().collect(),
            };
            synonyms.phrases.entry(first).or_default().push(phrase);
        }
        for phrases in synonyms.phrases.values_mut() {
            // The longest phrase that fits is replaced.
            phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.rest.len()));
        }
        synonyms
    }

    fn add(&mut self, left: &[String], right: &[String]) {
        for stem in left {
            let others = self.by_stem.entry(stem.clone()).or_default();
            for other in right.iter().filter(|other| *other != stem) {
                if !others.contains(other) {
                    others.push(other.clone());
                }
            }
        }
    }

    /// Returns the other stems of the same meaning.
    pub(crate) fn of(&self, stem: &str) -> &[String] {
        self.by_stem.get(stem).map_or(&[], Vec::as_slice)
    }

    /// Returns the replacement of the phrase at the beginning of these words, and the number of its
    /// words.
    pub(crate) fn phrase<'a>(&'a self, words: &[&str]) -> Option<(&'a [&'static str], usize)> {
        let (first, rest) = words.split_first()?;
        let phrase =
            self.phrases.get::<str>(first)?.iter().find(|phrase| rest.starts_with(&phrase.rest))?;
        Some((&phrase.replacement, phrase.rest.len() + 1))
    }
}

/// Returns the lines of a table without comments.
fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn stemmed(words: &str, stems: &Stems) -> Vec<String> {
    words.split_whitespace().filter_map(|word| stems.of(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_symmetric_and_arrows_are_not() {
        let synonyms = Synonyms::new(&Stems::default());
        assert!(synonyms.of("delet").contains(&"remov".to_owned()));
        assert!(synonyms.of("remov").contains(&"delet".to_owned()));
        assert!(synonyms.of("macro").contains(&"vba".to_owned()));
        assert!(!synonyms.of("vba").contains(&"macro".to_owned()));
        assert_eq!(synonyms.of("octopus"), [""; 0]);
    }

    #[test]
    fn phrases_are_replaced() {
        let synonyms = Synonyms::new(&Stems::default());
        let found = synonyms.phrase(&["throw", "away", "it"]);
        assert_eq!(found, Some((["delete"].as_slice(), 2)));
        assert_eq!(synonyms.phrase(&["throw", "it", "away"]), None);
        assert_eq!(synonyms.phrase(&[]), None);
    }
}
