//! The official clients ask their users before a call.

use std::fs;

use serde_json::{Value, json};

use crate::{
    clients::OfficialClient,
    programs::{Need, Served, have, marquetry},
};

const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");

#[test]
fn official_clients_ask_their_users_before_a_call() {
    let needs = [Need::Program("node"), Need::Installed("node_modules"), Need::Installed(".venv")];
    if !have(&needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("marquetry.toml");
    let decisions = folder.path().join("decisions.toml");
    let text = format!(
        "knowledge.enabled = false\n[ask]\nwhen = 'always'\ndecisions_file = {decisions:?}\n[mcp_servers.up]\ncommand = {FIXTURE:?}\nargs = ['stdio']\n"
    );
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let served = Served::start(&["--config", config]);
    let servers = [
        json!({ "command": [marquetry(), "stdio", "--config", config] }),
        json!({ "url": served.url }),
    ];
    for client in OfficialClient::all() {
        for server in &servers {
            let who = format!("{} {server}", client.name);
            let allowed = json!({ "action": "accept", "content": { "decision": "once" } });
            check(&client, server, Some(allowed), |results, asked| {
                assert_eq!(results.map(text_of), ["Ada", "Bea"], "{who}");
                assert_eq!(asked.len(), 2, "{who}: {asked:?}");
                let head = "Marquetry asks: may the tool \"echo\" of the server \"up\" be called?";
                assert!(asked[0].starts_with(head), "{who}: {asked:?}");
                assert!(asked[1].ends_with("\ntext: Bea"), "{who}: {asked:?}");
            });
            check(&client, server, Some(json!({ "action": "decline" })), |results, asked| {
                for result in results {
                    assert_eq!(result["isError"], true, "{who}: {result}");
                    assert!(text_of(result).contains("the user declined"), "{who}: {result}");
                }
                assert_eq!(asked.len(), 2, "{who}: {asked:?}");
            });
            check(&client, server, None, |results, asked| {
                for result in results {
                    assert!(text_of(result).contains("this client cannot ask"), "{who}: {result}");
                }
                assert!(asked.is_empty(), "{who}: {asked:?}");
            });
        }
    }
}

/// Calls a tool twice, with users who answer so, or a client that cannot ask.
fn check(
    client: &OfficialClient,
    server: &Value,
    elicit: Option<Value>,
    see: impl FnOnce([&Value; 2], &[String]),
) {
    let calls =
        ["Ada", "Bea"].map(|text| json!({ "name": "up__echo", "arguments": { "text": text } }));
    let job = json!({ "server": server, "mode": client.mode, "calls": calls, "elicit": elicit });
    let done = client.run(&job);
    see([&done.results[0], &done.results[1]], &done.asked);
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
