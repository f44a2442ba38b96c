//! Requests and hits.

use serde::{Deserialize, Serialize};

use super::{
    document::StoredChunk,
    filter::Filter,
    limits::{MAX_LIMIT, MAX_TEXT_BYTES},
};
use marquetry_embed::EmbeddingModel;

/// A search: words, their vector, and how the two rankings are combined.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchRequest {
    /// The words: at most [`Self::MAX_TEXT_BYTES`], of which the first [`Self::MAX_TERMS`] different ones count,
    /// each as often as it is said.
    /// Nothing in them is syntax. Without any, chunks are found by the vector alone.
    pub text: String,
    /// The vector of the question, from the store's model. Without one, or if it is all zeros, chunks are found by
    /// their words alone.
    pub vector: Option<Vec<f32>>,
    /// The documents that are searched.
    pub filter: Filter,
    /// The largest number of hits, up to [`Self::MAX_LIMIT`]; 10 by default.
    pub limit: usize,
    /// What [`Hit::relevance`] is at least, from 0 to 1; 0 by default, which keeps all.
    pub threshold: f64,
    /// Only the best chunk of each document.
    pub distinct: bool,
    /// How the two rankings become one; by default what measures best for the store's model, where the vectors count
    /// less for a question that the model does not know ([`Self::coverage`]).
    pub fusion: Option<Fusion>,
    /// How much of the question the model knows, from 0 to 1 (`Embedder::coverage`). Without it, a store whose model is
    /// the built-in one asks that, and others take it for 1.
    pub coverage: Option<f32>,
    /// Which chunks the words find.
    pub matching: Matching,
}

impl SearchRequest {
    /// The longest text.
    pub const MAX_TEXT_BYTES: usize = MAX_TEXT_BYTES;
    /// How many different terms of the text count.
    pub const MAX_TERMS: usize = 256;
    /// The largest limit.
    pub const MAX_LIMIT: usize = MAX_LIMIT;

    /// The ten best chunks of all.
    pub fn new(text: impl Into<String>, vector: Option<Vec<f32>>) -> Self {
        Self {
            text: text.into(),
            vector,
            filter: Filter::default(),
            limit: 10,
            threshold: 0.0,
            distinct: false,
            fusion: None,
            coverage: None,
            matching: Matching::default(),
        }
    }

    /// The same search in documents that pass a filter.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// The same search for so many hits, up to [`Self::MAX_LIMIT`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The same search for hits of at least this relevance, from 0 to 1.
    #[must_use]
    pub fn threshold(self, threshold: f64) -> Self {
        Self { threshold, ..self }
    }

    /// The same search for the best chunk of each document alone.
    #[must_use]
    pub fn distinct(self) -> Self {
        Self { distinct: true, ..self }
    }

    /// The same search for chunks that words find in this way.
    #[must_use]
    pub fn matching(self, matching: Matching) -> Self {
        Self { matching, ..self }
    }

    pub(crate) fn fusion(&self, model: &EmbeddingModel) -> Fusion {
        if let Some(fusion) = self.fusion {
            return fusion;
        }
        let coverage = self.coverage.unwrap_or_else(|| coverage_of(model, &self.text));
        Fusion::for_model(&model.identity).covering(coverage)
    }
}

impl From<&str> for SearchRequest {
    /// A search for this text, whose vector the model is to make.
    fn from(text: &str) -> Self {
        Self::new(text, None)
    }
}

impl From<String> for SearchRequest {
    /// A search for this text, whose vector the model is to make.
    fn from(text: String) -> Self {
        Self::new(text, None)
    }
}

#[cfg(feature = "builtin-model")]
fn coverage_of(model: &EmbeddingModel, text: &str) -> f32 {
    use marquetry_embed::builtin::StaticModel;

    if model.identity == StaticModel::IDENTITY && !text.is_empty() {
        return StaticModel::built_in().coverage(text);
    }
    1.0
}

#[cfg(not(feature = "builtin-model"))]
fn coverage_of(_: &EmbeddingModel, _: &str) -> f32 {
    1.0
}

/// How two rankings become one: `semantic_weight / (k + semantic rank) + 1 / (k + keyword rank)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fusion {
    /// How little the first places count more than those after them.
    pub k: f64,
    /// How much the vectors count, when the words count 1.
    pub semantic_weight: f64,
}

