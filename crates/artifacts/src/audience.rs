//! The reader of an answer: what a client shows its model.

use marquetry_image_types::USUAL_IMAGE_TYPES;
use serde_json::value::RawValue;

use crate::settings::Settings;

/// What the client of a call shows its model, and how much of it. The limits apply beside those of
/// [`Settings`](crate::Settings).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audience {
    /// Name of the profile that these values come from, for the report.
    pub profile: Option<String>,
    /// Maximum number of tokens of the shown part, as estimated.
    pub max_tokens: Option<u64>,
    /// Maximum number of characters of the shown part.
    pub max_chars: Option<u64>,
    /// Whether the client shows structured content in place of text. Structured content that does
    /// not fit is left out then, because its reader would not see the notice.
    pub replaces_text: bool,
    /// Whether the client shows text and structured content beside each other. Structured content
    /// that says the same as a text counts, too, and is left out if both do not fit.
    pub shows_both: bool,
    /// MIME types of images that reach the model; the usual four if `None`.
    pub image_types: Option<Vec<String>>,
    /// Largest image that reaches the model, in bytes after decoding.
    pub max_image_bytes: Option<u64>,
    /// Maximum number of characters of an error.
    pub max_error_chars: Option<u64>,
    /// Largest answer that the client can receive, in bytes of JSON. Links replace the largest
    /// images of a longer one.
    pub max_answer_bytes: Option<u64>,
}

/// The use of an answer by a View (MCP Apps), beside the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewUse {
    /// The tool has no View.
    #[default]
    NoView,
    /// The tool has a View, which the client does not show. An answer that the model gets whole has
    /// no notice.
    NotShown,
    /// The client gives the answer to a View, too. It stays as sent, and is saved beside that if it
    /// is large.
    Shown,
}

impl Audience {
    /// Returns the limit of the shown part in bytes for an answer of `answer_bytes`: that of the
    /// settings, or less if a text like `sample` has more tokens or characters within it.
    pub(crate) fn limit(
        &self,
        settings: &Settings,
        answer_bytes: usize,
        sample: &RawValue,
        is_error: bool,
    ) -> u64 {
        let limit = settings.mcp_tool_llm_return_max_bytes;
        let max_error_chars = self.max_error_chars.filter(|_| is_error);
        let max_chars = self.max_chars.into_iter().chain(max_error_chars).min();
        // Every character has at least one byte, and every token too.
        let by_chars = limit.min(max_chars.unwrap_or(u64::MAX));
        let limits = [self.max_tokens, settings.mcp_tool_llm_return_max_tokens];
        // An answer of fewer bytes has fewer tokens, too.
        let most = by_chars.min(answer_bytes as u64);
        let max_tokens = limits.into_iter().flatten().min();
        let Some(max_tokens) = max_tokens.filter(|tokens| *tokens < most) else {
            return by_chars;
        };
        let sample = sample.get();
        let tokens = marquetry_tokens::estimate_by_pieces(sample).max(1);
        by_chars.min(max_tokens.saturating_mul(sample.len() as u64) / tokens)
    }

    /// Returns whether an image of this type and size reaches the model.
    pub(crate) fn sees_image(&self, mime_type: &str, bytes: u64) -> bool {
        let is_known = match &self.image_types {
            Some(types) => types.iter().any(|known| known.eq_ignore_ascii_case(mime_type)),
            None => USUAL_IMAGE_TYPES.contains(&mime_type),
        };
        is_known && self.max_image_bytes.is_none_or(|max| bytes <= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Box<RawValue> {
        RawValue::from_string(serde_json::to_string(text).unwrap()).unwrap()
    }

    #[test]
    fn the_limit_follows_the_tokens_of_the_text() {
        let mut audience = Audience::default();
        let mut settings = Settings::default();
        let prose = sample(&"The quick brown fox jumps over the lazy dog. ".repeat(2_000));
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, false), 65_536);
        audience.max_tokens = Some(8_000);
        let of_prose = audience.limit(&settings, prose.get().len(), &prose, false);
        assert!((32_000..45_000).contains(&of_prose), "{of_prose}");
        let numbers = sample(&"8.31,4.77,0.02\n".repeat(2_000));
        assert!(audience.limit(&settings, numbers.get().len(), &numbers, false) < of_prose);
        settings.mcp_tool_llm_return_max_tokens = Some(800);
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, false), of_prose / 10);
        settings.mcp_tool_llm_return_max_tokens = Some(9_000);
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, false), of_prose);
        audience.max_chars = Some(7_000);
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, false), 7_000);
        audience.max_error_chars = Some(5_000);
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, false), 7_000);
        assert_eq!(audience.limit(&settings, prose.get().len(), &prose, true), 5_000);
    }

    #[test]
    fn images_that_services_refuse_do_not_reach_the_model() {
        let audience = Audience::default();
        assert!(audience.sees_image("image/png", 1 << 20));
        for refused in ["image/svg+xml", "image/bmp", "image/tiff", "image/jpg"] {
            assert!(!audience.sees_image(refused, 1), "{refused}");
        }
    }
}
