//! Upstreams: lists, calls, failures and restarts.

use std::time::{Duration, Instant};

use marquetry::Config;
use marquetry_protocol::{
    Revision,
    client::{CallOptions, ClientError, ClientOptions},
    types::CallToolParams,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::mpsc};

use crate::{
    support::{
        Running, ask, call, rpc_error, text_of, token_of, tool_names, until, users_toml, within,
    },
    upstream::{HttpUpstream, child_toml, slow_child_toml},
};

const QUICK: &str =
    "[gateway]\nrestart_delay_ms = 50\nrestart_max_delay_ms = 400\nstop_grace_ms = 1000\n";

#[tokio::test]
async fn tools_of_all_upstreams_are_offered_with_their_prefix() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{}{}", child_toml("local"), web.toml("web"))).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        let names = tool_names(&agent).await;
        assert_eq!(
            names[..7],
            [
                "encodePlantUML",
                "decodePlantUML",
                "list_artifacts",
                "read_artifact",
                "search_artifact",
                "query_artifact",
                "delete_artifact"
            ]
        );
        assert!(
            names.contains(&"local__echo".to_owned()) && names.contains(&"web__echo".to_owned())
        );
        assert!(names.contains(&"web__same_arguments".to_owned()), "{names:?}");
        for tool in ["local__echo", "web__echo"] {
            assert_eq!(text_of(&agent, tool, json!({"text": "hello"})).await, "hello");
        }
    }
    let health = server.app.health();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["upstreams"][0]["refused"], json!(null));
    assert_eq!(health["upstreams"][0]["tools"], 16);
    server.stop().await;
}

/// C3: calls to a tool that never answers use up only the places of its upstream.
#[tokio::test]
async fn a_silent_upstream_takes_only_its_own_places() {
    let silent = HttpUpstream::start().await;
    let web = HttpUpstream::start().await;
    let limits = "[limits]\nmax_in_flight_per_upstream = 2\nqueue_ms = 50\n";
    let server =
        Running::start(&format!("{limits}{}{}", silent.toml("silent"), web.toml("web"))).await;
    let agent = server.agent().await;
    let held: Vec<_> = (0..2)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { call(&agent, "silent__slow", json!({"ms": 60_000})).await })
        })
        .collect();
    until("a third call is refused", async || {
        let answer = call(&agent, "silent__echo", json!({"text": "x"})).await.unwrap();
        let why = "upstream 'silent': more than 2 requests are in flight (limits.max_in_flight_per_upstream)";
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["isError"] == true, text.starts_with(why), "{text}");
        text.starts_with(why)
    })
    .await;
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "hello"})).await, "hello");
    held.iter().for_each(tokio::task::JoinHandle::abort);
    server.stop().await;
}

