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

    /// Returns the labels of the readers that the filter names; `None` if it names none. Only
    /// chunks that these readers may see count for the weights of words.
    pub(super) fn readers(filter: &Filter) -> Option<Vec<i64>> {
        let readers = filter.compile_readers();
        (!readers.is_empty()).then(|| readers.any_of.iter().flat_map(|any| signed(any)).collect())
    }

    /// Returns the condition as SQL. Its first parameter is `$first`; [`Self::parameters`] has the
    /// same order. Values are never part of the text, so that prepared statements are reused.
    pub(super) fn sql(&self, first: usize) -> String {
        let mut tests = Vec::new();
        if self.key.is_some() {
            tests.push("d.key =");
        }
        if !self.all_of.is_empty() {
            tests.push("d.labels @>");
        }
        tests.extend(self.any_of.iter().map(|_| "d.labels &&"));
        if tests.is_empty() {
            return "true".to_owned();
        }
        let parts: Vec<_> =
            tests.iter().zip(first..).map(|(test, number)| format!("{test} ${number}")).collect();
        parts.join(" AND ")
    }

    /// Returns the parameters of a statement: those in `before`, then those of the condition.
    pub(super) fn parameters<'a>(&'a self, before: &[Parameter<'a>]) -> Vec<Parameter<'a>> {
        let mut parameters = before.to_vec();
        if let Some(key) = &self.key {
            parameters.push(key);
        }
        if !self.all_of.is_empty() {
            parameters.push(&self.all_of);
        }
        parameters.extend(self.any_of.iter().map(|any| any as Parameter<'a>));
        parameters
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
