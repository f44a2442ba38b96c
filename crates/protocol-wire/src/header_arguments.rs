//! Arguments of tools that an HTTP header repeats (2026-07-28, "Custom Headers from Tool
//! Parameters").

use std::sync::Arc;

use serde_json::Value;

/// The key of a property's schema that names its header.
const KEY: &str = "x-mcp-header";
/// Most marked arguments of one tool: each is a header of every call, and servers accept about a
/// hundred headers.
const MAX: usize = 64;

/// Why the marks of a schema are not valid. Clients over HTTP must not show such a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderArgumentError {
    /// The value of `x-mcp-header` is not a string.
    #[error("{KEY} is not a string")]
    NotAString,
    /// HTTP has no header of that name.
    #[error("{KEY} '{name}' is not a valid header name")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The mark is in a place that is not one argument, such as the items of a list.
    #[error("{KEY} '{name}' is not on a property of the arguments")]
    NotOnAProperty {
        /// The name.
        name: String,
    },
    /// The argument has a type that a header cannot hold.
    #[error("{KEY} '{name}' is on a property that is not a string, integer or boolean")]
    NotPrimitive {
        /// The name.
        name: String,
    },
    /// More arguments are marked than a call can repeat.
    #[error("{KEY} is on more than {max} properties")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// Two arguments are marked with the same name.
    #[error("duplicate {KEY} '{name}'")]
    Duplicate {
        /// The name.
        name: String,
    },
}

/// An argument that the header `Mcp-Param-…` repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderArgument {
    /// The whole name of the header, in lower case.
    pub header: String,
    /// Path of the argument: the names of the properties, outermost first.
    path: Vec<String>,
}

impl HeaderArgument {
    /// Returns the argument as text; `None` if it is missing, `null`, an array or an object.
    #[must_use]
    pub fn text(&self, arguments: &Value) -> Option<String> {
        match self.value(arguments)? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Returns the value of the argument, if the call has one.
    #[must_use]
    pub fn value<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(arguments, |value, name| value.get(name))
    }
}

/// The arguments of a tool that a client over stateless HTTP repeats in the headers `Mcp-Param-…`.
/// Create the value once, when the tool is listed, and return it from the server's
/// `Handler::header_arguments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderArguments(Vec<HeaderArgument>);

impl HeaderArguments {
    /// Returns the arguments that `input_schema` marks with `x-mcp-header`; `None` if it marks
    /// none.
    ///
    /// # Errors
    /// Returns an error if a mark is invalid. HTTP clients do not show such a tool.
    pub fn of(input_schema: &Value) -> Result<Option<Arc<Self>>, HeaderArgumentError> {
        let marks = header_arguments(input_schema)?;
        Ok((!marks.is_empty()).then(|| Arc::new(Self(marks))))
    }

    /// Iterates over the arguments in order.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderArgument> {
        self.0.iter()
    }
}

/// Returns the marked arguments of a tool with this schema.
///
/// # Errors
/// Returns an error if a mark is invalid. A client must not show such a tool.
pub fn header_arguments(schema: &Value) -> Result<Vec<HeaderArgument>, HeaderArgumentError> {
    let mut found = Vec::new();
    look(schema, &mut Vec::new(), true, &mut found)?;
    Ok(found)
}

