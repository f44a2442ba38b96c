//! OpenAI's chat completions, which many services offer.

use serde_json::{Map, Value, json};

use super::{
    EventError, OnText, PartialAnswer, Pieces, arguments,
    dialect::{Dialect, JsonFormat},
    object, text_or_empty, token_count,
};
use crate::{ChatAnswer, ChatRequest, Finish, Format, Message, Tool, ToolCall, Usage};

/// Returns the body of a request. `max_tokens` is the name of the member for the longest answer.
pub(super) fn body(
    request: &ChatRequest,
    model: &str,
    max_tokens: &str,
    dialect: Dialect,
    is_streamed: bool,
) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), messages(request, dialect.json));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Format::Schema { name, schema } = &request.format {
        let named = json!({"name": name, "schema": schema, "strict": is_strict(schema)});
        let format = match dialect.json {
            JsonFormat::Schema => Some(json!({"type": "json_schema", "json_schema": named})),
            JsonFormat::Object => Some(json!({"type": "json_object"})),
            JsonFormat::Instructions => None,
        };
        body.extend(format.map(|format| ("response_format".to_owned(), format)));
    }
    if let Some(temperature) = request.temperature.filter(|_| !dialect.no_temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(limit) = request.max_tokens {
        body.insert(max_tokens.to_owned(), json!(limit));
    }
    if let Some(seed) = request.seed.filter(|_| !dialect.no_seed) {
        body.insert("seed".to_owned(), json!(seed));
    }
    if !request.stop.is_empty() {
        body.insert("stop".to_owned(), json!(request.stop));
    }
    if is_streamed {
        body.insert("stream".to_owned(), Value::Bool(true));
        if !dialect.no_stream_options {
            // Without it, a stream does not report its tokens.
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
    }
    Value::Object(body)
}

/// Returns the messages. A schema that the service does not take is part of the instructions.
fn messages(request: &ChatRequest, json: JsonFormat) -> Value {
    let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
    let Format::Schema { schema, .. } = &request.format else { return messages.into() };
    if json == JsonFormat::Schema {
        return messages.into();
    }
    let ask = format!("Answer with JSON of this schema, and nothing else: {schema}");
    // Templates of some models allow one system message, at the beginning.
    match messages.first_mut().filter(|first| first["role"] == "system") {
        Some(first) => {
            let text = format!("{}\n\n{ask}", text_or_empty(first.get("content")));
            first["content"] = Value::from(text);
        }
        None => messages.insert(0, json!({"role": "system", "content": ask})),
    }
    messages.into()
}

fn message(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, tool_calls } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, tool_calls } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = tool_calls
                .iter()
                .map(|call| {
                    let arguments = object(&call.arguments).to_string();
                    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
                })
                .collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::Tool { call_id, text, .. } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": text})
        }
    }
}

fn tool(Tool { name, description, input_schema }: &Tool) -> Value {
    let parameters =
        if input_schema.is_object() { input_schema.clone() } else { json!({"type": "object"}) };
    let function = json!({"name": name, "description": description, "parameters": parameters});
    json!({"type": "function", "function": function})
}

/// Returns whether a schema follows the rules of strict mode, which refuses other schemas: every
/// object requires all of its members, and allows no others.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let is_closed = match members.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required = members.get("required").and_then(Value::as_array);
                    members.get("additionalProperties") == Some(&Value::Bool(false))
                        && required.is_some_and(|required| {
                            properties.keys().all(|name| required.iter().any(|one| one == name))
                        })
                }
                None => true,
            };
            is_closed && members.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

/// Reads an answer in one piece.
pub(super) fn answer(body: &Value) -> Result<ChatAnswer, String> {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("it reports an error: {error}"));
    }
    let choice =
        body.get("choices").and_then(|choices| choices.get(0)).ok_or("it has no choices")?;
    let message = choice.get("message").ok_or("its choice has no message")?;
    let calls = message.get("tool_calls").and_then(Value::as_array);
    Ok(ChatAnswer {
        text: text(message.get("content")),
        tool_calls: calls
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, call)| tool_call(index, call))
            .collect::<Result<_, _>>()?,
        finish: finish(choice.get("finish_reason")),
        usage: usage(body.get("usage")),
        model: text_or_empty(body.get("model")).to_owned(),
    })
}

fn tool_call(index: usize, call: &Value) -> Result<ToolCall, String> {
    let function = call.get("function").ok_or("a tool call has no function")?;
    let name = function.get("name").and_then(Value::as_str).ok_or("a tool call has no name")?;
    Ok(ToolCall {
        id: id(call.get("id"), index),
        name: name.to_owned(),
        arguments: match function.get("arguments") {
            Some(Value::String(text)) => arguments(text),
            Some(Value::Null) | None => arguments(""),
            Some(value) => value.clone(),
        },
    })
}

/// Returns the id of a call, or one from its index, because some services leave out the ids.
fn id(id: Option<&Value>, index: usize) -> String {
    id.and_then(Value::as_str)
        .filter(|id| !id.is_empty())
        .map_or_else(|| format!("call_{index}"), str::to_owned)
}

/// Returns a content: a text, or a list of parts with texts.
fn text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
        }
        _ => String::new(),
    }
}

