//! A client that works as a model does: it reads a large file with the official file system server,
//! makes the call that the notice of the answer proposes, and changes it to find one thing.

use std::path::Path;

use marquetry_protocol::{
    client::{CallOptions, Client, ClientOptions, HttpTarget},
    types::{CallToolParams, Implementation},
};
use serde_json::{Value, json};

use crate::programs::{Need, Served, have, here};

const SERVER: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

/// Tokens that finding one thing may cost after the first answer, arguments and answers together.
const MAX_TOKENS: u64 = 1_500;

/// A client that shows its model `structuredContent` alone, and one that is not known.
const CLIENTS: [&str; 2] = ["claude-code", "unknown"];

#[tokio::test]
async fn one_thing_is_found_in_a_large_file_with_two_calls() {
    if !have(&[Need::Program("node"), Need::Installed(SERVER)]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let config = folder.path().join("mcp.json");
    let files = json!({"command": "node", "args": [here().join(SERVER), folder.path()]});
    std::fs::write(&config, json!({"mcpServers": {"files": files}}).to_string()).unwrap();
    let served = Served::start(&["--mcp-config", config.to_str().unwrap()]);
    for name in CLIENTS {
        let options = ClientOptions {
            implementation: Implementation::new(name, "1.0.0"),
            ..ClientOptions::default()
        };
        let target = HttpTarget { url: served.url.clone(), ..HttpTarget::default() };
        let client = Client::http(target, options).await.unwrap();
        let model = Model { client, folder: folder.path() };

        let found = model.find("users.json", "jq", ">= 0", "== 31337", "\"id\":1,").await;
        assert!(found.contains(r#""email":"user31337@example.com""#), "{name}: {found}");
        let found = model.find("map.json", "jq", "K0", "K4321", "\"n\":0").await;
        assert!(found.contains(r#""n":4321"#), "{name}: {found}");
        let found = model.find("lines.ndjson", "jq", ">= 0", "== 777", "\"id\":0,").await;
        assert!(found.contains(r#""level":"info""#) && found.contains("777"), "{name}: {found}");
        let found = model.find("server.log", "pattern", "error", "request 7f3a91", "ERROR").await;
        assert!(found.contains("2 of 40000 lines match"), "{name}: {found}");
        assert!(found.contains("20001:") && found.contains("30001:"), "{name}: {found}");
        let found = model.find("sales.csv", "sql", "count(*)", "sum(amount)", "50000").await;
        assert!(found.ends_with("sum(amount)\n1250025000\n"), "{name}: {found}");
        model.client.close().await;
    }
}

fn write_files(folder: &Path) {
    let users: Vec<Value> = (1..=40_000)
        .map(|id| {
            json!({"id": id, "name": format!("User {id}"), "email": format!("user{id}@example.com"),
                "tags": ["a", "b"], "address": {"city": "Graz", "zip": format!("{:05}", id % 9_999)}})
        })
        .collect();
    let users = json!({"exported": "2026-11-01", "count": users.len(), "users": users});
    // The file that a person wrote, with its spaces.
    let users = serde_json::to_string_pretty(&users).unwrap();
    assert!(users.len() > 5 << 20, "{}", users.len());
    std::fs::write(folder.join("users.json"), users).unwrap();

    let entries: Vec<String> =
        (0..20_000).map(|n| format!("\"K{n}\":{{\"n\":{n},\"text\":\"entry {n}\"}}")).collect();
    std::fs::write(folder.join("map.json"), format!("{{{}}}", entries.join(","))).unwrap();

    let lines: String = (0..20_000)
        .map(|id| format!("{{\"id\":{id},\"level\":\"info\",\"message\":\"event {id}\"}}\n"))
        .collect();
    std::fs::write(folder.join("lines.ndjson"), lines).unwrap();

    let log: String = (0..40_000)
        .map(|n| {
            let level = if n % 1_000 == 7 { "ERROR" } else { "INFO" };
            let request = if n == 20_000 || n == 30_000 { "7f3a91".to_owned() } else { format!("{n:06x}") };
            format!("2026-11-26T10:00:00.{n:05}Z {level} request {request} handled by worker {} in 12 ms\n", n % 8)
        })
        .collect();
    assert!(log.len() > 3_000_000, "{}", log.len());
    std::fs::write(folder.join("server.log"), log).unwrap();

    let sales: String = std::iter::once("id,region,product,amount\n".to_owned())
        .chain((1..=50_000).map(|id| format!("{id},north-west,\"bread, dark and fresh\",{id}\n")))
        .collect();
    assert!(sales.len() > 2_000_000, "{}", sales.len());
    std::fs::write(folder.join("sales.csv"), sales).unwrap();
}

/// Reads answers as text, and knows of no tool but those that an answer names.
struct Model<'f> {
    client: Client,
    folder: &'f Path,
}

impl Model<'_> {
    /// Reads a file, makes the call that the notice proposes as it is, and makes it again with
    /// `from` replaced by `to` in its argument. Returns the second answer.
    async fn find(
        &self,
        file: &str,
        argument: &str,
        from: &str,
        to: &str,
        want_first: &str,
    ) -> String {
        let path = self.folder.join(file);
        let read = self.call("files__read_text_file", &json!({ "path": path })).await;
        let (tool, mut arguments) = proposed(&read);
        let first = self.call(&tool, &arguments).await;
        assert!(first.contains(want_first), "{file}: {first}");
        let mut tokens =
            marquetry_tokens::estimate(&arguments.to_string()) + marquetry_tokens::estimate(&first);
        let query = arguments[argument].as_str().unwrap_or_else(|| panic!("{file}: {arguments}"));
        assert!(query.contains(from), "{file}: {query}");
        arguments[argument] = query.replace(from, to).into();
        let second = self.call(&tool, &arguments).await;
        tokens += marquetry_tokens::estimate(&arguments.to_string())
            + marquetry_tokens::estimate(&second);
        assert!(tokens <= MAX_TOKENS, "{file}: {tokens} tokens: {first}\n{second}");
        second
    }

    /// Calls a tool, and returns what the model is shown: texts, and structured content if there is
    /// any.
    async fn call(&self, tool: &str, arguments: &Value) -> String {
        let params = CallToolParams::new(tool, arguments).unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            let options = CallOptions::default();
            match self.client.call_tool_raw(&params, options).await {
                Ok(answer) => {
                    let answer: Value = serde_json::from_str(answer.get()).unwrap();
                    assert_ne!(answer["isError"], true, "{tool} {arguments}: {answer}");
                    let texts = answer["content"].as_array().unwrap().iter();
                    let texts = texts.filter_map(|item| item["text"].as_str());
                    let texts: String = texts.collect::<Vec<_>>().join("\n");
                    return texts + answer["structuredContent"]["content"].as_str().unwrap_or("");
                }
                // The upstream is still starting.
                Err(error) if std::time::Instant::now() > end => panic!("{tool}: {error}"),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }
}

/// Returns the call that a notice proposes: a tool in quotation marks and its arguments as JSON.
fn proposed(answer: &str) -> (String, Value) {
    let (_, rest) = answer
        .split_once("find in it with '")
        .unwrap_or_else(|| panic!("no proposal: {}", &answer[..answer.floor_char_boundary(2_000)]));
    let (tool, rest) = rest.split_once("' ").expect("the name of a tool");
    let arguments = serde_json::Deserializer::from_str(rest).into_iter().next();
    (tool.to_owned(), arguments.expect("arguments").expect("arguments in JSON"))
}
