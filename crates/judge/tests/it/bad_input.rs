//! Each bad input ends as a stored result with the status `error`, and a reason that says what to
//! do.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use marquetry_judge::{
    ExpectedTool, FixedModels, LibsqlStore, MemoryStore, ModelSettings, RemoteModels, RunContext,
    Runner, ServerConfig, Status, TestCase, TestEvent, TestResult,
    case::{Price, ResultExpectation},
};
use marquetry_llm::{
    ChatAnswer, ChatError, ChatModel, ChatRequest, Finish, ProviderAnswer, ScriptedModel,
    ScriptedProvider, Usage,
};
use serde_json::json;

use crate::support::{
    assert_stored, call, case, good_work, notes, run, runner, text_answer, vote, votes, with_path,
    write,
};

/// Runs a case that must end as an error whose reason has these parts.
#[track_caller]
fn error(result: &TestResult, parts: &[&str]) {
    assert_eq!(
        (result.status, result.success, result.verdict.passed),
        (Status::Error, false, false)
    );
    assert_eq!(result.verdict.confidence, 0.0);
    let reason = result.error.as_deref().unwrap_or_default();
    for part in parts {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
}

#[tokio::test]
async fn cases_that_cannot_run() {
    let changed = |change: &dyn Fn(&mut TestCase)| {
        let mut case = case("bad");
        change(&mut case);
        case
    };
    let expected = |names: &[&str]| Some(names.iter().copied().map(ExpectedTool::new).collect());
    for (case, parts) in [
        (changed(&|case| case.prompt.clear()), &["prompt is blank: write the task"][..]),
        (changed(&|case| case.name = " ".to_owned()), &["name is blank"]),
        (
            changed(&|case| (case.judge_config, case.agent_config) = (None, None)),
            &["agentConfig is missing: name the provider", "--model PROVIDER/MODEL"],
        ),
        (
            changed(&|case| case.judge_config = None),
            &["nothing would be checked", "add expectedTools"],
        ),
        (
            changed(&|case| {
                case.agent_config = case.judge_config.take();
                case.checklist = Some(vec!["It is right.".to_owned()]);
                case.expected_tools = expected(&["write_note"]);
            }),
            &["checklist needs a judge, and judgeConfig is absent"],
        ),
        (
            changed(&|case| {
                case.agent_config = case.judge_config.take();
                case.expect.all_calls_succeed = Some(false);
            }),
            &["nothing would be checked"],
        ),
        (
            changed(&|case| case.expect.min_tool_accuracy = Some(0.9)),
            &["expect has minToolAccuracy, which requires expectedTools"],
        ),
        (changed(&|case| case.repetitions = 0), &["repetitions is 0: use 1 to 100"]),
        (
            changed(&|case| case.required_pass_rate = 2.0),
            &["requiredPassRate is 2: use more than 0"],
        ),
        (changed(&|case| case.required_pass_rate = 0.0), &["requiredPassRate is 0"]),
        (
            changed(&|case| {
                case.expected_tools = expected(&["write_note"]);
                case.expect.min_tool_accuracy = Some(90.0);
            }),
            &["expect has minToolAccuracy 90: use 0 to 1"],
        ),
        (
            changed(&|case| {
                let price = Price { input_per_million: -1.0, output_per_million: 1.0 };
                case.judge_config.as_mut().unwrap().price = Some(price);
            }),
            &["judgeConfig has a price below 0"],
        ),
        (
            changed(&|case| {
                let judge = case.judge_config.as_mut().unwrap();
                (judge.votes, judge.max_votes) = (Some(5), Some(3));
            }),
            &["judgeConfig has votes 5, more than its maxVotes 3"],
        ),
        (
            changed(&|case| {
                case.expect.forbidden_tools = vec![ExpectedTool::new("delete_fiel")];
            }),
            &["expect.forbiddenTools names the tool \"delete_fiel\", which no server lists"],
        ),
        (
            changed(&|case| {
                case.expect.forbidden_tools =
                    vec![ExpectedTool::new("big").with_result(ResultExpectation::default())];
            }),
            &["expect has forbiddenTools with a result"],
        ),
        (changed(&|case| case.checklist = Some(Vec::new())), &["checklist is empty"]),
        (
            changed(&|case| case.agent_config.as_mut().unwrap().temperature = Some(7.0)),
            &["agentConfig has a temperature"],
        ),
        (
            changed(&|case| case.judge_config.as_mut().unwrap().votes = Some(99)),
            &["outside of 1 to 11"],
        ),
        (
            changed(&|case| case.expected_tools = expected(&["write_note", "write_notes"])),
            &[
                "expectedTools names the tool \"write_notes\"",
                "did you mean \"write_note\"?",
                "tools: big, die",
            ],
        ),
        (
            changed(&|case| case.tools = Some(vec!["nope".to_owned()])),
            &["tools names the tool \"nope\", which no server lists"],
        ),
        (
            changed(&|case| case.server_configs = Some(vec![notes("usual"), notes("usual")])),
            &["not unique or reserved: \"notes\"; give each server its own"],
        ),
    ] {
        let result = run(&runner(good_work(), votes("yes")), case).await;
        error(&result, parts);
    }
}

#[tokio::test]
async fn a_limit_of_cost_requires_the_price_of_each_model() {
    let price = Some(Price { input_per_million: 0.0, output_per_million: 0.0 });
    let mut case = case("cost");
    case.limits = serde_json::from_value(json!({"maxCostUsd": 1})).unwrap();
    case.agent_config = case.judge_config.clone();
    for member in ["agentConfig", "judgeConfig"] {
        let result = run(&runner(good_work(), votes("yes")), case.clone()).await;
        error(&result, &[member, "has no price, so limits.maxCostUsd cannot be checked"]);
        match member {
            "agentConfig" => case.agent_config.as_mut().unwrap().price = price,
            _ => case.judge_config.as_mut().unwrap().price = price,
        }
    }
    let result = run(&runner(good_work(), votes("yes")), case).await;
    assert_eq!(result.status, Status::Passed, "{:?}", result.error);
}

#[tokio::test]
async fn models_that_cannot_be_made() {
    let runner = || with_path(Runner::new(RemoteModels::new(), Arc::new(MemoryStore::new())));
    for (provider, part) in [
        ("gemini", "unknown provider \"gemini\": use openai, anthropic, ollama, or custom"),
        (
            "openai",
            "requires a key, such as one in $OPENAI_API_KEY; see apiKey and baseUrl of agentConfig or judgeConfig",
        ),
        (
            "custom",
            "set baseUrl in agentConfig or judgeConfig, or CUSTOM_BASE_URL in the environment",
        ),
        (
            "anthropic at a URL",
            "requires a key: set apiKey beside baseUrl; ANTHROPIC_API_KEY goes only to",
        ),
    ] {
        let mut case = case("models");
        let (provider, url) = match provider.split_once(" at a URL") {
            Some((provider, _)) => (provider, Some("http://127.0.0.1:9/v1".to_owned())),
            None => (provider, None),
        };
        let mut settings = ModelSettings::new(provider, "m");
        settings.base_url = url;
        case.agent_config = Some(settings);
        error(&run(&runner(), case.clone()).await, &["failed to call the agent's model", part]);
        let judge = case.agent_config.replace(ModelSettings::new("ollama", "m"));
        case.judge_config = judge;
        error(&run(&runner(), case).await, &["failed to call the judge's model", part]);
    }
}

/// A server whose list of tools never ends: each page names itself as the next one.
const SAME_PAGE: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"same"}' ;;
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

