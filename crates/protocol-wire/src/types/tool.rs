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
    /// Hints: read-only, destructive, idempotent, open world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonObject>,
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
