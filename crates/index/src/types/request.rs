//! Requests and hits.

use serde::{Deserialize, Serialize};

use super::{document::StoredChunk, filter::Filter};
use marquetry_embed::EmbeddingModel;

/// A search: words, their vector, and how to combine the two rankings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchRequest {
    /// The words, at most [`Self::MAX_TEXT_BYTES`]. The first [`Self::MAX_TERMS`] different words
    /// count, each as often as it occurs. There is no query syntax. If the text is empty, chunks
    /// are found only by the vector.
    pub text: String,
    /// The vector of the query, computed by the store's model. If it is `None` or all zeros, chunks
    /// are found only by their words.
    pub vector: Option<Vec<f32>>,
    /// The documents to search.
    pub filter: Filter,
    /// The largest number of hits, up to [`Self::MAX_LIMIT`]; 10 by default.
    pub limit: usize,
    /// The least [`Hit::relevance`] of a chunk by itself, from 0 to 1; 0 by default, which keeps
    /// all hits.
    pub threshold: f64,
    /// Whether only the best chunk of each document is returned.
    pub distinct: bool,
    /// Parameters of the fusion. By default, those with the best measured results for the store's
    /// model; the vectors have less weight for a query whose words the model does not know
    /// ([`Self::coverage`]).
    pub fusion: Option<Fusion>,
    /// Share of the query that the model knows, from 0 to 1 (`Embedder::coverage`). If `None`, a
    /// store of the built-in model computes it, and other stores assume 1.
    pub coverage: Option<f32>,
    /// The condition on the words of a chunk.
    pub matching: Matching,
}

impl SearchRequest {
    /// Longest text of a query, in bytes.
    pub const MAX_TEXT_BYTES: usize = 64 * 1024;
    /// Largest number of different terms of the text that count.
    pub const MAX_TERMS: usize = 256;
    /// The largest [`Self::limit`].
    pub const MAX_LIMIT: usize = 1_000;

    /// Returns a search of all documents for the ten best chunks.
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

    /// Sets the filter of documents.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Sets the largest number of hits, up to [`Self::MAX_LIMIT`].
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets the least relevance of a hit, from 0 to 1.
    #[must_use]
    pub fn threshold(self, threshold: f64) -> Self {
        Self { threshold, ..self }
    }

    /// Returns only the best chunk of each document.
    #[must_use]
    pub fn distinct(self) -> Self {
        Self { distinct: true, ..self }
    }

    /// Sets which chunks match the words.
    #[must_use]
    pub fn matching(self, matching: Matching) -> Self {
        Self { matching, ..self }
    }

    pub(crate) fn fusion(&self, model: &EmbeddingModel) -> Fusion {
        if let Some(fusion) = self.fusion {
            return fusion;
        }
        Fusion::for_model(&model.identity).covering(self.coverage_by(model))
    }

    /// Returns how much of a cosine says something about relevance, from 0 to 1. The vectors of
    /// questions in a language that the model does not know are similar to those of any text in
    /// that language.
    pub(crate) fn trust(&self, model: &EmbeddingModel) -> f64 {
        if self.vector.is_none() { 0.0 } else { trust(self.coverage_by(model)) }
    }

    fn coverage_by(&self, model: &EmbeddingModel) -> f32 {
        self.coverage.unwrap_or_else(|| coverage_of(model, &self.text))
    }
}

impl From<&str> for SearchRequest {
    /// Returns a search for this text, without a vector.
    fn from(text: &str) -> Self {
        Self::new(text, None)
    }
}

impl From<String> for SearchRequest {
    /// Returns a search for this text, without a vector.
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

/// Returns how much vectors say about a question of which the model knows this share.
fn trust(coverage: f32) -> f64 {
    // Found on Cranfield, whose questions have a coverage of .93, and on XQuAD, whose languages
    // have .52 and less. docs/benchmarks.md has the figures, and the formulas that were tried
    // beside it: powers of the coverage, and shares of characters.
    ((f64::from(coverage) - 0.6) / 0.3).clamp(0.0, 1.0)
}

/// Parameters of reciprocal rank fusion: `semantic_weight / (k + semantic rank) + 1 / (k + keyword
/// rank)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fusion {
    /// The constant `k`, at least 0. The larger it is, the less the first ranks differ from later
    /// ones.
    pub k: f64,
    /// Weight of the vector ranking, at least 0; the weight of the word ranking is 1.
    pub semantic_weight: f64,
}

impl Fusion {
    /// The parameters of the seed: both rankings count the same, with a large `k`.
    pub const PLAIN: Self = Self { k: 60.0, semantic_weight: 1.0 };

    /// Returns the parameters with the best measured results for a model. The built-in model finds
    /// less than words do, and has less than half their weight. A sentence transformer such as
    /// all-MiniLM-L6-v2 finds as much as words do, and has the same weight. `docs/benchmarks.md`
    /// has the figures.
    pub fn for_model(identity: &str) -> Self {
        if identity == "minilm-static-256-i8" {
            Self { k: 10.0, semantic_weight: 0.4 }
        } else {
            Self::PLAIN
        }
    }

