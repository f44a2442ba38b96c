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
}

impl ClientSettings {
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
        } = self.clone();
        ClientProfile {
            shows: shows.unwrap_or(profile.shows),
            shown_tokens: shown_tokens.or(profile.shown_tokens),
            max_tokens: max_tokens.or(profile.max_tokens),
            max_chars: max_chars.or(profile.max_chars),
            result_size_key: result_size_key.or(profile.result_size_key),
            image_types: image_types.unwrap_or(profile.image_types),
            image_max_bytes: image_max_bytes.or(profile.image_max_bytes),
            ..profile
        }
    }
}
