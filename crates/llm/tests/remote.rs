//! Models of providers, against a provider of our own on this machine.
#![cfg(feature = "remote")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use marquetry_llm::{
    ApiKey, ChatError, ChatModel, ChatRequest, Finish, Format, Message, ModelConfig, Provider,
    RemoteModel, Tool, ToolCall, Usage,
};
use serde_json::{Value, json};

const KEY: &str = "sk-a-key-that-nobody-may-see";

/// A provider that gives prepared answers and keeps what it was sent.
#[derive(Clone, Default)]
struct Backend(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    answers: VecDeque<Response>,
    seen: Vec<(String, HeaderMap, Value)>,
}

impl Backend {
    fn new(answers: impl IntoIterator<Item = Response>) -> Self {
        let answers = answers.into_iter().collect();
        Self(Arc::new(Mutex::new(Kept { answers, seen: Vec::new() })))
    }

    async fn model(&self, provider: Provider) -> RemoteModel {
        RemoteModel::new(self.config(provider).await).unwrap()
    }

    async fn config(&self, provider: Provider) -> ModelConfig {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = ModelConfig::new(provider, "small-model");
        config.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
        config.api_key = Some(ApiKey::new(KEY));
        let app = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        config
    }

    fn seen(&self) -> Vec<(String, HeaderMap, Value)> {
        self.0.lock().unwrap().seen.clone()
    }
}

async fn answer(State(backend): State<Backend>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let mut kept = backend.0.lock().unwrap();
    kept.seen.push((head.uri.path().to_owned(), head.headers, body));
    kept.answers.pop_front().unwrap_or_else(|| StatusCode::IM_A_TEAPOT.into_response())
}

