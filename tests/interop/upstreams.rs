//! Official servers behind the binary.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_protocol::{
    Revision, RpcError,
    client::{
        CallOptions, Client, ClientHandler, ClientOptions, HttpTarget, RevisionChoice, StdioCommand,
    },
    types::{
        CallToolParams, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams,
        ElicitResult, ListRootsResult, Role, Root, SamplingContent,
    },
};
use serde_json::{Value, json};

use crate::programs::{Need, Served, have, here, marquetry, signal};

const NEEDS: [Need; 2] = [
    Need::Program("node"),
    Need::Installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
];

fn mcp_json(directory: &Path) -> std::path::PathBuf {
    let server = |name: &str| {
        here().join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"))
    };
    let config = json!({ "mcpServers": {
        "everything": { "command": "node", "args": [server("server-everything")] },
        "files": { "command": "node", "args": [server("server-filesystem"), directory] },
    }});
    let file = directory.join("mcp.json");
    std::fs::write(&file, config.to_string()).expect("a writable directory");
    file
}

/// Seed 004 names the tools `create_file`, `write_file`, `read_file`, `list_files` and
/// `search_files` in its examples. The official filesystem server, which most users have, lists
/// neither `create_file` nor `list_files`: `write_file` creates files, and `list_directory` lists
/// them. `read_file` is deprecated there in favour of `read_text_file`. Our examples and tests of
/// the seed name these tools, since a test that expects a tool which no server lists ends with an
/// error.
const TOOLS_FOR_THE_SEED: [(&str, &str); 5] = [
    ("create_file", "write_file"),
    ("write_file", "write_file"),
    ("read_file", "read_text_file"),
    ("list_files", "list_directory"),
    ("search_files", "search_files"),
];

