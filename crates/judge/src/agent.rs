//! The agent loop: asks the model, makes and records its tool calls, and asks again, until an
//! answer has no call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use marquetry_llm::{ChatError, ChatModel, ChatRequest, Finish, Message, ToolCall};
use marquetry_protocol::types::JsonObject;
use serde_json::Value;

use crate::{
    ModelSettings, TestCase, TestEvent, Timestamp, ToolCallRecord, TrialError,
    budget::{Budget, LimitReached, usage_of},
    check,
    connect::{CallOutcome, Connections, OfferedTool},
    event::OnEvent,
    models::ask,
    redact::cut,
    result::Turn,
    stats::saturated,
    time::millis,
};

/// Instructions of a case that has none.
const INSTRUCTIONS: &str = "You are an AI assistant that can call tools. Work on the user's task with the tools that it \
    needs, then answer in a few words.";

/// Maximum length of an answer in tokens, for models whose settings name none.
const MAX_TOKENS: u32 = 2048;

/// Levels of nesting that arguments and results may have. Readers of JSON stop at 128 levels, and
/// stores and reports add some.
const MAX_LEVELS: usize = 64;

/// The model's work so far. It is also available if the work ends with an error.
#[derive(Default)]
pub(crate) struct AgentWork {
    pub(crate) turns: Vec<Turn>,
    pub(crate) calls: Vec<ToolCallRecord>,
    /// For each call, whether its result is that of each expected call. Found before the result is
    /// cut.
    pub(crate) results: Vec<Vec<bool>>,
    pub(crate) answer: String,
    /// Tokens of the work.
    pub(crate) tokens: u64,
}

pub(crate) struct Agent<'a> {
    pub(crate) case: &'a TestCase,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) settings: &'a ModelSettings,
    pub(crate) connections: &'a Connections,
    pub(crate) budget: &'a Budget,
    pub(crate) trial: u32,
    pub(crate) on_event: &'a OnEvent,
}