fn said(text: &str) -> Response {
    let answer = json!({
        "id": "c1", "object": "chat.completion", "model": "small-model-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    });
    axum::Json(answer).into_response()
}

fn failed(status: u16, headers: &[(&'static str, &str)], message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let body = axum::Json(json!({"error": {"message": message, "type": "x"}}));
    let mut response = (status, body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

fn events(events: &[Value], done: bool) -> Response {
    let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    ([("content-type", "text/event-stream")], text).into_response()
}

fn question() -> ChatRequest {
    ChatRequest::new([Message::system("Be brief."), Message::user("Two and two?")])
}

#[tokio::test]
async fn an_openai_model_answers() {
    for provider in [Provider::OpenAi, Provider::Ollama, Provider::Custom] {
        let backend = Backend::new([said("Four.")]);
        let mut request = question();
        request.temperature = Some(0.0);
        request.max_tokens = Some(20);
        request.seed = Some(7);
        let answer = backend.model(provider).await.chat(&request).await.unwrap();
        assert_eq!((&*answer.text, &answer.finish), ("Four.", &Finish::Stop));
        assert_eq!(answer.usage, Usage { input_tokens: Some(11), output_tokens: Some(3) });
        assert_eq!(answer.model, "small-model-2026");
        let (path, headers, body) = backend.seen().remove(0);
        assert_eq!(path, "/v1/chat/completions");
        assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!(body["model"], "small-model");
        assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief."}));
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "Two and two?"}));
        assert_eq!((&body["temperature"], &body["seed"]), (&json!(0.0), &json!(7)));
    }
}

#[tokio::test]
async fn an_anthropic_model_answers_and_calls_tools() {
    let call = json!({"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2, "b": 2}});
    let called = json!({
        "id": "m1", "type": "message", "role": "assistant", "model": "small-model",
        "content": [{"type": "text", "text": "Let me see."}, call],
        "stop_reason": "tool_use", "usage": {"input_tokens": 20, "output_tokens": 9},
    });
    let done = json!({
        "id": "m2", "type": "message", "role": "assistant", "model": "small-model",
        "content": [{"type": "text", "text": "Four."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 30, "output_tokens": 2},
    });
    let backend = Backend::new([called, done].map(|answer| axum::Json(answer).into_response()));
    let model = backend.model(Provider::Anthropic).await;
    let mut request = question();
    request.tools = vec![add_tool()];
    let answer = model.chat(&request).await.unwrap();
    assert_eq!((&*answer.text, &answer.finish), ("Let me see.", &Finish::ToolCalls));
    assert_eq!(answer.tool_calls, [add_call("t1")]);
    assert_eq!(answer.usage, Usage { input_tokens: Some(20), output_tokens: Some(9) });

    request.messages.push(answer.to_message());
    request.messages.push(Message::tool(&answer.tool_calls[0], "4"));
    assert_eq!(model.chat(&request).await.unwrap().text, "Four.");
    let seen = backend.seen();
    assert_eq!(seen[0].0, "/v1/messages");
    assert_eq!(seen[0].1["x-api-key"], KEY);
    assert_eq!(seen[0].2["tools"][0]["name"], "add");
    let messages = &seen[1].2["messages"];
    assert_eq!(messages[1]["content"][1]["id"], "t1", "{messages}");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "t1", "{messages}");
}

#[tokio::test]
async fn an_openai_model_calls_tools() {
    let call = json!({"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":2,\"b\":2}"}});
    let called = json!({
        "model": "small-model",
        "choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}],
    });
    let backend = Backend::new([axum::Json(called).into_response(), said("Four.")]);
    let model = backend.model(Provider::OpenAi).await;
    let mut request = question();
    request.tools = vec![add_tool()];
    let answer = model.chat(&request).await.unwrap();
    assert_eq!((&*answer.text, &*answer.tool_calls), ("", &[add_call("t1")][..]));
    assert_eq!(answer.usage, Usage::default(), "a provider may not tell");
    request.messages.push(answer.to_message());
    request.messages.push(Message::tool(&answer.tool_calls[0], "4"));
    model.chat(&request).await.unwrap();
    let body = &backend.seen()[1].2;
    assert_eq!(body["messages"][2]["tool_calls"][0]["id"], "t1");
    assert_eq!(body["messages"][3]["tool_call_id"], "t1");
    assert_eq!(body["messages"][3]["content"], "4");
}

fn add_tool() -> Tool {
    let number = json!({"type": "integer"});
    Tool {
        name: "add".to_owned(),
        description: "Adds two numbers.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"a": number, "b": number}}),
    }
}

fn add_call(id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "add".to_owned(), arguments: json!({"a": 2, "b": 2}) }
}

#[tokio::test]
async fn a_schema_goes_along() {
    let schema =
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    for provider in [Provider::OpenAi, Provider::Ollama] {
        let backend = Backend::new([said("{\"sum\":4}")]);
        let mut request = question();
        request.format = Format::Schema { name: "sum".to_owned(), schema: schema.clone() };
        let answer = backend.model(provider).await.chat(&request).await.unwrap();
        assert_eq!(answer.text, "{\"sum\":4}");
        let format = &backend.seen()[0].2["response_format"];
        assert_eq!(format["type"], "json_schema", "{format}");
        assert_eq!(format["json_schema"]["schema"]["required"], json!(["sum"]));
    }
}

#[tokio::test]
async fn text_comes_as_it_is_written() {
    let delta = |delta: Value, finish: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let backend = Backend::new([events(
        &[
            delta(json!({"role": "assistant", "content": "Fo"}), Value::Null),
            delta(json!({"content": "ur."}), Value::Null),
            delta(json!({}), json!("length")),
            json!({"model": "m", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        ],
        true,
    )]);
    let mut pieces = Vec::new();
    let model = backend.model(Provider::OpenAi).await;
    let answer = model.stream(&question(), &mut |text| pieces.push(text.to_owned())).await.unwrap();
    assert_eq!(pieces, ["Fo", "ur."]);
    assert_eq!((&*answer.text, &answer.finish), ("Four.", &Finish::Length));
    assert_eq!(answer.usage, Usage { input_tokens: Some(5), output_tokens: Some(2) });
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_after_the_wait_that_it_wants() {
    let backend = Backend::new([
        failed(429, &[("retry-after-ms", "200")], "slow down"),
        failed(503, &[("retry-after", "0")], "restarting"),
        said("Four."),
    ]);
    let start = Instant::now();
    let answer = backend.model(Provider::OpenAi).await.chat(&question()).await.unwrap();
    assert_eq!(answer.text, "Four.");
    assert_eq!(backend.seen().len(), 3);
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn it_is_not_asked_for_ever_and_waits_are_bounded() {
    let busy = || failed(429, &[("retry-after", "0")], "slow down");
    let backend = Backend::new([busy(), busy(), busy()]);
    let mut config = backend.config(Provider::OpenAi).await;
    config.retries = 2;
    let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
    let wanted = Some(Duration::ZERO);
    assert_eq!(
        error,
        ChatError::RateLimited { retry_after: wanted, message: "slow down".to_owned() }
    );
    assert_eq!(backend.seen().len(), 3);

    let backend = Backend::new([failed(503, &[("retry-after", "86400")], "come back tomorrow")]);
    let error = backend.model(Provider::OpenAi).await.chat(&question()).await.unwrap_err();
    assert!(matches!(error, ChatError::Failed { status: 503, .. }), "{error:?}");
    assert_eq!(backend.seen().len(), 1, "nobody waits a day");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_once_and_without_the_key() {
    for (status, expected) in [
        (401, "provider does not accept the key (status 401): bad key …"),
        (400, "provider refuses the request (status 400): bad key …"),
    ] {
        let backend = Backend::new([failed(status, &[], &format!("bad key {KEY}"))]);
        let config = backend.config(Provider::OpenAi).await;
        assert!(!format!("{config:?}").contains(KEY));
        let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains(KEY));
        assert_eq!(backend.seen().len(), 1);
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_errors() {
    for answer in [
        "<html>".into_response(),
        axum::Json(json!({})).into_response(),
        axum::Json(json!({"choices": []})).into_response(),
        axum::Json(json!({"choices": [{"message": {}}]})).into_response(),
    ] {
        let backend = Backend::new([answer]);
        let mut config = backend.config(Provider::OpenAi).await;
        config.retries = 0;
        let outcome = RemoteModel::new(config).unwrap().chat(&question()).await;
        assert!(
            matches!(outcome, Err(ChatError::Malformed(_) | ChatError::Connection(_))),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_provider_that_is_silent_or_gone_is_an_error() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = ModelConfig::new(Provider::Custom, "m");
    config.base_url = Some(format!("http://{}/v1/", silent.local_addr().unwrap()));
    config.timeout = Duration::from_millis(300);
    config.retries = 0;
    let model = RemoteModel::new(config.clone()).unwrap();
    let error = model.chat(&question()).await.unwrap_err();
    assert_eq!(error, ChatError::Timeout(config.timeout));
    let error = model.stream(&question(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error, ChatError::Timeout(config.timeout));
    drop(silent);
    let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
    assert!(matches!(error, ChatError::Connection(_)), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error() {
    let body = Body::from(
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Fo\"}}]}\n\n",
    );
    let backend = Backend::new([([("content-type", "text/event-stream")], body).into_response()]);
    let mut text = String::new();
    let model = backend.model(Provider::OpenAi).await;
    let outcome = model.stream(&question(), &mut |piece| text.push_str(piece)).await;
    assert_eq!(text, "Fo");
    assert!(matches!(outcome, Err(ChatError::Connection(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Backend::new([said("Caught.")]);
    let target = elsewhere.config(Provider::Custom).await.base_url.unwrap();
    let mut redirect = StatusCode::TEMPORARY_REDIRECT.into_response();
    redirect
        .headers_mut()
        .insert("location", format!("{target}/chat/completions").parse().unwrap());
    let backend = Backend::new([redirect]);
    let outcome = backend.model(Provider::OpenAi).await.chat(&question()).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(elsewhere.seen().len(), 0, "the key would have gone there");
}

#[test]
fn what_cannot_work_is_said_at_once() {
    let why = |config: ModelConfig| RemoteModel::new(config).err().map(|error| error.to_string());
    let config = ModelConfig::new;
    assert_eq!(
        why(config(Provider::OpenAi, "m")).unwrap(),
        "model is not configured: OpenAi wants a key"
    );
    assert_eq!(
        why(config(Provider::Ollama, " ")).unwrap(),
        "model is not configured: it has no name"
    );
    assert!(why(config(Provider::Custom, "m")).unwrap().contains("needs a base URL"));
    let mut odd = config(Provider::Custom, "m");
    odd.base_url = Some("file:///etc/passwd".to_owned());
    assert!(why(odd).unwrap().contains("is no http: or https: URL"));
    assert_eq!(why(config(Provider::Ollama, "m")), None);
}