#[tokio::test]
async fn the_filesystem_server_has_tools_for_those_of_seed_004() {
    if !have(&NEEDS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = here().join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let args = [script.to_str().unwrap(), directory.path().to_str().unwrap()];
    let files =
        Client::spawn(StdioCommand::new("node", args), ClientOptions::default()).await.unwrap();
    let tools = files.list_tools().await.unwrap();
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    for (of_the_seed, ours) in TOOLS_FOR_THE_SEED {
        assert!(has(ours), "{ours}, for {of_the_seed}");
    }
    for absent in ["create_file", "list_files"] {
        assert!(!has(absent), "{absent} is there: the tests of the seed can name it");
    }
    files.close().await;
}

#[tokio::test]
async fn every_tool_of_real_servers_is_listed_under_its_servers_name() {
    if !have(&NEEDS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&["--mcp-config", mcp_json(directory.path()).to_str().unwrap()]);
    let client = connect(&served).await;
    for (name, package, args) in [
        ("everything", "server-everything", vec![]),
        ("files", "server-filesystem", vec![directory.path().to_str().unwrap().to_owned()]),
    ] {
        let script =
            here().join(format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"));
        let args = std::iter::once(script.to_str().unwrap().to_owned()).chain(args);
        let direct =
            Client::spawn(StdioCommand::new("node", args), ClientOptions::default()).await.unwrap();
        let want: Vec<String> = direct
            .list_tools()
            .await
            .unwrap()
            .iter()
            .map(|tool| format!("{name}__{}", tool.name))
            .collect();
        assert!(want.len() > 5);
        wait_for_tools(&client, &want).await;
        direct.close().await;
    }
    let ours = ours(&client).await;
    let (knowledge, others): (Vec<_>, Vec<_>) =
        ours.iter().partition(|name| name.starts_with("am7_"));
    // These two are there where PlantUML is installed.
    let others: Vec<_> = others
        .into_iter()
        .filter(|name| !["checkPlantUML", "renderPlantUML"].contains(&name.as_str()))
        .collect();
    let artifacts_and_diagrams = [
        "decodePlantUML",
        "delete_artifact",
        "encodePlantUML",
        "list_artifacts",
        "query_artifact",
        "read_artifact",
        "search_artifact",
    ];
    assert_eq!(others, artifacts_and_diagrams);
    assert!(knowledge.iter().any(|name| *name == "am7_vector_search"), "{knowledge:?}");
}

#[tokio::test]
async fn a_large_text_is_an_artifact_and_a_small_image_stays_as_sent() {
    if !have(&NEEDS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text: String =
        (0..).map(|i| format!("{i} größer als jedes Fenster\n")).take(160_000).collect();
    let text = &text[..text.floor_char_boundary(5 << 20)];
    std::fs::write(directory.path().join("large.txt"), text).unwrap();
    let config = mcp_json(directory.path());
    let served = Served::start(&["--mcp-config", config.to_str().unwrap()]);
    let stdio = StdioCommand::new(
        marquetry().to_str().unwrap(),
        ["stdio", "--mcp-config", config.to_str().unwrap()],
    );
    let over_stdio = Client::spawn(stdio, ClientOptions::default()).await.unwrap();
    for client in [connect(&served).await, over_stdio] {
        let wanted = ["everything__get-tiny-image", "files__read_text_file"].map(str::to_owned);
        wait_for_tools(&client, &wanted).await;

        let path = directory.path().join("large.txt");
        let answer = call(&client, "files__read_text_file", json!({ "path": path })).await.unwrap();
        let artifact = only_artifact(&answer, "text/plain");
        assert!(
            answer.to_string().len() < 100_000,
            "the model is shown {} bytes",
            answer.to_string().len()
        );
        assert!(read_back(&client, &artifact).await == text.as_bytes(), "the text has changed");

        // The image directly from its server.
        let script =
            here().join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let command = StdioCommand::new("node", [script.to_str().unwrap()]);
        let direct = Client::spawn(command, ClientOptions::default()).await.unwrap();
        let image = call(&direct, "get-tiny-image", json!({})).await.unwrap();
        direct.close().await;

        let answer = call(&client, "everything__get-tiny-image", json!({})).await.unwrap();
        assert_eq!(answer["content"], image["content"]);
        assert_eq!(artifacts(&answer), [json!(null); 0]);
        client.close().await;
    }
}

#[tokio::test]
async fn a_killed_server_is_an_error_answer_and_comes_back() {
    if !have(&NEEDS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut served = Served::start(&["--mcp-config", mcp_json(directory.path()).to_str().unwrap()]);
    let client = connect(&served).await;
    let tool = "everything__trigger-long-running-operation".to_owned();
    wait_for_tools(&client, std::slice::from_ref(&tool)).await;

    let long = call(&client, &tool, json!({ "duration": 60, "steps": 60 }));
    let kill = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let pid = child_of(served.pid(), "server-everything").expect("the upstream runs");
        signal("KILL", pid);
        pid
    };
    let start = Instant::now();
    let (answer, killed) = tokio::join!(long, kill);
    assert!(start.elapsed() < Duration::from_secs(10), "the error took {:?}", start.elapsed());
    let said = match answer {
        Ok(answer) => {
            assert_eq!(answer["isError"], true, "{answer}");
            answer.to_string()
        }
        Err(error) => error,
    };
    assert!(said.contains("everything"), "{said}");

    let end = Instant::now() + Duration::from_secs(30);
    let back = loop {
        match call(&client, "everything__echo", json!({ "message": "back" })).await {
            Ok(answer) if answer["isError"] != true => break answer,
            _ if Instant::now() > end => panic!("the upstream was not restarted"),
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    assert!(back["content"][0]["text"].as_str().unwrap().contains("back"), "{back}");

    let returned = child_of(served.pid(), "server-everything").expect("the upstream runs again");
    assert_ne!(returned, killed);
    let files = child_of(served.pid(), "server-filesystem").expect("the other upstream still runs");
    assert!(served.stop(), "the server did not exit cleanly");
    for pid in [returned, files] {
        assert!(!is_alive(pid), "process {pid} still runs");
    }
}

/// Answers the requests of servers: a user, a model and a folder.
struct Person;

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = json!({ "name": "Ann", "check": true });
        let content = params.url.is_none().then(|| content.as_object().cloned().unwrap());
        Ok(ElicitResult { action: ElicitAction::Accept, content })
    }

    async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let asked = params.messages[0].content[0].as_text().unwrap_or_default().to_uppercase();
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content: vec![SamplingContent::text(asked)],
            model: "shouts".to_owned(),
            stop_reason: None,
        })
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult { roots: vec![Root { uri: "file:///home/ann".to_owned(), name: None }] })
    }
}