    /// Returns the parameters for a question of which the model knows this share, from 0 to 1.
    /// Vectors have their full weight if the model knows nine of ten words, and almost none if it
    /// knows six of ten or fewer: those are short words that many languages share, and the vector
    /// does not represent the question.
    #[must_use]
    pub fn covering(self, coverage: f32) -> Self {
        /// Not 0, so that chunks that are found only by vectors keep their order.
        const LEAST: f64 = 0.001;
        Self { semantic_weight: self.semantic_weight * trust(coverage).max(LEAST), ..self }
    }

    pub(crate) fn score(self, semantic_rank: Option<u32>, keyword_rank: Option<u32>) -> f64 {
        self.semantic_weight * self.reciprocal(semantic_rank) + self.reciprocal(keyword_rank)
    }

    fn reciprocal(self, rank: Option<u32>) -> f64 {
        rank.map_or(0.0, |rank| 1.0 / (self.k + f64::from(rank)))
    }
}

impl Default for Fusion {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// The condition on the words of a chunk. Words are compared by their stems in the language of the
/// chunk; stop words ("the") are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// Chunks with at least one of the words.
    #[default]
    Any,
    /// Chunks with all of the words, as with PostgreSQL's `plainto_tsquery`. Whole questions then
    /// rarely match.
    All,
}

/// A chunk that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hit {
    /// The chunk, with the URI of its document.
    pub chunk: StoredChunk,
    /// Type of the document's record.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Id of the document's record.
    pub object_id: Option<String>,
    /// Title of the document.
    pub title: Option<String>,
    /// The page of the words that match the question, from 1; the page on which the chunk begins if
    /// none match.
    pub page: Option<u32>,
    /// Score that determines the order of hits; see [`Fusion`]. Scores of different searches cannot
    /// be compared.
    pub score: f64,
    /// Relevance for the question, from 0 to 1: the larger of the cosine of the vectors and the
    /// share of the question's words in the chunk (rare words count more). The cosine counts as
    /// much as the model knows the question ([`Self::coverage`](SearchRequest::coverage)). A hit is
    /// at least as relevant as those below it, because the order takes both rankings into account;
    /// [`SearchRequest::threshold`] is compared with the chunk's own value.
    pub relevance: f64,
    /// The cosine of the vectors, if both exist.
    pub similarity: Option<f64>,
    /// Rank by vectors, from 1; equal chunks share a rank. `None` if the chunk is not among the
    /// best by vectors.
    pub semantic_rank: Option<u32>,
    /// Rank by words (BM25), from 1; equal chunks share a rank. `None` if the chunk is not among
    /// the best by words.
    pub keyword_rank: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fusion_sums_the_reciprocals_of_both_ranks() {
        let score = Fusion::PLAIN.score(Some(2), Some(5));
        assert!((score - (1.0 / 62.0 + 1.0 / 65.0)).abs() < 1e-12);
        assert!((Fusion::PLAIN.score(None, Some(1)) - 1.0 / 61.0).abs() < 1e-12);
        assert_eq!(Fusion::PLAIN.score(None, None), 0.0);
    }

    #[test]
    fn vectors_of_unknown_words_count_little() {
        let [all, most, some, few, none] = [1.0, 0.9, 0.7, 0.6, 0.0]
            .map(|coverage| Fusion::PLAIN.covering(coverage).semantic_weight);
        assert_eq!(all, 1.0);
        assert!(most > 0.999);
        assert!(some > 0.3 && some < 0.4);
        assert_eq!([few, none], [0.001, 0.001]);
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn the_built_in_model_computes_a_missing_coverage() {
        assert_eq!(default_weight("how is bread made in a mill", None), 0.4);
        assert!(default_weight("как пекут хлеб на мельнице", None) < 0.001);
        assert_eq!(default_weight("как пекут хлеб на мельнице", Some(1.0)), 0.4);
    }

    #[cfg(feature = "builtin-model")]
    fn default_weight(text: &str, coverage: Option<f32>) -> f64 {
        let request = SearchRequest { coverage, ..SearchRequest::new(text, None) };
        request.fusion(&EmbeddingModel::default()).semantic_weight
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn cosines_of_unknown_languages_say_nothing_about_relevance() {
        for (question, want) in
            [("how is bread made in a mill", 1.0), ("كيف يصنع الخبز في المطحنة", 0.0)]
        {
            let request = SearchRequest::new(question, Some(vec![1.0]));
            assert_eq!(request.trust(&EmbeddingModel::default()), want, "{question}");
        }
        assert_eq!(SearchRequest::new("bread", None).trust(&EmbeddingModel::default()), 0.0);
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
