//! How much is cited.

/// How much a [`CitationResolver`](super::CitationResolver) takes and gives. What exceeds one of these is left out, and
/// [`Citations`](super::Citations) say so; it is never an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CitationLimits {
    /// How many references count; 32 by default.
    pub max_references: usize,
    /// How many passages of one reference, or of one search by tags, are cited; 6 by default.
    pub max_passages_per_reference: usize,
    /// How many passages are cited in all; 16 by default.
    pub max_passages: usize,
    /// How long a passage may be before it is cut, in bytes; 4 KiB by default.
    pub max_passage_bytes: usize,
    /// How long all passages and messages may be together, in bytes of their text; 24 KiB by default.
    pub max_bytes: usize,
    /// How many messages of a chat are cited, the newest; 40 by default.
    pub max_chat_messages: usize,
    /// How long the messages of one chat may be together, in bytes; 8 KiB by default.
    pub max_chat_bytes: usize,
    /// How many messages of a chat are looked at for those that are not known, the newest; 200 by default.
    pub max_chat_scanned: usize,
    /// How many bytes of [`CiteRequest::messages`](super::CiteRequest::messages) are compared with what is found, the
    /// last messages first; 256 KiB by default.
    pub max_known_bytes: usize,
    /// How much of a question is searched for, in bytes; 8 KiB by default.
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
