//! Words of a question and their terms.

/// Number of a term; the store assigns numbers from 0, without large gaps.
pub(crate) type Term = u32;

/// A word of a question: all terms that may stand for it in a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionWord {
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
    /// See [`QuestionWord::is_optional`].
    pub(crate) is_optional: bool,
}

impl Word {
    /// Returns words with the numbers of their terms in a store. `number` returns `None` for a term
    /// that no chunk has.
    pub(crate) fn all<E>(
        asked: &[QuestionWord],
        mut number: impl FnMut(&str) -> Result<Option<Term>, E>,
    ) -> Result<Vec<Self>, E> {
        let mut words = Vec::with_capacity(asked.len());
        for QuestionWord { terms, count, is_optional } in asked {
            let known = terms.iter().filter_map(|term| number(term).transpose());
            let terms = known.collect::<Result<_, _>>()?;
            words.push(Self { terms, count: *count, is_optional: *is_optional });
        }
        Ok(words)
    }
}