#[tokio::test]
async fn progress_and_logs_of_upstreams_pass_through() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&web.toml("web")).await;
    let agent = server.agent().await;
    let listed = ask(&agent, "tools/list", json!({})).await.unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "web__structured").unwrap();
    assert_eq!(tool["x-unknown"], json!({"kept": true}));
    assert_eq!(
        tool["outputSchema"],
        json!({
            "type": "object",
            "properties": {"rows": {"type": "array"}, "marquetry/notice": {"type": "string"}},
            "required": ["rows"],
            "additionalProperties": false,
        }),
        "what is captured still satisfies it"
    );

    let failed = call(&agent, "web__fail", json!({})).await.unwrap();
    assert_eq!(
        (&failed["isError"], &failed["content"][0]["text"]),
        (&json!(true), &json!("it failed"))
    );
    match call(&agent, "web__refuse", json!({})).await {
        Err(ClientError::Rpc(error)) => {
            let message = "upstream 'web': refused";
            assert_eq!((error.code, error.message.as_str()), (-32099, message));
            assert_eq!(error.data.unwrap().get(), r#"{"why":1}"#);
        }
        other => panic!("{other:?}"),
    }
    let (code, message) = rpc_error(call(&agent, "nobody__echo", json!({})).await);
    assert_eq!((code, message.as_str()), (-32602, "unknown tool 'nobody__echo'"));

    // The caller's own `_meta` reaches the tool; that of the connection does not.
    let mut params = CallToolParams::new("web__meta", &json!({})).unwrap();
    params.meta = json!({"mine": 1, "io.modelcontextprotocol/x": 2}).as_object().cloned();
    let answer = within(agent.call_tool_raw(&params, CallOptions::default())).await.unwrap();
    assert!(
        answer.get().contains(r#"mine\":1"#) && !answer.get().contains("modelcontextprotocol/x")
    );
    assert!(
        agent.server().instructions.as_ref().unwrap().contains("# web\n\nEcho before you crash.")
    );
    server.stop().await;
}

#[tokio::test]
async fn resources_and_prompts_find_their_upstream() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{}{}", web.toml("web"), child_toml("local"))).await;
    let agent = server.agent().await;
    let read = async |uri: &str| ask(&agent, "resources/read", json!({"uri": uri})).await;

    let listed = ask(&agent, "resources/list", json!({})).await.unwrap();
    let uris: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|it| it["uri"].clone()).collect();
    assert_eq!(uris, ["test://static", "local+test://static"]);
    let templates = ask(&agent, "resources/templates/list", json!({})).await.unwrap();
    let templates: Vec<_> = templates["resourceTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["uriTemplate"].clone())
        .collect();
    assert_eq!(templates, ["artifact://{name}{?version}", "test://item/{id}"]);

    assert_eq!(read("test://static").await.unwrap()["contents"][0]["text"], "read test://static");
    let contents = read("local+test://static").await.unwrap()["contents"][0].clone();
    assert_eq!(
        (&contents["text"], &contents["uri"]),
        (&json!("read test://static"), &json!("local+test://static"))
    );
    assert_eq!(read("test://item/7").await.unwrap()["contents"][0]["text"], "read test://item/7");
    assert_eq!(rpc_error(read("test://item/none").await).0, -32002);
    // Two upstreams have resources, and neither lists this one. A tool answer links to it.
    assert_eq!(rpc_error(read("elsewhere://linked").await).0, -32002);
    call(&agent, "local__link", json!({})).await.unwrap();
    assert_eq!(
        read("elsewhere://linked").await.unwrap()["contents"][0]["text"],
        "read elsewhere://linked"
    );

    let prompts = ask(&agent, "prompts/list", json!({})).await.unwrap();
    let names: Vec<_> =
        prompts["prompts"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["web__greet", "local__greet"]);
    let params = json!({"name": "local__greet", "arguments": {"with": "joy"}});
    let prompt = ask(&agent, "prompts/get", params).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], r#"Greet with {"with":"joy"}."#);
    let unknown = rpc_error(ask(&agent, "prompts/get", json!({"name": "greet"})).await);
    assert_eq!(unknown, (-32602, "unknown prompt 'greet'".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_crash_answers_the_call_and_the_upstream_returns() {
    let server = Running::start(&format!("{QUICK}{}", child_toml("local"))).await;
    let agent = server.agent().await;
    let before = text_of(&agent, "local__pid", json!({})).await;

    let started = Instant::now();
    let (waiting, crashed) = tokio::join!(
        call(&agent, "local__slow", json!({"ms": 60_000})),
        call(&agent, "local__crash", json!({}))
    );
    assert!(started.elapsed() < Duration::from_secs(5), "the pending call is answered quickly");
    for answer in [waiting.unwrap(), crashed.unwrap()] {
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["isError"], true);
        assert!(text.starts_with("upstream 'local' ended during the call"), "{text}");
        let end =
            "; it is started again within 1 s; it last wrote to standard error:\nupstream started";
        assert!(text.contains(end), "{text}");
        let facts = json!({"upstream": "local", "state": "backing_off", "kind": "unreachable"});
        assert_eq!(answer["_meta"]["marquetry/upstream"], facts);
    }
    until("the upstream is back", async || {
        let answer = call(&agent, "local__pid", json!({})).await.unwrap();
        answer["isError"].is_null() && answer["content"][0]["text"] != json!(before)
    })
    .await;
    assert_eq!(server.app.health()["upstreams"][0]["restarts"], 1);
    server.stop().await;
}

#[tokio::test]
async fn with_tokens_a_crash_does_not_show_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let users = users_toml(directory.path(), &["ann"]);
    let server = Running::start(&format!("{QUICK}{users}{}", child_toml("local"))).await;
    let options = ClientOptions::default();
    let revision = Revision::V2025_11_25;
    let agent = server.agent_of_user(revision, options, Some(&token_of("ann"))).await;
    let answer = call(&agent, "local__crash", json!({})).await.unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("upstream 'local' ended during the call"), "{text}");
    assert!(!text.contains("upstream started"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_dead_upstream_leaves_the_others_usable() {
    let dead = "[mcp_servers.dead]\ncommand = '/no/such/program'\n[mcp_servers.silent]\ncommand = 'sleep'\nargs = ['60']\nstart_timeout_ms = 300\n";
    let gateway = "[gateway]\nlist_wait_ms = 0\nrestart_delay_ms = 60000\nstop_grace_ms = 200\n";
    let server = Running::start_at_once(&format!("{gateway}{dead}{}", child_toml("local"))).await;
    let started = Instant::now();
    let agent = server.agent().await;
    assert!(tool_names(&agent).await.len() >= 4);
    assert!(started.elapsed() < Duration::from_secs(2), "the server answers at once");

    within(server.app.ready()).await;
    assert_eq!(text_of(&agent, "local__echo", json!({"text": "alive"})).await, "alive");
    for (tool, why) in [
        ("dead__any", "program \"/no/such/program\" not found"),
        ("silent__any", "not ready within 300 ms (start_timeout_ms)"),
    ] {
        let answer = call(&agent, tool, json!({})).await.unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["isError"], true);
        assert!(text.contains(why) && text.contains("is down"), "{text}");
    }
    let health = server.app.health();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["upstreams"][0]["state"], "backing_off");
    server.stop().await;
}

