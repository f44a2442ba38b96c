//! Tools, their calls and their answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{Content, Icon, JsonObject};

/// A tool as `tools/list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Name, unique on the server.
    pub name: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of `structuredContent` in answers (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints on the tool's behaviour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Further data on the tool, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
    /// Icons, for people (since 2025-11-25).
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

/// Hints on a tool's behaviour (since 2025-03-26). A server may be wrong or lie: do not base
/// decisions about safety on the hints of a server that you do not trust.
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
    /// Name for people; [`Tool::title`] has precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the tool changes nothing; by default false.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may overwrite or delete data; by default true.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more; by default false.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether the tool reaches beyond its server, for example into the web; by default true.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// Members that this crate does not know, and hints of a wrong type.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Keeps a hint of a wrong type in [`ToolAnnotations::extra`], so that it does not hide the tool.
impl From<JsonObject> for ToolAnnotations {
    fn from(mut members: JsonObject) -> Self {
        let title = match members.get("title") {
            Some(Value::String(title)) => Some(title.clone()),
            _ => None,
        };
        if title.is_some() {
            members.shift_remove("title");
        }
        Self {
            title,
            read_only: take_hint(&mut members, "readOnlyHint"),
            destructive: take_hint(&mut members, "destructiveHint"),
            idempotent: take_hint(&mut members, "idempotentHint"),
            open_world: take_hint(&mut members, "openWorldHint"),
            extra: members,
        }
    }
}

fn take_hint(members: &mut JsonObject, name: &str) -> Option<bool> {
    let value = members.get(name).and_then(Value::as_bool)?;
    members.shift_remove(name);
    Some(value)
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallToolParams {
    /// Name of the tool.
    pub name: String,
    /// Arguments, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

impl CallToolParams {
    /// Creates the parameters of a call of the tool `name` with `arguments`.
    ///
    /// # Errors
    /// Returns an error if `arguments` cannot be serialised as JSON.
    pub fn new(name: impl Into<String>, arguments: &impl Serialize) -> serde_json::Result<Self> {
        let arguments = Some(serde_json::value::to_raw_value(arguments)?);
        Ok(Self { name: name.into(), arguments, meta: None })
    }
}

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// Items that the model sees.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The answer as structured data (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed; then `content` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Further data on the answer, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

impl CallToolResult {
    /// Returns an answer with one text item.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Returns the answer of a failed tool; the model reads the text.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// Returns an answer with structured data, and with the same data as JSON text for clients that
    /// read only text.
    #[must_use]
    pub fn structured(data: Value) -> Self {
        Self { structured_content: Some(data.clone()), ..Self::text(data.to_string()) }
    }

    /// Returns whether the tool failed.
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
    /// Cursor of the next page, if there is one.
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
