//! Anthropic's messages.

use serde_json::{Map, Value, json};

use super::{
    EventError, OnText, PartialAnswer, Pieces, arguments, object, text_or_empty, token_count,
};
use crate::{ChatAnswer, ChatRequest, Finish, Format, Message, Tool, ToolCall, Usage};

/// The version of the interface.
pub(super) const VERSION: &str = "2023-06-01";

/// Longest answer of a request without `max_tokens`, which the interface requires.
const MAX_TOKENS: u32 = 4096;

/// Returns the body of a request.
pub(super) fn body(request: &ChatRequest, model: &str, is_streamed: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("max_tokens".to_owned(), json!(request.max_tokens.unwrap_or(MAX_TOKENS)));
    let mut instructions: Vec<String> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::System { text } => Some(text.clone()),
            _ => None,
        })
        .collect();
    if let Format::Schema { schema, .. } = &request.format {
        // Not all models and services with this interface support structured outputs.
        instructions.push(format!("Answer with JSON of this schema, and nothing else: {schema}"));
    }
    if !instructions.is_empty() {
        body.insert("system".to_owned(), json!(instructions.join("\n\n")));
    }
    body.insert("messages".to_owned(), Value::Array(messages(&request.messages)));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(temperature) = request.temperature {
        // The scale ends at 1.
        body.insert("temperature".to_owned(), json!(temperature.clamp(0.0, 1.0)));
    }
    if !request.stop.is_empty() {
        body.insert("stop_sequences".to_owned(), json!(request.stop));
    }
    if is_streamed {
        body.insert("stream".to_owned(), Value::Bool(true));
    }
    Value::Object(body)
}

/// Returns the messages. The results of all calls of one answer are in one user message.
fn messages(messages: &[Message]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut results: Vec<Value> = Vec::new();
    for message in messages {
        if let Message::Tool { call_id, text, .. } = message {
            results.push(json!({"type": "tool_result", "tool_use_id": call_id, "content": text}));
            continue;
        }
        if !results.is_empty() {
            all.push(json!({"role": "user", "content": std::mem::take(&mut results)}));
        }
        match message {
            Message::System { .. } | Message::Tool { .. } => {}
            Message::User { text } => all.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, tool_calls } => {
                let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
                let calls = tool_calls.iter().map(|call| {
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": object(&call.arguments)})
                });
                let content: Vec<Value> = text.into_iter().chain(calls).collect();
                // The interface refuses a message without content.
                if !content.is_empty() {
                    all.push(json!({"role": "assistant", "content": content}));
                }
            }
        }
    }
    if !results.is_empty() {
        all.push(json!({"role": "user", "content": results}));
    }
    all
}

fn tool(Tool { name, description, input_schema }: &Tool) -> Value {
    let schema =
        if input_schema.is_object() { input_schema.clone() } else { json!({"type": "object"}) };
    json!({"name": name, "description": description, "input_schema": schema})
}

/// Reads an answer in one piece.
pub(super) fn answer(body: &Value) -> Result<ChatAnswer, String> {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("it reports an error: {error}"));
    }
    let content = body.get("content").and_then(Value::as_array).ok_or("it has no content")?;
    let mut text = String::new();
    let mut tool_calls = Vec::new();
    for block in content {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                text.push_str(text_or_empty(block.get("text")));
            }
            Some("tool_use") => {
                let id = block.get("id").and_then(Value::as_str);
                let name = block.get("name").and_then(Value::as_str);
                tool_calls.push(ToolCall {
                    id: id.map_or_else(|| format!("call_{}", tool_calls.len()), str::to_owned),
                    name: name.ok_or("a tool call has no name")?.to_owned(),
                    arguments: block.get("input").cloned().unwrap_or_else(|| arguments("")),
                });
            }
            // Thinking, and blocks of later versions.
            _ => {}
        }
    }
    let mut usage = Usage::default();
    read_usage(&mut usage, body.get("usage"));
    Ok(ChatAnswer {
        text,
        tool_calls,
        finish: finish(body.get("stop_reason")),
        usage,
        model: text_or_empty(body.get("model")).to_owned(),
    })
}

