//! Prompts.

use serde::{Deserialize, Serialize};

use super::{Content, Icon, JsonObject, role::Role};

/// A prompt as `prompts/list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Its name, unique on the server.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it can be filled in with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Pictures of it, for people (since 2025-11-25).
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::icon::lenient"
    )]
    pub icons: Vec<Icon>,
    /// More about it, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// One gap of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its name for people (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What to fill in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt cannot do without.
    #[serde(default)]
    pub required: bool,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// The parameters of `prompts/get`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GetPromptParams {
    /// Which prompt.
    pub name: String,
    /// What to fill in, by the arguments' names. All are strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonObject>,
    /// More about the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

/// The answer to `prompts/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetPromptResult {
    /// What the prompt is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The conversation to start with.
    pub messages: Vec<PromptMessage>,
    /// More about the answer, for programs.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

/// One message of the user.
impl From<String> for GetPromptResult {
    fn from(text: String) -> Self {
        let message = PromptMessage { role: Role::User, content: Content::text(text) };
        Self { messages: vec![message], ..Self::default() }
    }
}

/// As from a `String`.
impl From<&str> for GetPromptResult {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

/// One page of `prompts/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPromptsResult {
    /// The prompts of this page.
    pub prompts: Vec<Prompt>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
