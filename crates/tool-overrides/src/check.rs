//! Comparison of an override with its tool.

use std::fmt;

use marquetry_nearest::nearest;
use marquetry_protocol::types::Tool;
use serde_json::{Map, Value};

use crate::ToolOverride;

/// A part of an override that does not fit its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideWarning {
    /// The tool has no such argument.
    UnknownArgument {
        /// The setting that names it.
        setting: &'static str,
        /// The name.
        argument: String,
        /// The argument that was most likely meant.
        nearest: Option<String>,
    },
    /// The schema of the argument excludes its value.
    WrongType {
        /// The setting with the value.
        setting: &'static str,
        /// The name of the argument.
        argument: String,
        /// The types that the schema allows.
        expected: String,
    },
    /// The schema of the argument lists its values, and this one is not among them.
    NotInEnum {
        /// The setting with the value.
        setting: &'static str,
        /// The name of the argument.
        argument: String,
    },
}

/// Continues a sentence that begins with the tool's name. Values are not shown.
impl fmt::Display for OverrideWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownArgument { setting, argument, nearest } => {
                write!(f, "has no argument {argument:?}, which \"{setting}\" names")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {nearest:?}?"),
                    None => Ok(()),
                }
            }
            Self::WrongType { setting, argument, expected } => write!(
                f,
                "expects {expected} as argument {argument:?}; change its value in \"{setting}\""
            ),
            Self::NotInEnum { setting, argument } => write!(
                f,
                "lists the values of its argument {argument:?}, and that in \"{setting}\" is not among them"
            ),
        }
    }
}

impl ToolOverride {
    /// Returns the parts of the override that do not fit a tool.
    #[must_use]
    pub fn warnings(&self, tool: &Tool) -> Vec<OverrideWarning> {
        let properties = tool.input_schema.get("properties").and_then(Value::as_object);
        let hidden = self.hide.iter().map(|name| ("hide", name, None));
        let set = self.set.iter().map(|(name, value)| ("set", name, Some(value)));
        let default = self.default.iter().map(|(name, value)| ("default", name, Some(value)));
        hidden
            .chain(set)
            .chain(default)
            .filter_map(|(setting, argument, value)| {
                let Some(schema) = properties.and_then(|it| it.get(argument)) else {
                    return Some(unknown(setting, argument, properties));
                };
                misfit(setting, argument, value?, schema)
            })
            .collect()
    }
}

fn unknown(
    setting: &'static str,
    argument: &str,
    properties: Option<&Map<String, Value>>,
) -> OverrideWarning {
    let known: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    OverrideWarning::UnknownArgument {
        setting,
        argument: argument.to_owned(),
        nearest: nearest(argument, &known).map(str::to_owned),
    }
}

fn misfit(
    setting: &'static str,
    argument: &str,
    value: &Value,
    schema: &Value,
) -> Option<OverrideWarning> {
    let argument = argument.to_owned();
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is_of_type(value, kind)) {
        return Some(OverrideWarning::WrongType {
            setting,
            argument,
            expected: types.join(" or "),
        });
    }
    let listed = schema.get("enum").and_then(Value::as_array)?;
    (!listed.contains(value)).then_some(OverrideWarning::NotInEnum { setting, argument })
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        // A type that a later draft may have.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the warnings about an override with these members of `set` and `hide`.
    #[track_caller]
    fn check(set: Value, hide: &[&str], want: &[&str]) {
        let schema = json!({
            "properties": {
                "text": {"type": "string"},
                "count": {"type": ["integer", "null"]},
                "mode": {"enum": ["a", "b"]},
                "any": {},
            },
        });
        let tool = Tool { name: "t".to_owned(), input_schema: schema, ..Tool::default() };
        let changes = ToolOverride {
            set: serde_json::from_value(set).unwrap(),
            hide: hide.iter().map(|&name| name.to_owned()).collect(),
            ..ToolOverride::default()
        };
        let warnings: Vec<String> =
            changes.warnings(&tool).iter().map(ToString::to_string).collect();
        assert_eq!(warnings, want);
    }

    #[test]
    fn values_that_fit_give_no_warning() {
        check(json!({"text": "", "count": 1, "mode": "a", "any": []}), &["text"], &[]);
        check(json!({"count": null}), &[], &[]);
        check(json!({"count": 2.0}), &[], &[]);
    }

    #[test]
    fn misfits_are_named_without_their_values() {
        check(
            json!({"text": 1234, "count": 1.5, "mode": "secret"}),
            &["texts", "colour"],
            &[
                "has no argument \"texts\", which \"hide\" names; did you mean \"text\"?",
                "has no argument \"colour\", which \"hide\" names",
                "expects string as argument \"text\"; change its value in \"set\"",
                "expects integer or null as argument \"count\"; change its value in \"set\"",
                "lists the values of its argument \"mode\", and that in \"set\" is not among them",
            ],
        );
    }
}
