//! Shutdown: no process remains, and no request waits for ever.

#![cfg(target_os = "linux")]

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientOptions, RevisionChoice, StdioCommand},
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::{
    support::{Running, call, is_alive, text_of, until, within},
    upstream::{HttpUpstream, child_toml},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_marquetry");

#[tokio::test]
async fn children_and_their_descendants_are_terminated() {
    let server = Running::start(&child_toml("local")).await;
    let agent = server.agent().await;
    let pid = text_of(&agent, "local__pid", json!({})).await;
    let orphan = text_of(&agent, "local__orphan", json!({})).await;
    assert!(is_alive(&pid) && is_alive(&orphan));
    server.stop().await;
    assert!(!is_alive(&pid), "the child is reaped");
    until("the child's child is gone", async || !is_alive(&orphan)).await;
}

#[tokio::test]
async fn a_child_that_is_still_starting_is_ended() {
    let toml = "[gateway]\nstop_grace_ms = 100\n[mcp_servers.silent]\ncommand = 'sh'\nargs = ['-c', 'trap \"\" TERM; echo $$ >&2; sleep 61; sleep 61']\n";
    let server = Running::start_at_once(toml).await;
    let silent = async || {
        let output =
            Command::new("pgrep").args(["-f", "sleep 61; sleep 61"]).output().await.unwrap();
        !output.stdout.is_empty()
    };
    until("it runs", silent).await;
    server.stop().await;
    assert!(!silent().await);
}

#[tokio::test]
async fn calls_in_flight_may_finish_within_the_grace() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&web.toml("web")).await;
    let agent = server.agent().await;
    let slow = tokio::spawn(async move { text_of(&agent, "web__slow", json!({"ms": 700})).await });
    until("the call is under way", async || web.upstream.slow_is_running()).await;
    server.stop().await;
    assert_eq!(within(slow).await.unwrap(), "slow is done");
}

#[tokio::test]
async fn calls_that_take_longer_are_cancelled() {
    let web = HttpUpstream::start().await;
    let toml = format!("server.shutdown_grace_ms = 200\n{}", web.toml("web"));
    let server = Running::start(&toml).await;
    let agent = server.agent().await;
    let slow = tokio::spawn(async move { call(&agent, "web__slow", json!({"ms": 60_000})).await });
    until("the call is under way", async || web.upstream.slow_is_running()).await;
    let started = Instant::now();
    server.stop().await;
    assert!(started.elapsed() < Duration::from_secs(5));
    slow.abort();
    until("the upstream learns of it", async || web.upstream.slow_was_dropped()).await;
}

#[tokio::test]
async fn the_program_ends_on_sigterm_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("marquetry.toml");
    std::fs::write(&config, child_toml("local")).unwrap();
    let mut program = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "trace", "--config"])
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let mut log = String::new();
    let url = loop {
        let line = within(lines.next_line()).await.unwrap().unwrap();
        if let Some((_, url)) = line.split_once(" listens on ") {
            break url.to_owned();
        }
        log += &line;
    };

    let target = marquetry_protocol::client::HttpTarget { url, ..Default::default() };
    let agent = within(Client::http(target, ClientOptions::default())).await.unwrap();
    let pid = text_of(&agent, "local__pid", json!({})).await;
    text_of(&agent, "local__echo", json!({"text": "between us"})).await;
    let kill = Command::new("kill").arg(program.id().unwrap().to_string()).status().await.unwrap();
    assert!(kill.success());
    assert!(within(program.wait()).await.unwrap().success());
    assert!(!is_alive(&pid));
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        log += &line;
        log.push('\n');
    }
    assert!(log.contains("upstream started") && log.contains("upstream=\"local\""), "{log}");
    assert!(log.contains("SIGTERM"), "{log}");
    assert!(log.contains("call{upstream=\"local\" tool=\"echo\"}"), "{log}");
    assert!(!log.contains("between us"), "payloads are not logged: {log}");
}

#[tokio::test]
async fn a_second_signal_ends_all_processes_at_once() {
    ended_by_two_signals("-TERM", "62", 1).await;
}

#[tokio::test]
async fn a_second_ctrl_c_is_130() {
    ended_by_two_signals("-INT", "63", 130).await;
}

/// Sends a signal twice to a server whose upstream ignores SIGTERM and sleeps for `seconds`; each
/// test needs another number.
async fn ended_by_two_signals(name: &str, seconds: &str, code: i32) {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("marquetry.toml");
    let sleep = format!("sleep {seconds}");
    let stubborn = format!(
        "[gateway]\nstop_grace_ms = 60000\n[mcp_servers.stubborn]\ncommand = 'sh'\nargs = ['-c', 'trap \"\" TERM; {sleep}; {sleep}']\n"
    );
    std::fs::write(&config, stubborn).unwrap();
    let mut program = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let mut log_until = async |what: &str| {
        while !within(lines.next_line()).await.unwrap().unwrap().contains(what) {}
    };
    let runs = async |what: &str| {
        let output = Command::new("pgrep").args(["-xf", what]).output().await.unwrap();
        !output.stdout.is_empty()
    };
    let process = program.id().unwrap().to_string();
    let signal = async || Command::new("kill").args([name, &process]).status().await.unwrap();
    log_until(" listens on ").await;
    until("it runs", async || runs(&sleep).await).await;
    signal().await;
    log_until("shutting down: waiting for calls in flight, then for upstreams").await;
    signal().await;
    log_until("stopped at once by a second signal").await;
    assert_eq!(within(program.wait()).await.unwrap().code(), Some(code));
    until("what the upstream started is gone", async || !runs(&sleep).await).await;
}

#[tokio::test]
async fn stdio_ends_with_its_input() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("marquetry.toml");
    std::fs::write(&config, child_toml("local")).unwrap();
    let mut command = StdioCommand::new(PROGRAM, ["stdio", "--log", "warn", "--config"]);
    command.args.push(config.display().to_string());
    let agent = within(Client::spawn(command, ClientOptions::default())).await.unwrap();
    let pid = text_of(&agent, "local__pid", json!({})).await;
    let params =
        marquetry_protocol::types::CallToolParams::new("local__echo", &json!({"text": "é"}))
            .unwrap();
    let echoed = within(agent.call_tool_raw(&params, CallOptions::default())).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let want = json!({
        "resultType": "complete", "content": [{"type": "text", "text": "é"}],
        "_meta": {"io.modelcontextprotocol/serverInfo": {
            "name": "marquetry", "version": version, "title": "Marquetry",
        }},
    });
    assert_eq!(echoed.get(), want.to_string());
    within(agent.close()).await;
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn pipes_serve_both_eras_and_end_with_the_server() {
    let server = Running::start(&child_toml("local")).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (app, (reader, writer)) = (server.app.clone(), tokio::io::split(theirs));
        let serving = tokio::spawn(async move { app.serve_stdio(reader, writer).await });
        let (reader, writer) = tokio::io::split(ours);
        let options =
            ClientOptions { revision: RevisionChoice::Only(revision), ..ClientOptions::default() };
        let agent = within(Client::connect(reader, writer, options)).await.unwrap();
        assert_eq!(text_of(&agent, "local__echo", json!({"text": "by pipe"})).await, "by pipe");
        within(agent.close()).await;
        drop(agent);
        within(serving).await.unwrap().unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_its_children() {
    let server = Running::start(&child_toml("local")).await;
    let agent = server.agent().await;
    let pid = text_of(&agent, "local__pid", json!({})).await;
    server.abort().await;
    until("the child is gone", async || !is_alive(&pid)).await;
}
