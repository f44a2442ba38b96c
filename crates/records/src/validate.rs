//! Checks types and attributes of records against the table of types.

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
    /// [`RecordError::UnknownType`], which suggests the most similar name.
    pub fn of(name: &str) -> Result<&'static Self, RecordError> {
        Self::ALL.iter().find(|model| model.name == name).ok_or_else(|| RecordError::UnknownType {
            name: name.chars().take(100).collect(),
            nearest: nearest(name),
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

/// Returns the most similar type name, if one is similar.
fn nearest(name: &str) -> Option<&'static str> {
    // A name this long is not a typing error, and the comparison takes time quadratic in its
    // length.
    if name.len() > 100 {
        return None;
    }
    let lower = name.to_lowercase();
    ModelType::ALL
        .iter()
        .map(|model| (likeness(&lower, model.name), model.name))
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .filter(|(likeness, _)| *likeness > 0.8)
        .map(|(_, name)| name)
}

/// Returns the similarity of a name in lower case to a type name or to its last part.
fn likeness(lower: &str, known: &str) -> f64 {
    let known = known.to_lowercase();
    let last = known.rsplit('.').next().unwrap_or_default().to_owned();
    strsim::jaro_winkler(lower, &known).max(strsim::jaro_winkler(lower, &last))
}
