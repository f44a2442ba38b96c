//! Reads the document of a View from an answer to `resources/read`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::types::{JsonObject, ReadResourceResult};

use crate::types::{MetaProblem, UiResourceMeta, VIEW_MIME_TYPE, is_view_mime_type};

/// A View that was read from a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ViewDocument {
    /// The HTML document.
    pub html: String,
    /// The metadata, from the content item or from the entry in the list.
    pub meta: UiResourceMeta,
    /// The members of the metadata that could not be read.
    pub problems: Vec<MetaProblem>,
}

/// The reason why an answer to `resources/read` is not a View.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewDocumentError {
    /// The answer does not have exactly one content item.
    #[error("the server gave {count} content items for the View {uri}; a View is one")]
    Count {
        /// URI of the View.
        uri: String,
        /// Number of content items.
        count: usize,
    },
    /// The content item has another URI, so it is not the View that was requested.
    #[error("the server gave {got:?} for the View {uri}; the content item has to repeat its URI")]
    Uri {
        /// URI of the View.
        uri: String,
        /// URI that the server sent.
        got: String,
    },
    /// The content item has another MIME type.
    #[error("the View {uri} has the MIME type {mime_type:?}, not {VIEW_MIME_TYPE:?}")]
    MimeType {
        /// URI of the View.
        uri: String,
        /// MIME type that the server sent.
        mime_type: String,
    },
    /// The content item has neither text nor a blob, or has both.
    #[error("the View {uri} has to have either text or blob")]
    Content {
        /// URI of the View.
        uri: String,
    },
    /// The blob is not base64 of UTF-8.
    #[error("the blob of the View {uri} is not base64 of UTF-8")]
    Encoding {
        /// URI of the View.
        uri: String,
    },
    /// The document is empty.
    #[error("the View {uri} is empty")]
    Empty {
        /// URI of the View.
        uri: String,
    },
    /// The document is too large.
    #[error("the View {uri} is {bytes} bytes, more than {max}")]
    TooLarge {
        /// URI of the View.
        uri: String,
        /// Size of the document, in bytes.
        bytes: usize,
        /// Largest allowed size, in bytes.
        max: usize,
    },
}

impl ViewDocument {
    /// Reads a View from the answer to `resources/read` of `uri`. `listing` is the `_meta` of the
    /// resource's entry in a list, if there is one; it is used if the content item has no metadata.
    ///
    /// # Errors
    /// Returns an error if the answer is not a View, is another View than `uri`, or its document is
    /// larger than `max` bytes.
    pub fn read(
        uri: &str,
        read: &ReadResourceResult,
        listing: Option<&JsonObject>,
        max: usize,
    ) -> Result<Self, ViewDocumentError> {
        let asked = uri;
        let uri = marquetry_protocol::shortened(uri).to_owned();
        let [content] = read.contents.as_slice() else {
            return Err(ViewDocumentError::Count { uri, count: read.contents.len() });
        };
        if content.uri != asked {
            let got = marquetry_protocol::shortened(&content.uri).to_owned();
            return Err(ViewDocumentError::Uri { uri, got });
        }
        let mime_type = content.mime_type.as_deref().unwrap_or_default();
        if !is_view_mime_type(mime_type) {
            let mime_type = marquetry_protocol::shortened(mime_type).to_owned();
            return Err(ViewDocumentError::MimeType { uri, mime_type });
        }
        let bytes = match (&content.text, &content.blob) {
            (Some(text), None) => text.len(),
            (None, Some(blob)) => blob.len() / 4 * 3,
            _ => return Err(ViewDocumentError::Content { uri }),
        };
        if bytes > max {
            return Err(ViewDocumentError::TooLarge { uri, bytes, max });
        }
        let html = match (&content.text, &content.blob) {
            (None, Some(blob)) => {
                let decoded = STANDARD.decode(blob).ok().and_then(|it| String::from_utf8(it).ok());
                decoded.ok_or_else(|| ViewDocumentError::Encoding { uri: uri.clone() })?
            }
            (text, _) => text.clone().unwrap_or_default(),
        };
        if html.trim().is_empty() {
            return Err(ViewDocumentError::Empty { uri });
        }
        let ui = UiResourceMeta::choose(listing, content.meta.as_ref());
        let (meta, problems) = ui.map(UiResourceMeta::parse).unwrap_or_default();
        Ok(Self { html, meta, problems })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(contents: Value) -> Result<ViewDocument, String> {
        let read = serde_json::from_value(json!({ "contents": contents })).unwrap();
        let listing = json!({ "ui": { "prefersBorder": true } });
        ViewDocument::read("ui://v", &read, listing.as_object(), 100).map_err(|it| it.to_string())
    }

    #[test]
    fn text_and_blob_are_read() {
        let text =
            read(json!([{ "uri": "ui://v", "mimeType": VIEW_MIME_TYPE, "text": "<p>" }])).unwrap();
        assert_eq!((text.html.as_str(), text.meta.prefers_border), ("<p>", Some(true)));
        let blob = json!([{ "uri": "ui://v", "mimeType": VIEW_MIME_TYPE, "blob": "PHA+", "_meta": { "ui": {} } }]);
        let blob = read(blob).unwrap();
        assert_eq!((blob.html.as_str(), blob.meta.prefers_border), ("<p>", None));
    }

    #[test]
    fn the_mime_type_may_be_spelled_in_another_way() {
        let mime_type = "text/html; charset=utf-8; profile=\"mcp-app\"";
        assert!(read(json!([{ "uri": "ui://v", "mimeType": mime_type, "text": "<p>" }])).is_ok());
    }

    #[test]
    fn other_answers_are_no_views() {
        fn one(members: Value) -> Value {
            let mut item = json!({ "uri": "ui://v", "mimeType": VIEW_MIME_TYPE });
            item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            json!([item])
        }
        for (contents, error) in [
            (
                one(json!({ "uri": "ui://other", "text": "<p>" })),
                "the server gave \"ui://other\" for the View ui://v; the content item has to repeat its URI",
            ),
            (json!([]), "the server gave 0 content items for the View ui://v; a View is one"),
            (one(json!({})), "the View ui://v has to have either text or blob"),
            (
                one(json!({ "text": "a", "blob": "a" })),
                "the View ui://v has to have either text or blob",
            ),
            (one(json!({ "text": " " })), "the View ui://v is empty"),
            (one(json!({ "blob": "?" })), "the blob of the View ui://v is not base64 of UTF-8"),
            (one(json!({ "blob": "/w==" })), "the blob of the View ui://v is not base64 of UTF-8"),
            (
                one(json!({ "text": "a".repeat(101) })),
                "the View ui://v is 101 bytes, more than 100",
            ),
            (
                one(json!({ "mimeType": "text/html", "text": "a" })),
                "the View ui://v has the MIME type \"text/html\", not \"text/html;profile=mcp-app\"",
            ),
        ] {
            assert_eq!(read(contents).unwrap_err(), error);
        }
    }
}
