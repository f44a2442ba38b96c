//! Ranks tools for a query.

use std::collections::{BTreeMap, HashMap};

use crate::{
    index::ToolIndex,
    text::beginning,
    vectors::{Vector, Vectors},
    words::for_each_word,
};

/// Part of a query that counts, in bytes.
const MAX_QUERY_BYTES: usize = 1_000;
/// Words of a query that count.
const MAX_QUERY_WORDS: usize = 64;
/// BM25's saturation of term frequency (`k1`), on weighted frequencies.
const SATURATION: f32 = 2.0;
/// Weight of a word with the same meaning as the query's.
const SYNONYM_WEIGHT: f32 = 0.8;
/// Weight of a word with the same vector as the query's.
const SIMILAR_WEIGHT: f32 = 0.7;
/// Cosine of two words at which the weight is 0.
const SIMILAR_ZERO: f32 = 0.3;
/// Least cosine of two words that counts. Unlike words have less.
const SIMILAR_MIN: f32 = 0.45;
/// Factor of the tools of a server that the query names.
const NAMED_SERVER: f32 = 1.5;
/// Weight of the word `get` in a question.
const QUESTION_WEIGHT: f32 = 0.6;
/// Weight of the vectors beside the words.
const VECTOR_WEIGHT: f32 = 1.2;
/// Least cosine at which a tool without a word of the query is a hit.
const MIN_COSINE: f32 = 0.35;

/// First words of questions. A question asks for data, whatever words it uses.
const QUESTION_WORDS: [&str; 17] = [
    "are", "can", "did", "do", "does", "has", "have", "how", "is", "what", "when", "where",
    "which", "who", "whom", "whose", "why",
];

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Its position in the list of tools.
    pub tool: usize,
    /// Its score, which compares hits of one search. The best hit has the largest.
    pub score: f32,
}

/// A word that a query looks for.
struct QueryWord {
    /// Empty if the word is not in the query.
    text: String,
    stem: String,
    weight: f32,
}

impl Vectors {
    fn know(&self, word: &QueryWord) -> bool {
        !word.text.is_empty() && self.model.knows(&word.text)
    }
}