#[tokio::test]
async fn secrets_of_a_url_are_not_shown() {
    let toml = "[mcp_servers.web]\nurl = 'http://me:hush@127.0.0.1:1/mcp?key=hush'\n";
    let server = Running::start(toml).await;
    let agent = server.agent().await;
    let answer = call(&agent, "web__any", json!({})).await.unwrap().to_string();
    assert!(answer.contains("http://127.0.0.1:1/mcp"), "{answer}");
    let health = server.app.health().to_string();
    assert!(health.contains("http://127.0.0.1:1/mcp"), "{health}");
    for text in [answer, health] {
        assert!(!text.contains("hush") && !text.contains("me:"), "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_unsupported_transport_leaves_the_others_usable() {
    let web = HttpUpstream::start().await;
    let json =
        json!({"mcpServers": {"far": {"type": "ws", "url": "ws://x"}, "web": {"url": web.url}}});
    let mut config = Config::default();
    config.add_mcp_json(&json.to_string(), "mcp.json").unwrap();
    let server = Running::of(config).await;
    within(server.app.ready()).await;
    let agent = server.agent().await;
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "alive"})).await, "alive");
    let answer = text_of(&agent, "far__any", json!({})).await;
    assert!(answer.contains("failed and is not started again (unknown type \"ws\""), "{answer}");
    let health = server.app.health();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["upstreams"][0]["state"], "failed");
    server.stop().await;
}