#[tokio::test]
async fn questions_of_a_real_server_reach_agents_of_both_eras() {
    if !have(&NEEDS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&["--mcp-config", mcp_json(directory.path()).to_str().unwrap()]);
    let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let options = ClientOptions {
            revision: RevisionChoice::Only(revision),
            capabilities: serde_json::from_value(all.clone()).unwrap(),
            handler: Arc::new(Person),
            ..ClientOptions::default()
        };
        let target = HttpTarget { url: served.url.clone(), ..HttpTarget::default() };
        let client = Client::http(target, options).await.unwrap();
        for (tool, arguments, want) in [
            ("trigger-elicitation-request", json!({}), "- Name: Ann"),
            ("trigger-sampling-request", json!({ "prompt": "quietly" }), "QUIETLY"),
            ("get-roots-list", json!({}), "file:///home/ann"),
            (
                "trigger-url-elicitation",
                json!({ "url": "https://example.com/", "message": "go there" }),
                "User completed the URL elicitation flow",
            ),
        ] {
            let tool = format!("everything__{tool}");
            wait_for_tools(&client, std::slice::from_ref(&tool)).await;
            let said = call(&client, &tool, arguments).await.unwrap();
            assert!(said["content"].to_string().contains(want), "{revision} {tool}: {said}");
        }
        client.close().await;
    }
}

async fn connect(served: &Served) -> Client {
    let target = HttpTarget { url: served.url.clone(), ..HttpTarget::default() };
    Client::http(target, ClientOptions::default()).await.unwrap()
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, String> {
    let params = CallToolParams::new(tool, &arguments).unwrap();
    let answer = client
        .call_tool_raw(&params, CallOptions::default())
        .await
        .map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}

/// Waits for tools: upstreams start beside the server, and their tools appear when they are ready.
async fn wait_for_tools(client: &Client, want: &[String]) {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let have: Vec<String> =
            client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        if want.iter().all(|tool| have.contains(tool)) {
            return;
        }
        assert!(Instant::now() < end, "{want:?} did not all come: {have:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the tools of the server itself.
async fn ours(client: &Client) -> Vec<String> {
    let tools = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name);
    let mut ours: Vec<String> = tools.filter(|name| !name.contains("__")).collect();
    ours.sort();
    ours
}

fn artifacts(answer: &Value) -> Vec<Value> {
    answer["_meta"]["marquetry/capture"]["save"]["artifacts"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Returns the only artifact. A structured copy of a text is not a second one.
fn only_artifact(answer: &Value, mime_type: &str) -> Value {
    let all: Vec<Value> = artifacts(answer)
        .into_iter()
        .filter(|artifact| artifact["mime_type"] == mime_type)
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

/// Returns the content of the artifact, as an MCP resource.
async fn read_back(client: &Client, artifact: &Value) -> Vec<u8> {
    let params = serde_json::value::to_raw_value(&json!({ "uri": artifact["uri"] })).unwrap();
    let read =
        client.request("resources/read", Some(&params), CallOptions::default()).await.unwrap();
    let read: Value = serde_json::from_str(read.get()).unwrap();
    let contents = &read["contents"][0];
    match contents["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(contents["blob"].as_str().unwrap()).unwrap(),
    }
}

/// Returns the child process of `parent` whose command line contains `part`.
fn child_of(parent: u32, part: &str) -> Option<u32> {
    std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid| {
            let read = |file: &str| {
                std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
            };
            let stat = read("stat");
            let parent_of = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
            parent_of == Some(parent) && read("cmdline").contains(part)
        })
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
