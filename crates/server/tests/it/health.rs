//! `/healthz`, `/livez` and `/readyz`: their content for each caller, and when it changes.

use serde_json::{Value, json};

use crate::{
    support::{Answer, Running, call, until, within},
    upstream::{HttpUpstream, child_toml},
};

async fn get(server: &Running, path: &str, headers: &[(&str, &str)]) -> Answer {
    within(server.http("GET", path, headers, b"")).await
}

#[tokio::test]
async fn callers_on_this_machine_see_the_whole_report() {
    let server = Running::start("mcp_servers.off = { command = 'x', disabled = true }").await;
    let answer = get(&server, "/healthz", &[]).await;
    let want: Value = json!({
        "status": "ok", "version": env!("CARGO_PKG_VERSION"),
        "upstreams": [{"name": "off", "transport": "stdio", "state": "disabled", "tools": 0, "restarts": 0}],
        "artifacts": {"bytes": 0, "limit": 268_435_456, "evicted": 0},
    });
    assert_eq!((answer.status, answer.json()), (200, want));
    assert_eq!(get(&server, "/livez", &[]).await.json(), json!({"status": "alive"}));
    let ready = get(&server, "/readyz", &[]).await;
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "ready"})));
    server.stop().await;
}

#[tokio::test]
async fn other_callers_see_only_the_status() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, token: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, token).unwrap();
        path.display().to_string()
    };
    let toml = format!(
        "[auth.tokens]\nroot = {{ file = '{}', scopes = ['admin'] }}\nuser = {{ file = '{}', scopes = ['tools'] }}\n",
        file("root", "0123456789abcdef"),
        file("user", "fedcba9876543210")
    );
    let server = Running::start(&toml).await;
    let token = |token: &str| format!("Bearer {token}");
    let asked = async |token: &str| get(&server, "/healthz", &[("Authorization", token)]).await;
    assert_eq!(get(&server, "/healthz", &[]).await.json(), json!({"status": "ok"}));
    assert_eq!(asked(&token("fedcba9876543210")).await.json(), json!({"status": "ok"}));
    assert_eq!(asked(&token("wrong")).await.status, 401);
    let whole = asked(&token("0123456789abcdef")).await.json();
    assert_eq!(whole["version"], env!("CARGO_PKG_VERSION"));
    // Monitoring needs no token.
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&server, path, &[]).await.status, 200, "{path}");
    }
    server.stop().await;

    // With a proxy on this machine, every request comes from this machine.
    let server = Running::start("server.allowed_hosts = ['tools.example']").await;
    for header in [
        ("Host", "tools.example"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"),
    ] {
        let answer = get(&server, "/healthz", &[header]).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"status": "ok"})), "{header:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_server_is_ready_when_its_upstreams_have_started_or_failed() {
    let toml = "[gateway]\nrestart_delay_ms = 60000\nstop_grace_ms = 100\n[mcp_servers.silent]\ncommand = 'sleep'\nargs = ['30']\nstart_timeout_ms = 600\n";
    let server = Running::start_at_once(toml).await;
    let early = get(&server, "/readyz", &[]).await;
    assert_eq!((early.status, early.json()), (503, json!({"status": "starting"})));
    assert_eq!(get(&server, "/livez", &[]).await.status, 200);
    assert_eq!(server.app.health()["status"], "degraded");
    within(server.app.ready()).await;
    assert_eq!(get(&server, "/readyz", &[]).await.status, 200);
    assert_eq!(server.app.health()["status"], "down", "its only upstream is");
    server.stop().await;
}

#[tokio::test]
async fn health_is_never_better_than_the_last_call() {
    let web = HttpUpstream::start().await;
    let toml = format!(
        "[gateway]\nping_timeout_ms = 5000\nrestart_delay_ms = 60000\n{}{}call_timeout_ms = 200\n",
        web.toml("web"),
        child_toml("local")
    );
    let server = Running::start(&toml).await;
    let agent = server.agent().await;
    let state = |index: usize| server.app.health()["upstreams"][index].clone();
    assert_eq!(
        (server.app.health()["status"].clone(), state(0)["state"].clone()),
        (json!("ok"), json!("ready"))
    );
    // A slow tool does not mean a dead upstream.
    call(&agent, "local__slow", json!({"ms": 1_000})).await.unwrap();
    until("it is trusted again", async || state(1)["state"] == "ready").await;

    web.stop().await;
    let failed = call(&agent, "web__echo", json!({"text": "a"})).await.unwrap();
    let now = state(0);
    let status = server.app.health()["status"].clone();
    assert_eq!(failed["isError"], true);
    assert_ne!(now["state"], "ready", "{now}");
    assert!(now["problem"].is_string(), "{now}");
    assert_eq!(status, "degraded");
    server.stop().await;
}

#[tokio::test]
async fn a_failed_save_degrades_health() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("artifacts");
    let toml = format!(
        "[artifacts]\nstore = 'directory'\ndirectory = {place:?}\nmcp_tool_response_save_threshold_bytes = 100\n{}",
        child_toml("local")
    );
    let server = Running::start(&toml).await;
    let agent = server.agent().await;
    let long = json!({"text": "long ".repeat(100)});
    call(&agent, "local__echo", long.clone()).await.unwrap();
    assert_eq!(server.app.health()["status"], "ok");
    // As with a failed disk, for a process that may write everywhere.
    std::fs::remove_dir_all(&place).unwrap();
    call(&agent, "local__echo", long).await.unwrap();
    let health = server.app.health();
    assert_eq!(
        (&health["status"], &health["faults"][0]["part"]),
        (&json!("degraded"), &json!("artifacts")),
        "{health}"
    );
    let problem = health["faults"][0]["problem"].as_str().unwrap();
    assert!(problem.starts_with("the last artifact was not saved: "), "{problem}");
    let ready = get(&server, "/readyz", &[]).await;
    assert_eq!((ready.status, ready.json()), (503, json!({"status": "failing"})));
    server.stop().await;
}

#[tokio::test]
async fn knowledge_that_fails_is_seen_until_it_works() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("folder/knowledge.db");
    // A file is in the place of a folder.
    std::fs::write(directory.path().join("folder"), "").unwrap();
    let server = Running::start(&format!("knowledge.database = {place:?}\n")).await;
    let agent = server.agent().await;
    let note = json!({"type": "data.data", "name": "a", "groupPath": "~/Test", "content": "b"});
    let failed = call(&agent, "am7_create_object", note.clone()).await.unwrap();
    assert_eq!(failed["isError"], true, "{failed}");
    let health = server.app.health();
    assert_eq!(
        (&health["status"], &health["faults"][0]["part"]),
        (&json!("degraded"), &json!("knowledge")),
        "{health}"
    );
    // Calls without the store work.
    assert_eq!(get(&server, "/readyz", &[]).await.status, 200);
    // A tool that does not use the store does not change its state.
    let text = json!({"content": "The mill grinds. The bakery opens.", "preview": true});
    let cut = call(&agent, "am7_chunk_content", text).await.unwrap();
    assert!(cut["isError"].is_null(), "{cut}");
    assert_eq!(server.app.health()["faults"][0]["part"], "knowledge");
    std::fs::remove_file(directory.path().join("folder")).unwrap();
    until("it works", async || {
        let made = call(&agent, "am7_create_object", note.clone()).await.unwrap();
        made["isError"].is_null()
    })
    .await;
    assert_eq!(server.app.health()["status"], "ok");
    server.stop().await;
}
