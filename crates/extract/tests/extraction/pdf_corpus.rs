//! PDFs of five producers, whose texts are known (`tests/corpus/pdf`).

use std::{collections::HashMap, fmt::Write as _, fs, path::Path};

use super::file;

/// Share of the words of all documents that must be found.
const LEAST_RECALL: f64 = 0.98;
/// Share of the sentences of all documents that must be found in their order.
const LEAST_ORDER: f64 = 0.95;

/// How much of a text was found.
#[derive(Clone, Copy, Default)]
struct Score {
    words: usize,
    found: usize,
    sentences: usize,
    in_order: usize,
}

impl Score {
    /// Compares a text with the words that were found in the document.
    fn of(text: &str, found: &[String]) -> Self {
        let (ordered, others) = text.split_once("\n---\n").unwrap();
        let sentences: Vec<Vec<String>> = ordered.lines().map(words).collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for word in found {
            *counts.entry(word).or_default() += 1;
        }
        let expected: Vec<String> = sentences.concat().into_iter().chain(words(others)).collect();
        let mut found_words = 0;
        for word in &expected {
            if let Some(left) = counts.get_mut(word.as_str()).filter(|left| **left > 0) {
                *left -= 1;
                found_words += 1;
            }
        }
        Self {
            words: expected.len(),
            found: found_words,
            sentences: sentences.len(),
            in_order: longest_increasing(&positions(&sentences, found)),
        }
    }

    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.found += other.found;
        self.sentences += other.sentences;
        self.in_order += other.in_order;
    }

    fn recall(self) -> f64 {
        self.found as f64 / self.words as f64
    }

    fn order(self) -> f64 {
        self.in_order as f64 / self.sentences as f64
    }

    fn row(self, name: &str) -> String {
        let Self { words, sentences, .. } = self;
        let recall = self.recall();
        let order = self.order();
        format!("| {name} | {words} | {recall:.3} | {sentences} | {order:.3} |\n")
    }
}

/// Returns the words of a text. Chinese and Japanese have no spaces: each character is a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in text.chars() {
        let is_word = words.last().is_some_and(|word| !word.is_empty());
        if is_word && (!letter.is_alphanumeric() || is_character(letter)) {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().unwrap().push(letter);
        }
        if is_character(letter) {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_character(letter: char) -> bool {
    matches!(letter, '\u{3005}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}')
}

/// Returns where the sentences that are found as a whole begin.
fn positions(sentences: &[Vec<String>], found: &[String]) -> Vec<usize> {
    sentences
        .iter()
        .filter_map(|sentence| found.windows(sentence.len()).position(|words| words == sentence))
        .collect()
}

/// Returns the length of the longest part of a list that only grows.
fn longest_increasing(numbers: &[usize]) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    for &number in numbers {
        let at = ends.partition_point(|end| *end < number);
        if at == ends.len() {
            ends.push(number);
        } else {
            ends[at] = number;
        }
    }
    ends.len()
}

#[test]
fn texts_of_five_producers_are_found_in_their_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/pdf");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "pdf"));
    paths.sort();
    assert!(paths.len() >= 30, "{}", paths.len());
    let mut table = String::from(
        "\n| document | words | recall | sentences | order |\n|---|---|---|---|---|\n",
    );
    let mut total = Score::default();
    let mut wrong = String::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy();
        let content = file("a.pdf", fs::read(&path).unwrap()).content;
        let text = fs::read_to_string(path.with_extension("txt")).unwrap();
        let score = Score::of(&text, &words(&content));
        table += &score.row(&name);
        total.add(score);
        if score.recall() < 1.0 || score.order() < 1.0 {
            write!(wrong, "\n{name}:\n{content}\n").unwrap();
        }
    }
    table += &total.row("all");
    println!("{table}");
    assert!(total.recall() >= LEAST_RECALL && total.order() >= LEAST_ORDER, "{table}{wrong}");
}
