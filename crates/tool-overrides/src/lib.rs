#![doc = include_str!("../README.md")]

mod arguments;
mod check;
mod schema;

use std::fmt;

use marquetry_protocol::types::Tool;
use serde_json::{Map, Value};

pub use crate::{arguments::HiddenArgument, check::OverrideWarning};

/// Changes of one tool.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolOverride {
    /// Replaces its name.
    pub name: Option<String>,
    /// Replaces its name for people.
    pub title: Option<String>,
    /// Replaces its description.
    pub description: Option<String>,
    /// Arguments that callers neither see nor send.
    pub hide: Vec<String>,
    /// Arguments with fixed values, which are hidden, too.
    pub set: Map<String, Value>,
    /// Values of arguments that a call does not have.
    pub default: Map<String, Value>,
}

/// A hidden argument that the tool requires, and that has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("argument {argument:?} is hidden, and the tool requires it; give it a value in \"set\"")]
pub struct RequiredArgument {
    /// Its name.
    pub argument: String,
}

impl ToolOverride {
    /// Returns the tool as clients see it. Its name has no prefix yet.
    ///
    /// # Errors
    /// Returns an error if the tool requires a hidden argument without a value: no call of it could
    /// succeed.
    pub fn apply(&self, tool: &Tool) -> Result<Tool, RequiredArgument> {
        let mut changed = tool.clone();
        if let Some(name) = &self.name {
            changed.name.clone_from(name);
        }
        if let Some(title) = &self.title {
            changed.title = Some(title.clone());
        }
        if let Some(description) = &self.description {
            changed.description = Some(description.clone());
        }
        if let Some(argument) = self.required_without_value(&tool.input_schema) {
            return Err(RequiredArgument { argument: argument.to_owned() });
        }
        schema::hide(&mut changed.input_schema, &|name| self.hides(name));
        schema::set_defaults(&mut changed.input_schema, &self.default);
        Ok(changed)
    }

    /// Returns whether callers neither see nor send an argument.
    #[must_use]
    pub fn hides(&self, argument: &str) -> bool {
        self.set.contains_key(argument) || self.hide.iter().any(|hidden| hidden == argument)
    }

    /// Returns whether it changes the arguments of calls, or refuses some of them.
    #[must_use]
    pub fn concerns_arguments(&self) -> bool {
        !self.hide.is_empty() || !self.set.is_empty() || !self.default.is_empty()
    }

    /// Returns whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn required_without_value<'a>(&self, schema: &'a Value) -> Option<&'a str> {
        let required = schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        required.find(|name| {
            self.hides(name) && !self.set.contains_key(*name) && !self.default.contains_key(*name)
        })
    }
}

/// Shows no value of `set`, which may be a secret.
impl fmt::Debug for ToolOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, title, description, hide, set, default } = self;
        f.debug_struct("ToolOverride")
            .field("name", name)
            .field("title", title)
            .field("description", description)
            .field("hide", hide)
            .field("set", &set.keys().collect::<Vec<_>>())
            .field("default", default)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(schema: Value) -> Tool {
        Tool {
            name: "t".to_owned(),
            title: Some("T".to_owned()),
            description: Some("d".to_owned()),
            input_schema: schema,
            ..Tool::default()
        }
    }

    fn members(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn texts_are_replaced_one_by_one() {
        let tool = tool(json!({"type": "object"}));
        assert_eq!(ToolOverride::default().apply(&tool), Ok(tool.clone()));
        let changes = ToolOverride { name: Some("u".to_owned()), ..ToolOverride::default() };
        assert_eq!(changes.apply(&tool), Ok(Tool { name: "u".to_owned(), ..tool.clone() }));
        let changes = ToolOverride {
            title: Some("U".to_owned()),
            description: Some(String::new()),
            ..ToolOverride::default()
        };
        let want =
            Tool { title: Some("U".to_owned()), description: Some(String::new()), ..tool.clone() };
        assert_eq!(changes.apply(&tool), Ok(want));
    }

    #[test]
    fn hidden_arguments_leave_the_schema_and_defaults_are_shown() {
        let tool = tool(json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "x-mcp-header": "A"},
                "b": {"type": "integer"},
                "c": true,
                "d": {},
            },
            "required": ["a", "b", "d"],
            "additionalProperties": false,
        }));
        let changes = ToolOverride {
            hide: vec!["c".to_owned()],
            set: members(json!({"a": "x"})),
            default: members(json!({"b": 5})),
            ..ToolOverride::default()
        };
        assert_eq!(
            changes.apply(&tool).unwrap().input_schema,
            json!({
                "type": "object",
                "properties": {"b": {"type": "integer", "default": 5}, "d": {}},
                "required": ["d"],
                "additionalProperties": false,
            })
        );
        let text = format!("{changes:?}");
        assert!(text.contains("set: [\"a\"]") && !text.contains("\"x\""), "{text}");
    }

    #[test]
    fn a_hidden_argument_that_is_required_needs_a_value() {
        let tool = tool(json!({"properties": {"a": {}}, "required": ["a"]}));
        let hidden = ToolOverride { hide: vec!["a".to_owned()], ..ToolOverride::default() };
        let error = hidden.apply(&tool).unwrap_err();
        assert_eq!(
            error.to_string(),
            "argument \"a\" is hidden, and the tool requires it; give it a value in \"set\""
        );
        let set = ToolOverride { set: members(json!({"a": 1})), ..hidden.clone() };
        let default = ToolOverride { default: members(json!({"a": 1})), ..hidden };
        for changes in [set, default] {
            let schema = changes.apply(&tool).unwrap().input_schema;
            assert_eq!(schema, json!({"properties": {}}), "{changes:?}");
        }
    }
}