#[tokio::test]
async fn restarts_of_a_failing_upstream_end_at_the_configured_number() {
    let toml = "[gateway]\nrestart_delay_ms = 10\nrestart_max_failures = 3\n[mcp_servers.dead]\ncommand = '/no/such/program'\n";
    let server = Running::start(toml).await;
    until("given up", async || server.app.health()["upstreams"][0]["state"] == "failed").await;
    let agent = server.agent().await;
    let answer = call(&agent, "dead__any", json!({})).await.unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("upstream 'dead' failed and is not started again"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_start_without_discovery_is_not_a_second_failure() {
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("starts");
    let program = format!("echo x >> '{}'; exit 1", starts.display());
    let toml = format!(
        "[gateway]\nrestart_delay_ms = 10\nrestart_max_failures = 2\n[mcp_servers.dead]\ncommand = 'sh'\nargs = ['-c', {program:?}]\n"
    );
    let server = Running::start(&toml).await;
    until("given up", async || server.app.health()["upstreams"][0]["state"] == "failed").await;
    // The first two starts are one attempt: with `server/discover`, and without.
    assert_eq!(std::fs::read_to_string(starts).unwrap(), "x\n".repeat(3));
    server.stop().await;
}

#[tokio::test]
async fn crashes_during_calls_do_not_add_up_while_other_calls_are_answered() {
    let limits = "[gateway]\nrestart_delay_ms = 10\nrestart_max_failures = 2\n";
    let server = Running::start(&format!("{limits}{}", child_toml("local"))).await;
    let agent = server.agent().await;
    for crash in 1..=3 {
        assert_eq!(text_of(&agent, "local__echo", json!({"text": "x"})).await, "x");
        call(&agent, "local__crash", json!({})).await.unwrap();
        until("the upstream is back", async || {
            let upstream = &server.app.health()["upstreams"][0];
            assert_ne!(upstream["state"], "failed", "after {crash} crashes");
            upstream["state"] == "ready" && upstream["restarts"] == crash
        })
        .await;
    }
    server.stop().await;
}

/// Returns the settings of an upstream `sh` of 2025-11-25 that answers `tools/list` with `list`,
/// and calls with a text. `$n` is the number of earlier starts; `at_start` and `after_list` are run
/// then.
fn shell_toml(starts: &std::path::Path, list: &str, at_start: &str, after_list: &str) -> String {
    let introduction = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    let starts = starts.display();
    let program = format!(
        r#"touch '{starts}'; n=$(wc -l < '{starts}'); echo x >> '{starts}'; {at_start}
        answer() {{ id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); echo '{{"jsonrpc":"2.0","id":'$id',"result":'"$1"'}}'; }}
        while read -r line; do case "$line" in
            *'"initialize"'*) answer '{introduction}';;
            *tools/list*) answer '{list}'; {after_list};;
            *tools/call*) answer '{result}';;
        esac; done"#
    );
    format!(
        "[mcp_servers.sh]\ncommand = 'sh'\nrevision = '2025-11-25'\nargs = ['-c', {program:?}]\n"
    )
}

#[tokio::test]
async fn an_answer_before_a_restart_does_not_excuse_later_failures() {
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("starts");
    let list = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#;
    let at_start = "case $n in 0|2) ;; *) exit 1;; esac";
    let after_list = "test $n = 0 || { sleep 0.2; exit 1; }";
    let limits =
        "[gateway]\nrestart_delay_ms = 10\nrestart_max_failures = 2\nstop_grace_ms = 100\n";
    let toml = format!("{limits}{}", shell_toml(&starts, list, at_start, after_list));
    let server = Running::start(&toml).await;
    assert_eq!(text_of(&server.agent().await, "sh__t", json!({})).await, "done");
    let restarted = server.http("POST", "/api/console/servers/sh/restart", &[], b"").await;
    assert_eq!(restarted.status, 200);
    until("given up", async || server.app.health()["upstreams"][0]["state"] == "failed").await;
    // The second start fails. The third one succeeds, and the program ends without an answer to a
    // call.
    assert_eq!(std::fs::read_to_string(starts).unwrap(), "x\n".repeat(3));
    server.stop().await;
}

#[tokio::test]
async fn a_list_that_may_lack_items_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let list = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"again"}"#;
    let toml = shell_toml(&directory.path().join("starts"), list, "", "");
    let server = Running::start(&toml).await;
    let health = server.app.health();
    assert_eq!(health["upstreams"][0]["state"], "ready");
    assert_eq!(
        health["upstreams"][0]["left_out"],
        json!([{
            "list": "tools",
            "problem": "items may be missing: 'tools/list' names the cursor of an earlier page as its next",
        }])
    );
    server.stop().await;
}

fn state_of_first(server: &Running) -> Value {
    server.app.health()["upstreams"][0]["state"].clone()
}