fn finish(reason: Option<&Value>) -> Finish {
    match reason.and_then(Value::as_str) {
        Some("stop") => Finish::Stop,
        Some("length") => Finish::Length,
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        Some("content_filter") => Finish::Filtered,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

fn usage(usage: Option<&Value>) -> Usage {
    Usage {
        input_tokens: token_count(usage, "prompt_tokens"),
        output_tokens: token_count(usage, "completion_tokens"),
    }
}

/// The chunks of a stream.
#[derive(Default)]
pub(super) struct Chunks {
    answer: PartialAnswer,
    calls: Vec<PartialCall>,
}

#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Pieces for Chunks {
    fn take(&mut self, data: &str, on_text: &mut OnText<'_>) -> Result<Option<usize>, EventError> {
        if data.trim() == "[DONE]" {
            self.answer.is_done = true;
            return Ok(None);
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|error| EventError::Malformed(format!("an event is not JSON: {error}")))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(failure(error, &chunk));
        }
        if let Some(model) = chunk.get("model").and_then(Value::as_str)
            && self.answer.model.is_empty()
        {
            model.clone_into(&mut self.answer.model);
        }
        if chunk.get("usage").is_some_and(Value::is_object) {
            self.answer.usage = usage(chunk.get("usage"));
        }
        let Some(choice) = chunk.get("choices").and_then(|choices| choices.get(0)) else {
            return Ok(Some(0));
        };
        let mut held = 0;
        if let Some(delta) = choice.get("delta") {
            let piece = text(delta.get("content"));
            if !piece.is_empty() {
                on_text(&piece);
                self.answer.text.push_str(&piece);
            }
            // Reasoning is left out of the answer, but is limited with it.
            let reasoning = delta.get("reasoning_content").or_else(|| delta.get("reasoning"));
            held = piece.len() + reasoning.and_then(Value::as_str).map_or(0, str::len);
            for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                held += self.take_call(call);
            }
        }
        if choice.get("finish_reason").is_some_and(Value::is_string) {
            self.answer.finish = Some(finish(choice.get("finish_reason")));
        }
        Ok(Some(held))
    }

    fn finish(self: Box<Self>) -> Option<ChatAnswer> {
        let calls = self.calls.into_iter().enumerate().map(|(index, call)| ToolCall {
            id: id(Some(&Value::from(call.id)), index),
            name: call.name,
            arguments: arguments(&call.arguments),
        });
        self.answer.finished(calls.collect())
    }
}

impl Chunks {
    /// Adds a part of a call, and returns its bytes.
    fn take_call(&mut self, part: &Value) -> usize {
        let index = part.get("index").and_then(Value::as_u64);
        let id = text_or_empty(part.get("id"));
        let function = &part["function"];
        let name = text_or_empty(function.get("name"));
        let known = match index {
            // Some services give every parallel call the index 0 (ollama/ollama#15457). Others
            // change the id within one call, but only its first part has a name
            // (poolsideai/pool#9). So a part with a name and another id begins another call.
            Some(_) => self.calls.iter().rposition(|call| call.index == index).filter(|place| {
                let known_id = &self.calls[*place].id;
                name.is_empty() || id.is_empty() || known_id.is_empty() || known_id == id
            }),
            // Services that send no index send each call in one piece, with its id.
            None if part.get("id").is_some() => None,
            None => self.calls.len().checked_sub(1),
        };
        let place = known.unwrap_or_else(|| {
            self.calls.push(PartialCall { index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[place];
        let arguments = match function.get("arguments") {
            Some(value @ Value::Object(_)) => value.to_string(),
            value => text_or_empty(value).to_owned(),
        };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&arguments);
        // A call uses memory even if all of its texts are empty.
        id.len() + name.len() + arguments.len() + 64
    }
}

/// Returns the failure that an event reports.
fn failure(error: &Value, chunk: &Value) -> EventError {
    let status = error
        .get("code")
        .or_else(|| error.get("status"))
        .and_then(Value::as_u64)
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (400..600).contains(status))
        .unwrap_or(500);
    EventError::Failed(status, chunk.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the calls of a stream with these parts.
    fn calls_of(parts: impl IntoIterator<Item = Value>) -> Vec<ToolCall> {
        let mut chunks = Box::new(Chunks::default());
        for part in parts {
            let chunk = json!({"choices": [{"delta": {"tool_calls": [part]}}]});
            assert!(chunks.take(&chunk.to_string(), &mut |_| {}).is_ok());
        }
        let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string();
        assert!(chunks.take(&end, &mut |_| {}).is_ok());
        chunks.finish().unwrap().tool_calls
    }

    /// Returns a part of a call with the index 0.
    fn part(id: &str, name: Option<&str>, arguments: &str) -> Value {
        json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    fn read_call(id: &str, path: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "read".to_owned(), arguments: json!({"path": path}) }
    }

    #[test]
    fn parallel_calls_of_one_index_are_distinguished_by_name_and_id() {
        let both = [read_call("c1", "a"), read_call("c2", "b")];
        let whole = ["a", "b"].map(|path| json!({"path": path}).to_string());
        let name = Some("read");
        let sent = [part("c1", name, &whole[0]), part("c2", name, &whole[1])];
        assert_eq!(calls_of(sent), both);
        // In parts, of which only the first has the id.
        let sent = [
            part("c1", name, ""),
            part("", None, &whole[0]),
            part("c2", name, ""),
            part("", None, &whole[1]),
        ];
        assert_eq!(calls_of(sent), both);
        // One call whose parts repeat its name, and one whose parts have other ids.
        let (start, end) = whole[0].split_at(4);
        assert_eq!(calls_of([part("c1", name, start), part("c1", name, end)]), both[..1]);
        assert_eq!(calls_of([part("c1", name, start), part("x2", None, end)]), both[..1]);
    }
}