fn finish(reason: Option<&Value>) -> Finish {
    match reason.and_then(Value::as_str) {
        Some("end_turn" | "stop_sequence") => Finish::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("tool_use") => Finish::ToolCalls,
        Some("refusal") => Finish::Filtered,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

/// Reads the tokens that an object reports; cached tokens count as tokens of the request, too.
fn read_usage(usage: &mut Usage, reported: Option<&Value>) {
    if let Some(input) = token_count(reported, "input_tokens") {
        let written = token_count(reported, "cache_creation_input_tokens").unwrap_or(0);
        let read = token_count(reported, "cache_read_input_tokens").unwrap_or(0);
        usage.input_tokens = Some(input.saturating_add(written).saturating_add(read));
    }
    usage.output_tokens = token_count(reported, "output_tokens").or(usage.output_tokens);
}

/// The content blocks of a stream.
#[derive(Default)]
pub(super) struct Blocks {
    answer: PartialAnswer,
    calls: Vec<PartialCall>,
}

struct PartialCall {
    index: u64,
    id: String,
    name: String,
    /// Arguments from the start of the block; later pieces replace them.
    input: Value,
    json: String,
}

impl Pieces for Blocks {
    fn take(&mut self, data: &str, on_text: &mut OnText<'_>) -> Result<Option<usize>, EventError> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| EventError::Malformed(format!("an event is not JSON: {error}")))?;
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        let mut held = 0;
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                let message = &event["message"];
                text_or_empty(message.get("model")).clone_into(&mut self.answer.model);
                read_usage(&mut self.answer.usage, message.get("usage"));
            }
            Some("content_block_start") => {
                let block = &event["content_block"];
                match block.get("type").and_then(Value::as_str) {
                    Some("tool_use") => {
                        let id = text_or_empty(block.get("id")).to_owned();
                        let name = text_or_empty(block.get("name")).to_owned();
                        let input = block.get("input").cloned().unwrap_or(Value::Null);
                        held = id.len() + name.len() + data.len();
                        self.calls.push(PartialCall {
                            index,
                            id,
                            name,
                            input,
                            json: String::new(),
                        });
                    }
                    Some("text") => held = self.add(text_or_empty(block.get("text")), on_text),
                    _ => {}
                }
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                match delta.get("type").and_then(Value::as_str) {
                    Some("text_delta") => {
                        held = self.add(text_or_empty(delta.get("text")), on_text);
                    }
                    Some("input_json_delta") => {
                        let piece = text_or_empty(delta.get("partial_json"));
                        held = piece.len();
                        if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == index)
                        {
                            call.json.push_str(piece);
                        }
                    }
                    // Reasoning is left out of the answer, but is limited with it.
                    _ => held = text_or_empty(delta.get("thinking")).len(),
                }
            }
            Some("message_delta") => {
                let reason = event.get("delta").and_then(|delta| delta.get("stop_reason"));
                if reason.is_some_and(Value::is_string) {
                    self.answer.finish = Some(finish(reason));
                }
                read_usage(&mut self.answer.usage, event.get("usage"));
            }
            Some("message_stop") => {
                self.answer.is_done = true;
                return Ok(None);
            }
            Some("error") => {
                let status = match text_or_empty(event["error"].get("type")) {
                    "rate_limit_error" => 429,
                    "overloaded_error" => 529,
                    "invalid_request_error" => 400,
                    "authentication_error" => 401,
                    _ => 500,
                };
                return Err(EventError::Failed(status, event.to_string()));
            }
            _ => {}
        }
        Ok(Some(held))
    }

    fn finish(self: Box<Self>) -> Option<ChatAnswer> {
        let calls = self.calls.into_iter().enumerate().map(|(index, call)| ToolCall {
            id: if call.id.is_empty() { format!("call_{index}") } else { call.id },
            name: call.name,
            arguments: if call.json.is_empty() && call.input.is_object() {
                call.input
            } else {
                arguments(&call.json)
            },
        });
        self.answer.finished(calls.collect())
    }
}

impl Blocks {
    fn add(&mut self, piece: &str, on_text: &mut OnText<'_>) -> usize {
        if !piece.is_empty() {
            on_text(piece);
            self.answer.text.push_str(piece);
        }
        piece.len()
    }
}
