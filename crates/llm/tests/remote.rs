//! Models of providers, against a provider of our own on this machine.

use std::time::{Duration, Instant};

use marquetry_llm::{
    ApiKey, ChatError, ChatModel, ChatRequest, EndpointFailure, Finish, Format, Message,
    ModelConfig, Provider, ProviderAnswer, RemoteModel, ScriptedProvider, Tool, ToolCall, Usage,
};
use serde_json::{Value, json};

const KEY: &str = "sk-a-key-that-nobody-may-see";

async fn started(answers: impl IntoIterator<Item = ProviderAnswer>) -> ScriptedProvider {
    ScriptedProvider::start(answers).await.unwrap()
}

fn model_of(backend: &ScriptedProvider, provider: Provider) -> RemoteModel {
    RemoteModel::new(config_of(backend, provider)).unwrap()
}

fn config_of(backend: &ScriptedProvider, provider: Provider) -> ModelConfig {
    let mut config = ModelConfig::new(provider, "small-model");
    config.base_url = Some(backend.base_url());
    config.api_key = Some(ApiKey::new(KEY));
    config
}

fn text_answer(text: &str) -> ProviderAnswer {
    ProviderAnswer::text(text)
}

fn failed(
    status: u16,
    headers: impl IntoIterator<Item = (&'static str, &'static str)>,
    message: &str,
) -> ProviderAnswer {
    ProviderAnswer::error(status, headers, message)
}

fn question() -> ChatRequest {
    ChatRequest::new([Message::system("Be brief."), Message::user("Two and two?")])
}

#[tokio::test]
async fn an_openai_model_answers() {
    for provider in [Provider::OpenAi, Provider::Ollama, Provider::Custom] {
        let backend = started([text_answer("Four.")]).await;
        let mut request = question();
        request.temperature = Some(0.0);
        request.max_tokens = Some(20);
        request.seed = Some(7);
        let answer = model_of(&backend, provider).chat(&request).await.unwrap();
        assert_eq!((&*answer.text, &answer.finish), ("Four.", &Finish::Stop));
        assert_eq!(answer.usage, Usage { input_tokens: Some(11), output_tokens: Some(3) });
        assert_eq!(answer.model, "small-model-2026");
        let request = backend.requests().remove(0);
        let body = &request.body;
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
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
    let backend = started([called, done].map(|answer| ProviderAnswer::json(&answer))).await;
    let model = model_of(&backend, Provider::Anthropic);
    let mut request = question();
    request.tools = vec![add_tool()];
    let answer = model.chat(&request).await.unwrap();
    assert_eq!((&*answer.text, &answer.finish), ("Let me see.", &Finish::ToolCalls));
    assert_eq!(answer.tool_calls, [add_call("t1")]);
    assert_eq!(answer.usage, Usage { input_tokens: Some(20), output_tokens: Some(9) });

    request.messages.push(answer.to_message());
    request.messages.push(Message::tool(&answer.tool_calls[0], "4"));
    assert_eq!(model.chat(&request).await.unwrap().text, "Four.");
    let seen = backend.requests();
    assert_eq!(seen[0].path, "/v1/messages");
    assert_eq!(seen[0].header("x-api-key"), Some(KEY));
    assert_eq!(seen[0].body["tools"][0]["name"], "add");
    let messages = &seen[1].body["messages"];
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
    let backend = started([ProviderAnswer::json(&called), text_answer("Four.")]).await;
    let model = model_of(&backend, Provider::OpenAi);
    let mut request = question();
    request.tools = vec![add_tool()];
    let answer = model.chat(&request).await.unwrap();
    assert_eq!((&*answer.text, &*answer.tool_calls), ("", &[add_call("t1")][..]));
    assert_eq!(answer.usage, Usage::default(), "a provider may not tell");
    request.messages.push(answer.to_message());
    request.messages.push(Message::tool(&answer.tool_calls[0], "4"));
    model.chat(&request).await.unwrap();
    let body = &backend.requests()[1].body;
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
        let backend = started([text_answer("{\"sum\":4}")]).await;
        let mut request = question();
        request.format = Format::Schema { name: "sum".to_owned(), schema: schema.clone() };
        let answer = model_of(&backend, provider).chat(&request).await.unwrap();
        assert_eq!(answer.text, "{\"sum\":4}");
        let format = &backend.requests()[0].body["response_format"];
        assert_eq!(format["type"], "json_schema", "{format}");
        assert_eq!(format["json_schema"]["schema"]["required"], json!(["sum"]));
    }
}

