//! The audit log: an event for each request, a disk that breaks, and the program's commands.

use std::{fs, path::Path, time::Duration};

use marquetry_audit::{AuditLog, AuditOptions, verify_log};
use marquetry_protocol::{Revision, client::ClientOptions};
use serde_json::{Value, json};

use crate::{
    support::{Running, ask, call, rpc_error, token_of, until, users_toml, within},
    upstream::{HttpUpstream, child_toml},
};

fn toml(path: &Path, more: &str) -> String {
    format!("[audit]\npath = {path:?}\n{more}\n")
}

fn events(path: &Path) -> Vec<Value> {
    verify_log(path).unwrap();
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the last event of a method.
fn last(events: &[Value], method: &str) -> Value {
    events.iter().rfind(|event| event["method"] == method).unwrap().clone()
}

#[tokio::test]
async fn each_request_leaves_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log/audit.jsonl");
    let users = users_toml(folder.path(), &["ann"]);
    let config = format!("{}{users}{}", toml(&path, ""), child_toml("local"));
    let server = Running::start(&config).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let token = token_of("ann");
        let agent = server.agent_of_user(revision, ClientOptions::default(), Some(&token)).await;
        ask(&agent, "tools/list", json!({})).await.unwrap();
        let list = last(&events(&path), "tools/list");
        assert_eq!((&list["principal"], &list["outcome"]), (&json!("ann"), &json!("ok")));
        assert_eq!(list["address"], "127.0.0.1");
        assert!(list["client"].is_string() && list["duration_us"].is_u64(), "{list}");
        let is_session = revision == Revision::V2025_11_25;
        assert_eq!(list["session"].as_str().map(str::len), is_session.then_some(16), "{list}");

        // An answered call is in the log.
        let meta =
            json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
        let params = json!({
            "name": "local__echo", "arguments": {"text": "hush", "n": 1}, "_meta": meta,
        });
        ask(&agent, "tools/call", params).await.unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hush"), "{text}");
        let echo = last(&events(&path), "tools/call");
        assert_eq!((&echo["upstream"], &echo["tool"]), (&json!("local"), &json!("echo")), "{echo}");
        assert_eq!(
            (&echo["name"], &echo["arguments"]),
            (&json!("local__echo"), &json!(["text", "n"]))
        );
        assert_eq!((&echo["event"], &echo["outcome"]), (&json!("request"), &json!("ok")));
        assert!(echo["bytes"].as_u64() > Some(10) && echo.get("code").is_none(), "{echo}");
        assert_eq!(echo["trace_id"], "0af7651916cd43dd8448eb211c80319c");

        _ = call(&agent, "local__nothing", json!({})).await.unwrap_err();
        let unknown = last(&events(&path), "tools/call");
        assert_eq!((&unknown["outcome"], &unknown["code"]), (&json!("rpc_error"), &json!(-32602)));
        assert!(unknown.get("upstream").is_none(), "{unknown}");
        _ = ask(&agent, "resources/read", json!({"uri": "test://nothing"})).await;
        assert_eq!(last(&events(&path), "resources/read")["uri"], "test://nothing");
        _ = ask(&agent, "no/method", json!({})).await.unwrap_err();
        until("a refused request is in the log", async || {
            let log = fs::read_to_string(&path).unwrap();
            log.contains(r#""method":"no/method","outcome":"refused","code":-32601"#)
        })
        .await;
    }
    assert!(events(&path).iter().any(|event| event["method"] == "initialize"));
    let refused = server.http("POST", "/mcp", &[("Authorization", "Bearer hush-x")], b"{}").await;
    assert_eq!(refused.status, 401);
    let events = events(&path);
    let token = events.last().unwrap();
    assert_eq!(
        (&token["event"], &token["code"]),
        (&json!("token_refused"), &json!(401)),
        "{token}"
    );
    assert_eq!(token["path"], "/mcp");
    server.stop().await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with("\"event\":\"log_closed\"}\n") && !text.contains("hush"));
}

