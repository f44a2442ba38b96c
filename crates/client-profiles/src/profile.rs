//! What a client shows its model of a tool's answer.

use marquetry_image_types::USUAL_IMAGE_TYPES;
use serde::{Deserialize, Serialize};

/// Parts of a tool's answer that a client shows its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Shows {
    /// `content`; `structuredContent` is for programs.
    Content,
    /// `structuredContent` in place of the texts in `content`, if the answer has it.
    Structured,
    /// Both.
    Both,
    /// One of them or both: the client is unknown.
    #[default]
    #[serde(skip)]
    Unknown,
}

/// What a client shows its model of a tool's answer, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientProfile {
    /// Beginning of `clientInfo.name` by which the client is recognised; `None` for the profile of
    /// unknown clients.
    pub name: Option<String>,
    /// Name of the product.
    pub title: String,
    /// Parts that the model sees.
    pub shows: Shows,
    /// Tokens of an answer that are shown, at most 90 % of `max_tokens`; `None` means
    /// [`Self::DEFAULT_SHOWN_TOKENS`].
    pub shown_tokens: Option<u64>,
    /// Tokens of an answer beyond which the client replaces or cuts it.
    pub max_tokens: Option<u64>,
    /// Characters of an answer beyond which the client replaces or cuts it.
    pub max_chars: Option<u64>,
    /// Key of a tool's `_meta` with which a server raises `max_chars`.
    pub result_size_key: Option<String>,
    /// MIME types of images that reach the model.
    pub image_types: Vec<String>,
    /// Size of an image that reaches the model, in bytes after decoding.
    pub image_max_bytes: Option<u64>,
    /// Characters of an error beyond which the client cuts it.
    pub max_error_chars: Option<u64>,
    /// Largest message that the client can receive, in bytes of JSON.
    pub max_message_bytes: Option<u64>,
    /// Whether the client shows Views (MCP Apps) even if it does not declare that.
    pub shows_views: bool,
    /// Longest name of a tool that the client keeps as it is, in characters.
    pub max_name_chars: Option<u64>,
    /// Characters that names of tools may have beside ASCII letters and digits.
    pub name_punctuation: Option<String>,
    /// Characters of a description of a tool beyond which the client cuts it.
    pub max_description_chars: Option<u64>,
    /// Whether the client takes only input schemas that are a plain object, without combinators
    /// at the root and without lists of types.
    pub plain_schemas: bool,
    /// Longest input schema that the client takes, in bytes of JSON.
    pub max_schema_bytes: Option<u64>,
    /// Number of tools beyond which the client leaves some out.
    pub max_tools: Option<u64>,
    /// Whether the client reads every page of a list.
    pub reads_pages: bool,
    /// Whether the client keeps definitions of tools from its model until the model looks for them.
    pub defers_tools: bool,
    /// The first version of the client that this profile is not for. `None` means every version
    /// without a profile of its own.
    pub before: Option<String>,
    /// Where this is known from; empty for unknown clients.
    pub source: String,
    /// Day on which the source was read, as `YYYY-MM-DD`.
    pub read: String,
}

impl Default for ClientProfile {
    /// Returns the profile of unknown clients.
    fn default() -> Self {
        Self {
            name: None,
            title: "unknown client".to_owned(),
            shows: Shows::default(),
            shown_tokens: None,
            max_tokens: None,
            max_chars: None,
            result_size_key: None,
            image_types: USUAL_IMAGE_TYPES.map(str::to_owned).to_vec(),
            image_max_bytes: None,
            max_error_chars: None,
            max_message_bytes: Some(Self::CAREFUL_MESSAGE_BYTES),
            shows_views: false,
            max_name_chars: None,
            name_punctuation: None,
            max_description_chars: None,
            plain_schemas: false,
            max_schema_bytes: None,
            max_tools: None,
            reads_pages: true,
            defers_tools: false,
            before: None,
            source: String::new(),
            read: String::new(),
        }
    }
}

impl ClientProfile {
    /// Tokens of an answer that are shown, unless the client's limits are lower.
    pub const DEFAULT_SHOWN_TOKENS: u64 = 8_000;

    /// Size of a message that every known client can receive, in bytes. The official client in
    /// Python fails at an event of more.
    pub const CAREFUL_MESSAGE_BYTES: u64 = 1 << 20;

    /// Returns whether the client shows structured content in place of text, so that an answer with
    /// a shortened one must not have it.
    #[must_use]
    pub fn replaces_text(&self) -> bool {
        self.shows == Shows::Structured
    }

    /// Returns whether the client shows text and structured content beside each other.
    #[must_use]
    pub fn shows_both(&self) -> bool {
        self.shows == Shows::Both
    }

    /// Returns the tokens that the shown part of an answer may have: at most 90 % of the client's
    /// limit, which counts JSON and the notice, too.
    #[must_use]
    pub fn shown_tokens(&self) -> u64 {
        let shown = self.shown_tokens.unwrap_or(Self::DEFAULT_SHOWN_TOKENS);
        self.tokens_within_limit().map_or(shown, |max| max.min(shown))
    }

    /// Returns 90 % of the client's limit of tokens, if it has one.
    #[must_use]
    pub fn tokens_within_limit(&self) -> Option<u64> {
        self.max_tokens.map(nine_tenths)
    }

    /// Returns the characters that the shown part of an answer may have, if the client has a limit.
    #[must_use]
    pub fn shown_chars(&self) -> Option<u64> {
        self.max_chars.map(nine_tenths)
    }

    /// Returns the characters that an error may have, if the client has a limit.
    #[must_use]
    pub fn error_chars(&self) -> Option<u64> {
        self.max_error_chars.map(nine_tenths)
    }

    /// Returns the bytes that an answer may have, if the client has a limit of a message: the rest
    /// is for the envelope of JSON-RPC.
    #[must_use]
    pub fn answer_bytes(&self) -> Option<u64> {
        self.max_message_bytes.map(|max| max.saturating_sub(4_096))
    }

    /// Returns whether an image of this type and size reaches the model.
    #[must_use]
    pub fn shows_image(&self, mime_type: &str, bytes: u64) -> bool {
        self.image_max_bytes.is_none_or(|max| bytes <= max)
            && self.image_types.iter().any(|known| known.eq_ignore_ascii_case(mime_type))
    }
}

fn nine_tenths(limit: u64) -> u64 {
    limit / 10 * 9
}