impl Agent<'_> {
    pub(crate) async fn work(&self, done: &mut AgentWork) -> Result<(), TrialError> {
        let limits = self.budget.limits();
        let instructions = self.case.system_prompt.as_deref().unwrap_or(INSTRUCTIONS);
        let max_tokens = self.settings.max_tokens.unwrap_or(MAX_TOKENS);
        let mut request =
            ChatRequest::new([Message::system(instructions), Message::user(&self.case.prompt)]);
        request.tools = self.connections.definitions();
        request.temperature = self.settings.temperature;
        request.max_tokens = Some(max_tokens);
        // Each trial has another seed: with the same seed, all repetitions would give the same
        // answer.
        request.seed = self.settings.seed.map(|seed| seed.wrapping_add(u64::from(self.trial)));
        loop {
            if done.turns.len() >= limits.max_turns as usize {
                let advice = "raise it, or check whether the model repeats its calls";
                return Err(LimitReached::new("maxTurns", limits.max_turns, advice).into());
            }
            let started = Instant::now();
            let is_streamed = self.settings.stream == Some(true);
            let mut answer = ask(&*self.model, &request, is_streamed)
                .await
                .map_err(|error| agent_error(self.case, error))?;
            for call in answer.tool_calls.iter_mut().filter(|call| is_deep(&call.arguments)) {
                // As text, they are refused, as all arguments that are not an object are.
                call.arguments = Value::from(call.arguments.to_string());
            }
            let usage = usage_of(&request, &answer, self.settings.price.as_ref());
            done.tokens = done.tokens.saturating_add(usage.total());
            done.answer.clone_from(&answer.text);
            done.turns.push(Turn {
                text: answer.text.clone(),
                calls: Vec::new(),
                usage,
                duration_ms: millis(started.elapsed()),
            });
            self.budget.spend(&usage)?;
            self.report_turn(done);
            match answer.finish {
                Finish::Filtered => return Err(TrialError::Filtered),
                Finish::Length => {
                    let member = self.case.agent_member();
                    return Err(TrialError::AnswerCut { member, max_tokens });
                }
                _ if answer.tool_calls.is_empty() => return Ok(()),
                _ => {}
            }
            request.messages.push(answer.to_message());
            for call in &answer.tool_calls {
                if done.calls.len() >= limits.max_tool_calls as usize {
                    let advice = "raise it, or check whether the model repeats its calls";
                    return Err(
                        LimitReached::new("maxToolCalls", limits.max_tool_calls, advice).into()
                    );
                }
                let text = self.call(call, done).await?;
                request.messages.push(Message::tool(call, text));
            }
        }
    }

    /// Makes a call. If the trial has less time left than the limit of a call, a timeout is
    /// reported as the trial's limit.
    async fn call_in_time(
        &self,
        tool: &OfferedTool,
        arguments: &JsonObject,
    ) -> Result<CallOutcome, TrialError> {
        let call_timeout = Duration::from_millis(self.budget.limits().call_timeout_ms);
        let left = self.budget.time_left();
        match self.connections.call(tool, arguments, call_timeout.min(left)).await {
            Err(TrialError::Limit(_)) if left < call_timeout => {
                Err(self.budget.out_of_time().into())
            }
            outcome => outcome,
        }
    }

    fn report_turn(&self, done: &AgentWork) {
        if let Some(turn) = done.turns.last() {
            (self.on_event)(&TestEvent::Turn { trial: self.trial, turn: turn.clone() });
        }
    }

    /// Makes and records a call, and returns the text for the model.
    async fn call(&self, call: &ToolCall, done: &mut AgentWork) -> Result<String, TrialError> {
        let limits = self.budget.limits();
        let found = self.connections.find(&call.name);
        let (tool_name, server_id) = match found {
            Some((tool, server)) => (tool.name.clone(), server.to_owned()),
            None => (call.name.clone(), ToolCallRecord::UNKNOWN_SERVER.to_owned()),
        };
        (self.on_event)(&TestEvent::CallStarted {
            trial: self.trial,
            tool_name: tool_name.clone(),
            server_id: server_id.clone(),
        });
        let mut record = ToolCallRecord {
            tool_name,
            server_id,
            parameters: call.arguments.clone(),
            response: Value::Null,
            execution_time_ms: 0,
            success: false,
            error: Some("the trial ended before the answer".to_owned()),
            timestamp: Timestamp::now(),
        };
        // Recorded before the call, so that the record exists even if the trial ends during the
        // call.
        let place = done.calls.len();
        done.calls.push(record.clone());
        let expected = self.case.expected_tools.as_deref().unwrap_or_default();
        done.results.push(check::results_of(expected, &record));
        if let Some(turn) = done.turns.last_mut() {
            turn.calls.push(saturated(place));
        }
        let started = Instant::now();
        let outcome = match (found, &call.arguments) {
            (None, _) => {
                let names: Vec<&str> =
                    self.connections.tools.iter().map(|tool| tool.shown_name.as_str()).collect();
                let names = cut(&names.join(", "), 2000);
                Ok(CallOutcome::Refused(format!(
                    "there is no tool {:?}; tools: {names}",
                    call.name
                )))
            }
            (Some((tool, _)), Value::Object(arguments)) => self.call_in_time(tool, arguments).await,
            (Some(_), other) => Ok(CallOutcome::Refused(format!(
                "the arguments of a tool must be a JSON object of at most {MAX_LEVELS} levels, and these are {}",
                cut(&other.to_string(), 200)
            ))),
        };
        record.execution_time_ms = millis(started.elapsed());
        record.error = None;
        let max_bytes = usize::try_from(limits.max_result_bytes).unwrap_or(usize::MAX);
        let outcome = match outcome {
            Ok(CallOutcome::Result(result)) => {
                record.success = result.get("isError") != Some(&Value::Bool(true));
                record.response = result;
                done.results[place] = check::results_of(expected, &record);
                record.response = bounded(record.response, max_bytes);
                let mut text = cut(&text_of(&record.response), max_bytes);
                if !record.success {
                    if text.trim().is_empty() {
                        "the tool reports a failure without a message".clone_into(&mut text);
                    }
                    record.error = Some(cut(&text, 2000));
                    text = format!("Error: {text}");
                }
                Ok(text)
            }
            Ok(CallOutcome::Refused(problem)) => {
                let text = format!("Error: {problem}");
                record.error = Some(problem);
                Ok(text)
            }
            Err(error) => {
                record.error = Some(error.to_string());
                Err(error)
            }
        };
        (self.on_event)(&TestEvent::CallEnded { trial: self.trial, call: record.clone() });
        done.calls[place] = record;
        outcome
    }
}