#[tokio::test]
async fn a_request_is_adapted_to_what_a_service_takes() {
    fn refused(message: &str) -> ProviderAnswer {
        failed(400, [], message)
    }
    let schema = json!({"type": "object"});
    let mut request = question();
    request.format = Format::Schema { name: "sum".to_owned(), schema };
    (request.max_tokens, request.temperature) = (Some(20), Some(0.0));
    for (refusals, want) in [
        (
            vec![refused("This response_format type is unavailable now")],
            json!({"response_format": {"type": "json_object"}, "max_tokens": 20, "temperature": 0.0}),
        ),
        (
            vec![refused("no"), failed(422, [], "extra fields not permitted")],
            json!({"response_format": null, "max_tokens": 20, "temperature": 0.0}),
        ),
        (
            vec![
                refused("'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
                refused("'temperature' does not support 0 with this model"),
            ],
            json!({"max_completion_tokens": 20, "max_tokens": null, "temperature": null}),
        ),
    ] {
        let count = refusals.len() + 1;
        let answers = refusals.into_iter().chain([text_answer("{}"), text_answer("{}")]);
        let backend = started(answers).await;
        let model = model_of(&backend, Provider::Custom);
        model.chat(&request).await.unwrap();
        // The next request has the right form at once.
        model.chat(&request).await.unwrap();
        let requests = backend.requests();
        assert_eq!(requests.len(), count + 1);
        let body = &requests[count].body;
        for (name, value) in want.as_object().unwrap() {
            assert_eq!(&body[name], value, "{name}");
        }
        let system = body["messages"][0]["content"].as_str().unwrap();
        let is_asked = body["response_format"]["type"] != "json_schema";
        assert_eq!(system.contains("JSON of this schema"), is_asked, "{system}");
    }
    // The first refusal is the reason if the service takes no form.
    let backend = started([refused("no"), refused("no, really"), refused("never")]).await;
    let error = model_of(&backend, Provider::Custom).chat(&request).await.unwrap_err();
    assert_eq!(error.to_string(), "provider refuses the request (status 400): no");
}

#[tokio::test]
async fn a_base_url_is_right_with_and_without_its_version() {
    let page = ProviderAnswer::http(200, [("content-type", "text/html")], "<html>");
    for (missing, base, paths) in [
        (failed(404, [], "no"), "", ["/chat/completions", "/v1/chat/completions"]),
        (page, "/", ["/chat/completions", "/v1/chat/completions"]),
        (failed(405, [], "no"), "/v1", ["/v1/chat/completions", "/chat/completions"]),
    ] {
        let backend = started([missing, text_answer("Four.")]).await;
        let mut config = config_of(&backend, Provider::Custom);
        config.base_url = Some(backend.base_url().trim_end_matches("/v1").to_owned() + base);
        RemoteModel::new(config).unwrap().chat(&question()).await.unwrap();
        let asked: Vec<String> = backend.requests().iter().map(|it| it.path.clone()).collect();
        assert_eq!(asked, paths);
    }
    // A model that nobody knows stays unknown.
    let backend = started([failed(404, [], "no model m"), failed(404, [], "no page")]).await;
    let error = model_of(&backend, Provider::OpenAi).chat(&question()).await.unwrap_err();
    assert_eq!(error.to_string(), "provider refuses the request (status 404): no model m");
}

#[tokio::test]
async fn text_comes_as_it_is_written() {
    let delta = |delta: Value, finish: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let backend = started([ProviderAnswer::events(
        &[
            delta(json!({"role": "assistant", "content": "Fo"}), Value::Null),
            delta(json!({"content": "ur."}), Value::Null),
            delta(json!({}), json!("length")),
            json!({"model": "m", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        ],
        true,
    )])
    .await;
    let mut pieces = Vec::new();
    let model = model_of(&backend, Provider::OpenAi);
    let answer = model.stream(&question(), &mut |text| pieces.push(text.to_owned())).await.unwrap();
    assert_eq!(pieces, ["Fo", "ur."]);
    assert_eq!((&*answer.text, &answer.finish), ("Four.", &Finish::Length));
    assert_eq!(answer.usage, Usage { input_tokens: Some(5), output_tokens: Some(2) });
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_after_the_wait_that_it_wants() {
    let backend = started([
        failed(429, [("retry-after-ms", "200")], "slow down"),
        failed(503, [("retry-after", "0")], "restarting"),
        text_answer("Four."),
    ])
    .await;
    let start = Instant::now();
    let answer = model_of(&backend, Provider::OpenAi).chat(&question()).await.unwrap();
    assert_eq!(answer.text, "Four.");
    assert_eq!(backend.requests().len(), 3);
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn retries_and_waits_are_bounded() {
    let busy = || failed(429, [("retry-after", "0")], "slow down");
    let backend = started([busy(), busy(), busy()]).await;
    let mut config = config_of(&backend, Provider::OpenAi);
    config.retries = 2;
    let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
    let wanted = Some(Duration::ZERO);
    assert_eq!(
        error,
        ChatError::Provider(EndpointFailure::RateLimited {
            retry_after: wanted,
            message: "slow down".to_owned()
        })
    );
    assert_eq!(backend.requests().len(), 3);

    let backend = started([failed(503, [("retry-after", "86400")], "come back tomorrow")]).await;
    let error = model_of(&backend, Provider::OpenAi).chat(&question()).await.unwrap_err();
    assert!(
        matches!(error, ChatError::Provider(EndpointFailure::Failed { status: 503, .. })),
        "{error:?}"
    );
    assert_eq!(backend.requests().len(), 1, "a wait of a day is not made");
}

#[tokio::test]
async fn a_refusal_is_not_retried_and_holds_no_key() {
    for (status, expected) in [
        (401, "provider does not accept the key (status 401): bad key …"),
        (400, "provider refuses the request (status 400): bad key …"),
    ] {
        let backend = started([failed(status, [], &format!("bad key {KEY}"))]).await;
        let config = config_of(&backend, Provider::OpenAi);
        assert!(!format!("{config:?}").contains(KEY));
        let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains(KEY));
        assert_eq!(backend.requests().len(), 1);
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_errors() {
    for answer in [
        ProviderAnswer::http(200, [("content-type", "text/html")], "<html>"),
        ProviderAnswer::http(200, [("content-type", "application/json")], "{"),
        ProviderAnswer::json(&json!({})),
        ProviderAnswer::json(&json!({"choices": []})),
        ProviderAnswer::json(&json!({"choices": [{"message": {}}]})),
    ] {
        let backend = started([answer]).await;
        let mut config = config_of(&backend, Provider::OpenAi);
        config.retries = 0;
        let outcome = RemoteModel::new(config).unwrap().chat(&question()).await;
        assert!(
            matches!(outcome, Err(ChatError::Provider(EndpointFailure::Malformed(_)))),
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
    assert_eq!(error, EndpointFailure::Timeout(config.timeout).into());
    let error = model.stream(&question(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error, EndpointFailure::Timeout(config.timeout).into());
    drop(silent);
    let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
    assert!(matches!(error, ChatError::Provider(EndpointFailure::Unreachable(_))), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error() {
    let piece = json!({"model": "m", "choices": [{"index": 0, "delta": {"content": "Fo"}}]});
    let backend = started([ProviderAnswer::events(&[piece], false)]).await;
    let mut text = String::new();
    let model = model_of(&backend, Provider::OpenAi);
    let outcome = model.stream(&question(), &mut |piece| text.push_str(piece)).await;
    assert_eq!(text, "Fo");
    assert!(
        matches!(outcome, Err(ChatError::Provider(EndpointFailure::BrokenOff(_)))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = started([text_answer("Caught.")]).await;
    let target = config_of(&elsewhere, Provider::Custom).base_url.unwrap();
    let target = format!("{target}/chat/completions");
    let redirect = ProviderAnswer::http(307, [("location", target.as_str())], "");
    let backend = started([redirect]).await;
    let outcome = model_of(&backend, Provider::OpenAi).chat(&question()).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(elsewhere.requests().len(), 0, "the key would have gone there");
}

#[test]
fn invalid_options_are_refused_at_once() {
    let why = |config: ModelConfig| RemoteModel::new(config).err().map(|error| error.to_string());
    let config = ModelConfig::new;
    assert_eq!(
        why(config(Provider::OpenAi, "m")).unwrap(),
        "model is not configured: OpenAi requires a key, such as one in $OPENAI_API_KEY"
    );
    assert_eq!(
        why(config(Provider::Ollama, " ")).unwrap(),
        "model is not configured: the model has no name"
    );
    assert!(why(config(Provider::Custom, "m")).unwrap().contains("needs a base URL"));
    let mut odd = config(Provider::Custom, "m");
    odd.base_url = Some("file:///etc/passwd".to_owned());
    assert!(why(odd).unwrap().contains("is not an http: or https: URL"));
    assert_eq!(why(config(Provider::Ollama, "m")), None);
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let backend = started([text_answer(&"word ".repeat(1_000)), text_answer("Four.")]).await;
    let mut config = config_of(&backend, Provider::Custom);
    config.max_answer_bytes = 1_000;
    let model = RemoteModel::new(config).unwrap();
    let mut heard = String::new();
    let error = model.stream(&question(), &mut |text| heard.push_str(text)).await.unwrap_err();
    assert_eq!(error, EndpointFailure::TooLarge(1_000).into());
    assert!(heard.len() <= 1_000, "{}", heard.len());
    assert_eq!(model.stream(&question(), &mut |_| {}).await.unwrap().text, "Four.");
}

#[tokio::test]
async fn an_answer_has_a_time_in_all_however_steadily_it_comes() {
    let slow = || text_answer(&"word ".repeat(1_000)).paced(Duration::from_millis(50));
    let backend = started([slow(), failed(503, [("retry-after", "5")], "busy")]).await;
    let mut config = config_of(&backend, Provider::Custom);
    config.answer_timeout = Duration::from_millis(500);
    let late = ChatError::from(EndpointFailure::Timeout(config.answer_timeout));
    let model = RemoteModel::new(config).unwrap();
    let mut heard = String::new();
    let error = model.stream(&question(), &mut |text| heard.push_str(text)).await.unwrap_err();
    assert_eq!(error, late);
    assert!(heard.starts_with("word "), "{heard}");
    let error = model.chat(&question()).await.unwrap_err();
    assert_eq!(error, late, "waits count");
}

#[tokio::test]
async fn messages_of_providers_hold_no_control_characters() {
    let bad = failed(400, [], "\u{1b}[31mred\u{7}\u{202e}\r\nbad\u{2066}");
    let moved = ProviderAnswer::http(307, [("location", "http://127.0.0.1:9/")], "");
    let backend = started([bad.clone(), moved.clone(), bad, moved]).await;
    let model = model_of(&backend, Provider::Custom);
    let said = "provider refuses the request (status 400): [31mred bad";
    let silent = "provider redirects to \"http://127.0.0.1:9/\" (status 307), which is not followed: if it is right, use it as base URL";
    for want in [said, silent] {
        assert_eq!(model.chat(&question()).await.unwrap_err().to_string(), want);
    }
    for want in [said, silent] {
        let error = model.stream(&question(), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}

#[tokio::test]
async fn a_stream_that_does_not_begin_is_asked_for_again() {
    let backend =
        started([failed(429, [("retry-after-ms", "1")], "busy"), text_answer("Four.")]).await;
    let model = model_of(&backend, Provider::Custom);
    assert_eq!(model.stream(&question(), &mut |_| {}).await.unwrap().text, "Four.");
    backend.push(failed(401, [], "who are you?"));
    let error = model.stream(&question(), &mut |_| {}).await.unwrap_err();
    assert!(
        matches!(error, ChatError::Provider(EndpointFailure::Unauthorized { status: 401, .. })),
        "{error:?}"
    );
    assert_eq!(backend.requests().len(), 3);
}

#[test]
fn a_password_in_a_url_is_refused() {
    for url in ["https://user@a.example/v1", "https://:secret@a.example/v1"] {
        let mut config = ModelConfig::new(Provider::Custom, "m");
        config.base_url = Some(url.to_owned());
        let error = RemoteModel::new(config).err().unwrap().to_string();
        assert!(
            error.contains("use the setting for the key") && !error.contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn a_loopback_address_is_called_without_a_proxy() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "an_openai_model_answers"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        // No server listens there.
        command.env(name, "http://127.0.0.1:9");
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn openai(delta: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}))
}

fn call(text: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]})
}

fn anthropic(delta: Value) -> String {
    format!("data: {}\n\n", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

/// An endless answer gives an error at the limit, with both providers and for every part that may
/// be endless.
#[tokio::test]
async fn endless_answers_end_with_an_error_at_the_limit() {
    let letters = "x".repeat(8 << 10);
    const EVENTS: &str = "text/event-stream";
    for (provider, is_streamed, media_type, piece) in [
        (Provider::Custom, false, "application/json", letters.clone()),
        (Provider::Anthropic, false, "application/json", letters.clone()),
        (Provider::Custom, true, "application/json", letters.clone()),
        // A line, an event, comments, blank lines.
        (Provider::Custom, true, EVENTS, letters.clone()),
        (Provider::Custom, true, EVENTS, format!("data: {letters}\n")),
        (Provider::Custom, true, EVENTS, ": wait\n".repeat(1_000)),
        (Provider::Custom, true, EVENTS, "\n".repeat(1_000)),
        // Text, reasoning, tool calls, one and many, and events with nothing.
        (Provider::Custom, true, EVENTS, openai(json!({"content": letters}))),
        (Provider::Custom, true, EVENTS, openai(json!({"reasoning_content": letters}))),
        (Provider::Custom, true, EVENTS, openai(call(&letters))),
        (Provider::Custom, true, EVENTS, openai(json!({"tool_calls": [{"id": "a"}]})).repeat(100)),
        (Provider::Custom, true, EVENTS, "data: {}\n\n".repeat(1_000)),
        (
            Provider::Anthropic,
            true,
            EVENTS,
            anthropic(json!({"type": "text_delta", "text": letters})),
        ),
        (
            Provider::Anthropic,
            true,
            EVENTS,
            anthropic(json!({"type": "thinking_delta", "thinking": letters})),
        ),
        (
            Provider::Anthropic,
            true,
            EVENTS,
            anthropic(json!({"type": "input_json_delta", "partial_json": letters})),
        ),
        (Provider::Anthropic, true, EVENTS, "data: {\"type\": \"ping\"}\n\n".repeat(1_000)),
    ] {
        let backend = started([ProviderAnswer::endless(200, media_type, piece.clone())]).await;
        let mut config = config_of(&backend, provider);
        config.max_answer_bytes = 100_000;
        config.retries = 0;
        let model = RemoteModel::new(config).unwrap();
        let mut heard = 0;
        let outcome = if is_streamed {
            model.stream(&question(), &mut |text| heard += text.len()).await
        } else {
            model.chat(&question()).await
        };
        let start = &piece[..piece.len().min(60)];
        assert_eq!(
            outcome,
            Err(EndpointFailure::TooLarge(100_000).into()),
            "{provider:?} {start:?}"
        );
        assert!(heard <= 100_000, "{heard}");
    }
    let backend = started([ProviderAnswer::endless(500, "text/plain", "on fire ")]).await;
    let mut config = config_of(&backend, Provider::Custom);
    config.retries = 0;
    let error = RemoteModel::new(config).unwrap().chat(&question()).await.unwrap_err();
    assert!(error.to_string().contains("fails (status 500): on fire"), "{error}");
}

fn block(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

#[tokio::test]
async fn tool_calls_come_in_pieces_on_both_wires() {
    let delta = |delta: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let part = |part: Value| delta(json!({"tool_calls": [part]}));
    let openai = ProviderAnswer::events(
        &[
            delta(json!({"role": "assistant", "content": null})),
            part(
                json!({"index": 0, "id": "t1", "type": "function", "function": {"name": "add", "arguments": ""}}),
            ),
            part(json!({"index": 0, "function": {"arguments": "{\"a\":2,"}})),
            part(
                json!({"index": 1, "id": "t2", "type": "function", "function": {"name": "add", "arguments": "{\"a\""}}),
            ),
            part(json!({"index": 0, "function": {"arguments": "\"b\":2}"}})),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        ],
        true,
    );
    let anthropic = ProviderAnswer::events(
        &[
            json!({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            block(0, json!({"type": "text_delta", "text": "Let me see."})),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}}}),
            block(1, json!({"type": "input_json_delta", "partial_json": "{\"a\":2,"})),
            block(1, json!({"type": "input_json_delta", "partial_json": "\"b\":2}"})),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t2", "name": "add", "input": {}}}),
            block(2, json!({"type": "input_json_delta", "partial_json": "{\"a\""})),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ],
        false,
    );
    for (provider, answer, text) in
        [(Provider::Custom, openai, ""), (Provider::Anthropic, anthropic, "Let me see.")]
    {
        let backend = started([answer]).await;
        let mut heard = String::new();
        let model = model_of(&backend, provider);
        let answer = model.stream(&question(), &mut |text| heard.push_str(text)).await.unwrap();
        assert_eq!((&*answer.text, &*heard, &*answer.model), (text, text, "m"));
        // Arguments that are not JSON stay a text.
        let broken = ToolCall { arguments: json!("{\"a\""), ..add_call("t2") };
        assert_eq!(answer.tool_calls, [add_call("t1"), broken]);
        assert_eq!(answer.finish, Finish::ToolCalls);
        assert_eq!(answer.usage, Usage { input_tokens: Some(5), output_tokens: Some(2) });
    }
}

#[tokio::test]
async fn a_failure_within_a_stream_is_that_failure() {
    let error =
        |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "too busy"}});
    for (provider, event, want) in [
        (Provider::Anthropic, error("overloaded_error"), "fails (status 529): too busy"),
        (
            Provider::Anthropic,
            error("rate_limit_error"),
            "limits the rate of requests (status 429): too busy",
        ),
        (
            Provider::Custom,
            json!({"error": {"message": "too busy"}}),
            "fails (status 500): too busy",
        ),
    ] {
        let backend = started([ProviderAnswer::events(&[event], false)]).await;
        let outcome = model_of(&backend, provider).stream(&question(), &mut |_| {}).await;
        let failure = outcome.unwrap_err().to_string();
        assert!(failure.contains(want), "{failure}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_stream_answers_in_one_piece() {
    let body = json!({"choices": [{"message": {"content": [{"type": "text", "text": "Four."}]}, "finish_reason": "stop"}]});
    let backend = started([ProviderAnswer::json(&body)]).await;
    let mut heard = String::new();
    let model = model_of(&backend, Provider::Custom);
    let answer = model.stream(&question(), &mut |text| heard.push_str(text)).await.unwrap();
    assert_eq!((&*answer.text, &*heard), ("Four.", "Four."));
}

#[tokio::test]
async fn a_schema_is_strict_only_where_it_can_be() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let backend = started([text_answer("{}"), text_answer("{}")]).await;
    let model = model_of(&backend, Provider::Custom);
    for schema in [&closed, &open] {
        let mut request = question();
        request.format = Format::Schema { name: "a".to_owned(), schema: schema.clone() };
        model.chat(&request).await.unwrap();
    }
    let strict = |place: usize| {
        backend.requests()[place].body["response_format"]["json_schema"]["strict"].clone()
    };
    assert_eq!((strict(0), strict(1)), (json!(true), json!(false)));
}