#[tokio::test]
async fn an_http_upstream_that_goes_and_comes_back_is_found_again() {
    let web = HttpUpstream::start().await;
    let address = web.url["http://".len()..].trim_end_matches("/mcp").parse().unwrap();
    let server = Running::start(&format!("{QUICK}{}", web.toml("web"))).await;
    let agent = server.agent().await;
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "x"})).await, "x");

    web.stop().await;
    let answer = call(&agent, "web__echo", json!({"text": "x"})).await.unwrap();
    assert_eq!(answer["isError"], true, "{answer}");
    until("the loss is noticed", async || state_of_first(&server) != "ready").await;

    let _web = HttpUpstream::start_at(address).await;
    until("it is back", async || state_of_first(&server) == "ready").await;
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "y"})).await, "y");
    server.stop().await;
}

#[tokio::test]
async fn changes_of_lists_reach_every_agent() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{}{}", web.toml("web"), child_toml("local"))).await;
    for (revision, upstream) in [(Revision::V2025_11_25, "web"), (Revision::V2026_07_28, "local")] {
        let agent = server.agent_of(revision).await;
        let other = server.agent_of(revision).await;
        let mut told = [agent.notifications(), other.notifications()];
        let extra = format!("{upstream}__extra");
        assert!(!tool_names(&agent).await.contains(&extra));
        // The stream of a stateless agent opens asynchronously.
        tokio::time::sleep(Duration::from_millis(300)).await;
        call(&agent, &format!("{upstream}__grow"), json!({})).await.unwrap();
        for told in &mut told {
            within(async {
                while &*told.recv().await.unwrap().method != "notifications/tools/list_changed" {}
            })
            .await;
        }
        assert!(tool_names(&agent).await.contains(&extra));
        assert_eq!(text_of(&other, &extra, json!({})).await, "extra");
    }
    server.stop().await;
}

fn slow(ms: u64) -> CallToolParams {
    CallToolParams::new("web__slow", &json!({"ms": ms})).unwrap()
}

#[tokio::test]
async fn progress_and_cancellation_go_through() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&web.toml("web")).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;

        let (sender, mut progress) = mpsc::channel(8);
        let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
        within(agent.call_tool_raw(&slow(0), options)).await.unwrap();
        let first = progress.recv().await.unwrap();
        assert_eq!(
            (first.progress, first.total, first.message.as_deref()),
            (1.0, Some(3.0), Some("begun"))
        );
        assert_eq!(progress.recv().await.unwrap().progress, 2.0);
        assert!(!web.upstream.slow_was_dropped());

        let params = slow(60_000);
        let call = agent.call_tool_raw(&params, CallOptions::default());
        let cancelled = tokio::time::timeout(Duration::from_millis(500), call).await;
        assert!(cancelled.is_err() && web.upstream.slow_is_running());
        until("the upstream learns of it", async || web.upstream.slow_was_dropped()).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_over_its_time_limit_is_cancelled() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{}call_timeout_ms = 200\n", web.toml("web"))).await;
    let agent = server.agent().await;
    let answer = call(&agent, "web__slow", json!({"ms": 60_000})).await.unwrap();
    assert_eq!(answer["isError"], true);
    assert_eq!(
        answer["content"][0]["text"],
        "upstream 'web' gave no answer within 200 ms (call_timeout_ms)"
    );
    until("the upstream learns of it", async || web.upstream.slow_was_dropped()).await;
    server.stop().await;
}

