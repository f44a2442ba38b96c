//! The path of a case: servers, work, checks, judge, store, cassette.

use std::sync::{Arc, Mutex};

use marquetry_judge::{
    ExpectedTool, FixedModels, LibsqlStore, MemoryStore, RunContext, Runner, ServerConfig, Status,
    TestEvent, Timestamp, ToolCallRecord, cassette::Cassette,
};
use marquetry_llm::{ChatAnswer, ScriptedModel, ToolCall};
use marquetry_protocol::server::{
    Server,
    http::{HttpEndpoint, HttpOptions, LegacySseEndpoint, serve},
};
use serde_json::{Value, json};

use crate::support::{
    assert_stored, call, case, good_work, notes, read, run, runner, text_answer, vote, votes,
    with_path, write,
};

/// seed: 004/06
#[tokio::test]
async fn a_case_passes_and_is_read_back_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = Arc::new(LibsqlStore::open(&path).await.unwrap());
    let models =
        FixedModels::new(ScriptedModel::new(good_work()), ScriptedModel::new(votes("yes")));
    let runner = with_path(Runner::new(models, store));
    let mut case = case("notes");
    case.expected_tools =
        Some(vec![ExpectedTool::new("write_note"), ExpectedTool::new("read_note").at("notes")]);
    let result = runner.run(case).await;
    assert_eq!((result.status, &result.error), (Status::Passed, &None));
    assert!(result.success && result.verdict.passed && result.verdict.confidence == 1.0);
    assert_eq!(result.verdict.tool_accuracy, 1.0);
    let [one, two] = &result.tool_calls[..] else { panic!("{:?}", result.tool_calls) };
    assert_eq!(
        (&*one.tool_name, &*one.server_id, &*one.text()),
        ("write_note", "notes", "written")
    );
    assert_eq!((&*two.tool_name, two.success, &*two.text()), ("read_note", true, "hello"));
    let trial = &result.trials[0];
    assert_eq!(
        (trial.turns.len(), trial.votes.len(), &*trial.answer),
        (3, 3, "The note says hello.")
    );
    assert_eq!(trial.turns[1].calls, [1]);
    runner.closed().await;
    drop(runner);
    assert_stored(&LibsqlStore::open(&path).await.unwrap(), &result).await;
}

/// seed: 004/11
#[tokio::test]
async fn checks_and_judge_each_can_fail_a_case() {
    let mut missing = case("missing");
    missing.expected_tools = Some(vec![ExpectedTool::new("write_note"), ExpectedTool::new("big")]);
    let result = run(&runner(good_work(), votes("yes")), missing).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!(result.verdict.tool_accuracy, 0.5);
    assert!(
        result.verdict.reasoning.contains("1 of 2 expected calls"),
        "{}",
        result.verdict.reasoning
    );

    let result = run(&runner(good_work(), votes("no")), case("judged")).await;
    assert_eq!(
        (result.status, result.verdict.passed, result.verdict.confidence),
        (Status::Failed, false, 1.0)
    );
    assert_eq!((result.verdict.items[0].yes, result.verdict.items[0].no), (0, 3));
    assert_eq!(result.verdict.suggestions, None);

    // A split goes on to more votes.
    let split = [vec![vote("no")], vec![vote("yes"); 6]].concat();
    let result = run(&runner(good_work(), split), case("split")).await;
    assert!(result.verdict.passed);
    let confidence = result.verdict.confidence;
    assert!((confidence - 6.0 / 7.0).abs() < 1e-9, "{confidence}");
}

#[tokio::test]
async fn without_a_judge_the_checks_decide() {
    let mut case = case("by code");
    (case.judge_config, case.checklist) = (None, None);
    case.expect.max_calls = Some(2);
    let result = run(&runner(good_work(), []), case).await;
    assert_eq!((result.status, result.trials[0].votes.len()), (Status::Passed, 0));
    assert_eq!(result.verdict.reasoning, "All 1 checks passed.");
}

#[tokio::test]
async fn repetitions_are_trials_of_one_result() {
    let mut case = case("often");
    case.repetitions = 3;
    case.required_pass_rate = 0.6;
    let lost = vec![read(), text_answer("It is gone.")];
    let agent = [good_work(), lost, good_work()].concat();
    let judge = [votes("yes"), votes("no"), votes("yes")].concat();
    let result = run(&runner(agent, judge), case).await;
    assert_eq!(result.status, Status::Passed);
    let statuses: Vec<_> = result.trials.iter().map(|trial| trial.status).collect();
    assert_eq!(statuses, [Status::Passed, Status::Failed, Status::Passed]);
    // Each trial has its own server: the second trial does not see a note of the first.
    let succeeded = |trial: usize| -> Vec<bool> {
        result.trials[trial].tool_calls.iter().map(|call| call.success).collect()
    };
    assert_eq!(
        [succeeded(0), succeeded(1), succeeded(2)],
        [vec![true; 2], vec![false], vec![true; 2]]
    );
    // The verdict is that of a trial with the status of the case.
    assert!(result.verdict.passed);
}

