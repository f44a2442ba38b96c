//! What a record is.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One am7 record: a document, a note, a user, a tag, a character, a chat.
///
/// Its bytes, if it has any, are apart (`RecordStore::content`), so that lists of records stay small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Record {
    /// Whose it is in the large; nothing is shared between organisations.
    pub organization: String,
    /// Its type, such as `data.data`; see [`ModelType`](super::ModelType).
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is known by among those of its type; a UUID unless somebody chose it. Empty: it is not stored yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object_id: String,
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// The path of the group that it lies in: `~/Notes` in its owner's home, `/Shared/Papers` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The URI of a `system.user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// URIs of `common.tag` records.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// URIs of users and groups that may read it, beside its owner.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub readers: BTreeSet<String>,
    /// URIs of users and groups that may change it, beside its owner.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub writers: BTreeSet<String>,
    /// What its bytes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What else its type, or whoever made it, has to say of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
    /// When it was made, in milliseconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// When it was changed last, in milliseconds since 1970.
    #[serde(default)]
    pub modified: u64,
    /// Grows with each change; an update may name the one that it has seen. 0: it is not stored yet.
    #[serde(default)]
    pub revision: u64,
}

impl Record {
    /// The type of groups.
    pub const GROUP: &str = GROUP;

    /// The organisation of records that do not say another.
    pub const ORGANIZATION: &str = "default";

    /// A record that is not stored yet, of the organisation [`Self::ORGANIZATION`].
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            organization: Self::ORGANIZATION.to_owned(),
            kind: kind.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// The same with an object id.
    #[must_use]
    pub fn with_object_id(self, object_id: impl Into<String>) -> Self {
        Self { object_id: object_id.into(), ..self }
    }

    /// The same in an organisation.
    #[must_use]
    pub fn with_organization(self, organization: impl Into<String>) -> Self {
        Self { organization: organization.into(), ..self }
    }

    /// `am7://ORGANISATION/TYPE/ID`; None without an object id, or if a part of it can stand in no URI.
    pub fn uri(&self) -> Option<String> {
        let uri = self.parts()?.build().ok()?;
        // A type named `media` would read back as something else.
        (!uri.is_media()).then(|| uri.to_string())
    }

    /// `am7://ORGANISATION/media/TYPE/ID`, which names the bytes; None where [`Self::uri`] is.
    pub fn media_uri(&self) -> Option<String> {
        Some(self.parts()?.media().build().ok()?.to_string())
    }

    /// What it is shown and read under: [`Self::media_uri`] if [`Self::is_media`], else [`Self::uri`].
    pub fn resource_uri(&self) -> Option<String> {
        if self.is_media() { self.media_uri() } else { self.uri() }
    }

    fn parts(&self) -> Option<marquetry_context_blocks::Am7UriBuilder> {
        let builder = Am7Uri::builder().organization(&self.organization).object_type(&self.kind);
        (!self.object_id.is_empty()).then(|| builder.id(&self.object_id))
    }

    /// Whether it stands for bytes that are neither text nor JSON: a `data.data` with such a media type.
    pub fn is_media(&self) -> bool {
        let is_media = |media_type: &String| !is_textual(media_type);
        self.kind == "data.data" && self.media_type.as_ref().is_some_and(is_media)
    }

    /// The text that it carries in its attributes: `text` (notes), else `content`, else `description`.
    ///
    /// The text of a document in bytes is what `extract` makes of them.
    pub fn text(&self) -> Option<&str> {
        ["text", "content", "description"]
            .iter()
            .find_map(|key| self.attributes.get(*key)?.as_str())
    }
}

pub(crate) const GROUP: &str = "auth.group";
pub(crate) const USER: &str = "system.user";
pub(crate) const TAG: &str = "common.tag";

/// Whether bytes of this media type are text for people or JSON.
fn is_textual(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || matches!(essence.as_str(), "application/json" | "application/x-ndjson")
}
