//! Checks the parts of a record: its type and attributes, names, readers and sizes.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;
use marquetry_nearest::nearest;
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;

use crate::{
    RecordError, RecordLimits,
    caller::short,
    model::{GROUP, USER},
    path::GroupPath,
    types::{AttributeType, ModelType},
};

/// Returns whether an object id has the form that is reserved for indexed files: a UUID of version
/// 8 (RFC 9562).
pub(crate) fn is_id_of_file(id: &str) -> bool {
    let bytes = id.as_bytes();
    bytes.len() == 36
        && bytes[14] == b'8'
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

impl RecordLimits {
    fn at_most(
        field: &'static str,
        unit: &'static str,
        got: usize,
        (limit, max): (&'static str, usize),
    ) -> Result<(), RecordError> {
        if got > max { Err(RecordError::Limit { field, limit, got, unit, max }) } else { Ok(()) }
    }

    /// Checks a name, and returns it in Unicode's composed form, so that names that look the same
    /// are the same.
    pub(crate) fn name(&self, field: &'static str, name: &str) -> Result<String, RecordError> {
        Self::at_most(field, "bytes", name.len(), ("max_name_bytes", self.max_name_bytes))?;
        let name: String = name.nfc().collect();
        Self::at_most(field, "bytes", name.len(), ("max_name_bytes", self.max_name_bytes))?;
        if name.trim().is_empty() {
            return Err(RecordError::invalid(field, "is empty"));
        }
        if matches!(name.as_str(), "." | "..") {
            return Err(RecordError::invalid(field, format!("is {name:?}, which is not allowed")));
        }
        match name.chars().find(|&character| is_unseen(character)) {
            Some(found) => Err(RecordError::invalid(
                field,
                format!("holds the character U+{:04X}", u32::from(found)),
            )),
            None => Ok(name),
        }
    }

    /// Checks the name of a group, which becomes a part of paths.
    pub(crate) fn group_name(
        &self,
        field: &'static str,
        name: &str,
    ) -> Result<String, RecordError> {
        let name = self.name(field, name)?;
        if name.contains('/') {
            return Err(RecordError::invalid(field, "of a group holds a /"));
        }
        Ok(name)
    }

    pub(crate) fn path(&self, text: &str) -> Result<GroupPath, RecordError> {
        const FIELD: &str = "the group path";
        Self::at_most(FIELD, "bytes", text.len(), ("max_path_bytes", self.max_path_bytes))?;
        let path = GroupPath::parse(text).ok_or_else(|| {
            RecordError::invalid(FIELD, format!("begins with neither ~ nor /: {:?}", short(text)))
        })?;
        Self::at_most(
            FIELD,
            "groups",
            path.segments.len(),
            ("max_path_depth", self.max_path_depth),
        )?;
        let segments = path.segments.iter().map(|name| self.group_name(FIELD, name));
        Ok(GroupPath { segments: segments.collect::<Result<_, _>>()?, root: path.root })
    }

    pub(crate) fn tags(&self, count: usize) -> Result<(), RecordError> {
        Self::at_most("the list of tags", "tags", count, ("max_tags", self.max_tags))
    }

    /// Checks a list of URIs of users and groups of an organisation.
    pub(crate) fn readers(
        &self,
        field: &'static str,
        organization: &str,
        uris: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, RecordError> {
        Self::at_most(field, "names", uris.len(), ("max_readers", self.max_readers))?;
        uris.iter().map(|uri| principal(field, organization, uri, &[USER, GROUP])).collect()
    }

    /// Checks the members of a group.
    pub(crate) fn members(
        &self,
        organization: &str,
        attributes: &mut Map<String, Value>,
    ) -> Result<(), RecordError> {
        let Some(Value::Array(members)) = attributes.get_mut("members") else { return Ok(()) };
        let field = "the list of members";
        Self::at_most(field, "names", members.len(), ("max_members", self.max_members))?;
        let mut known = BTreeSet::new();
        for member in members.iter().filter_map(Value::as_str) {
            known.insert(principal(field, organization, member, &[USER, GROUP])?);
        }
        *members = known.into_iter().map(Value::String).collect();
        Ok(())
    }

    pub(crate) fn content(&self, content: &[u8]) -> Result<(), RecordError> {
        let limit = ("max_content_bytes", self.max_content_bytes);
        Self::at_most("the content", "bytes", content.len(), limit)
    }

    /// Checks number, size and depth of attributes. Does not recurse.
    pub(crate) fn attributes(&self, attributes: &Map<String, Value>) -> Result<(), RecordError> {
        const FIELD: &str = "the list of attributes";
        let mut next: Vec<(usize, &Value)> = Vec::new();
        let mut count = 0;
        let mut bytes = 0;
        bytes += name_bytes(attributes);
        next.extend(attributes.values().map(|value| (1, value)));
        while let Some((depth, value)) = next.pop() {
            count += 1;
            Self::at_most(
                FIELD,
                "levels",
                depth,
                ("max_attribute_depth", self.max_attribute_depth),
            )?;
            Self::at_most(
                FIELD,
                "values",
                count + next.len(),
                ("max_attributes", self.max_attributes),
            )?;
            match value {
                Value::String(text) => bytes += text.len(),
                Value::Array(list) => next.extend(list.iter().map(|value| (depth + 1, value))),
                Value::Object(values) => {
                    bytes += name_bytes(values);
                    next.extend(values.values().map(|value| (depth + 1, value)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
            Self::at_most(
                FIELD,
                "bytes",
                bytes,
                ("max_attribute_bytes", self.max_attribute_bytes),
            )?;
        }
        Ok(())
    }
}

/// Returns the URI of a user or group of this organisation in the spelling of records.
pub(crate) fn principal(
    field: &'static str,
    organization: &str,
    text: &str,
    kinds: &[&str],
) -> Result<String, RecordError> {
    let uri =
        Am7Uri::parse(text).map_err(|source| RecordError::Uri { uri: short(text), source })?;
    let is_of = uri.object_type().is_some_and(|kind| kinds.contains(&kind));
    let is_plain = !uri.is_media() && !text.contains('?');
    if is_of && is_plain && uri.organization() == organization {
        return Ok(uri.to_string());
    }
    let kinds = kinds.join(" or ");
    let problem = format!("names {:?}, which is not a {kinds} of {organization}", short(text));
    Err(RecordError::invalid(field, problem))
}

/// Checks a media type (RFC 9110, section 8.3.1): two words with a slash between them, and
/// parameters. A comma is refused: browsers split the header `Content-Type` there, and would take
/// `text/html` from `image/png;x,text/html`.
pub(crate) fn media_type(text: &str) -> Result<(), RecordError> {
    let mut parts = text.split(';').map(|part| part.trim_matches(' '));
    let is_good = text.len() <= 255
        && parts
            .next()
            .and_then(|essence| essence.split_once('/'))
            .is_some_and(|(left, right)| is_token(left) && is_token(right))
        && parts.all(is_parameter);
    if is_good {
        Ok(())
    } else {
        Err(RecordError::invalid("the media type", format!("does not read: {:?}", short(text))))
    }
}

fn name_bytes(object: &Map<String, Value>) -> usize {
    object.keys().map(String::len).sum()
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Returns whether a text is `name=value`, with quotes or without. An empty one is allowed, since
/// many programs write `text/plain;`.
fn is_parameter(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return text.is_empty() };
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    is_token(name)
        && match quoted {
            Some(value) => value.chars().all(|it| matches!(it, ' '..='~') && !"\",\\".contains(it)),
            None => is_token(value),
        }
}

/// Returns a name for a record that is made of any text: without the characters that names may not
/// have, at most `max_characters` long, and empty if nothing is left.
#[must_use]
pub fn name_from(text: &str, max_characters: usize) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(|&it| !is_unseen(it) && it != '/').collect())
        .filter(|word: &String| !word.is_empty())
        .collect();
    let name: String = words.join(" ").chars().take(max_characters).collect();
    let name = name.trim();
    if name.chars().all(|character| character == '.') { String::new() } else { name.to_owned() }
}

/// Returns whether a character is invisible, since it could make a name look like another one:
/// controls, line ends, and characters of Unicode's general category Cf without a shape. The two
/// joiners (U+200C, U+200D) are allowed: Persian, the scripts of India and emoji need them.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{AD}'
                | '\u{61C}'
                | '\u{180E}'
                | '\u{200B}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{1BCA0}'..='\u{1BCA3}'
                | '\u{1D173}'..='\u{1D17A}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

impl ModelType {
    /// Returns the type of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the type is unknown; it suggests the most similar name.
    pub fn of(name: &str) -> Result<&'static Self, RecordError> {
        Self::ALL.iter().find(|model| model.name == name).ok_or_else(|| RecordError::UnknownType {
            name: name.chars().take(100).collect(),
            nearest: nearest_type(name),
        })
    }

    /// Checks the kinds of known attributes, and that no required attribute is missing.
    pub(crate) fn check(&self, attributes: &Map<String, Value>) -> Result<(), RecordError> {
        for AttributeType { name, kind, required, .. } in self.attributes {
            let value = attributes.get(*name).filter(|value| !value.is_null());
            match value {
                Some(value) if kind.fits(value) => {}
                None if !required => {}
                value => {
                    return Err(RecordError::Attribute {
                        model: self.name,
                        attribute: name,
                        wanted: kind.description(),
                        found: value.map(json_type),
                    });
                }
            }
        }
        Ok(())
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the most similar type name, if one is similar. A name without its package is compared
/// with the last parts of type names.
fn nearest_type(name: &str) -> Option<&'static str> {
    let names: Vec<&'static str> = ModelType::ALL.iter().map(|model| model.name).collect();
    nearest(name, &names).or_else(|| {
        let last_parts: Vec<&str> = names.iter().copied().map(last_part).collect();
        let near = nearest(name, &last_parts)?;
        names.into_iter().find(|name| last_part(name) == near)
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
