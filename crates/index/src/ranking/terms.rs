//! Words of a question and their terms.

/// Number of a term; the store assigns numbers from 0, without large gaps.
pub(crate) type Term = u32;

/// A word of a question: all terms that may stand for it in a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) terms: Vec<String>,
    /// Number of occurrences in the question.
    pub(crate) count: u32,
    /// An English stop word in a question of another language. It counts only if a chunk that the
    /// searcher may read has it as a word of another language; else the question is searched
    /// without it.
    pub(crate) is_optional: bool,
}

/// A word of a question: the terms that may stand for it in a row, and its frequency in the
/// question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// The terms that the store knows.
    pub(crate) terms: Vec<Term>,
    pub(crate) count: u32,
    /// See [`Asked::is_optional`].
    pub(crate) is_optional: bool,
}

impl Word {
    /// Returns words with the numbers of their terms in a store. `None` is a term that no chunk
    /// has.
    pub(crate) fn all<E>(
        asked: &[Asked],
        mut number: impl FnMut(&str) -> Result<Option<Term>, E>,
    ) -> Result<Vec<Self>, E> {
        let word = |asked: &Asked| {
            let terms = asked.terms.iter().filter_map(|term| number(term).transpose());
            let terms = terms.collect::<Result<_, _>>()?;
            Ok(Self { terms, count: asked.count, is_optional: asked.is_optional })
        };
        asked.iter().map(word).collect()
    }
}
