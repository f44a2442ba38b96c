//! The environment of upstreams.

use marquetry_protocol::client::{Client, ClientOptions, StdioCommand};
use serde_json::json;

use crate::{
    support::{text_of, within},
    upstream::child_toml,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_marquetry");

/// Returns the values that an upstream sees for `names`, if the server's environment has a secret,
/// a tool's home and the usual variables.
async fn seen(toml: &str, names: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("marquetry.toml");
    std::fs::write(&config, toml).unwrap();
    let mut command = StdioCommand::new(PROGRAM, ["stdio", "--log", "warn", "--config"]);
    command.args.push(config.display().to_string());
    for (name, value) in [("A_TOKEN", "hush"), ("NVM_DIR", "/nvm"), ("LC_TEST", "C")] {
        command.env.insert(name.to_owned(), value.to_owned());
    }
    let agent = within(Client::spawn(command, ClientOptions::default())).await.unwrap();
    let mut seen = Vec::new();
    for name in names {
        seen.push(text_of(&agent, "local__env", json!({"name": name})).await);
    }
    within(agent.close()).await;
    seen
}

#[tokio::test]
async fn upstreams_do_not_see_the_whole_environment() {
    let names = ["A_TOKEN", "NVM_DIR", "LC_TEST"];
    assert_eq!(seen(&child_toml("local"), &names).await, ["unset", "unset", "C"]);
    let pass = format!("gateway.pass_env = ['NVM_*']\n{}", child_toml("local"));
    assert_eq!(seen(&pass, &names).await, ["unset", "/nvm", "C"]);
    let inherit = format!("{}inherit_env = true\n", child_toml("local"));
    assert_eq!(seen(&inherit, &names).await, ["hush", "/nvm", "C"]);
}

#[tokio::test]
async fn a_server_that_names_itself_is_started_a_bounded_number_of_times() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("mcp.json");
    // Whether PlantUML is installed here must not change the number of tools.
    let settings = directory.path().join("marquetry.toml");
    std::fs::write(&settings, "[plantuml]\nengine = 'off'\n").unwrap();
    let paths = [&settings, &config].map(|path| path.display().to_string());
    let args = ["stdio", "--log", "warn", "--config", &paths[0], "--mcp-config", &paths[1]];
    // Through a shell, the server is not recognized as this one.
    let started = [&["-c", "exec \"$0\" \"$@\"", PROGRAM][..], &args].concat();
    let shell = json!({"command": "sh", "args": started});
    std::fs::write(&config, json!({"mcpServers": {"itself": shell}}).to_string()).unwrap();
    let command = StdioCommand::new(PROGRAM, args);
    let agent = within(Client::spawn(command, ClientOptions::default())).await.unwrap();
    // Each level has seven tools of its own, those of the next level, and the tools of knowledge.
    // The last one has no upstream.
    let mut names: Vec<String> = Vec::new();
    for _ in 0..100 {
        let listed = within(agent.list_tools()).await.unwrap().into_iter().map(|tool| tool.name);
        names = listed.filter(|name| !name.contains("am7_")).collect();
        if names.len() == 28 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let deepest = names.iter().map(|name| name.matches("itself__").count()).max();
    assert_eq!((names.len(), deepest), (28, Some(3)), "{names:?}");
    within(agent.close()).await;
}
