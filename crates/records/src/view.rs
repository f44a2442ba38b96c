//! Records as resources.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use marquetry_context_blocks::Am7Uri;

use crate::{Record, RecordError, caller::short};

/// A record as a resource of any protocol: under which URI it is read, what it is called, and what is read.
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
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The media type of what is read: JSON, or what the medium is.
    #[serde(default)]
    pub mime_type: String,
    /// The record itself as JSON, attributes beside the rest; what is read of a medium are its bytes, which are not here.
    #[serde(default)]
    pub contents: Map<String, Value>,
}

impl ResourceView {
    /// A resource of nothing but a URI and contents, to make a record of.
    pub fn new(uri: impl Into<String>, contents: Map<String, Value>) -> Self {
        Self { uri: uri.into(), name: String::new(), mime_type: String::new(), contents }
    }

    /// A record as a resource; None if it has no URI yet.
    pub fn of(record: &Record) -> Option<Self> {
        let mime_type = record.media_type.clone().filter(|_| record.is_media());
        Some(Self {
            uri: record.resource_uri()?,
            name: record.name.clone(),
            mime_type: mime_type.unwrap_or_else(|| "application/json".to_owned()),
            contents: record.to_fields(),
        })
    }

    /// The resource as a record of a type. What the URI says goes before what the contents say.
    ///
    /// # Errors
    ///
    /// [`RecordError::Uri`], and [`RecordError::Invalid`] where the URI is of another type, or a part of the contents
    /// is not what it must be. The attributes are not looked at.
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
        record.organization = uri.organization().to_owned();
        record.object_id = uri.id().unwrap_or_default().to_owned();
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
    /// The record as one object, with its attributes beside what every record has. An attribute that has the name of
    /// such a part is left out; [`Record`] itself as JSON has them apart.
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

    /// A record from one object as [`Self::to_fields`] makes it, or as AccountManager7 has it: `groupPath` is the
    /// group, `contentType` the media type, `organizationPath` the organisation.
    ///
    /// # Errors
    ///
    /// [`RecordError::Invalid`] where a part is not of the type that it must be.
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
                    // The first of two spellings is as good as the second.
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

/// The part of every record that has this name in JSON.
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