#[tokio::test]
async fn servers_that_do_not_start() {
    let with = |config: ServerConfig| {
        let mut case = case("server");
        case.server_configs = Some(vec![config]);
        case.limits.connect_timeout_ms = 1_000;
        case
    };
    for (config, parts) in [
        (
            ServerConfig::stdio("/no/such/program", [""; 0]),
            &["server \"server1\" did not start", "/no/such/program", "check serverConfigs"][..],
        ),
        (
            ServerConfig::stdio("/bin/sh", ["-c", "echo no license >&2; exit 1"]),
            &["did not start", "its last output: no license"],
        ),
        (ServerConfig::http("http://127.0.0.1:9/mcp"), &["did not start", "check serverConfigs"]),
        (ServerConfig::http("nonsense"), &["did not start"]),
        (
            ServerConfig::stdio("/bin/sh", ["-c", SAME_PAGE]),
            &["did not start", "tools/list", "cursor"],
        ),
        (
            notes("silent"),
            &["limits.connectTimeoutMs (1000 ms, while server \"notes\" started)", "raise it"],
        ),
    ] {
        let result = run(&runner(good_work(), votes("yes")), with(config)).await;
        error(&result, parts);
        assert!(result.tool_calls.is_empty());
    }
}

#[tokio::test]
async fn secrets_in_the_last_output_of_a_server_are_hidden() {
    // The second line is cut within the token, and another line follows.
    let script = "printf 'cannot reach %s\\n%0290d %s\\nbye\\n' \"$1\" 0 \"$3\" >&2; exit 1";
    let url = "https://h/mcp?api_key=key-in-the-url";
    let args = ["-c", script, "sh", url, "--token", "long-token-123"];
    let mut case = case("echo");
    case.server_configs = Some(vec![ServerConfig::stdio("/bin/sh", args)]);
    let result = run(&runner(good_work(), votes("yes")), case).await;
    error(&result, &["its last output: cannot reach https://h/mcp?api_key=… | 000", "0 … | bye"]);
    let text = serde_json::to_string(&result).unwrap();
    assert!(!text.contains("in-the-url") && !text.contains("long-token"), "{text}");
}

