//! Tests of sampling with a scripted model.

use std::sync::Arc;

use marquetry_protocol::types::CreateMessageParams;
use serde_json::{Value, json};

use super::{Sampler, SamplingError, SamplingLimits};
use crate::{ChatAnswer, ChatError, ChatRequest, Finish, Message, ScriptedModel, ToolCall};

/// Asks a model with these answers, and returns the answer and the requests that it received.
async fn sample(
    params: Value,
    answers: impl IntoIterator<Item = ChatAnswer>,
) -> (Result<Value, SamplingError>, Vec<ChatRequest>) {
    let params: CreateMessageParams = serde_json::from_value(params).unwrap();
    let model = Arc::new(ScriptedModel::new(answers));
    let limits = SamplingLimits { max_tokens: 100, max_request_bytes: 1_000, max_tools: 2 };
    let sampler = Sampler::new(model.clone()).with_limits(limits);
    let result = sampler.create_message(&params).await;
    (result.map(|it| serde_json::to_value(it).unwrap()), model.requests())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": {"type": "text", "text": text}})
}

fn weather() -> Value {
    json!({"name": "weather", "description": "The weather.", "inputSchema": {"type": "object"}})
}

fn weather_call(id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "weather".to_owned(), arguments }
}

/// Returns the parameters of a request with a choice of tools.
fn with_choice(mode: &str) -> Value {
    json!({"messages": [user("a")], "maxTokens": 1, "tools": [weather()], "toolChoice": {"mode": mode}})
}

/// Returns the parameters of a request with one message of the user.
fn with_content(content: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": content}], "maxTokens": 1})
}

#[tokio::test]
async fn messages_reach_the_model_within_limits() {
    let params = json!({
        "messages": [user("Two and two?")], "systemPrompt": "Be brief.", "maxTokens": 9_000,
        "temperature": 0.5, "stopSequences": ["."], "modelPreferences": {"hints": [{"name": "big"}]},
    });
    let cut = ChatAnswer { finish: Finish::Length, ..ChatAnswer::text("Fo") };
    let (result, requests) = sample(params, [cut]).await;
    let want = json!({
        "role": "assistant", "content": {"type": "text", "text": "Fo"}, "model": "scripted", "stopReason": "maxTokens",
    });
    assert_eq!(result.unwrap(), want);
    let request = &requests[0];
    assert_eq!(request.messages, [Message::system("Be brief."), Message::user("Two and two?")]);
    assert_eq!((request.max_tokens, request.temperature), (Some(100), Some(0.5)));
    assert_eq!(request.stop, ["."]);
    assert!(request.tools.is_empty());
}

#[tokio::test]
async fn a_conversation_with_tools_goes_both_ways() {
    let use_of =
        json!({"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}});
    let failed = json!({"type": "tool_result", "toolUseId": "1", "isError": true, "content": [{"type": "text", "text": "no city"}]});
    let params = json!({
        "maxTokens": 10, "tools": [weather()],
        "messages": [user("Weather?"), {"role": "assistant", "content": use_of}, {"role": "user", "content": [failed]}],
    });
    let answer = ChatAnswer::calls([
        weather_call("2", json!({"city": "Rome"})),
        weather_call("3", json!("Rome")),
    ]);
    let (result, requests) = sample(params, [answer]).await;
    let first = weather_call("1", json!({"city": "Oslo"}));
    let asked = [
        Message::user("Weather?"),
        Message::Assistant { text: String::new(), tool_calls: vec![first.clone()] },
        Message::tool(&first, "The tool failed: no city"),
    ];
    assert_eq!(requests[0].messages, asked);
    assert_eq!(requests[0].tools[0].input_schema, json!({"type": "object"}));
    let result = result.unwrap();
    assert_eq!(result["stopReason"], "toolUse");
    let content = json!([
        {"type": "tool_use", "id": "2", "name": "weather", "input": {"city": "Rome"}},
        {"type": "tool_use", "id": "3", "name": "weather", "input": {"arguments": "Rome"}},
    ]);
    assert_eq!(result["content"], content);
}

#[tokio::test]
async fn a_choice_of_tools_is_kept() {
    let (result, requests) = sample(with_choice("none"), [ChatAnswer::text("b")]).await;
    assert!(result.is_ok() && requests[0].tools.is_empty());
    let (result, requests) = sample(with_choice("required"), [ChatAnswer::text("b")]).await;
    assert_eq!(result, Err(SamplingError::NoToolCalled));
    assert_eq!(requests[0].tools.len(), 1);
    let (result, requests) = sample(with_choice("sometimes"), [ChatAnswer::text("b")]).await;
    assert!(matches!(result, Err(SamplingError::Invalid(_))) && requests.is_empty());
}

#[tokio::test]
async fn invalid_requests_do_not_reach_the_model() {
    let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
    let stray = json!({"type": "tool_result", "toolUseId": "9", "content": []});
    let use_of = json!({"type": "tool_use", "id": "1", "name": "x", "input": {}});
    let cases = [
        (json!({"messages": [], "maxTokens": 1}), "messages is empty"),
        (with_content(&json!([])), "no text"),
        (with_content(&image), "messages[0].content is not text alone"),
        (with_content(&stray), "that no message before it made"),
        (with_content(&use_of), "calls of tools in a message of the user"),
        (json!({"messages": [user("a")], "maxTokens": 1, "temperature": 3}), "between 0 and 2"),
        (
            json!({"messages": [user("a")], "maxTokens": 1, "tools": [{"name": "x"}]}),
            "tools[0]: missing field `inputSchema`",
        ),
        (
            json!({"messages": [user("a")], "maxTokens": 1, "tools": [weather(), weather(), weather()]}),
            "3 tools, more than 2",
        ),
        (
            json!({"messages": [user("a")], "maxTokens": 1, "toolChoice": {"mode": "required"}}),
            "tools is empty",
        ),
        (
            json!({"messages": [user(&"x".repeat(1_001))], "maxTokens": 1}),
            "have 1001 bytes, more than 1000",
        ),
    ];
    for (params, problem) in cases {
        let (result, requests) = sample(params.clone(), [ChatAnswer::text("b")]).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(problem), "{params}: {error}");
        assert!(requests.is_empty(), "{params}");
    }
}

#[tokio::test]
async fn failures_of_the_model_are_returned() {
    let (result, _) = sample(json!({"messages": [user("a")], "maxTokens": 1}), []).await;
    assert_eq!(result, Err(SamplingError::Model(ChatError::ScriptEnded(0))));
}

#[tokio::test]
async fn a_streamed_message_arrives_in_pieces_and_whole() {
    let params = json!({"messages": [user("Two and two?")], "maxTokens": 10});
    let params: CreateMessageParams = serde_json::from_value(params).unwrap();
    let sampler = Sampler::new(Arc::new(ScriptedModel::new([ChatAnswer::text("Four.")])));
    let mut heard = String::new();
    let result = sampler.stream_message(&params, &mut |text| heard.push_str(text)).await.unwrap();
    assert_eq!((&*heard, result.content[0].as_text()), ("Four.", Some("Four.")));
    let params = CreateMessageParams { messages: Vec::new(), ..params };
    let error = sampler.check(&params).unwrap_err();
    assert_eq!(error, SamplingError::Invalid("messages is empty".to_owned()));
    assert_eq!(sampler.stream_message(&params, &mut |_| {}).await, Err(error));
}
