//! What answers kept from models: in the answer, the console, and the file.

use std::{path::Path, process::Command};

use marquetry_protocol::Revision;
use serde_json::{Value, json};

use crate::{
    support::{Running, call, token_of, users_toml},
    upstream::DataUpstream,
};

/// Returns the rows of the console that a user sees.
async fn rows(server: &Running, user: &str) -> Vec<Value> {
    let bearer = format!("Bearer {}", token_of(user));
    let answer =
        server.http("GET", "/api/console/savings?days=1", &[("Authorization", &bearer)], b"").await;
    answer.json()["savings"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone()
}

/// Runs `marquetry stats` on a file, and returns what it prints.
fn stats(file: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    let output =
        command.arg("stats").arg("--savings-database").arg(file).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_belong_to_the_caller_and_survive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("savings.db");
    let upstream = DataUpstream::default();
    let toml = format!(
        "[artifacts]\nprojections = true\nsavings_database = {file:?}\n[console]\nenabled = true\n{}{}",
        users_toml(folder.path(), &["alice", "bob"]),
        upstream.start().await
    );
    let server = Running::start(&toml).await;
    let alice = server
        .agent_of_user(Revision::V2025_11_25, Default::default(), Some(&token_of("alice")))
        .await;
    let answer = call(&alice, "data__rows", json!({})).await.unwrap();
    let kept = &answer["_meta"]["marquetry/capture"]["kept_from_model"];
    let bytes = kept["bytes"].as_u64().unwrap();
    let tokens = kept["tokens"].as_u64().unwrap();
    assert!(bytes > 90_000 && tokens > 20_000 && tokens < bytes, "{kept}");
    call(&alice, "data__rows", json!({"_select": "length"})).await.unwrap();
    // Selected and saved: one answer.
    call(&alice, "data__rows", json!({"_select": ".[] | {id, name, price}"})).await.unwrap();
    // An answer that passes unchanged keeps nothing.
    call(&alice, "data__shown", json!({})).await.unwrap();
    crate::support::until("the figures arrive", async || {
        rows(&server, "alice").await.first().is_some_and(|row| row["answers"] == 3)
    })
    .await;
    let rows_of_alice = rows(&server, "alice").await;
    assert_eq!(rows_of_alice.len(), 1, "{rows_of_alice:?}");
    assert_eq!(rows_of_alice[0]["tool"], "data__rows");
    assert!(rows_of_alice[0]["bytes"].as_u64().unwrap() > bytes + 90_000);
    assert!(rows(&server, "bob").await.is_empty(), "figures of others are not shown");
    let bearer = format!("Bearer {}", token_of("alice"));
    let calls =
        server.http("GET", "/api/console/calls", &[("Authorization", &bearer)], b"").await.json();
    let kept_tokens: Vec<_> =
        calls["calls"].as_array().unwrap().iter().map(|it| it["kept_tokens"].as_u64()).collect();
    assert_eq!((kept_tokens[0], kept_tokens[3]), (None, Some(tokens)), "{calls}");
    server.stop().await;
    // Stopping has written the rest.
    let stored = marquetry_savings::read(&file, 1).await.unwrap();
    assert_eq!((stored.len(), stored[0].answers), (1, 3));
    let json: Value = serde_json::from_str(&stats(&file, &["--json", "--days", "1"])).unwrap();
    assert_eq!(json["savings"][0]["tool"], "data__rows", "{json}");
    let table = stats(&file, &[]);
    assert!(table.contains("data__rows\nall ") && table.contains("estimated"), "{table}");
    let again = Running::start(&toml).await;
    crate::support::until("the file is read", async || !rows(&again, "alice").await.is_empty())
        .await;
    again.stop().await;
}
