//! Requests and answers of chat models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// Instructions for the whole conversation.
    System {
        /// The text.
        text: String,
    },
    /// A message of the user.
    User {
        /// The text.
        text: String,
    },
    /// A message of the model.
    Assistant {
        /// The text; empty if it only called tools.
        text: String,
        /// The tool calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The result of a tool call.
    Tool {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// The result, as text for the model.
        text: String,
    },
}

impl Message {
    /// Instructions for the whole conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// Returns a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// Returns a message of the model without tool calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }

    /// Returns the result of a tool call.
    pub fn tool(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool { call_id: call.id.clone(), name: call.name.clone(), text: text.into() }
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text }
            | Self::User { text }
            | Self::Assistant { text, .. }
            | Self::Tool { text, .. } => text,
        }
    }
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub input_schema: Value,
}

/// A model's call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them; not checked against the schema.
    pub arguments: Value,
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// The form of the answer.
    pub format: Format,
    /// Sampling temperature, from 0 (always the likeliest token) upward; the default of the
    /// provider if not set.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens; the default of the provider if not set.
    pub max_tokens: Option<u32>,
    /// Seed for repeatable answers, if the provider supports it.
    pub seed: Option<u64>,
    /// Stop sequences: the answer ends before one of them.
    pub stop: Vec<String>,
}

impl ChatRequest {
    /// Returns a request of these messages.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }
}

/// The form of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Any text.
    #[default]
    Text,
    /// JSON of a schema. Models may violate it: check the answer.
    Schema {
        /// A name of the schema: letters, digits, `-` and `_`.
        name: String,
        /// The JSON Schema.
        schema: Value,
    },
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatAnswer {
    /// The text; empty if the model only called tools.
    pub text: String,
    /// The tool calls that the model requests.
    pub tool_calls: Vec<ToolCall>,
    /// Why the answer ended.
    pub finish: Finish,
    /// The tokens used.
    pub usage: Usage,
    /// The name of the model, as the provider reports it.
    pub model: String,
}

impl ChatAnswer {
    /// Returns an answer of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
            model: String::new(),
        }
    }

    /// Returns an answer that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let tool_calls = tool_calls.into_iter().collect();
        Self { tool_calls, finish: Finish::ToolCalls, ..Self::text("") }
    }

    /// Returns the answer as the next message of the conversation.
    pub fn to_message(&self) -> Message {
        Message::Assistant { text: self.text.clone(), tool_calls: self.tool_calls.clone() }
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The answer reached its longest length and is cut.
    Length,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// A content filter of the provider cut the answer.
    Filtered,
    /// Another reason, in the words of the provider; empty if it gives none.
    Other(String),
}

/// Tokens used, as far as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: Option<u64>,
}
