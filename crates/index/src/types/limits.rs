//! Limits of searches.

/// Longest text of a question, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Largest number of hits.
pub(crate) const MAX_LIMIT: usize = 1_000;