/// seed: 004/10
#[tokio::test]
async fn tools_of_two_servers_with_one_name_go_to_their_owner() {
    let mut case = case("two");
    case.server_configs = Some(vec![notes("usual"), notes("usual").named("other")]);
    let agent = [
        call("other__write_note", json!({"name": "a", "text": "there"})),
        call("notes__read_note", json!({"name": "a"})),
        call("other__read_note", json!({"name": "a"})),
        text_answer("Done."),
    ];
    let result = run(&runner(agent, votes("yes")), case).await;
    let calls = result.tool_calls.iter();
    let calls: Vec<_> =
        calls.map(|call| (&*call.tool_name, &*call.server_id, call.success)).collect();
    // Only `other` has the note: the failed call was not repeated there.
    assert_eq!(
        calls,
        [
            ("write_note", "other", true),
            ("read_note", "notes", false),
            ("read_note", "other", true)
        ]
    );
}

/// Serves the notes over HTTP+SSE alone. Returns its URL, and a log: a line for each request when
/// it comes, with the method of its message, and one with status and media type when it is
/// answered.
async fn sse_server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let endpoint = LegacySseEndpoint::new(
        Server::new(crate::notes::toolbox()),
        HttpOptions::default(),
        "/messages",
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let app = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let endpoint = endpoint.clone();
        let log = Arc::clone(&log);
        async move {
            let asked = format!("{} {}", request.method(), request.uri().path());
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default();
            log.lock().unwrap().push(format!("{asked} {method}").trim_end().to_owned());
            let request = axum::extract::Request::from_parts(head, axum::body::Body::from(body));
            let answer = match request.uri().path() {
                "/messages" => endpoint.message(request).await,
                _ => endpoint.stream(&request).await,
            };
            let media_type = answer.headers().get("content-type");
            let media_type = media_type.map_or("", |it| it.to_str().unwrap());
            let line = format!("{asked}: {} {media_type}", answer.status().as_u16());
            log.lock().unwrap().push(line.trim_end().to_owned());
            answer.map(axum::body::Body::new)
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, seen)
}

/// seed: 004/07
#[tokio::test]
async fn a_server_that_speaks_http_and_sse_is_connected_to() {
    let (url, seen) = sse_server().await;
    let mut case = case("sse");
    let config = json!([{"type": "sse", "name": "notes", "url": url}]);
    case.server_configs = serde_json::from_value(config).unwrap();
    case.expected_tools = Some(vec![ExpectedTool::new("write_note").at("notes")]);
    let result = run(&runner(good_work(), votes("yes")), case).await;
    assert_eq!((result.status, &result.error), (Status::Passed, &None));
    assert_eq!(result.tool_calls[1].text(), "hello");
    let seen = seen.lock().unwrap();
    let count = |line: &str| seen.iter().filter(|it| *it == line).count();
    // One stream has all answers; each message is posted beside it.
    assert_eq!(count("GET /sse: 200 text/event-stream"), 1, "{seen:?}");
    for (method, times) in [("tools/list", 1), ("tools/call", 2)] {
        assert_eq!(count(&format!("POST /messages {method}")), times, "{seen:?}");
    }
    // Streamable HTTP was tried first, and refused.
    assert!(count("POST /sse: 405 application/json") > 0, "{seen:?}");
}

/// The record of a call has the members of the seed, and no others; the verdict has them, and the
/// judge's items.
///
/// seed: 004/09
/// seed: 004/11
#[tokio::test]
async fn records_and_verdicts_have_the_members_of_the_seed() {
    let item = json!({"id": "item1", "evidence": "call 1", "answer": "yes"});
    let answer =
        json!({"items": [item], "reasoning": "It is so.", "suggestions": "Read it first."});
    let judge = vec![text_answer(&answer.to_string()); 3];
    let agent = [write(), call("read_note", json!({"name": "no"})), text_answer("Done.")];
    let before = Timestamp::now();
    let result = json!(run(&runner(agent, judge), case("members")).await);
    let members = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort_unstable();
        names
    };
    let [written, refused] = &result["toolCalls"].as_array().unwrap()[..] else {
        panic!("{result}")
    };
    let always = [
        "executionTimeMs",
        "parameters",
        "response",
        "serverId",
        "success",
        "timestamp",
        "toolName",
    ];
    assert_eq!(members(written), always);
    assert_eq!(
        (&written["toolName"], &written["serverId"], &written["success"]),
        (&json!("write_note"), &json!("notes"), &json!(true))
    );
    assert_eq!(written["parameters"], json!({"name": "a", "text": "hello"}));
    assert_eq!(written["response"]["content"][0]["text"], "written");
    assert!(written["executionTimeMs"].is_u64());
    let at: Timestamp = serde_json::from_value(written["timestamp"].clone()).unwrap();
    assert!(before <= at && at <= Timestamp::now());
    assert_eq!(refused["success"], false);
    let told = format!("{} {}", refused["response"], refused["error"]);
    assert!(told.contains("there is no note"), "{told}");

    let verdict = &result["verdict"];
    assert_eq!(
        members(verdict),
        ["confidence", "items", "passed", "reasoning", "suggestions", "toolAccuracy"]
    );
    assert_eq!((&verdict["passed"], &verdict["confidence"]), (&json!(true), &json!(1.0)));
    assert_eq!(verdict["suggestions"], "Read it first.");
    assert!(verdict["reasoning"].as_str().unwrap().contains("It is so."), "{verdict}");
    assert_eq!(verdict["toolAccuracy"], 1.0);
}

