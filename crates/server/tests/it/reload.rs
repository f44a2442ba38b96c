//! The configuration is read again while the server runs: no call is lost, no process stays.

#![cfg(target_os = "linux")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use marquetry_control::{RunningServer, ask};
use marquetry_protocol::{Revision, client::RevisionChoice};
use serde_json::{Value, json};

use crate::{
    program::Program,
    support::{call, is_alive, text_of, token_of, tool_names, until, users_toml, within},
    upstream::child_toml,
};

const SESSION: RevisionChoice = RevisionChoice::Only(Revision::V2025_11_25);
const STATELESS: RevisionChoice = RevisionChoice::Only(Revision::V2026_07_28);

/// Returns an upstream with a variable.
fn with_variable(name: &str, value: &str) -> String {
    child_toml(name).replace("env = { ", &format!("env = {{ MARK = '{value}', "))
}

async fn health(program: &Program) -> Value {
    let url = program.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = tokio::net::TcpStream::connect(url).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {url}\r\nConnection: close\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes).await.unwrap();
    crate::support::Answer::parse(&bytes).json()
}

/// `RELOADS=1000` in the environment makes as many reloads.
#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_lose_no_call_and_leave_no_process() {
    let reloads: usize = std::env::var("RELOADS").map_or(60, |count| count.parse().unwrap());
    let config = |number: usize| {
        let mark = number / 10;
        let level = if number.is_multiple_of(2) { "info" } else { "warn" };
        let threshold = 10_000 + number;
        format!(
            "log.level = '{level}'\nserver.reload_on_change = false\n{}{}capture = {{ mcp_tool_response_save_threshold_bytes = {threshold} }}\n",
            with_variable("changing", &mark.to_string()),
            child_toml("steady"),
        )
    };
    let program = Program::start(&config(0)).await;
    let steady = program.agent(SESSION).await;
    let steady_pid = text_of(&steady, "steady__pid", json!({})).await;
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut callers = Vec::new();
    for caller in 0..8 {
        let revision = if caller % 2 == 0 { SESSION } else { STATELESS };
        let agent = program.agent(revision).await;
        let (stop, answered) = (stop.clone(), answered.clone());
        callers.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let server = if caller % 4 < 2 { "changing" } else { "steady" };
                let result = if caller < 6 {
                    call(&agent, &format!("{server}__echo"), json!({"text": "still here"})).await
                } else {
                    call(&agent, &format!("{server}__slow"), json!({"ms": 40})).await
                };
                let result = result.unwrap();
                assert!(!result["isError"].as_bool().unwrap_or_default(), "{result}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let socket = program.path(&format!("state/marquetry/run/{}.sock", program.pid()));
    let server = marquetry_control::servers(socket.parent().unwrap()).unwrap().remove(0);
    let server: RunningServer = server;
    let began = Instant::now();
    for number in 1..=reloads {
        program.write(&config(number));
        let answer = ask(&server, "reload").await.unwrap();
        assert!(answer.is_done, "{answer:?}");
        let restarts = answer.message.contains("restarting changing");
        assert_eq!(restarts, number.is_multiple_of(10), "{number}: {}", answer.message);
        assert!(answer.message.contains("updated steady"), "{}", answer.message);
    }
    let took = began.elapsed();
    let agent = program.agent(SESSION).await;
    let env = text_of(&agent, "changing__env", json!({"name": "MARK"})).await;
    assert_eq!(env, (reloads / 10).to_string());
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        within(caller).await.unwrap();
    }
    let answered = answered.load(Ordering::Relaxed);
    println!("{reloads} reloads in {took:?}, {answered} calls answered");
    assert!(answered > reloads, "{answered}");
    assert_eq!(text_of(&steady, "steady__pid", json!({})).await, steady_pid, "it kept running");
    // A guard and a program for each of the two.
    until("replaced processes end", async || program.descendants().len() == 4).await;
    let descendants = program.descendants();
    program.stop().await;
    assert!(!descendants.iter().any(|pid| is_alive(&pid.to_string())));
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_says_where() {
    let good = format!("server.reload_on_change = false\n{}", child_toml("local"));
    let program = Program::start(&good).await;
    let agent = program.agent(SESSION).await;
    let pid = text_of(&agent, "local__pid", json!({})).await;
    program.write(&format!("{good}[server]\nlisten = 70000\n"));
    let (is_done, said) = program.reload().await;
    assert!(!is_done);
    assert!(said.contains("error: nothing has changed: "), "{said}");
    assert!(said.contains("marquetry.toml:"), "{said}");
    program.logs("part of the server failed").await;
    let report = health(&program).await;
    assert_eq!(report["status"], "degraded");
    assert_eq!(report["faults"][0]["part"], "configuration");
    let problem = report["faults"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("marquetry.toml:"), "{problem}");
    assert_eq!(text_of(&agent, "local__pid", json!({})).await, pid);

    program.write(&good);
    let (is_done, said) = program.reload().await;
    assert!(is_done && said.contains("the configuration was read again\n"), "{said}");
    assert_eq!(health(&program).await["status"], "ok");
    // What takes effect later is named.
    program.write(&format!("limits.max_sessions = 7\n{good}"));
    let (is_done, said) = program.reload().await;
    assert!(is_done && said.contains("at the next start: limits.max_sessions"), "{said}");
    assert_eq!(text_of(&agent, "local__pid", json!({})).await, pid);
    program.stop().await;
}

#[tokio::test]
async fn a_removed_server_finishes_its_calls() {
    let both = format!("{}{}", child_toml("first"), child_toml("second"));
    let program = Program::start(&both).await;
    let agent = program.agent(SESSION).await;
    let pid = text_of(&agent, "second__pid", json!({})).await;
    let slow = program.agent(SESSION).await;
    let slow =
        tokio::spawn(async move { text_of(&slow, "second__slow", json!({"ms": 1_500})).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    program.write(&child_toml("first"));
    let (_, said) = program.reload().await;
    assert!(said.contains("removed second"), "{said}");
    let names = tool_names(&agent).await;
    assert!(names.contains(&"first__pid".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("second__")), "{names:?}");
    assert!(call(&agent, "second__echo", json!({})).await.is_err());
    assert!(is_alive(&pid) && !slow.is_finished());
    assert_eq!(within(slow).await.unwrap(), "slow is done");
    until("its process ends", async || !is_alive(&pid)).await;
    // It comes back under its name.
    program.write(&both);
    assert!(program.reload().await.1.contains("starting second"));
    assert_ne!(text_of(&agent, "second__pid", json!({})).await, pid);
    program.stop().await;
}

#[tokio::test]
async fn a_changed_server_finishes_its_calls_on_the_old_process() {
    let program = Program::start(&with_variable("local", "one")).await;
    let agent = program.agent(SESSION).await;
    let pid = text_of(&agent, "local__pid", json!({})).await;
    let slow = program.agent(SESSION).await;
    let slow =
        tokio::spawn(async move { text_of(&slow, "local__slow", json!({"ms": 1_500})).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    program.write(&with_variable("local", "two"));
    assert!(program.reload().await.1.contains("restarting local"));
    // The list has no gap, and a call waits for the new process.
    assert!(tool_names(&agent).await.contains(&"local__pid".to_owned()));
    assert_ne!(text_of(&agent, "local__pid", json!({})).await, pid);
    assert_eq!(text_of(&agent, "local__env", json!({"name": "MARK"})).await, "two");
    assert!(is_alive(&pid));
    assert_eq!(within(slow).await.unwrap(), "slow is done");
    until("the old process ends", async || !is_alive(&pid)).await;
    program.stop().await;
}

#[tokio::test]
async fn a_file_that_changes_again_and_again_is_read_again() {
    let program = Program::start(&with_variable("local", "0")).await;
    let agent = program.agent(SESSION).await;
    for number in 1..=12 {
        program.write(&with_variable("local", &number.to_string()));
        let called = call(&agent, "local__echo", json!({"text": "x"})).await.unwrap();
        assert_eq!(called["content"][0]["text"], "x");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    until("the last one is used", async || {
        text_of(&agent, "local__env", json!({"name": "MARK"})).await == "12"
    })
    .await;
    until("replaced processes end", async || program.descendants().len() == 2).await;
    let log = program.stop().await;
    assert!(log.matches("the configuration was read again").count() >= 3, "{log}");
}

#[tokio::test]
async fn sighup_reads_secrets_and_tokens_again() {
    let toml = |folder: &std::path::Path| {
        child_toml("local").replace("env = { ", "env = { MARK = '${file:secret}', ")
            + "[server]\nreload_on_change = false\n"
            + &users_toml(folder, &["ann", "bob"])
    };
    let mut config = String::new();
    let program = Program::start_with("", |folder| {
        std::fs::write(folder.join("secret"), "hush-one-0123456789\n").unwrap();
        config = toml(folder);
    })
    .await;
    // The folder is known only now.
    program.write(&config);
    program.signal("-HUP").await;
    program.logs("auth.tokens.ann").await;
    program.stop().await;

    let folder = tempfile::tempdir().unwrap();
    let users = users_toml(folder.path(), &["ann"]);
    let config = config.split("[auth").next().unwrap().to_owned()
        + "[mcp_servers.loud]\ncommand = 'sh'\nargs = ['-c', 'echo my key is $MARK >&2; sleep 1; exit 3']\nenv = { MARK = '${file:secret}' }\n"
        + &users;
    let program = Program::start_with(&config, |folder| {
        std::fs::write(folder.join("secret"), "hush-one-0123456789\n").unwrap();
    })
    .await;
    program.logs("my key is …").await;
    let agent = agent_of(&program, "ann").await.unwrap();
    assert_eq!(text_of(&agent, "local__env", json!({"name": "MARK"})).await, "hush-one-0123456789");
    assert!(agent_of(&program, "bob").await.is_err());
    std::fs::write(program.path("secret"), "hush-two-0123456789\n").unwrap();
    let both = config.split("[auth").next().unwrap().to_owned()
        + &users_toml(folder.path(), &["ann", "bob"]);
    program.write(&both);
    program.signal("-HUP").await;
    program.logs("restarting local").await;
    assert_eq!(text_of(&agent, "local__env", json!({"name": "MARK"})).await, "hush-two-0123456789");
    assert!(agent_of(&program, "bob").await.is_ok());
    let users = users_toml(folder.path(), &["bob"]);
    program.write(&(config.split("[auth").next().unwrap().to_owned() + &users));
    assert!(program.reload().await.0);
    assert!(agent_of(&program, "ann").await.is_err());
    let shown = program.run(&["check", "--config", "marquetry.toml"]).await;
    let log = program.stop().await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned() + &log;
    assert!(!shown.contains("hush-"), "{shown}");
}

/// Connects an agent with the token of a user.
async fn agent_of(
    program: &Program,
    user: &str,
) -> Result<marquetry_protocol::client::Client, marquetry_protocol::client::ClientError> {
    use marquetry_protocol::client::{Client, ClientOptions, HttpTarget};
    let bearer = ("authorization".to_owned(), format!("Bearer {}", token_of(user)));
    let target = HttpTarget { url: program.url.clone(), headers: [bearer].into_iter().collect() };
    let options = ClientOptions { revision: SESSION, ..ClientOptions::default() };
    within(Client::http(target, options)).await
}

#[tokio::test]
async fn the_console_switches_servers() {
    let program = Program::start(&format!("{}disabled = true\n", child_toml("local"))).await;
    let agent = program.agent(SESSION).await;
    assert!(!tool_names(&agent).await.contains(&"local__pid".to_owned()));
    let post = async |change: &str| {
        let url = program.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let mut stream = tokio::net::TcpStream::connect(url).await.unwrap();
        let request = format!(
            "POST /api/console/servers/local/{change} HTTP/1.1\r\nHost: {url}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes).await.unwrap();
        let answer = crate::support::Answer::parse(&bytes);
        (answer.status, answer.body)
    };
    let (status, body) = post("enable").await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("starting local"), "{body}");
    let pid = text_of(&agent, "local__pid", json!({})).await;
    // A reload of everything keeps the switch.
    assert!(program.reload().await.0);
    assert_eq!(text_of(&agent, "local__pid", json!({})).await, pid);
    assert_eq!(post("reload").await.0, 200);
    assert_eq!(post("disable").await.0, 200);
    until("its process ends", async || !is_alive(&pid)).await;
    assert!(!tool_names(&agent).await.contains(&"local__pid".to_owned()));
    assert_eq!(post("explode").await.0, 404);
    program.stop().await;
}