#[tokio::test]
async fn a_server_that_lists_500_tools_needs_a_choice() {
    let mut case = case("many");
    case.server_configs = Some(vec![notes("many")]);
    let result = run(&runner(good_work(), votes("yes")), case.clone()).await;
    error(
        &result,
        &["limits.maxTools (128)", "name those that the model needs in the case's tools"],
    );
    case.tools = Some(vec!["write_note".to_owned(), "read_note".to_owned()]);
    assert_eq!(run(&runner(good_work(), votes("yes")), case).await.status, Status::Passed);
}

#[tokio::test]
async fn servers_that_die_or_hang_during_a_call() {
    let result = run(&runner([write(), call("die", json!({}))], votes("yes")), case("dies")).await;
    error(
        &result,
        &["server \"notes\" ended the connection during a call of \"die\"", "out of ink"],
    );
    assert_eq!(result.tool_calls.len(), 2, "the calls before it, and itself");
    assert!(!result.tool_calls[1].success && result.tool_calls[1].error.is_some());

    let mut hanging = case("hangs");
    hanging.limits.call_timeout_ms = 200;
    let result = run(&runner([call("hang", json!({}))], votes("yes")), hanging).await;
    error(
        &result,
        &["limits.callTimeoutMs (200 ms, in a call of \"hang\"", "make the tool faster"],
    );

    let mut slow = case("slow");
    slow.limits.timeout_ms = 2_000;
    let result = run(&runner([call("hang", json!({}))], votes("yes")), slow).await;
    error(&result, &["limits.timeoutMs (2000 ms)"]);
    // A slow machine may not come as far as the call.
    assert!(result.tool_calls.iter().all(|call| call.error.is_some()), "{:?}", result.tool_calls);
    assert!(result.trials[0].work_ms > 0 || result.tool_calls.is_empty());
}

