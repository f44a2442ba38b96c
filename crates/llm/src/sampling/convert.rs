//! Messages and tools of MCP's sampling, as those of chat models.

use marquetry_protocol::types::{
    Content, CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage,
    SamplingTool,
};
use serde::Deserialize;
use serde_json::Value;

use super::SamplingError;
use crate::{ChatAnswer, Finish, Message, Tool, ToolCall};

/// The choice of tools in a request.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolChoice {
    Auto,
    Required,
    None,
}

pub(super) fn tool_choice(params: &CreateMessageParams) -> Result<ToolChoice, SamplingError> {
    #[derive(Deserialize)]
    struct Choice {
        mode: Option<ToolChoice>,
    }
    let Some(choice) = params.extra.get("toolChoice") else { return Ok(ToolChoice::Auto) };
    let choice: Choice = serde_json::from_value(choice.clone())
        .map_err(|error| SamplingError::Invalid(format!("toolChoice: {error}")))?;
    Ok(choice.mode.unwrap_or(ToolChoice::Auto))
}

pub(super) fn tool_of(index: usize, tool: &Value) -> Result<Tool, SamplingError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Described {
        name: String,
        #[serde(default)]
        description: String,
        input_schema: Value,
    }
    let Described { name, description, input_schema } = Described::deserialize(tool)
        .map_err(|error| SamplingError::Invalid(format!("tools[{index}]: {error}")))?;
    Ok(Tool { name, description, input_schema })
}

/// Converts one message of MCP to messages for a model, and adds them: each tool result becomes a
/// separate message.
///
/// # Errors
///
/// Returns an error if the content is not supported: the end of a sentence that begins with the
/// position of the content.
pub(super) fn add_message(
    messages: &mut Vec<Message>,
    message: &SamplingMessage,
) -> Result<(), String> {
    let mut texts = Vec::new();
    let mut tool_calls = Vec::new();
    let mut has_results = false;
    for item in &message.content {
        match (item, message.role) {
            (
                SamplingContent::Tool(SamplingTool::ToolUse { id, name, input, .. }),
                Role::Assistant,
            ) => {
                let arguments = Value::Object(input.clone());
                tool_calls.push(ToolCall { id: id.clone(), name: name.clone(), arguments });
            }
            (
                SamplingContent::Tool(SamplingTool::ToolResult {
                    tool_use_id,
                    content,
                    structured_content,
                    is_error,
                    ..
                }),
                Role::User,
            ) => {
                has_results = true;
                let name = called_tool(messages, tool_use_id)
                    .ok_or_else(|| format!("has the result of a tool call '{tool_use_id}' that no message before it made"))?;
                let text = result_text(content, structured_content.as_ref(), *is_error)?;
                messages.push(Message::Tool { call_id: tool_use_id.clone(), name, text });
            }
            (SamplingContent::Tool(_), _) => {
                return Err("has calls of tools in a message of the user, or their results in one of the model".to_owned());
            }
            (item, _) => match item.as_text() {
                Some(text) => texts.push(text),
                None => {
                    return Err("is not text alone; images and audio are not supported".to_owned());
                }
            },
        }
    }
    let text = texts.join("\n");
    match message.role {
        Role::User if text.is_empty() && has_results => {}
        Role::User => messages.push(Message::user(text)),
        Role::Assistant => messages.push(Message::Assistant { text, tool_calls }),
    }
    Ok(())
}

/// Returns the name of the tool that a call with this id was for.
fn called_tool(messages: &[Message], id: &str) -> Option<String> {
    messages.iter().rev().find_map(|message| match message {
        Message::Assistant { tool_calls, .. } => {
            tool_calls.iter().find(|call| call.id == id).map(|call| call.name.clone())
        }
        _ => None,
    })
}

fn result_text(
    content: &[Content],
    structured: Option<&Value>,
    is_error: Option<bool>,
) -> Result<String, String> {
    let texts = content
        .iter()
        .map(Content::as_text)
        .collect::<Option<Vec<&str>>>()
        .ok_or("has the result of a tool that is not text alone")?;
    let text = match structured {
        Some(value) if texts.is_empty() => value.to_string(),
        _ => texts.join("\n"),
    };
    Ok(if is_error == Some(true) { format!("The tool failed: {text}") } else { text })
}

/// Returns the length of a message's text and of its calls of tools.
pub(super) fn message_bytes(message: &Message) -> usize {
    let calls = match message {
        Message::Assistant { tool_calls, .. } => {
            tool_calls.iter().map(|call| call.name.len() + call.arguments.to_string().len()).sum()
        }
        _ => 0,
    };
    message.text().len() + calls
}

pub(super) fn result(answer: ChatAnswer, model: &str) -> CreateMessageResult {
    let mut content = Vec::with_capacity(answer.tool_calls.len() + 1);
    if !answer.text.is_empty() || answer.tool_calls.is_empty() {
        content.push(SamplingContent::text(answer.text));
    }
    let stop_reason = match answer.finish {
        _ if !answer.tool_calls.is_empty() => "toolUse".to_owned(),
        Finish::Length => "maxTokens".to_owned(),
        Finish::Other(why) if !why.is_empty() => why,
        Finish::Filtered => "filtered".to_owned(),
        Finish::Stop | Finish::ToolCalls | Finish::Other(_) => "endTurn".to_owned(),
    };
    content.extend(answer.tool_calls.into_iter().map(|call| {
        let input = match call.arguments {
            Value::Object(input) => input,
            // The model did not write an object: the server gets the value in the member
            // `arguments`.
            other => [("arguments".to_owned(), other)].into_iter().collect(),
        };
        SamplingContent::Tool(SamplingTool::ToolUse {
            id: call.id,
            name: call.name,
            input,
            meta: None,
        })
    }));
    CreateMessageResult {
        role: Role::Assistant,
        content,
        model: if answer.model.is_empty() { model.to_owned() } else { answer.model },
        stop_reason: Some(stop_reason),
    }
}
