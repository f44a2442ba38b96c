//! `@modelcontextprotocol/server-memory` with a process for each principal.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientOptions, HttpTarget, RevisionChoice},
    types::CallToolParams,
};
use serde_json::{Value, json};

use crate::programs::{Need, Served, have, here};

const SERVER: &str = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";

const NEEDS: [Need; 2] = [Need::Program("node"), Need::Installed(SERVER)];

const NAMES: [&str; 2] = ["anna", "bert"];

/// Kills of `kills_of_memory_servers_mix_no_graphs`, each of which costs a start of Node.js.
/// `MARQUETRY_TEST_KILLS=200` makes more.
const KILLS: usize = 5;

fn start(folder: &Path) -> Served {
    let tokens = NAMES.map(|name| {
        let file = folder.join(format!("token-{name}"));
        std::fs::write(&file, format!("hush-{name}-0123456789abcdef")).unwrap();
        format!("[auth.tokens.{name}]\nfile = {file:?}\n")
    });
    let memory = folder.join("${instance:id}.jsonl");
    let config = format!(
        "[gateway]\nrestart_delay_ms = 10\nrestart_max_delay_ms = 50\nstop_grace_ms = 300\n{}\
         [mcp_servers.memory]\ncommand = 'node'\nargs = [{:?}]\n\
         env.MEMORY_FILE_PATH = {memory:?}\nisolation = 'principal'\n",
        tokens.concat(),
        here().join(SERVER)
    );
    let file = folder.join("marquetry.toml");
    std::fs::write(&file, config).unwrap();
    Served::start(&["--config", file.to_str().unwrap()])
}

async fn agent(served: &Served, name: &str, revision: Revision) -> Client {
    let bearer = format!("Bearer hush-{name}-0123456789abcdef");
    let headers = [("authorization".to_owned(), bearer)].into_iter().collect();
    let options =
        ClientOptions { revision: RevisionChoice::Only(revision), ..ClientOptions::default() };
    Client::http(HttpTarget { url: served.url.clone(), headers }, options).await.unwrap()
}

/// Calls a tool of the memory server, and returns the whole answer or error as text.
async fn call(agent: &Client, tool: &str, arguments: Value) -> (bool, String) {
    let call = CallToolParams::new(format!("memory__{tool}"), &arguments).unwrap();
    let answer = agent.call_tool_raw(&call, CallOptions::default());
    let answer = tokio::time::timeout(Duration::from_mins(1), answer).await;
    match answer.expect("no call waits for ever") {
        Ok(result) => (!result.get().contains(r#""isError":true"#), result.get().to_owned()),
        Err(error) => (false, error.to_string()),
    }
}

async fn remember(agent: &Client, name: &str, number: usize) -> (bool, String) {
    let entity = json!({
        "name": format!("{name}-{number}"), "entityType": "person",
        "observations": [format!("known to {name} alone")],
    });
    call(agent, "create_entities", json!({"entities": [entity]})).await
}

/// Returns the processes whose environment names the folder and whose program is Node.js, or all of
/// them.
fn processes(folder: &Path, only_node: bool) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap();
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let read = |file| std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        let is_node = read("cmdline").starts_with(b"node\0");
        // The process for the lists has no caller.
        let is_instance = !environment.contains("/lists.jsonl");
        environment.contains(folder) && (!only_node || (is_node && is_instance))
    })
    .collect()
}

#[tokio::test]
async fn each_principal_has_a_memory_of_its_own() {
    if !have(&NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut served = start(folder.path());
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for name in NAMES {
            let agent = agent(&served, name, revision).await;
            let (is_ok, answer) = remember(&agent, name, 0).await;
            assert!(is_ok, "{answer}");
            agent.close().await;
        }
    }
    for (name, other) in [("anna", "bert"), ("bert", "anna")] {
        let agent = agent(&served, name, Revision::V2025_11_25).await;
        for (tool, arguments) in
            [("read_graph", json!({})), ("search_nodes", json!({"query": "known"}))]
        {
            let (is_ok, answer) = call(&agent, tool, arguments).await;
            assert!(is_ok && answer.contains(&format!("{name}-0")), "{answer}");
            assert!(!answer.contains(other), "{answer}");
        }
        agent.close().await;
    }
    assert!(served.stop());
    assert_eq!(processes(folder.path(), false), [0; 0]);
    // The memories outlive the processes, and belong to the same principals.
    let mut served = start(folder.path());
    let agent = agent(&served, "bert", Revision::V2026_07_28).await;
    let (_, answer) = call(&agent, "read_graph", json!({})).await;
    assert!(answer.contains("bert-0") && !answer.contains("anna"), "{answer}");
    assert!(served.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_memory_servers_mix_no_graphs() {
    if !have(&NEEDS) {
        return;
    }
    let kills = std::env::var("MARQUETRY_TEST_KILLS").ok().map(|it| it.parse().expect("a number"));
    let kills: usize = kills.unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let mut served = start(folder.path());
    let stop = tokio_util::sync::CancellationToken::new();
    let counts = NAMES.map(|_| Arc::new(AtomicUsize::new(0)));
    let mut callers = tokio::task::JoinSet::new();
    for (at, (name, other)) in [("anna", "bert"), ("bert", "anna")].into_iter().enumerate() {
        let agent = agent(&served, name, Revision::V2025_11_25).await;
        let stop = stop.clone();
        let count = counts[at].clone();
        callers.spawn(async move {
            let mut errors = 0;
            for number in 0.. {
                if stop.is_cancelled() {
                    break;
                }
                // It writes before the first kill alone, which could leave half of its file.
                let (is_ok, answer) = if number == 0 {
                    remember(&agent, name, number).await
                } else {
                    call(&agent, "read_graph", json!({})).await
                };
                assert!(!answer.contains(other), "{name}: {answer}");
                count.fetch_add(usize::from(is_ok), Ordering::Relaxed);
                errors += usize::from(!is_ok);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (count.load(Ordering::Relaxed), errors)
        });
    }
    let end = Instant::now() + Duration::from_secs(20) + Duration::from_secs(10) * kills as u32;
    let mut random = 88_172_645_463_325_252_u64;
    let mut killed = 0;
    let mut before = [0, 0];
    while killed < kills {
        assert!(Instant::now() < end, "only {killed} kills");
        // A start of Node.js takes long: without this, all kills would meet starts.
        let now = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        if now.iter().zip(before).any(|(now, before)| *now == before) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        before = now;
        // xorshift64: the same victims in each run, as far as the machine allows.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        tokio::time::sleep(Duration::from_millis(random % 200)).await;
        let alive = processes(folder.path(), true);
        if let Some(victim) = alive.get(random as usize % alive.len().max(1)) {
            // It may have ended meanwhile.
            let sent = Command::new("kill").args(["-KILL", &victim.to_string()]).output();
            killed += usize::from(sent.unwrap().status.success());
        }
    }
    stop.cancel();
    while let Some(counts) = callers.join_next().await {
        let (answers, errors) = counts.unwrap();
        println!("{killed} kills: {answers} answers, {errors} errors");
        assert!(answers > 0);
    }
    assert!(served.stop());
    assert_eq!(processes(folder.path(), false), [0; 0], "no process is left");
}
