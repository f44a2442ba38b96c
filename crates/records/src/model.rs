//! Records.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One am7 record: a document, a note, a user, a tag, a character, a chat.
///
/// Its content in bytes, if it has any, is read separately (`RecordStore::content`), so that lists
/// of records stay small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Record {
    /// The organisation (tenant) of the record. Organisations share no records.
    pub organization: String,
    /// The type, such as `data.data`; see [`ModelType`](super::ModelType).
    #[serde(rename = "type")]
    pub kind: String,
    /// The id, unique among the records of the type; a UUID unless the creator chose another. Empty
    /// before the record is stored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object_id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The path of the group that contains the record: `~/Notes` in its owner's home,
    /// `/Shared/Papers` outside of homes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// URI of the owner, a `system.user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// URIs of `common.tag` records.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// URIs of users and groups that may read the record, besides its owner.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub readers: BTreeSet<String>,
    /// URIs of users and groups that may change the record, besides its owner.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub writers: BTreeSet<String>,
    /// The media type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Further attributes: those of the type ([`ModelType`](super::ModelType)), and any others.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
    /// Time of creation, in milliseconds since 1970 (UTC).
    #[serde(default)]
    pub created: u64,
    /// Time of the last change, in milliseconds since 1970 (UTC).
    #[serde(default)]
    pub modified: u64,
    /// Number that grows with each change, from 1; 0 before the record is stored. An update may
    /// name the revision on which it is based.
    #[serde(default)]
    pub revision: u64,
}

impl Record {
    /// The type of groups.
    pub const GROUP: &str = GROUP;

    /// The default organisation.
    pub const ORGANIZATION: &str = "default";

    /// Creates a record of the organisation [`Self::ORGANIZATION`]. Stores nothing.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            organization: Self::ORGANIZATION.to_owned(),
            kind: kind.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// Returns the record with an object id.
    #[must_use]
    pub fn with_object_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: object_id.into(), ..self }
    }

    /// Returns the record in an organisation.
    #[must_use]
    pub fn with_organization(self, organization: impl Into<String>) -> Self {
        Self { organization: organization.into(), ..self }
    }

    /// Returns `am7://ORGANISATION/TYPE/ID`; None without an object id, or if a part is not allowed
    /// in a URI.
    pub fn uri(&self) -> Option<String> {
        let uri = self.parts()?.build().ok()?;
        // A type named `media` would be parsed as a media URI.
        (!uri.is_media()).then(|| uri.to_string())
    }

    /// Returns `am7://ORGANISATION/media/TYPE/ID`, which names the content; None if [`Self::uri`]
    /// is None.
    pub fn media_uri(&self) -> Option<String> {
        Some(self.parts()?.media().build().ok()?.to_string())
    }

    /// Returns the bytes that a store keeps of the record, without its content.
    pub(crate) fn stored_bytes(&self) -> u64 {
        serde_json::to_string(self).map_or(0, |json| json.len() as u64)
    }

    /// Returns the URI under which clients list and read the record: [`Self::media_uri`] if
    /// [`Self::is_media`], else [`Self::uri`].
    pub fn resource_uri(&self) -> Option<String> {
        if self.is_media() { self.media_uri() } else { self.uri() }
    }

    fn parts(&self) -> Option<marquetry_context_blocks::Am7UriBuilder> {
        let builder = Am7Uri::builder().organization(&self.organization).object_type(&self.kind);
        (!self.object_id.is_empty()).then(|| builder.id(&self.object_id))
    }

    /// Returns the media type without parameters; empty without one.
    #[must_use]
    pub fn media_essence(&self) -> &str {
        let media_type = self.media_type.as_deref().unwrap_or_default();
        media_type.split(';').next().unwrap_or_default().trim()
    }

    /// Returns whether the content is neither text nor JSON: a `data.data` with another media type.
    pub fn is_media(&self) -> bool {
        self.kind == "data.data"
            && self.media_type.as_ref().is_some_and(|media_type| !is_textual(media_type))
    }

    /// Returns the text in the attributes: `text` (notes), else `content`, else `description`.
    ///
    /// To get the text of a content in bytes, use the crate `marquetry-extract`.
    pub fn text(&self) -> Option<&str> {
        ["text", "content", "description"]
            .iter()
            .find_map(|key| self.attributes.get(*key)?.as_str())
    }
}

pub(crate) const GROUP: &str = "auth.group";
pub(crate) const USER: &str = "system.user";
pub(crate) const TAG: &str = "common.tag";

/// Returns whether content of this media type is text or JSON.
fn is_textual(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || matches!(essence.as_str(), "application/json" | "application/x-ndjson")
}
