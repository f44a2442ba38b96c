//! Records as resources.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use marquetry_context_blocks::Am7Uri;

use crate::{Record, RecordError, caller::short};

/// A record as a resource of a protocol: its URI, its name, and its contents.
///
/// ```
/// use marquetry_records::{Record, ResourceView};
///
/// let user = Record::new("system.user", "alice").with_object_id("user-123");
/// let view = ResourceView::of(&user).unwrap();
/// assert_eq!((view.uri.as_str(), view.mime_type.as_str()), ("am7://default/system.user/user-123", "application/json"));
/// assert_eq!(view.record("system.user")?.name, "alice");
/// # Ok::<(), marquetry_records::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceView {
    /// [`Record::resource_uri`].
    pub uri: String,
    /// Name of the record.
    #[serde(default)]
    pub name: String,
    /// The media type of the resource: JSON, or that of the content.
    #[serde(default)]
    pub mime_type: String,
    /// The record as one JSON object, with its attributes. For a record of a medium, clients read
    /// its content instead, which is not in this object.
    #[serde(default)]
    pub contents: Map<String, Value>,
}

impl ResourceView {
    /// Returns a resource with a URI and contents; [`Self::record`] converts it to a record.
    pub fn new(uri: impl Into<String>, contents: Map<String, Value>) -> Self {
        Self { uri: uri.into(), name: String::new(), mime_type: String::new(), contents }
    }

    /// Returns a record as a resource; None if it has no URI yet.
    pub fn of(record: &Record) -> Option<Self> {
        let mime_type = record.media_type.clone().filter(|_| record.is_media());
        Some(Self {
            uri: record.resource_uri()?,
            name: record.name.clone(),
            mime_type: mime_type.unwrap_or_else(|| "application/json".to_owned()),
            contents: record.to_fields(),
        })
    }

    /// Converts the resource to a record of a type. Where URI and contents disagree, the URI
    /// counts.
    ///
    /// # Errors
    ///
    /// Returns an error if the URI does not parse ([`RecordError::Uri`]), or if it is of another
    /// type or a part of the contents is of the wrong kind ([`RecordError::Invalid`]). Attributes
    /// are not checked.
    pub fn record(&self, kind: &str) -> Result<Record, RecordError> {
        let uri = Am7Uri::parse(&self.uri)
            .map_err(|source| RecordError::Uri { uri: short(&self.uri), source })?;
        if uri.object_type() != Some(kind) {
            return Err(RecordError::invalid(
                "the URI",
                format!("is not of the type {kind}: {}", self.uri),
            ));
        }
        let mut record = Record::from_fields(kind, self.contents.clone())?;
        uri.organization().clone_into(&mut record.organization);
        uri.id().unwrap_or_default().clone_into(&mut record.object_id);
        if record.name.is_empty() {
            record.name.clone_from(&self.name);
        }
        if record.media_type.is_none() && uri.is_media() && !self.mime_type.is_empty() {
            record.media_type = Some(self.mime_type.clone());
        }
        Ok(record)
    }
}

impl Record {
    /// Returns the record as one object that contains both the fields of every record and the
    /// attributes. An attribute with the name of such a field is left out; the serialised
    /// [`Record`] keeps them apart.
    pub fn to_fields(&self) -> Map<String, Value> {
        let mut fields = match json!(self) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        if let Some(uri) = self.uri() {
            fields.insert("uri".to_owned(), uri.into());
        }
        if let Some(Value::Object(attributes)) = fields.shift_remove("attributes") {
            for (name, value) in attributes {
                if part(&name).is_none() {
                    fields.insert(name, value);
                }
            }
        }
        fields
    }

    /// Parses the record from one object in the form of [`Self::to_fields`] or of AccountManager7,
    /// where `groupPath` is the group, `contentType` the media type, and `organizationPath` the
    /// organisation.
    ///
    /// # Errors
    ///
    /// Returns an error if a field is of the wrong kind ([`RecordError::Invalid`]).
    pub fn from_fields(kind: &str, fields: Map<String, Value>) -> Result<Self, RecordError> {
        let mut parts = Map::new();
        let mut attributes = Map::new();
        for (name, value) in fields {
            match part(&name) {
                Some("type" | "uri") => {}
                Some(_) if value.is_null() => {}
                Some(part) => {
                    if let Err(problem) = fits(part, &value) {
                        return Err(RecordError::invalid(part, problem));
                    }
                    // If a field occurs in two spellings, the first one counts.
                    parts.entry(part).or_insert(value);
                }
                None => {
                    attributes.insert(name, value);
                }
            }
        }
        parts.insert("type".to_owned(), kind.into());
        parts.entry("organization").or_insert_with(|| Self::ORGANIZATION.into());
        let mut record: Self = serde_json::from_value(Value::Object(parts))
            .map_err(|error| RecordError::invalid("the record", error.to_string()))?;
        record.attributes = attributes;
        Ok(record)
    }
}

/// Returns the JSON name of the field of every record that this key stands for.
fn part(name: &str) -> Option<&'static str> {
    Some(match name {
        "organization" | "organizationPath" => "organization",
        "type" | "schema" => "type",
        "uri" => "uri",
        "objectId" => "objectId",
        "name" => "name",
        "group" | "groupPath" => "group",
        "owner" | "ownerUri" => "owner",
        "tags" => "tags",
        "readers" => "readers",
        "writers" => "writers",
        "mediaType" | "contentType" => "mediaType",
        "created" | "createdDate" => "created",
        "modified" | "modifiedDate" => "modified",
        "revision" => "revision",
        _ => return None,
    })
}

fn fits(part: &str, value: &Value) -> Result<(), &'static str> {
    let (fits, wanted) = match part {
        "tags" | "readers" | "writers" => {
            let is_list = value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            (is_list, "must be a list of texts")
        }
        "created" | "modified" | "revision" => (value.is_u64(), "must be a whole number from 0"),
        _ => (value.is_string(), "must be a text"),
    };
    if fits { Ok(()) } else { Err(wanted) }
}