/// seed: 004/08
#[tokio::test]
async fn a_server_behind_a_url_is_connected_to() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Server::new(crate::notes::toolbox());
    let endpoint = HttpEndpoint::new(server, HttpOptions::default());
    let serving = tokio::spawn(serve(listener, endpoint).into_future());
    for config in [
        ServerConfig::http(&url),
        serde_json::from_value(json!({"type": "sse", "url": url})).unwrap(),
    ] {
        let mut case = case("http");
        case.server_configs = Some(vec![config]);
        let result = run(&runner(good_work(), votes("yes")), case).await;
        assert_eq!((result.status, &result.error), (Status::Passed, &None));
        assert_eq!(result.tool_calls[0].server_id, "server1");
    }
    serving.abort();
}

#[tokio::test]
async fn events_tell_what_happens() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let context = RunContext::default().on_event(move |event| {
        let word = match event {
            TestEvent::TrialStarted { of: 1, .. } => "started",
            TestEvent::Connected { tools: 6, .. } => "connected",
            TestEvent::Turn { .. } => "turn",
            TestEvent::CallStarted { .. } => "call",
            TestEvent::CallEnded { call, .. } if call.success => "called",
            TestEvent::Vote { .. } => "vote",
            TestEvent::TrialEnded { status: Status::Passed, .. } => "ended",
            other => panic!("{other:?}"),
        };
        hear.lock().unwrap().push(word);
    });
    runner([write(), text_answer("Done.")], votes("yes")).run_with(case("events"), context).await;
    let words = heard.lock().unwrap().join(" ");
    assert_eq!(words, "started connected turn call called turn vote vote vote ended");
}

#[tokio::test]
async fn a_cassette_replays_without_models_and_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.json");
    let mut case = case("taped");
    let mut config = notes("usual");
    if let ServerConfig::Stdio { env, .. } = &mut config {
        env.insert("NOTES_TOKEN".to_owned(), "token-12345678".to_owned());
    }
    case.server_configs = Some(vec![config]);
    case.agent_config.as_mut().unwrap().api_key = Some("sk-12345678".to_owned());
    let cassette = Cassette::record();
    let agent = [call("secret", json!({})), write(), text_answer("Done; the key is sk-12345678.")];
    let recorded = runner(agent, votes("yes"))
        .run_with(case.clone(), RunContext::default().with_cassette(cassette.clone()))
        .await;
    assert_eq!(recorded.status, Status::Passed, "{:?}", recorded.error);
    cassette.save(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("12345678"), "{text}");

    // No program has this name, and the models have no answers.
    let replay = || RunContext::default().with_cassette(Cassette::load(&path).unwrap());
    case.server_configs =
        Some(vec![ServerConfig::stdio("/no/such/program", [""; 0]).named("notes")]);
    let empty = runner([], []);
    let replayed = empty.run_with(case.clone(), replay()).await;
    assert_eq!(replayed.status, Status::Passed, "{:?}", replayed.error);
    assert_eq!(replayed.tool_calls[1].response, recorded.tool_calls[1].response);
    assert_eq!(replayed.trials[0].votes.len(), 3);

    let mut with_one_vote = case.clone();
    with_one_vote.judge_config.as_mut().unwrap().votes = Some(1);
    let shorter = empty.run_with(with_one_vote, replay()).await;
    assert_eq!(shorter.status, Status::Error);
    let error = shorter.error.unwrap();
    assert!(error.contains("2 of 3 recorded requests on taped/"), "{error}");
    assert!(error.contains("were not made") && error.contains("--record"), "{error}");

    case.prompt = "Something else.".to_owned();
    let differing = empty.run_with(case, replay()).await;
    let error = differing.error.unwrap();
    assert!(error.contains("differs from the recording at /request/messages/1/text"), "{error}");
    assert!(error.contains("now \"Something else.\""), "{error}");
}