#[tokio::test]
async fn progress_extends_the_time_of_a_call_up_to_a_limit() {
    let web = HttpUpstream::start().await;
    let toml = format!("gateway.max_call_ms = 1500\n{}call_timeout_ms = 300\n", web.toml("web"));
    let server = Running::start(&toml).await;
    let agent = server.agent().await;
    for (wants_progress, problem) in [
        (true, "upstream 'web' gave no answer within 1500 ms (max_call_ms)"),
        (false, "upstream 'web' gave no answer within 300 ms (call_timeout_ms)"),
    ] {
        let (sender, _progress) = tokio::sync::mpsc::channel(1);
        let options =
            CallOptions { progress: wants_progress.then_some(sender), ..CallOptions::default() };
        let call = CallToolParams::new("web__chatter", &json!({})).unwrap();
        let answer = within(agent.call_tool_raw(&call, options)).await.unwrap();
        assert!(answer.get().contains(problem), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_no_progress_does_not_stop_the_clock() {
    let web = HttpUpstream::start().await;
    let toml = format!("gateway.max_call_ms = 2000\n{}call_timeout_ms = 500\n", web.toml("web"));
    let server = Running::start(&toml).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "web__chatter", "_meta": {
        "progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "deaf", "version": "1"},
    }}})
    .to_string();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: web__chatter\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    until("the call is under way", async || web.upstream.slow_is_running()).await;
    until("it is given up", async || web.upstream.slow_was_dropped()).await;
    server.abort().await;
}

