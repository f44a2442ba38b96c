//! A search request in the form that the ranking needs: words as numbers, filters as hashes.

use marquetry_embed::EmbeddingModel;

use super::terms::Word;
use crate::types::{Fusion, Label, LabelFilter, Matching, SearchRequest};

/// A search in an index.
pub(crate) struct Query<'a> {
    pub(crate) vector: Option<&'a [f32]>,
    /// The words of the question, without duplicates.
    pub(crate) words: &'a [Word],
    pub(crate) matching: Matching,
    /// Label of a document's URI: limits the search to this document.
    pub(crate) scope: Option<Label>,
    pub(crate) filter: LabelFilter,
    /// The part of `filter` that restricts the readers.
    pub(crate) readers: LabelFilter,
    pub(crate) limit: usize,
    pub(crate) threshold: f64,
    pub(crate) distinct: bool,
    pub(crate) fusion: Fusion,
    /// How much a cosine says about relevance, from 0 to 1.
    pub(crate) trust: f64,
}

impl<'a> Query<'a> {
    pub(crate) fn new(
        request: &'a SearchRequest,
        words: &'a [Word],
        model: &EmbeddingModel,
    ) -> Self {
        Self {
            vector: request.vector.as_deref(),
            words,
            matching: request.matching,
            scope: request.filter.scope_label(),
            filter: request.filter.compile(),
            readers: request.filter.compile_readers(),
            limit: request.limit,
            threshold: request.threshold,
            distinct: request.distinct,
            fusion: request.fusion(model),
            trust: request.trust(model),
        }
    }
}