impl Fusion {
    /// As the seed has it: both rankings count the same, and places count much alike.
    pub const PLAIN: Self = Self { k: 60.0, semantic_weight: 1.0 };

    /// What measures best for this model: the built-in one is weaker than words are, and counts less than half; a sentence
    /// transformer such as all-MiniLM-L6-v2 is as good as they are, and counts as much.
    /// `docs/benchmarks.md` has the figures.
    pub fn for_model(identity: &str) -> Self {
        if identity == "minilm-static-256-i8" {
            Self { k: 10.0, semantic_weight: 0.4 }
        } else {
            Self::PLAIN
        }
    }

    /// The same for a question of which the model knows this share, from 0 to 1. The vectors count fully where it knows
    /// nine words of ten, and as good as nothing where it knows six or fewer: those are the short words that many
    /// languages share, and the vector is that of another text.
    #[must_use]
    pub fn covering(self, coverage: f32) -> Self {
        /// So that what words do not find keeps its order.
        const LEAST: f64 = 0.001;
        let trust = ((f64::from(coverage) - 0.6) / 0.3).clamp(LEAST, 1.0);
        Self { semantic_weight: self.semantic_weight * trust, ..self }
    }

    pub(crate) fn score(self, semantic_rank: Option<u32>, keyword_rank: Option<u32>) -> f64 {
        let share = |rank: Option<u32>| rank.map_or(0.0, |rank| 1.0 / (self.k + f64::from(rank)));
        self.semantic_weight * share(semantic_rank) + share(keyword_rank)
    }
}

impl Default for Fusion {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Which chunks are found by words. Words count by their stems in the language of the chunk, without those that are
/// everywhere ("the").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// Those with at least one of the words.
    #[default]
    Any,
    /// Those with all of the words, as PostgreSQL's `plainto_tsquery` has it. Whole questions find nothing this way.
    All,
}

/// A chunk that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hit {
    /// The chunk, with the URI of its document.
    pub chunk: StoredChunk,
    /// The type of the record behind its document.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The id of the record behind its document.
    pub object_id: Option<String>,
    /// The title of its document.
    pub title: Option<String>,
    /// What hits are ordered by: see [`Fusion`]. It compares hits of one search, and says nothing across searches.
    pub score: f64,
    /// How well the chunk answers, from 0 to 1, whatever else there is: the cosine of the vectors, or the share of the
    /// question's words that it has (rare words count more), whichever is larger.
    pub relevance: f64,
    /// The cosine of the vectors, if there are two.
    pub similarity: Option<f64>,
    /// Its place by vectors, from 1; equals share a place. None if it is not among the best.
    pub semantic_rank: Option<u32>,
    /// Its place by words (BM25), from 1; equals share a place. None if it is not among the best.
    pub keyword_rank: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fusion_is_the_sum_of_both_places() {
        let score = Fusion::PLAIN.score(Some(2), Some(5));
        assert!((score - (1.0 / 62.0 + 1.0 / 65.0)).abs() < 1e-12);
        assert!((Fusion::PLAIN.score(None, Some(1)) - 1.0 / 61.0).abs() < 1e-12);
        assert_eq!(Fusion::PLAIN.score(None, None), 0.0);
    }

    #[test]
    fn vectors_of_unknown_words_count_little() {
        let weight = |coverage| Fusion::PLAIN.covering(coverage).semantic_weight;
        assert_eq!(weight(1.0), 1.0);
        assert!(weight(0.9) > 0.999);
        assert!(weight(0.7) > 0.3 && weight(0.7) < 0.4);
        assert_eq!([weight(0.6), weight(0.0)], [0.001, 0.001]);
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn a_store_asks_the_built_in_model_what_it_knows() {
        let weight = |text: &str, coverage| {
            let request = SearchRequest { coverage, ..SearchRequest::new(text, None) };
            request.fusion(&EmbeddingModel::default()).semantic_weight
        };
        assert_eq!(weight("how is bread made in a mill", None), 0.4);
        assert!(weight("как пекут хлеб на мельнице", None) < 0.001);
        assert_eq!(weight("как пекут хлеб на мельнице", Some(1.0)), 0.4);
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn the_built_in_model_has_its_own_fusion() {
        assert_ne!(
            Fusion::for_model(marquetry_embed::builtin::StaticModel::IDENTITY),
            Fusion::PLAIN
        );
    }
}
