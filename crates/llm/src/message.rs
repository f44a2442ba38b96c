//! What goes to a model and what comes back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// Instructions that stand above the conversation.
    System {
        /// The text.
        text: String,
    },
    /// What a person says.
    User {
        /// The text.
        text: String,
    },
    /// What the model said.
    Assistant {
        /// The text; empty if it only called tools.
        text: String,
        /// The tools that it called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What came of a tool call.
    Tool {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// The answer, as the model is to see it.
        text: String,
    },
}

impl Message {
    /// Instructions that stand above the conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// What a person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// What the model said, without calling tools.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }

    /// What came of a tool call.
    pub fn tool(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool { call_id: call.id.clone(), name: call.name.clone(), text: text.into() }
    }

    /// Its text.
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
    /// What the model calls it by.
    pub name: String,
    /// What it is for, as the model is told.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub input_schema: Value,
}

/// A model's call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What the answer refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them: nobody has checked them.
    pub arguments: Value,
}

/// What is asked of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// The form of the answer.
    pub format: Format,
    /// From 0 (always the likeliest word) upward; what the provider takes if it is not set.
    pub temperature: Option<f64>,
    /// How many tokens the answer may have.
    pub max_tokens: Option<u32>,
    /// For the same answer to the same request, as far as the provider can.
    pub seed: Option<u64>,
    /// Texts at which the answer ends.
    pub stop: Vec<String>,
}

impl ChatRequest {
    /// A request of these messages.
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
    /// JSON after a schema. Providers promise it, and models break it: check the answer.
    Schema {
        /// A name for it: letters, digits, `-` and `_`.
        name: String,
        /// JSON Schema.
        schema: Value,
    },
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatAnswer {
    /// The text; empty if the model only called tools.
    pub text: String,
    /// The tools that it wants to have called.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, by the provider's word.
    pub model: String,
}

impl ChatAnswer {
    /// An answer of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
            model: String::new(),
        }
    }

    /// An answer that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let tool_calls = tool_calls.into_iter().collect();
        Self { tool_calls, finish: Finish::ToolCalls, ..Self::text("") }
    }

    /// The answer as the next message of the conversation.
    pub fn to_message(&self) -> Message {
        Message::Assistant { text: self.text.clone(), tool_calls: self.tool_calls.clone() }
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// The model was done.
    Stop,
    /// It had no more tokens: the answer is cut.
    Length,
    /// It waits for tools.
    ToolCalls,
    /// The provider held something back.
    Filtered,
    /// What the provider says beyond that; empty if it says nothing.
    Other(String),
}

/// What an answer cost, as far as the provider tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: Option<u64>,
}
