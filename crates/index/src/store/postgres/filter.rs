//! Filters as SQL.

use marquetry_database::postgres::Parameter;

use crate::types::{Filter, Label};

/// A filter as a condition on `rag_document d`.
pub(super) struct Condition {
    /// Hash of the URI, if the filter names one document.
    key: Option<Vec<u8>>,
    all_of: Vec<i64>,
    any_of: Vec<Vec<i64>>,
}

impl Condition {
    pub(super) fn new(filter: &Filter) -> Self {
        let compiled = filter.compile();
        Self {
            key: filter.scope.as_deref().map(key),
            all_of: signed(&compiled.all_of),
            any_of: compiled.any_of.iter().map(|any| signed(any)).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_none() && self.all_of.is_empty() && self.any_of.is_empty()
    }

    /// Returns the labels of the filter's readers, whose chunks determine the weights of words;
    /// `None` without a filter of readers.
    pub(super) fn readers(filter: &Filter) -> Option<Vec<i64>> {
        let readers = filter.compile_readers();
        (!readers.is_empty()).then(|| readers.any_of.iter().flat_map(|any| signed(any)).collect())
    }

    /// Returns the condition, whose parameters begin with this number. It has few forms, so that
    /// prepared statements are reused.
    pub(super) fn sql(&self, first: usize) -> String {
        let key = self.key.iter().map(|_| "d.key =");
        let all_of = (!self.all_of.is_empty()).then_some("d.labels @>").into_iter();
        let any_of = self.any_of.iter().map(|_| "d.labels &&");
        let parts: Vec<_> = key
            .chain(all_of)
            .chain(any_of)
            .zip(first..)
            .map(|(test, number)| format!("{test} ${number}"))
            .collect();
        if parts.is_empty() { "true".to_owned() } else { parts.join(" AND ") }
    }

    /// Returns the parameters of the condition, after those in `before`.
    pub(super) fn parameters<'a>(&'a self, before: &[Parameter<'a>]) -> Vec<Parameter<'a>> {
        let key = self.key.iter().map(|key| key as Parameter<'a>);
        let all_of = (!self.all_of.is_empty()).then_some(&self.all_of as Parameter<'a>);
        let any_of = self.any_of.iter().map(|any| any as Parameter<'a>);
        before.iter().copied().chain(key).chain(all_of).chain(any_of).collect()
    }
}

/// Returns the key of a document: the hash of its URI, which may be too long for an index.
pub(super) fn key(uri: &str) -> Vec<u8> {
    blake3::hash(uri.as_bytes()).as_bytes().to_vec()
}

/// Returns the same bits as signed numbers, as PostgreSQL stores them.
pub(super) fn signed(labels: &[Label]) -> Vec<i64> {
    labels.iter().map(|label| label.cast_signed()).collect()
}
