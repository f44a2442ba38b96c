//! The example servers that the authors of MCP Apps publish: a View gets through the gateway what
//! it gets directly, byte for byte.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientOptions, HttpTarget, RevisionChoice, StdioCommand},
    types::CallToolParams,
};
use serde_json::{Value, json, value::RawValue};

use crate::programs::{Need, Served, have, here};

/// The published examples with a View. `server-pdf` is left out: it reads its documents from other
/// hosts.
const EXAMPLES: [&str; 18] = [
    "basic-preact",
    "basic-react",
    "basic-solid",
    "basic-svelte",
    "basic-vanillajs",
    "basic-vue",
    "budget-allocator",
    "cohort-heatmap",
    "customer-segmentation",
    "map",
    "scenario-modeler",
    "shadertoy",
    "sheet-music",
    "system-monitor",
    "threejs",
    "transcript",
    "video-resource",
    "wiki-explorer",
];

/// The examples whose answer is more than a model is shown. A client without Views gets its
/// beginning and end, after the notice.
const LARGE: [&str; 2] = ["customer-segmentation", "wiki-explorer"];

const NEEDS: [Need; 2] = [
    Need::Program("node"),
    Need::Installed("node_modules/@modelcontextprotocol/server-wiki-explorer/dist/index.js"),
];

/// Member of `_meta` that the gateway adds to an answer that it saved.
const REPORT: &str = "marquetry/capture";

#[tokio::test]
async fn views_of_published_servers_get_the_same_bytes_as_directly() {
    if !have(&NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mcp.json");
    let servers: BTreeMap<_, _> = EXAMPLES
        .map(|name| (name, json!({"command": "node", "args": arguments_of(name)})))
        .into_iter()
        .collect();
    std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).unwrap();
    let served = Served::start(&["--mcp-config", config.to_str().unwrap()]);
    let with_views = connect(&served, true).await;
    let without_views = connect(&served, false).await;
    for name in EXAMPLES {
        let command = StdioCommand::new("node", arguments_of(name));
        let direct = Client::spawn(command, options(true)).await.unwrap();
        let tools = tools_with_views(&direct).await;
        assert!(!tools.is_empty(), "{name} has no tool with a View");
        for tool in tools {
            let want = call(&direct, &tool).await;
            // Otherwise a difference below says nothing about the gateway.
            assert!(want.get() == call(&direct, &tool).await.get(), "{name} {tool}: not fixed");
            let is_error = members(&want).get("isError").is_some_and(|it| it.get() == "true");
            assert!(!is_error, "{name} {tool}: {want}");

            let tool = format!("{name}__{tool}");
            wait_for_tool(&with_views, &tool).await;
            check_same(&tool, &call(&with_views, &tool).await, &want);
            let got = call(&without_views, &tool).await;
            if LARGE.contains(&name) {
                let got: Value = serde_json::from_str(got.get()).unwrap();
                let first = got["content"][0]["text"].as_str().unwrap();
                assert!(first.starts_with(&format!("[The answer of tool '{tool}'")), "{first}");
                assert!(got.to_string().len() < want.get().len(), "{tool}: nothing is left out");
            } else {
                assert_eq!(got.get(), want.get(), "{tool}, without Views");
            }
        }
        direct.close().await;
    }
    with_views.close().await;
    without_views.close().await;
}

/// Checks that two results have the same members with the same bytes, apart from the report of the
/// gateway.
#[track_caller]
fn check_same(tool: &str, got: &RawValue, want: &RawValue) {
    let (mut got, mut want) = (members(got), members(want));
    let (got_meta, want_meta) = (meta(&mut got), meta(&mut want));
    assert_eq!(got_meta.keys().collect::<Vec<_>>(), want_meta.keys().collect::<Vec<_>>(), "{tool}");
    for (name, value) in &want_meta {
        assert_eq!(got_meta[name].get(), value.get(), "{tool}: _meta.{name}");
    }
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>(), "{tool}");
    for (name, value) in &want {
        // The members may have hundreds of kilobytes.
        assert!(got[name].get() == value.get(), "{tool}: {name} differs");
    }
}

type Members = BTreeMap<String, Box<RawValue>>;

fn members(object: &RawValue) -> Members {
    serde_json::from_str(object.get()).unwrap()
}

/// Takes `_meta` out of a result, without the report of the gateway.
fn meta(result: &mut Members) -> Members {
    let mut meta = result.remove("_meta").map(|meta| members(&meta)).unwrap_or_default();
    meta.remove(REPORT);
    meta
}

fn arguments_of(example: &str) -> Vec<String> {
    let text = |path: PathBuf| path.to_str().expect("the folder has a name in UTF-8").to_owned();
    let package = format!("node_modules/@modelcontextprotocol/server-{example}/dist/index.js");
    vec![
        "--import".to_owned(),
        text(here().join("servers/fixed.mjs")),
        text(here().join(package)),
        "--stdio".to_owned(),
    ]
}

fn options(shows_views: bool) -> ClientOptions {
    let views = json!({"extensions": {"io.modelcontextprotocol/ui":
        {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    let capabilities = if shows_views { views } else { json!({}) };
    ClientOptions {
        // The revision of the examples. In a later one, each result of the gateway has members that
        // their results do not have.
        revision: RevisionChoice::Only(Revision::V2025_11_25),
        capabilities: serde_json::from_value(capabilities).unwrap(),
        ..ClientOptions::default()
    }
}

async fn connect(served: &Served, shows_views: bool) -> Client {
    let target = HttpTarget { url: served.url.clone(), ..HttpTarget::default() };
    Client::http(target, options(shows_views)).await.unwrap()
}

async fn tools_with_views(client: &Client) -> Vec<String> {
    let tools = client.list_tools().await.unwrap().into_iter();
    let has_view = |meta: &Value| meta["ui"]["resourceUri"].is_string();
    tools
        .filter(|tool| tool.meta.clone().is_some_and(|meta| has_view(&Value::Object(meta))))
        .map(|tool| tool.name)
        .collect()
}

async fn wait_for_tool(client: &Client, name: &str) {
    let end = Instant::now() + Duration::from_mins(1);
    while !client.list_tools().await.unwrap().iter().any(|tool| tool.name == name) {
        assert!(Instant::now() < end, "{name} is not listed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn call(client: &Client, tool: &str) -> Box<RawValue> {
    let params = CallToolParams::new(tool, &json!({})).unwrap();
    client.call_tool_raw(&params, CallOptions::default()).await.unwrap()
}