#[tokio::test]
async fn the_first_list_waits_for_upstreams_that_start_quickly() {
    let server = Running::start_at_once(&child_toml("local")).await;
    let agent = server.agent().await;
    assert!(tool_names(&agent).await.contains(&"local__echo".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn the_first_lists_wait_for_each_upstream_that_has_not_failed() {
    // Lists wait once for an upstream that is missing, and once for one that hangs until its time
    // limit.
    let others = "[mcp_servers.dead]\ncommand = '/no/such/program'\n[mcp_servers.silent]\ncommand = 'sleep'\nargs = ['60']\nstart_timeout_ms = 500\n";
    let gateway =
        "[gateway]\nrestart_delay_ms = 10\nrestart_max_delay_ms = 20\nstop_grace_ms = 200\n";
    let slow = slow_child_toml("local", 1) + "revision = '2026-07-28'\n";
    let server = Running::start_at_once(&format!("{gateway}{others}{slow}")).await;
    let agent = server.agent().await;
    let (tools, prompts) = tokio::join!(tool_names(&agent), ask(&agent, "prompts/list", json!({})));
    assert!(tools.contains(&"local__echo".to_owned()), "{tools:?}");
    assert_eq!(prompts.unwrap()["prompts"][0]["name"], "local__greet");
    // Both others are being restarted repeatedly by now.
    let started = Instant::now();
    tool_names(&agent).await;
    ask(&agent, "resources/list", json!({})).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
    server.stop().await;
}

#[tokio::test]
async fn lists_that_wait_for_upstreams_leave_their_callers_places_free() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::start_at_once(&format!(
        "limits.max_in_flight_per_caller = 2\nlimits.queue_ms = 20\nlimits.max_waiting_requests_per_caller = 8\n{}{}",
        users_toml(directory.path(), &["ann"]),
        slow_child_toml("local", 1)
    ))
    .await;
    let token = token_of("ann");
    let options = ClientOptions::default();
    let revision = Revision::V2025_11_25;
    let agent = server.agent_of_user(revision, options, Some(&token)).await;
    let lists = ["tools/list", "prompts/list", "tools/list", "prompts/list"].map(|list| {
        let agent = agent.clone();
        tokio::spawn(async move { ask(&agent, list, json!({})).await })
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(lists.iter().all(|list| !list.is_finished()), "they wait");
    ask(&agent, "ping", json!({})).await.unwrap();
    call(&agent, "list_artifacts", json!({})).await.unwrap();
    for list in lists {
        let list = list.await.unwrap().unwrap().to_string();
        assert!(list.contains("local"), "{list}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_wait_of_lists_has_a_limit() {
    let toml = format!("gateway.list_wait_ms = 300\n{}", slow_child_toml("local", 2));
    let server = Running::start_at_once(&toml).await;
    let agent = server.agent().await;
    let mut told = agent.notifications();
    let started = Instant::now();
    assert!(!tool_names(&agent).await.contains(&"local__echo".to_owned()));
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
    within(async {
        while &*told.recv().await.unwrap().method != "notifications/tools/list_changed" {}
    })
    .await;
    assert!(tool_names(&agent).await.contains(&"local__echo".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_list_that_is_never_answered_leaves_the_others_usable() {
    let web = HttpUpstream::start().await;
    web.upstream.hang_prompts();
    let server =
        Running::start_at_once(&format!("{}start_timeout_ms = 1000\n", web.toml("web"))).await;
    let agent = server.agent().await;
    let started = Instant::now();
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "x"})).await, "x");
    assert!(tool_names(&agent).await.contains(&"web__echo".to_owned()));
    assert!(started.elapsed() < Duration::from_millis(900), "tools wait for no prompts");
    let listed = ask(&agent, "resources/list", json!({})).await.unwrap();
    assert_eq!(listed["resources"][0]["uri"], "test://static");
    within(server.app.ready()).await;
    let health = server.app.health();
    assert_eq!(health["upstreams"][0]["state"], "ready");
    assert_eq!(health["upstreams"][0]["left_out"][0]["list"], "prompts");
    // Later changes are announced, too.
    call(&agent, "web__grow", json!({})).await.unwrap();
    until("the new tool is there", async || {
        tool_names(&agent).await.contains(&"web__extra".to_owned())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_dead_upstream_is_reported_with_the_end_of_its_stderr() {
    let script = "seq 1 30 >&2; echo no key was given >&2; exit 3";
    let toml = format!(
        "gateway.restart_delay_ms = 60000\n[mcp_servers.dead]\ncommand = 'sh'\nargs = ['-c', '{script}']\n"
    );
    let server = Running::start(&toml).await;
    let agent = server.agent().await;
    let answer = text_of(&agent, "dead__any", json!({})).await;
    assert!(answer.starts_with("upstream 'dead' is down"), "{answer}");
    assert!(answer.ends_with("\n29\n30\nno key was given"), "{answer}");
    let upstream = &server.app.health()["upstreams"][0];
    let lines = upstream["stderr"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[19]), (20, &json!("no key was given")), "{upstream}");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_when_it_is_asked_for_its_revision_is_in_the_first_list() {
    let script = r#"while read -r line; do case "$line" in
        *server/discover*) exit 1;;
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}';;
        *tools/list*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"only","inputSchema":{"type":"object"}}]}}';;
    esac; done"#;
    let mut config = Config::default();
    let json = json!({"mcpServers": {"strict": {"command": "sh", "args": ["-c", script]}}});
    // A `$` before `line` is not a variable of the file.
    config.add_mcp_json(&json.to_string(), "mcp.json").unwrap();
    let server = Running::of(config).await;
    let agent = server.agent().await;
    assert!(tool_names(&agent).await.contains(&"strict__only".to_owned()));
    assert_eq!(server.app.health()["upstreams"][0]["restarts"], 1);
    server.stop().await;
}

#[tokio::test]
async fn an_unset_variable_stops_only_its_upstream() {
    let web = HttpUpstream::start().await;
    let json = json!({"mcpServers": {
        "search": {"url": web.url, "headers": {"Authorization": "Bearer ${MARQUETRY_NOT_SET}"}},
        "web": {"url": web.url, "disabledTools": ["big"]},
    }});
    let mut config = Config::default();
    let warnings = config.add_mcp_json(&json.to_string(), "mcp.json").unwrap();
    assert!(
        warnings[0].starts_with("server \"search\" is not started: mcp.json:1:"),
        "{warnings:?}"
    );
    let server = Running::of(config).await;
    let agent = server.agent().await;
    let tools = tool_names(&agent).await;
    assert!(tools.contains(&"web__echo".to_owned()) && !tools.contains(&"web__big".to_owned()));
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "alive"})).await, "alive");
    let (code, _) = rpc_error(call(&agent, "web__big", json!({"words": 1})).await);
    assert_eq!(code, -32602, "a tool that is turned off does not exist");
    let why = "the environment variable MARQUETRY_NOT_SET is not set";
    assert!(text_of(&agent, "search__any", json!({})).await.contains(why));
    let health = server.app.health();
    assert_eq!(
        (&health["upstreams"][0]["state"], &health["upstreams"][0]["transport"]),
        (&json!("failed"), &json!("http"))
    );
    assert!(health["upstreams"][0]["problem"].as_str().unwrap().contains(why), "{health}");
    server.stop().await;
}

