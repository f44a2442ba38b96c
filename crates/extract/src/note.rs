//! Notes: records with a text field.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Extracted, registry::finish};

/// A record with its text in a field, such as a `data.note`. Other fields are ignored.
///
/// ```
/// use marquetry_extract::Note;
///
/// let note: Note = serde_json::from_str(r#"{"name": "Flour", "text": "Type 550.", "groupId": 7}"#)?;
/// assert_eq!(note.extract().content, "Type 550.");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Name of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text of the note; empty if the field is absent or null.
    #[serde(deserialize_with = "text_or_null")]
    pub text: String,
    /// URI of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

impl Note {
    /// Returns the text as a document.
    pub fn extract(&self) -> Extracted {
        let mut extracted = Extracted {
            content: self.text.clone(),
            source_uri: self.uri.clone(),
            mime_type: "text/plain".to_owned(),
            title: self.name.clone(),
            wrapped: true,
            ..Extracted::default()
        };
        finish(&mut extracted);
        extracted
    }
}

/// Reads null as no text.
fn text_or_null<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}
