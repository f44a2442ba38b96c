//! Checks types and attributes of records against the table of types.

use marquetry_nearest::nearest;
use serde_json::{Map, Value};

use crate::{
    RecordError,
    types::{AttributeType, ModelType},
};

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