#[tokio::test]
async fn a_call_waits_for_an_upstream_that_is_starting() {
    // Long after the server's start, lists do not wait any more.
    let toml = format!("gateway.list_wait_ms = 1500\n{}", slow_child_toml("local", 2));
    let server = Running::start_at_once(&toml).await;
    let agent = server.agent().await;
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    assert_eq!(text_of(&agent, "local__echo", json!({"text": "at last"})).await, "at last");
    server.stop().await;
}

#[tokio::test]
async fn a_call_names_the_upstream_with_the_longest_prefix() {
    let web = HttpUpstream::start().await;
    let dead = "[mcp_servers.web__b]\ncommand = '/no/such/program'\n";
    let server = Running::start(&format!("{QUICK}{}{dead}", web.toml("web"))).await;
    let agent = server.agent().await;
    let answer = text_of(&agent, "web__b__echo", json!({})).await;
    assert!(answer.starts_with("upstream 'web__b' is down"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_tool_is_compared_with_the_known_ones() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&web.toml("web")).await;
    let agent = server.agent().await;
    for name in ["web__ecko", "web_echo"] {
        let (code, message) = rpc_error(call(&agent, name, json!({})).await);
        let want = format!("unknown tool '{name}'; did you mean 'web__echo'?");
        assert_eq!((code, message), (-32602, want));
    }
    server.stop().await;
}

/// One hanging server must not cost the agent the time that a start may take.
#[tokio::test]
async fn the_first_list_waits_five_seconds_at_most() {
    let silent = "[mcp_servers.silent]\ncommand = 'sleep'\nargs = ['60']\n";
    let gateway = "[gateway]\nstop_grace_ms = 200\n";
    let server = Running::start_at_once(&format!("{gateway}{silent}{}", child_toml("local"))).await;
    let agent = server.agent().await;
    let started = Instant::now();
    assert!(tool_names(&agent).await.contains(&"local__echo".to_owned()));
    let waited = started.elapsed();
    assert!(waited < Duration::from_secs(6), "{waited:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_missing_list_is_reported() {
    let web = HttpUpstream::start().await;
    web.upstream.break_prompts();
    let server = Running::start(&web.toml("web")).await;
    let agent = server.agent().await;
    assert_eq!(text_of(&agent, "web__echo", json!({"text": "x"})).await, "x");
    let left_out = &server.app.health()["upstreams"][0]["left_out"];
    assert_eq!(left_out[0]["list"], "prompts");
    assert!(left_out[0]["problem"].as_str().unwrap().contains("no ink"), "{left_out}");
    server.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("limits.list_page_size = 5\n{}", web.toml("web"))).await;
    let agent = server.agent().await;
    let first = ask(&agent, "tools/list", json!({})).await.unwrap();
    assert_eq!(first["tools"].as_array().unwrap().len(), 5);
    let all = within(agent.list_tools()).await.unwrap();
    assert_eq!(all.len(), 23);
    let (code, _) = rpc_error(ask(&agent, "tools/list", json!({"cursor": "?"})).await);
    assert_eq!(code, -32602);
    server.stop().await;
}

#[tokio::test]
async fn over_stdio_the_first_list_waits_for_every_server() {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("m.toml");
    // Without the list that an earlier run has stored.
    let settings = "knowledge.enabled = false\ngateway.tool_cache = false\n";
    std::fs::write(&config, format!("{settings}{}", slow_child_toml("slow", 2))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_marquetry"))
        .args(["stdio", "--config", config.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "once", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}),
    ];
    let mut stdin = child.stdin.take().unwrap();
    for message in messages {
        writeln!(stdin, "{message}").unwrap();
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let listed =
        lines.find_map(|line| Some(line.unwrap()).filter(|line| line.contains(r#""id":2"#)));
    let listed = listed.unwrap();
    assert!(listed.contains("slow__echo"), "{listed}");
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let said = "a list waits for upstreams that are still starting";
    assert!(stderr.contains(said) && stderr.contains("upstreams=\"slow\""), "{stderr}");
}
