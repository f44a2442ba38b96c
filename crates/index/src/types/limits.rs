//! Bounds of a search.

/// The longest text of a question.
pub(crate) const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The largest number of hits.
pub(crate) const MAX_LIMIT: usize = 1_000;