/// Returns the error of a trial whose model failed.
pub(crate) fn agent_error(case: &TestCase, error: ChatError) -> TrialError {
    TrialError::Agent { member: case.agent_member(), error }
}

/// Returns a result, or the beginning of its text if it is too long or nested too deeply.
/// Structured content within the limits is kept whole, because a part of it would mean nothing.
fn bounded(result: Value, max_bytes: usize) -> Value {
    let text = result.to_string();
    let is_deep = is_deep(&result);
    if text.len() <= max_bytes && !is_deep {
        return result;
    }
    let shown = text_of(&result);
    let shown = if shown.is_empty() { &text } else { &shown };
    let mut beginning = serde_json::json!({
        "content": [{"type": "text", "text": cut(shown, max_bytes)}],
        "isError": result.get("isError").cloned().unwrap_or(Value::Bool(false)),
        "_meta": {ToolCallRecord::CUT_FROM: text.len()},
    });
    let structured = result.get("structuredContent");
    if let Some(structured) = structured.filter(|it| !is_deep && it.to_string().len() <= max_bytes)
    {
        beginning["structuredContent"] = structured.clone();
    }
    beginning
}

/// Returns the text of a result for the model: its text items, or the whole as JSON if it has
/// others, too.
fn text_of(result: &Value) -> String {
    let items = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> =
        items.iter().filter_map(|item| item.get("text").and_then(Value::as_str)).collect();
    match (items, result.get("structuredContent")) {
        ([], None) => String::new(),
        ([], Some(data)) => data.to_string(),
        _ if texts.len() == items.len() => texts.join("\n"),
        _ => Value::from(items.iter().map(without_bytes).collect::<Vec<_>>()).to_string(),
    }
}

/// Returns an item without its encoded bytes, which a model cannot read as text: those of an image
/// or a sound, or of an embedded resource.
fn without_bytes(item: &Value) -> Value {
    let mut item = item.clone();
    for member in ["/data", "/resource/blob"] {
        if let Some(data) = item.pointer_mut(member) {
            let length = data.as_str().map_or(0, str::len);
            *data = Value::from(format!("({length} bytes of base64)"));
        }
    }
    item
}

/// Returns whether a value has more levels of arrays and objects than [`MAX_LEVELS`].
fn is_deep(value: &Value) -> bool {
    is_deeper(value, MAX_LEVELS)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut items: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    levels == 0 || items.any(|item| is_deeper(item, levels - 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_recorded_result_can_be_read_again() {
        let mut deep = json!(1);
        for _ in 0..120 {
            deep = json!([deep]);
        }
        let kept = bounded(json!({"content": [], "structuredContent": {"a": 1}}), 1000);
        assert_eq!(kept["structuredContent"], json!({"a": 1}));
        let cut = bounded(json!({"content": [], "structuredContent": deep}), 1000);
        assert!(!is_deep(&cut), "{cut}");
        assert!(cut["content"][0]["text"].as_str().is_some_and(|text| text.contains("[[[")));
    }

    #[test]
    fn a_model_reads_no_encoded_bytes() {
        let picture = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let file = json!({"type": "resource", "resource": {"uri": "a:b", "blob": "BBBBBB"}});
        let text = text_of(&json!({"content": [{"type": "text", "text": "Two:"}, picture, file]}));
        assert!(text.contains("Two:") && text.contains("a:b"), "{text}");
        assert!(text.contains("(4 bytes of base64)") && text.contains("(6 bytes"), "{text}");
        assert!(!text.contains("AAAA") && !text.contains("BBBB"), "{text}");
    }

    /// Returns a value with twice as many levels as `pairs`.
    fn nested(pairs: usize) -> Value {
        (0..pairs).fold(json!(1), |inner, _| json!({"a": [inner]}))
    }

    #[test]
    fn levels_are_counted() {
        assert!(!is_deep(&nested(MAX_LEVELS / 2)));
        assert!(is_deep(&nested(MAX_LEVELS / 2 + 1)));
        assert!(is_deep(&json!([{}, nested(MAX_LEVELS)])));
        assert!(!is_deep(&json!("text")));
    }
}