impl ToolIndex {
    /// Returns the best tools for a query, best first, at most `limit`. Tools with the same score
    /// keep the order of the list.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let query = beginning(query, MAX_QUERY_BYTES);
        let words = self.query_words(query);
        let mut scores = self.score_words(&words);
        let best = scores.values().copied().fold(0.0, f32::max);
        for score in scores.values_mut() {
            *score /= best;
        }
        if let Some(vectors) = &self.vectors
            && words.iter().any(|word| vectors.know(word))
        {
            let vector = Vector::of(&*vectors.model, query);
            for (tool, row) in (0_u32..).zip(&vectors.of_tools) {
                let cosine = vector.cosine(row);
                if let Some(score) = scores.get_mut(&tool) {
                    *score += VECTOR_WEIGHT * cosine;
                } else if cosine >= MIN_COSINE {
                    scores.insert(tool, VECTOR_WEIGHT * cosine);
                }
            }
        }
        let mut hits: Vec<Hit> =
            scores.into_iter().map(|(tool, score)| Hit { tool: tool as usize, score }).collect();
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits.truncate(limit);
        hits
    }

    /// Returns the BM25 score of each tool that has a word of the query.
    fn score_words(&self, words: &[QueryWord]) -> BTreeMap<u32, f32> {
        let mut scores: BTreeMap<u32, f32> = BTreeMap::new();
        for word in words {
            let mut of_word: HashMap<u32, f32> = HashMap::new();
            self.add_scores(&word.stem, 1.0, &mut of_word);
            for synonym in self.synonyms.of(&word.stem) {
                self.add_scores(synonym, SYNONYM_WEIGHT, &mut of_word);
            }
            if let Some(vectors) = self.vectors.as_ref().filter(|vectors| vectors.know(word)) {
                self.add_similar(word, vectors, &mut of_word);
            }
            for (tool, score) in of_word {
                *scores.entry(tool).or_default() += word.weight * score;
            }
        }
        let is_named: Vec<bool> = self
            .servers
            .iter()
            .map(|name| {
                !name.is_empty()
                    && name.iter().all(|stem| words.iter().any(|word| word.stem == *stem))
            })
            .collect();
        for (tool, score) in &mut scores {
            if is_named[self.server_of[*tool as usize]] {
                *score *= NAMED_SERVER;
            }
        }
        scores
    }

    /// Raises the scores of the tools that have a stem to that of the stem. A tool with several
    /// words of one meaning counts the best of them.
    fn add_scores(&self, stem: &str, weight: f32, scores: &mut HashMap<u32, f32>) {
        let Some(postings) = self.postings.get(stem) else { return };
        let tools = self.len() as f32;
        let having = postings.len() as f32;
        let rarity = (1.0 + (tools - having + 0.5) / (having + 0.5)).ln();
        for &(tool, frequency) in postings {
            let score = weight * rarity * frequency / (frequency + SATURATION);
            let known = scores.entry(tool).or_default();
            *known = known.max(score);
        }
    }

    /// Raises the scores of the tools that have a word like this one by their vectors.
    fn add_similar(&self, word: &QueryWord, vectors: &Vectors, scores: &mut HashMap<u32, f32>) {
        let vector = Vector::of(&*vectors.model, &word.text);
        for (stem, row) in &vectors.of_words {
            let cosine = vector.cosine(row);
            if cosine >= SIMILAR_MIN && *stem != word.stem {
                let weight = SIMILAR_WEIGHT * (cosine - SIMILAR_ZERO) / (1.0 - SIMILAR_ZERO);
                self.add_scores(stem, weight, scores);
            }
        }
    }

    /// Returns the different words that a query looks for. Parts of a word count if no tool has the
    /// whole one.
    fn query_words(&self, query: &str) -> Vec<QueryWord> {
        let mut texts = Vec::new();
        for_each_word(query, |word, parts| {
            let stem = self.stems.of(&word);
            let is_known = stem.is_none_or(|stem| self.postings.contains_key(&stem));
            if is_known || parts.is_empty() {
                texts.push(word);
            } else {
                texts.extend(parts);
            }
        });
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut words: Vec<QueryWord> = Vec::new();
        if texts.first().is_some_and(|first| QUESTION_WORDS.contains(first)) {
            let stem = "get".to_owned();
            words.push(QueryWord { text: String::new(), stem, weight: QUESTION_WEIGHT });
        }
        let mut at = 0;
        while at < texts.len() && words.len() < MAX_QUERY_WORDS {
            let phrase = self.synonyms.phrase(&texts[at..]);
            let (meant, length) = phrase.unwrap_or((&texts[at..=at], 1));
            for text in meant {
                let Some(stem) = self.stems.of(text) else { continue };
                if words.iter().all(|known| known.stem != stem) {
                    words.push(QueryWord { text: (*text).to_owned(), stem, weight: 1.0 });
                }
            }
            at += length;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::{Argument, ToolText};

    #[track_caller]
    fn check(tools: &[ToolText<'_>], query: &str, want: &[&str]) {
        let hits = ToolIndex::new(tools).search(query, 3);
        let names: Vec<&str> = hits.iter().map(|hit| tools[hit.tool].name).collect();
        assert_eq!(names, want, "{query}");
    }

    fn tools() -> Vec<ToolText<'static>> {
        vec![
            ToolText::new("create_issue").description("Creates an issue.").server("github"),
            ToolText::new("create_issue").description("Creates an issue.").server("gitlab"),
            ToolText::new("remove_file").description("Removes a file from disk."),
            ToolText::new("move")
                .arguments(&[Argument { name: "target_folder", description: "Where it goes." }]),
        ]
    }

    #[test]
    fn words_of_every_field_count() {
        check(&tools(), "issue", &["create_issue", "create_issue"]);
        check(&tools(), "disk", &["remove_file"]);
        check(&tools(), "targetFolder", &["move"]);
        check(&tools(), "nothing here matches", &[]);
        check(&tools(), "", &[]);
        check(&[], "issue", &[]);
    }

    #[test]
    fn words_of_the_same_meaning_count() {
        check(&tools(), "delete", &["remove_file"]);
        check(&tools(), "throw away", &["remove_file"]);
        check(&tools(), "directories", &["move"]);
    }

    #[test]
    fn the_named_server_comes_first() {
        for (query, want) in [("issue on GitLab", 1), ("issue on GitHub", 0), ("issue", 0)] {
            assert_eq!(ToolIndex::new(&tools()).search(query, 5)[0].tool, want, "{query}");
        }
    }

    /// A model that counts letters.
    struct Letters;

    impl crate::Embed for Letters {
        fn embed(&self, text: &str) -> Vec<f32> {
            let mut vector = [0.0; 26];
            for byte in text.bytes().filter(u8::is_ascii_lowercase) {
                vector[usize::from(byte - b'a')] += 1.0;
            }
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            vector.iter().map(|value| value / length.max(1.0)).collect()
        }
    }

    proptest! {
        // Each case is slow without optimisation.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_query_over_any_tools_has_ordered_hits(
            texts in prop::collection::vec(("\\PC{0,40}", "\\PC{0,400}", "\\PC{0,20}"), 0..12),
            query in "\\PC{0,200}",
            limit in 0_usize..8,
        ) {
            let tools: Vec<ToolText<'_>> = texts
                .iter()
                .map(|(name, description, server)| {
                    ToolText::new(name).description(description).server(server)
                })
                .collect();
            let index = ToolIndex::with_embedding(&tools, std::sync::Arc::new(Letters));
            let hits = index.search(&query, limit);
            prop_assert!(hits.len() <= limit);
            prop_assert!(hits.iter().all(|hit| hit.tool < tools.len() && hit.score.is_finite()));
            prop_assert!(hits.is_sorted_by(|left, right| left.score >= right.score));
            prop_assert_eq!(index.search(&query, limit), hits);
        }
    }
}
