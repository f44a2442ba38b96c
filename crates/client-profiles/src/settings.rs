//! Settings of one client.

use serde::{Deserialize, Serialize};

use crate::profile::{ClientProfile, Shows};

/// Settings of one client. An absent setting keeps the value of the known profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Parts of an answer that the client shows its model: "content", "structured" (in place of
    /// text) or "both".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &"content"))]
    pub shows: Option<Shows>,
    /// Tokens of an answer that are shown, at most 90 % of `max_tokens`. 8,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &20_000))]
    pub shown_tokens: Option<u64>,
    /// Tokens of an answer beyond which the client replaces or cuts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &25_000))]
    pub max_tokens: Option<u64>,
    /// Characters of an answer beyond which the client replaces or cuts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &50_000))]
    pub max_chars: Option<u64>,
    /// Key of a tool's `_meta` with which a server raises `max_chars`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &"anthropic/maxResultSizeChars"))]
    pub result_size_key: Option<String>,
    /// MIME types of images that reach the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &["image/png", "image/jpeg"]))]
    pub image_types: Option<Vec<String>>,
    /// Size of an image that reaches the model, in bytes after decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &10_485_760))]
    pub image_max_bytes: Option<u64>,
    /// Characters of an error beyond which the client cuts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &11_000))]
    pub max_error_chars: Option<u64>,
    /// Largest message that the client can receive, in bytes of JSON. 1 MiB for clients that are
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &1_048_576))]
    pub max_message_bytes: Option<u64>,
    /// Whether the client shows Views (MCP Apps) even if it does not declare that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = true))]
    pub shows_views: Option<bool>,
    /// Longest name of a tool that the client keeps as it is, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &40))]
    pub max_name_chars: Option<u64>,
    /// Characters that names of tools may have beside ASCII letters and digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &"_-"))]
    pub name_punctuation: Option<String>,
    /// Characters of a description of a tool beyond which the client cuts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &2_048))]
    pub max_description_chars: Option<u64>,
    /// Whether the client takes only input schemas that are a plain object, without combinators
    /// at the root and without lists of types.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = true))]
    pub plain_schemas: Option<bool>,
    /// Longest input schema that the client takes, in bytes of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &5_000))]
    pub max_schema_bytes: Option<u64>,
    /// Number of tools beyond which the client leaves some out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = &40))]
    pub max_tools: Option<u64>,
    /// Whether the client reads every page of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = false))]
    pub reads_pages: Option<bool>,
    /// Whether the client keeps definitions of tools from its model until the model looks for them.
    /// `tools.search.mode = "auto"` leaves such a client its whole list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(example = true))]
    pub defers_tools: Option<bool>,
}

impl ClientSettings {
    /// Returns the settings below the smallest value that works, each with that value: a name needs
    /// room for a hash, a message for the envelope of JSON-RPC, and an answer for its notice.
    pub fn too_small(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("shown_tokens", self.shown_tokens, 300),
            ("max_tokens", self.max_tokens, 500),
            ("max_chars", self.max_chars, 1_500),
            ("max_error_chars", self.max_error_chars, 300),
            ("max_message_bytes", self.max_message_bytes, 16 << 10),
            ("max_name_chars", self.max_name_chars, 16),
        ]
        .into_iter()
        .filter(|(_, value, least)| value.is_some_and(|value| value < *least))
        .map(|(key, _, least)| (key, least))
    }

    /// Returns a profile with these settings in place of its own.
    #[must_use]
    pub fn applied_to(&self, profile: ClientProfile) -> ClientProfile {
        let Self {
            shows,
            shown_tokens,
            max_tokens,
            max_chars,
            result_size_key,
            image_types,
            image_max_bytes,
            max_error_chars,
            max_message_bytes,
            shows_views,
            max_name_chars,
            name_punctuation,
            max_description_chars,
            plain_schemas,
            max_schema_bytes,
            max_tools,
            reads_pages,
            defers_tools,
        } = self.clone();
        ClientProfile {
            shows: shows.unwrap_or(profile.shows),
            shown_tokens: shown_tokens.or(profile.shown_tokens),
            max_tokens: max_tokens.or(profile.max_tokens),
            max_chars: max_chars.or(profile.max_chars),
            result_size_key: result_size_key.or(profile.result_size_key),
            image_types: image_types.unwrap_or(profile.image_types),
            image_max_bytes: image_max_bytes.or(profile.image_max_bytes),
            max_error_chars: max_error_chars.or(profile.max_error_chars),
            max_message_bytes: max_message_bytes.or(profile.max_message_bytes),
            shows_views: shows_views.unwrap_or(profile.shows_views),
            max_name_chars: max_name_chars.or(profile.max_name_chars),
            name_punctuation: name_punctuation.or(profile.name_punctuation),
            max_description_chars: max_description_chars.or(profile.max_description_chars),
            plain_schemas: plain_schemas.unwrap_or(profile.plain_schemas),
            max_schema_bytes: max_schema_bytes.or(profile.max_schema_bytes),
            max_tools: max_tools.or(profile.max_tools),
            reads_pages: reads_pages.unwrap_or(profile.reads_pages),
            defers_tools: defers_tools.unwrap_or(profile.defers_tools),
            ..profile
        }
    }
}