/// Searches a schema and its subschemas. `reachable` is true while only `properties` lead there, so
/// that the argument's path is known without its value.
fn look<'a>(
    schema: &'a Value,
    path: &mut Vec<&'a str>,
    reachable: bool,
    found: &mut Vec<HeaderArgument>,
) -> Result<(), HeaderArgumentError> {
    match schema {
        Value::Array(schemas) => {
            for schema in schemas {
                look(schema, path, false, found)?;
            }
        }
        Value::Object(members) => {
            if let Some(name) = members.get(KEY) {
                found.push(mark(name, members.get("type"), path, reachable, found)?);
            }
            for (key, inner) in members {
                match (key.as_str(), inner) {
                    // Data, not schemas.
                    (KEY | "default" | "const" | "enum" | "examples", _) => {}
                    ("properties", Value::Object(properties)) => {
                        for (name, schema) in properties {
                            path.push(name);
                            look(schema, path, reachable, found)?;
                            path.pop();
                        }
                    }
                    // These contain property names as well, but no fixed path leads to them.
                    (
                        "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                        Value::Object(schemas),
                    ) => {
                        for schema in schemas.values() {
                            look(schema, path, false, found)?;
                        }
                    }
                    _ => look(inner, path, false, found)?,
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn mark(
    name: &Value,
    kind: Option<&Value>,
    path: &[&str],
    reachable: bool,
    found: &[HeaderArgument],
) -> Result<HeaderArgument, HeaderArgumentError> {
    let name = name.as_str().ok_or(HeaderArgumentError::NotAString)?;
    let shown = name.escape_debug();
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(HeaderArgumentError::InvalidName { name: shown.to_string() });
    }
    if !reachable || path.is_empty() {
        return Err(HeaderArgumentError::NotOnAProperty { name: shown.to_string() });
    }
    if !is_primitive(kind) {
        return Err(HeaderArgumentError::NotPrimitive { name: shown.to_string() });
    }
    if found.len() == MAX {
        return Err(HeaderArgumentError::TooMany { max: MAX });
    }
    let header = format!("mcp-param-{}", name.to_ascii_lowercase());
    if found.iter().any(|other| other.header == header) {
        return Err(HeaderArgumentError::Duplicate { name: shown.to_string() });
    }
    Ok(HeaderArgument { header, path: path.iter().map(|name| (*name).to_owned()).collect() })
}

/// Returns whether the name of a header may have this byte (RFC 9110, section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a header can hold every value of the type; null has none, and needs none.
fn is_primitive(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::Array(kinds)) => {
            kinds.iter().any(is_primitive_type)
                && kinds.iter().all(|kind| is_primitive_type(kind) || kind == "null")
        }
        kind => kind.is_some_and(is_primitive_type),
    }
}

fn is_primitive_type(kind: &Value) -> bool {
    matches!(kind.as_str(), Some("string" | "integer" | "boolean"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_found_at_any_depth() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "options": { "type": "object", "properties": {
                "limit": { "type": "integer", "x-mcp-header": "Limit" },
                "x-mcp-header": { "type": "string" },
            } },
            "text": { "type": ["string", "null"], "default": { "x-mcp-header": "" } },
        } });
        let marks = header_arguments(&schema).unwrap();
        let headers: Vec<&str> = marks.iter().map(|marked| &*marked.header).collect();
        assert_eq!(headers, ["mcp-param-region", "mcp-param-limit"]);
        let arguments = json!({ "region": "eu", "options": { "limit": -7 } });
        let texts: Vec<_> = marks.iter().map(|marked| marked.text(&arguments)).collect();
        assert_eq!(texts, [Some("eu".to_owned()), Some("-7".to_owned())]);
        for arguments in [json!({}), json!({ "region": null, "options": 3 }), json!(null)] {
            assert!(marks.iter().all(|marked| marked.text(&arguments).is_none()), "{arguments}");
        }
    }

    #[test]
    fn marks_are_bounded() {
        assert_eq!(header_arguments(&schema_of_marked(64)).unwrap().len(), 64);
        let why = header_arguments(&schema_of_marked(100_000)).unwrap_err();
        assert_eq!(why, HeaderArgumentError::TooMany { max: 64 });
    }

    fn schema_of_marked(count: usize) -> Value {
        let properties: serde_json::Map<_, _> = (0..count)
            .map(|n| (format!("p{n}"), json!({ "type": "string", KEY: format!("P{n}") })))
            .collect();
        json!({ "properties": properties })
    }

    #[test]
    fn wrong_marks_are_refused() {
        for (schema, why) in [
            (property(string("")), "x-mcp-header '' is not a valid header name"),
            (property(string("My Region")), "x-mcp-header 'My Region' is not a valid header name"),
            (property(string("A\tB")), "x-mcp-header 'A\\tB' is not a valid header name"),
            (property(string("Région")), "x-mcp-header 'Région' is not a valid header name"),
            (
                property(json!({ "type": "string", "x-mcp-header": 1 })),
                "x-mcp-header is not a string",
            ),
            (
                property(json!({ "type": "number", "x-mcp-header": "A" })),
                "x-mcp-header 'A' is on a property that is not a string, integer or boolean",
            ),
            (
                property(json!({ "type": ["string", "array"], "x-mcp-header": "A" })),
                "x-mcp-header 'A' is on a property that is not a string, integer or boolean",
            ),
            (
                json!({ "properties": { "a": string("One"), "b": string("oNE") } }),
                "duplicate x-mcp-header 'oNE'",
            ),
            (
                property(json!({ "type": "array", "items": string("A") })),
                "x-mcp-header 'A' is not on a property of the arguments",
            ),
            (
                json!({ "anyOf": [property(string("A"))] }),
                "x-mcp-header 'A' is not on a property of the arguments",
            ),
            (
                json!({ "$defs": { "properties": string("A") } }),
                "x-mcp-header 'A' is not on a property of the arguments",
            ),
            (string("A"), "x-mcp-header 'A' is not on a property of the arguments"),
        ] {
            assert_eq!(header_arguments(&schema).unwrap_err().to_string(), why, "{schema}");
        }
    }

    fn property(schema: Value) -> Value {
        json!({ "type": "object", "properties": { "a": schema } })
    }

    fn string(name: &str) -> Value {
        json!({ "type": "string", "x-mcp-header": name })
    }
}
