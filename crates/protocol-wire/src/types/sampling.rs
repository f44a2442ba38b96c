//! `sampling/createMessage`: a server asks the client's model.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Content, JsonObject, Role};

/// The parameters of `sampling/createMessage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Longest answer, in tokens.
    pub max_tokens: u64,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The temperature of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Tools that the model may call (since 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Value>>,
    /// Members that this crate does not act on: model preferences, stop sequences, `toolChoice`,
    /// metadata.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// One message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// The author.
    pub role: Role,
    /// The items of the message. A single item may be written without a list, as every revision
    /// understands it.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
}

impl SamplingMessage {
    /// Returns a text message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![SamplingContent::text(text)] }
    }

    /// Returns a text message of the model.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![SamplingContent::text(text)] }
    }
}

/// The result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// The author: the model.
    pub role: Role,
    /// The items of the message.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The name of the model.
    pub model: String,
    /// Why the model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another word of
    /// the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

impl CreateMessageResult {
    /// Returns the text of the answer, from all its text items.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(SamplingContent::as_text).collect()
    }
}

/// One item of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SamplingContent {
    /// Text, an image or audio.
    Content(Content),
    /// A call of a tool, or its result (since 2025-11-25).
    Tool(SamplingTool),
    /// An item that this crate does not know.
    Other(Value),
}

impl SamplingContent {
    /// Returns a text item.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Content(Content::text(text))
    }

    /// Returns the text of a text item.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Content(content) => content.as_text(),
            Self::Tool(_) | Self::Other(_) => None,
        }
    }
}

/// A call of a tool by the client's model, or its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SamplingTool {
    /// A call of a tool by the model.
    ToolUse {
        /// Id of the call, to which the result refers.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        input: JsonObject,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
    /// The result of a call.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// Id of the call.
        tool_use_id: String,
        /// Items of the result.
        #[serde(default)]
        content: Vec<Content>,
        /// The result as structured data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_content: Option<Value>,
        /// Whether the tool failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// Further data on the item, for programs.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<JsonObject>,
    },
}

/// A list whose single element may be written without brackets.
mod one_or_many {
    use super::{Deserialize, Deserializer, SamplingContent, Serialize, Serializer, Value};

    pub(super) fn serialize<S: Serializer>(
        items: &[SamplingContent],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match items {
            [item] => item.serialize(serializer),
            items => items.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<SamplingContent>, D::Error> {
        let items = match Value::deserialize(deserializer)? {
            Value::Array(items) => items,
            item => vec![item],
        };
        items
            .into_iter()
            .map(|item| SamplingContent::deserialize(item).map_err(serde::de::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn comes_back(message: Value) -> SamplingMessage {
        let parsed: SamplingMessage = serde_json::from_value(message.clone()).unwrap();
        assert_eq!(serde_json::to_value(&parsed).unwrap(), message);
        parsed
    }

    #[test]
    fn one_item_has_no_list() {
        let one = comes_back(json!({"role": "user", "content": {"type": "text", "text": "a"}}));
        assert_eq!(one, SamplingMessage::user("a"));
        let none = comes_back(json!({"role": "assistant", "content": []}));
        assert!(none.content.is_empty());
    }

    #[test]
    fn every_kind_of_item_comes_back_as_it_was() {
        let message = comes_back(json!({"role": "assistant", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "", "mimeType": "image/png"},
            {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}},
            {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "2"}], "isError": false},
            {"type": "smell", "of": "roses"},
        ]}));
        let kinds: Vec<u8> = message
            .content
            .iter()
            .map(|item| match item {
                SamplingContent::Content(_) => 0,
                SamplingContent::Tool(_) => 1,
                SamplingContent::Other(_) => 2,
            })
            .collect();
        assert_eq!(kinds, [0, 0, 1, 1, 2]);
    }
}
