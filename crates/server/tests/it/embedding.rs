//! Knowledge with a local sentence transformer, all-MiniLM-L6-v2.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::Running;

/// Returns the model's folder; prints a line and returns [`None`] if it is not installed.
fn minilm() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models/all-MiniLM-L6-v2");
    if folder.join("version").exists() {
        return Some(folder);
    }
    let missing = "all-MiniLM-L6-v2 not found; run crates/embed/tests/embedding/install";
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
    // `eprintln!` is not used: the test harness hides its output when a test passes.
    let _ = std::io::stderr().write_all(format!("SKIPPED (1): {missing}\n").as_bytes());
    None
}

async fn server(folder: &Path, embedding: &str) -> Running {
    let database = folder.join("knowledge.db");
    Running::start(&format!(
        "[knowledge]\ndatabase = {database:?}\n[knowledge.embedding]\n{embedding}"
    ))
    .await
}

async fn tool(server: &Running, name: &str, arguments: Value) -> (u16, Value) {
    let body = json!({"name": name, "arguments": arguments}).to_string();
    let headers = [("Content-Type", "application/json")];
    let answer = server.http("POST", "/mcp/v1/tools/call", &headers, body.as_bytes()).await;
    (answer.status, answer.json())
}

async fn best(server: &Running, query: &str) -> Value {
    let (status, mut found) =
        tool(server, "am7_vector_search", json!({"query": query, "limit": 1})).await;
    assert_eq!(status, 200, "{found}");
    found["structuredContent"]["results"][0].take()
}

#[tokio::test]
async fn a_transformer_finds_by_meaning_and_other_models_refuse_its_database() {
    let Some(model) = minilm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let embedding = format!("provider = 'transformer'\nfolder = {model:?}\n");
    let running = server(folder.path(), &embedding).await;
    let text =
        "The kitten fell asleep on the rug. Our engine burns kerosene. Bread is baked from flour.";
    let new = json!({"type": "data.note", "name": "things", "attributes": {"text": text}});
    let (status, made) = tool(&running, "am7_create_object", new).await;
    assert_eq!(status, 200, "{made}");
    let uri = made["structuredContent"]["uri"].clone();
    let (status, vectorized) =
        tool(&running, "am7_vectorize", json!({"uri": uri, "chunkSize": 1})).await;
    assert_eq!(status, 200, "{vectorized}");
    // No question shares a word with the text that it finds.
    for (query, want) in [
        ("a young cat taking a nap", "The kitten fell asleep on the rug."),
        ("aircraft fuel", "Our engine burns kerosene."),
        ("how do I make a loaf", "Bread is baked from flour."),
    ] {
        let found = best(&running, query).await;
        assert_eq!(found["text"], want, "{query}: {found}");
        assert!(found.get("keywordRank").is_none(), "{query}: {found}");
    }
    running.stop().await;

    // Another model, and the same one with other prefixes, refuse its vectors.
    let prefixed = format!("{embedding}query_prefix = 'query: '\n");
    for other in ["provider = 'built-in'\n", &prefixed] {
        let running = server(folder.path(), other).await;
        let (status, refused) =
            tool(&running, "am7_vector_search", json!({"query": "a young cat"})).await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert_eq!(status, 503, "{refused}");
        for part in ["bert-6x384#", "knowledge.embedding", "marquetry index --reset"] {
            assert!(message.contains(part), "{refused}");
        }
        running.stop().await;
    }
    let running = server(folder.path(), &embedding).await;
    let found = best(&running, "a young cat taking a nap").await;
    assert_eq!(found["text"], "The kitten fell asleep on the rug.", "nothing was lost");
    running.stop().await;
}