#[tokio::test]
async fn arguments_are_written_in_full_but_for_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let settings = "arguments = 'full'\nredact = ['private*']";
    let server = Running::start(&format!("{}{}", toml(&path, settings), child_toml("local"))).await;
    let agent = server.agent().await;
    let arguments = json!({
        "text": "shown", "password": "hush", "deep": [{"private_note": "hush"}],
        "key": "AKIAIOSFODNN7EXAMPLE",
    });
    call(&agent, "local__echo", arguments).await.unwrap();
    let echo = last(&events(&path), "tools/call");
    assert_eq!(
        echo["arguments"],
        json!({
            "text": "shown", "password": "[redacted]",
            "deep": [{"private_note": "[redacted]"}], "key": "[redacted]",
        })
    );
    let long = json!({"text": "x".repeat(20_000)});
    call(&agent, "local__echo", long).await.unwrap();
    let echo = last(&events(&path), "tools/call");
    assert_eq!(echo["arguments"], json!({"omitted_bytes": 20_011}));
    server.stop().await;
    let settings = "arguments = 'none'";
    let server = Running::start(&format!("{}{}", toml(&path, settings), child_toml("local"))).await;
    call(&server.agent().await, "local__echo", json!({"text": "a"})).await.unwrap();
    assert!(last(&events(&path), "tools/call").get("arguments").is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_cancelled_call_leaves_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{}{}", toml(&path, ""), web.toml("web"))).await;
    let agent = server.agent().await;
    let slow = tokio::spawn(async move { call(&agent, "web__slow", json!({"ms": 60_000})).await });
    until("the call is under way", async || web.upstream.slow_is_running()).await;
    slow.abort();
    _ = slow.await;
    until("the event of the cancelled call", async || {
        let log = fs::read_to_string(&path).unwrap();
        log.contains(r#""outcome":"cancelled""#)
    })
    .await;
    let slow = last(&events(&path), "tools/call");
    assert_eq!((&slow["upstream"], &slow["tool"]), (&json!("web"), &json!("slow")));
    server.stop().await;
}

#[tokio::test]
async fn a_broken_disk_is_not_ready_and_refuses_if_it_is_set() {
    for refuses in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("log");
        let path = inner.join("audit.jsonl");
        let on_error = if refuses { "on_error = 'refuse'" } else { "" };
        let config = format!("{}{}", toml(&path, on_error), child_toml("local"));
        let server = Running::start(&config).await;
        let agent = server.agent().await;
        let ready = async || within(server.http("GET", "/readyz", &[], b"")).await;
        assert_eq!(ready().await.status, 200);
        fs::remove_dir_all(&inner).unwrap();
        let first = call(&agent, "local__echo", json!({"text": "a"})).await;
        assert_eq!(first.is_err(), refuses);
        let answer = ready().await;
        assert_eq!(answer.status, 503);
        let problem = answer.json()["problem"].as_str().unwrap().to_owned();
        assert!(problem.starts_with("the audit log cannot be written: No such file"), "{problem}");
        let health = server.app.health();
        assert_eq!(
            (&health["status"], &health["faults"][0]["part"]),
            (&json!("degraded"), &json!("audit"))
        );
        if refuses {
            // The tool is not called, because its event would be lost, too.
            let second = call(&agent, "local__echo", json!({"text": "b"})).await;
            let (code, message) = rpc_error(second);
            assert_eq!(code, -32603);
            assert!(
                message.starts_with("the audit log cannot be written") && !message.contains('/')
            );
        }
        fs::create_dir(&inner).unwrap();
        until("it is ready again", async || ready().await.status == 200).await;
        call(&agent, "local__echo", json!({"text": "c"})).await.unwrap();
        server.stop().await;
        let incomplete: Value =
            serde_json::from_str(fs::read_to_string(&path).unwrap().lines().next().unwrap())
                .unwrap();
        assert_eq!(
            (&incomplete["event"], &incomplete["lost"]),
            (&json!("log_incomplete"), &json!(1))
        );
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_an_error_of_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("letter.txt");
    fs::write(&other, "Dear Ann\n").unwrap();
    let config = marquetry::Config::from_toml(&toml(&other, ""), "m.toml").unwrap();
    let error = config.check().unwrap_err().to_string();
    assert!(error.starts_with("m.toml:2:8: audit.path: "), "{error}");
    assert!(error.ends_with("exists and is not an audit log; name another file"), "{error}");
    let path = folder.path().join("audit.jsonl");
    let log = AuditLog::open(&path, AuditOptions::default()).unwrap();
    let config = marquetry::Config::from_toml(&toml(&path, ""), "m.toml").unwrap();
    let error = marquetry::App::builder(config).start().await.map(drop).unwrap_err().to_string();
    let advice = "is in use by another process; set another audit.path for this process, or use the running server by its URL";
    assert!(error.contains(advice), "{error}");
    log.close().await;
}

#[tokio::test]
async fn tools_are_listed_and_not_called_while_another_process_has_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    fs::write(folder.path().join("m.toml"), toml(&path, "[knowledge]\nenabled = false\n")).unwrap();
    let marquetry = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_marquetry"));
        command.args(arguments).args(["--config", "m.toml"]).current_dir(folder.path());
        command.env("HOME", folder.path()).env_remove("MARQUETRY_CONFIG");
        let output = command.output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code().unwrap(), stdout, stderr)
    };
    let log = AuditLog::open(&path, AuditOptions::default()).unwrap();
    let (code, listed, warning) = marquetry(&["tools"]);
    assert_eq!(code, 0, "{warning}");
    assert!(listed.contains("encodePlantUML"), "{listed}");
    assert!(warning.contains("calls no tool, and runs without it"), "{warning}");
    let (code, _, error) = marquetry(&["call", "encodePlantUML", "plantumlCode=a"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("call tools with `marquetry call --url URL`"), "{error}");
    log.close().await;
    drop(log);
    let (_, _, warning) = marquetry(&["tools"]);
    assert!(!warning.contains("audit"), "{warning}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"tools/list\""), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_program_reopens_its_log_at_sighup_and_verifies_it() {
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let settings = "max_file_bytes = 0\n[server]\nlisten = 0\n[knowledge]\nenabled = false\n[console]\nenabled = false";
    fs::write(folder.path().join("m.toml"), toml(&path, settings)).unwrap();
    let marquetry = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
        command.args(arguments).current_dir(folder.path()).env("HOME", folder.path());
        command.env_remove("MARQUETRY_CONFIG").env("XDG_DATA_HOME", folder.path());
        command
    };
    let verify = |arguments: &[&str]| {
        let output = marquetry(&[&["audit", "verify"], arguments].concat()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let mut child =
        marquetry(&["serve", "--config", "m.toml"]).stderr(Stdio::null()).spawn().unwrap();
    until("the log is open", async || path.exists()).await;
    // The handler of the signal is there when the server listens.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let renamed = folder.path().join("audit.jsonl.1");
    fs::rename(&path, &renamed).unwrap();
    let signal = |name: &str| {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-HUP");
    until("a new file", async || path.exists()).await;
    signal("-TERM");
    assert!(child.wait().unwrap().success());

    let (code, text) = verify(&["--config", "m.toml"]);
    assert!(text.starts_with("whole: lines 1 to 2 in 2 files\nlast line: 2:"), "{text}");
    assert_eq!(code, 0);
    let line = text.lines().nth(1).unwrap().strip_prefix("last line: ").unwrap().to_owned();
    assert_eq!(verify(&["audit.jsonl", "--line", &line]).0, 0);
    let text = fs::read_to_string(&renamed).unwrap();
    fs::write(&renamed, text.replace("log_opened", "log_Opened")).unwrap();
    let (code, text) = verify(&["--config", "m.toml"]);
    assert_eq!(code, 1);
    assert!(text.contains("audit.jsonl:1: the hash is not that of the line before"), "{text}");
    let (code, text) = verify(&["audit.jsonl", "--json"]);
    assert_eq!(
        (code, serde_json::from_str::<Value>(&text).unwrap()["whole"].clone()),
        (1, json!(false))
    );
    fs::write(folder.path().join("m.toml"), "").unwrap();
    let (code, text) = verify(&["--config", "m.toml"]);
    assert_eq!(
        (code, &*text),
        (2, "error: the configuration has no audit log: set audit.path, or name a file\n")
    );
}