#[tokio::test]
async fn unknown_tools_and_invalid_arguments_are_reported_to_the_model() {
    let agent = [
        call("writeNote", json!({})),
        call("write_note", json!("a")),
        call("write_note", json!({})),
        text_answer("I could not."),
    ];
    let result = run(&runner(agent, votes("no")), case("invented")).await;
    assert_eq!(result.status, Status::Failed, "{:?}", result.error);
    let calls: Vec<_> = result
        .tool_calls
        .iter()
        .map(|call| {
            (
                &*call.tool_name,
                &*call.server_id,
                call.success,
                call.error.clone().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(calls[0].1, "unknown");
    assert!(calls[0].3.contains("there is no tool \"writeNote\"; tools: "), "{}", calls[0].3);
    assert!(calls[1].3.contains("must be a JSON object of at most 64 levels, and these are \"a\""));
    assert!(calls[2].1 == "notes" && !calls[2].3.is_empty(), "{}", calls[2].3);
    assert!(calls.iter().all(|call| !call.2));
}

#[tokio::test]
async fn a_call_that_no_server_got_is_not_the_expected_one() {
    // Both servers have the tool, so that the model gets it as `notes__read_note` and
    // `others__read_note`.
    let mut others = notes("usual");
    let ServerConfig::Stdio { name, .. } = &mut others else { unreachable!("it is a program") };
    *name = Some("others".to_owned());
    for call in [call("read_note", json!({"name": "a"})), call("notes__read_note", json!("a"))] {
        let mut case = case("invented");
        case.server_configs = Some(vec![notes("usual"), others.clone()]);
        case.agent_config = case.judge_config.take();
        case.checklist = None;
        case.expected_tools = Some(vec![ExpectedTool::new("read_note")]);
        let result = run(&runner([call, text_answer("Done.")], []), case).await;
        assert_eq!(result.status, Status::Failed, "{result:?}");
        assert_eq!(result.verdict.tool_accuracy, 0.0);
    }
    let ServerConfig::Stdio { name, .. } = &mut others else { unreachable!("it is a program") };
    *name = Some("unknown".to_owned());
    let mut case = case("reserved");
    case.server_configs = Some(vec![others]);
    error(&run(&runner([], []), case).await, &["reserved: \"unknown\""]);
}

#[tokio::test]
async fn a_case_without_a_verdict_is_tried_a_limited_number_of_times() {
    let mut case = case("dies");
    case.repetitions = 100;
    case.server_configs = Some(vec![ServerConfig::stdio("/nowhere/server", [""; 0])]);
    let result = run(&runner([], []), case).await;
    error(&result, &["3 of 3 trials had no verdict", "did not start"]);
    assert_eq!(result.trials.len(), 3);
}

#[tokio::test]
async fn arguments_that_are_nested_too_deeply_are_recorded_as_a_text() {
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let mut case = case("deep");
    case.expected_tools = Some(vec![ExpectedTool::new("write_note")]);
    let agent = [call("write_note", json!({"name": deep})), text_answer("Done.")];
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(LibsqlStore::open(folder.path().join("tests.db")).await.unwrap());
    let models = FixedModels::new(ScriptedModel::new(agent), ScriptedModel::new(votes("no")));
    let result = run(&with_path(Runner::new(models, store)), case).await;
    assert_eq!(result.status, Status::Failed);
    let call = &result.tool_calls[0];
    assert!(call.parameters.is_string(), "{call:?}");
    assert!(call.error.as_ref().is_some_and(|error| error.contains("at most 64 levels")));
}

#[tokio::test]
async fn limits_end_a_trial_and_are_named() {
    let endless = || vec![write(); 60];
    for (limit, value, part) in [
        ("maxTurns", json!(5), "limits.maxTurns (5)"),
        ("maxToolCalls", json!(3), "limits.maxToolCalls (3)"),
        ("maxTokens", json!(2_000), "limits.maxTokens (2000)"),
    ] {
        let mut case = case("limits");
        let mut limits = json!(case.limits);
        limits[limit] = value;
        case.limits = serde_json::from_value(limits).unwrap();
        let result = run(&runner(endless(), votes("yes")), case).await;
        error(&result, &["the trial reached", part, "raise it"]);
        assert!(result.tool_calls.len() < 30, "the calls until then are recorded");
    }
    let mut dear = case("cost");
    dear.agent_config = Some(serde_json::from_value(json!({
        "provider": "openai", "model": "m", "price": {"inputPerMillion": 1e6, "outputPerMillion": 0},
    })).unwrap());
    let answer =
        ChatAnswer { usage: Usage { input_tokens: Some(2), output_tokens: Some(1) }, ..write() };
    let result = run(&runner([answer], votes("yes")), dear).await;
    error(&result, &["limits.maxCostUsd (1 USD)"]);
    assert_eq!(result.trials[0].usage.cost_usd, Some(2.0));

    let result = run(&runner(vec![write(); 60], votes("yes")), case("turns")).await;
    error(&result, &["limits.maxTurns (20)"]);
    assert_eq!(result.tool_calls.len(), 20);
}

#[tokio::test]
async fn answers_that_are_cut_or_withheld() {
    for (finish, part) in
        [(Finish::Length, "raise agentConfig.maxTokens"), (Finish::Filtered, "content filter")]
    {
        let answer = ChatAnswer { finish, ..text_answer("The no") };
        error(&run(&runner([answer], votes("yes")), case("cut")).await, &[part]);
    }
}

#[tokio::test]
async fn a_judge_that_fails_is_an_error_and_no_failed_case() {
    let items = |items: serde_json::Value| {
        text_answer(&json!({"items": items, "reasoning": "r"}).to_string())
    };
    let number = json!([{"id": "item1", "evidence": "e", "answer": 1e15}]);
    let invented = json!([{"id": "item7", "evidence": "e", "answer": "yes"}]);
    for (judge, part) in [
        (text_answer("It is fine."), "it is not a JSON object"),
        (text_answer("{\"passed\": true}"), "items is not a list"),
        (items(number), "items[0].answer is not"),
        (items(invented), "there is no item \"item7\""),
        (
            text_answer("{\"items\": [], \"confidence\": 1e15}"),
            "confidence is not a number from 0 to 1",
        ),
        (ChatAnswer { finish: Finish::Length, ..vote("yes") }, "it was cut at the maximum length"),
    ] {
        let result = run(&runner(good_work(), vec![judge; 9]), case("judge")).await;
        error(&result, &["the judge scripted gave no valid answer in 3 attempts", part]);
        assert_eq!(result.tool_calls.len(), 2, "the work is kept");
    }
    let result = run(&runner(good_work(), []), case("no judge")).await;
    error(&result, &["failed to call the judge's model"]);
}

/// A provider over HTTP that fails, as the agent's.
async fn provider(answers: impl IntoIterator<Item = ProviderAnswer>) -> TestResult {
    let backend = ScriptedProvider::start(answers).await.unwrap();
    let models = RemoteModels::new().with_limits(|config| {
        config.retries = 1;
        config.longest_wait = Duration::from_secs(1);
        config.timeout = Duration::from_millis(500);
        config.max_answer_bytes = 100_000;
    });
    let mut case = case("provider");
    case.server_configs = None;
    let mut model = ModelSettings::new("openai", "m");
    model.base_url = Some(backend.base_url());
    model.api_key = Some("sk-12345678".to_owned());
    case.agent_config = Some(model);
    case.judge_config = Some(ModelSettings::new("ollama", "m"));
    run(&Runner::new(models, Arc::new(MemoryStore::new())), case).await
}

#[tokio::test]
async fn providers_that_fail() {
    let failed = |status: u16, headers: &[(&'static str, &'static str)]| {
        ProviderAnswer::error(status, headers.iter().copied(), "no, sk-12345678")
    };
    let json = [("content-type", "application/json")];
    for (answers, parts) in [
        (vec![failed(401, &[])], &["does not accept the key (status 401): no, …"][..]),
        (
            vec![failed(429, &[]), failed(429, &[])],
            &["limits the rate of requests (status 429)", "try again later"],
        ),
        (vec![failed(429, &[("retry-after", "3600")])], &["limits the rate of requests"]),
        (vec![failed(500, &[("retry-after", "0")]), failed(500, &[])], &["fails (status 500)"]),
        (vec![ProviderAnswer::http(200, json, "{\"choices\": [")], &["sent an invalid answer"]),
        (
            vec![ProviderAnswer::http(200, [("content-type", "text/html")], "<html>")],
            &["is the base URL right?"],
        ),
        (
            vec![ProviderAnswer::endless(200, "application/json", "x".repeat(9_999))],
            &["more than 100000 bytes; set a smaller agentConfig.maxTokens"],
        ),
        (
            vec![ProviderAnswer::silence()],
            &["did not answer within 0.5 s", "set agentConfig.stream to true"],
        ),
    ] {
        let result = provider(answers).await;
        error(&result, parts);
        let told = result.error.as_deref().unwrap_or_default();
        assert!(!told.contains("max_answer_bytes") && !told.contains("the time limit"), "{told}");
        assert!(!serde_json::to_string(&result).unwrap().contains("12345678"));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut() {
    let piece = json!({"model": "m", "choices": [{"index": 0, "delta": {"content": "Fo"}}]});
    let backend = ScriptedProvider::start([ProviderAnswer::events(&[piece], false)]).await.unwrap();
    let mut case = case("cut stream");
    case.server_configs = None;
    let mut model = ModelSettings::new("custom", "m");
    (model.base_url, model.stream) = (Some(backend.base_url()), Some(true));
    case.agent_config = Some(model);
    case.judge_config = Some(ModelSettings::new("ollama", "m"));
    let runner = Runner::new(RemoteModels::new(), Arc::new(MemoryStore::new()));
    error(&run(&runner, case).await, &["broke off in the middle of its answer", "try again later"]);
    assert_eq!(backend.requests()[0].body["stream"], true);
}

/// A model that never answers.
struct Silent;

#[async_trait]
impl ChatModel for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn time_ends_a_trial_also_while_it_is_judged() {
    for (agent, calls) in [(Vec::new(), 0), (good_work(), 2)] {
        let models = if agent.is_empty() {
            FixedModels::new(Silent, ScriptedModel::new([]))
        } else {
            FixedModels::new(ScriptedModel::new(agent), Silent)
        };
        let runner = with_path(Runner::new(models, Arc::new(MemoryStore::new())));
        let mut case = case("time");
        case.limits.timeout_ms = 700;
        let result = run(&runner, case).await;
        error(&result, &["limits.timeoutMs (700 ms)", "raise it, or use a faster model or server"]);
        assert_eq!(result.tool_calls.len(), calls);
        runner.closed().await;
    }
}

#[tokio::test]
async fn long_results_are_cut() {
    let mut case = case("long");
    case.limits.max_result_bytes = 1_000;
    let result =
        run(&runner([call("big", json!({})), text_answer("Done.")], votes("yes")), case).await;
    assert_eq!(result.status, Status::Passed);
    let response = result.tool_calls[0].response.to_string();
    assert!(
        response.len() < 1_200 && response.contains("cutFromBytes"),
        "{} bytes",
        response.len()
    );
}

#[tokio::test]
async fn a_result_is_checked_before_it_is_cut() {
    for (matcher, status) in [
        (json!({"$ends_with": "x"}), Status::Passed),
        (json!({"$ends_with": "…"}), Status::Failed),
        (json!({"$length": 1_000_000}), Status::Passed),
        (json!({"$not": {"$length": 1_000_000}}), Status::Failed),
    ] {
        let mut case = case("long");
        case.agent_config = case.judge_config.take();
        case.checklist = None;
        let expected = json!([{"name": "big", "result": {"text": matcher}}]);
        case.expected_tools = serde_json::from_value(expected).unwrap();
        let result = run(&runner([call("big", json!({})), text_answer("Done.")], []), case).await;
        assert_eq!(result.status, status, "{matcher}: {:?}", result.verdict);
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = Arc::new(LibsqlStore::open(&path).await.unwrap());
    let models =
        FixedModels::new(ScriptedModel::new(good_work()), ScriptedModel::new(votes("yes")));
    let runner = with_path(Runner::new(models, store));
    std::fs::remove_file(&path).unwrap();
    let result = runner.run(case("unstored")).await;
    assert_eq!((result.status, result.success), (Status::Error, false));
    let error = result.error.unwrap();
    assert!(
        error.starts_with("the result (passed) was not stored: ")
            && error.contains("was removed or replaced"),
        "{error}"
    );
    assert!(result.verdict.passed, "the verdict is returned all the same");
}

#[tokio::test]
async fn a_test_that_is_stopped_is_stored_with_the_reason_and_its_work() {
    let models = FixedModels::new(
        ScriptedModel::new([write(), call("hang", json!({}))]),
        ScriptedModel::new(votes("yes")),
    );
    let runner = with_path(Runner::new(models, Arc::new(MemoryStore::new())));
    let (sender, receiver) = tokio::sync::oneshot::channel::<&str>();
    let sender = std::sync::Mutex::new(Some(sender));
    let context = RunContext::default()
        .stopped_by(async { receiver.await.unwrap().to_owned() })
        .on_event(move |event| {
            if matches!(event, TestEvent::CallStarted { tool_name, .. } if tool_name == "hang") {
                sender.lock().unwrap().take().unwrap().send("its client left").unwrap();
            }
        });
    let mut case = case("stopped");
    case.repetitions = 3;
    let result = runner.run_with(case, context).await;
    error(&result, &["the test was stopped: its client left"]);
    assert_eq!(result.trials.len(), 1, "no trial begins after the stop");
    let calls: Vec<&str> = result.tool_calls.iter().map(|call| &*call.tool_name).collect();
    assert_eq!(calls, ["write_note", "hang"], "the work before the stop is stored");
    assert_eq!(result.tool_calls[1].error.as_deref(), Some("the trial ended before the answer"));
    assert_eq!(runner.open_connections(), 0);
    assert_stored(&**runner.store(), &result).await;
    tokio::time::timeout(Duration::from_secs(5), runner.closed()).await.unwrap();
}

#[tokio::test]
async fn a_test_that_is_stopped_before_its_start_does_nothing() {
    let runner = runner(good_work(), votes("yes"));
    let context = RunContext::default().stopped_by(async { "nobody waits".to_owned() });
    let mut case = case("stopped at once");
    case.server_configs = Some(vec![ServerConfig::stdio("/nowhere/server", [""; 0])]);
    let result = runner.run_with(case, context).await;
    error(&result, &["the test was stopped: nobody waits"]);
    assert_stored(&**runner.store(), &result).await;
}

#[tokio::test]
async fn numbers_that_json_does_not_have_are_refused_and_the_result_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(LibsqlStore::open(folder.path().join("tests.db")).await.unwrap());
    let models = FixedModels::new(ScriptedModel::new([]), ScriptedModel::new([]));
    let runner = Runner::new(models, store);
    type Change = fn(&mut TestCase, f64);
    let changes: [(&str, Change); 5] = [
        ("the case has requiredPassRate", |case, value| case.required_pass_rate = value),
        ("limits has maxCostUsd", |case, value| case.limits.max_cost_usd = Some(value)),
        ("expect has minToolAccuracy", |case, value| {
            case.expect.min_tool_accuracy = Some(value);
        }),
        ("agentConfig has temperature", |case, value| {
            case.agent_config.as_mut().unwrap().temperature = Some(value);
        }),
        ("judgeConfig has price.outputPerMillion", |case, value| {
            let price = Price { input_per_million: 1.0, output_per_million: value };
            case.judge_config.as_mut().unwrap().price = Some(price);
        }),
    ];
    for (problem, change) in changes {
        for value in [f64::NAN, f64::INFINITY] {
            let mut case = case("not finite");
            change(&mut case, value);
            let result = run(&runner, case).await;
            error(&result, &[&format!("{problem} {value}: use a finite number")]);
        }
    }
}
