//! Limits of citations.

/// Limits of a [`CitationResolver`](super::CitationResolver). Passages beyond a limit are left out
/// and counted in [`Citations`](super::Citations); exceeding a limit is never an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CitationLimits {
    /// Maximum number of references; 32 by default.
    pub max_references: usize,
    /// Maximum number of passages of one reference, or of one search by tags; 6 by default.
    pub max_passages_per_reference: usize,
    /// Maximum number of passages in all; 16 by default.
    pub max_passages: usize,
    /// Longest passage, in bytes of UTF-8; a longer one is cut. 4 KiB by default.
    pub max_passage_bytes: usize,
    /// Longest text of all passages and messages together, in bytes of UTF-8; 24 KiB by default.
    pub max_bytes: usize,
    /// Maximum number of messages of a chat, from the newest; 40 by default.
    pub max_chat_messages: usize,
    /// Longest total length of the messages of one chat, in bytes of UTF-8; 8 KiB by default.
    pub max_chat_bytes: usize,
    /// Maximum number of messages of a chat, from the newest, among which messages are looked for
    /// that are not in the conversation; 200 by default.
    pub max_chat_scanned: usize,
    /// Maximum number of bytes of [`CiteRequest::messages`](super::CiteRequest::messages) that are
    /// compared with the passages, from the last message; 256 KiB by default.
    pub max_known_bytes: usize,
    /// Longest question, in bytes of UTF-8; of a longer one only the beginning is used. 8 KiB by
    /// default.
    pub max_query_bytes: usize,
}

impl Default for CitationLimits {
    fn default() -> Self {
        Self {
            max_references: 32,
            max_passages_per_reference: 6,
            max_passages: 16,
            max_passage_bytes: 4 << 10,
            max_bytes: 24 << 10,
            max_chat_messages: 40,
            max_chat_bytes: 8 << 10,
            max_chat_scanned: 200,
            max_known_bytes: 256 << 10,
            max_query_bytes: 8 << 10,
        }
    }
}
