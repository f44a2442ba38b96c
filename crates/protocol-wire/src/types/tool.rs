//! Tools, their calls and their answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{Content, Icon, JsonObject};

/// A tool as `tools/list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name, unique on the server.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of `structuredContent` in its answers (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints on what it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// More about the tool, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
    /// Pictures of it, for people (since 2025-11-25).
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::icon::lenient"
    )]
    pub icons: Vec<Icon>,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Hints on what a tool does (since 2025-03-26). A server may be wrong or may lie, so decide nothing about safety by the
/// hints of a server that you do not trust.
///
/// ```
/// use marquetry_protocol_wire::types::{Tool, ToolAnnotations};
///
/// let reads = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
/// let tool = Tool { name: "read".into(), annotations: Some(reads), ..Tool::default() };
/// assert_eq!(serde_json::to_value(tool)?["annotations"]["readOnlyHint"], true);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "JsonObject")]
pub struct ToolAnnotations {
    /// The tool's name for people; [`Tool::title`] comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing; false if not said.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool may overwrite or delete; true if not said.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more; false if not said.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool reaches beyond its server, for example into the web; true if not said.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// Members that this crate does not know, and hints of a wrong type.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// A hint of a wrong type stays in [`ToolAnnotations::extra`]: it must not hide the tool.
impl From<JsonObject> for ToolAnnotations {
    fn from(mut members: JsonObject) -> Self {
        let title = match members.get("title") {
            Some(Value::String(title)) => Some(title.clone()),
            _ => None,
        };
        if title.is_some() {
            members.shift_remove("title");
        }
        let mut hint = |name: &str| {
            let value = members.get(name).and_then(Value::as_bool)?;
            members.shift_remove(name);
            Some(value)
        };
        Self {
            title,
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
            extra: members,
        }
    }
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallToolParams {
    /// Which tool.
    pub name: String,
    /// Its arguments, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// More about the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

impl CallToolParams {
    /// A call of `name` with the arguments `arguments`.
    ///
    /// # Errors
    /// When `arguments` cannot be written as JSON.
    pub fn new(name: impl Into<String>, arguments: &impl Serialize) -> serde_json::Result<Self> {
        let arguments = Some(serde_json::value::to_raw_value(arguments)?);
        Ok(Self { name: name.into(), arguments, meta: None })
    }
}

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// What the model is shown.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The answer as data (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The tool failed, and `content` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// More about the answer, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

impl CallToolResult {
    /// One text item.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// The tool failed; the model reads why.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// The answer as data, and the same as JSON text for clients that read text alone.
    #[must_use]
    pub fn structured(data: Value) -> Self {
        Self { structured_content: Some(data.clone()), ..Self::text(data.to_string()) }
    }

    /// Whether the tool says that it failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error == Some(true)
    }
}

/// One page of `tools/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsResult {
    /// The tools of this page.
    pub tools: Vec<Tool>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hints_of_a_wrong_type_stay_as_they_are() {
        let hints = json!({ "readOnlyHint": "yes", "destructiveHint": false, "title": 1, "x": 2 });
        let parsed: ToolAnnotations = serde_json::from_value(hints.clone()).unwrap();
        assert_eq!((parsed.read_only, parsed.destructive), (None, Some(false)));
        assert_eq!(serde_json::to_value(parsed).unwrap(), hints);
    }
}
