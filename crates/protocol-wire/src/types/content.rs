//! The items of tool answers and prompts.

use serde::{Deserialize, Serialize};

use super::{
    JsonObject,
    annotations::Annotations,
    resource::{Resource, ResourceContents},
};

/// One item of a tool answer or a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text for the model.
    #[serde(rename_all = "camelCase")]
    Text {
        /// The text.
        text: String,
        /// Audience and importance of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// The bytes in base64.
        data: String,
        /// MIME type of the bytes, for example `image/png`.
        mime_type: String,
        /// Audience and importance of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
    /// Sound (since 2025-03-26).
    #[serde(rename_all = "camelCase")]
    Audio {
        /// The bytes in base64.
        data: String,
        /// MIME type of the bytes, for example `audio/wav`.
        mime_type: String,
        /// Audience and importance of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
    /// A resource with its contents.
    Resource {
        /// The contents.
        resource: ResourceContents,
        /// Audience and importance of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
    /// A resource that can be read with `resources/read` (since 2025-06-18).
    ResourceLink(Resource),
}

impl Content {
    /// Returns a text item without annotations.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), annotations: None, meta: None }
    }

    /// Returns an image item. `data` is base64.
    #[must_use]
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image {
            data: data.into(),
            mime_type: mime_type.into(),
            annotations: None,
            meta: None,
        }
    }

    /// Returns the text of a text item.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}