#[tokio::test]
async fn a_replay_tells_why_the_recorded_trial_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.json");
    let config = |script: &str| ServerConfig::stdio("/bin/sh", ["-c", script]).named("notes");
    let mut hanging = case("hangs");
    hanging.limits.call_timeout_ms = 200;
    let mut unstarted = case("does not start");
    unstarted.server_configs = Some(vec![config("echo no license >&2; exit 1")]);
    for (mut case, last, reason) in [
        (case("dies"), call("die", json!({})), "ended the connection during a call of \"die\""),
        (hanging, call("hang", json!({})), "limits.callTimeoutMs (200 ms"),
        (unstarted, text_answer("Done."), "did not start: "),
    ] {
        let cassette = Cassette::record();
        let context = RunContext::default().with_cassette(cassette.clone());
        let recorded = runner([write(), last], votes("yes")).run_with(case.clone(), context).await;
        let recorded = recorded.error.unwrap();
        assert!(recorded.contains(reason), "{recorded}");
        cassette.save(&path).unwrap();

        case.server_configs = Some(vec![config("exit 1")]);
        let context = RunContext::default().with_cassette(Cassette::load(&path).unwrap());
        let replayed = runner([], []).run_with(case, context).await;
        assert_eq!(replayed.status, Status::Error);
        let error = replayed.error.unwrap();
        let start = "the recorded trial ended at this request on ";
        assert!(error.starts_with(start) && error.contains(&recorded), "{error}");
    }
}

#[tokio::test]
async fn keys_are_in_no_result_and_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = Arc::new(LibsqlStore::open(&path).await.unwrap());
    let agent = [
        call("secret", json!({})),
        text_answer("The token is token-12345678, the key sk-12345678."),
    ];
    let models = FixedModels::new(ScriptedModel::new(agent), ScriptedModel::new(votes("yes")));
    let runner = with_path(Runner::new(models, store));
    let mut case = case("secret");
    let mut config = notes("usual");
    if let ServerConfig::Stdio { env, .. } = &mut config {
        env.insert("NOTES_TOKEN".to_owned(), "token-12345678".to_owned());
    }
    case.server_configs = Some(vec![config]);
    case.judge_config.as_mut().unwrap().api_key = Some("sk-12345678".to_owned());
    let result = runner.run(case).await;
    assert_eq!((result.status, &*result.tool_calls[0].text()), (Status::Passed, "…"));
    assert!(!serde_json::to_string(&result).unwrap().contains("12345678"));
    assert_stored(&**runner.store(), &result).await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(8).any(|bytes| bytes == b"12345678"));
    }
}

#[tokio::test]
async fn many_cases_run_at_once_and_leave_nothing() {
    // One model for each case: cases that share a script would take each other's answers.
    let store = Arc::new(MemoryStore::new());
    let runs = (0..16).map(|number| {
        let models =
            FixedModels::new(ScriptedModel::new(good_work()), ScriptedModel::new(votes("yes")));
        let runner = with_path(Runner::new(models, Arc::<MemoryStore>::clone(&store)));
        async move {
            let result = runner.run(case(&format!("case {number}"))).await;
            runner.closed().await;
            (result, runner.open_connections())
        }
    });
    for (result, open) in futures_util::future::join_all(runs).await {
        assert_eq!((result.status, &result.error, open), (Status::Passed, &None, 0));
    }
}

#[tokio::test]
async fn a_dropped_run_leaves_no_program() {
    let models = FixedModels::new(
        ScriptedModel::new([call("hang", json!({}))]),
        ScriptedModel::new(votes("yes")),
    );
    let runner = with_path(Runner::new(models, Arc::new(MemoryStore::new())));
    let started = std::time::Duration::from_millis(400);
    let outcome = tokio::time::timeout(started, runner.run(case("dropped"))).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(runner.open_connections(), 0);
    tokio::time::timeout(std::time::Duration::from_secs(5), runner.closed()).await.unwrap();
}

#[tokio::test]
async fn several_calls_of_one_turn_are_made_in_order() {
    let two = ["c1", "c2"].map(|id| ToolCall {
        id: id.to_owned(),
        name: if id == "c1" { "write_note" } else { "read_note" }.to_owned(),
        arguments: json!({"name": "a", "text": "hello"}),
    });
    let result =
        run(&runner([ChatAnswer::calls(two), text_answer("Done.")], votes("yes")), case("turn"))
            .await;
    let texts: Vec<_> = result.tool_calls.iter().map(ToolCallRecord::text).collect();
    assert_eq!(texts, ["written", "hello"]);
    assert_eq!(result.trials[0].turns[0].calls, [0, 1]);
}
