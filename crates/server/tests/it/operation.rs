//! The program in operation: its log, damaged databases, and the unit of systemd.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use marquetry_config::Config;
use serde_json::{Value, json};

use crate::support::Running;

/// The program, with settings and data only from below `folder`.
fn marquetry(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.args(arguments).current_dir(folder).env_remove("MARQUETRY_CONFIG");
    command.env("HOME", folder).env("XDG_CONFIG_HOME", folder.join("config"));
    command.env("XDG_DATA_HOME", folder.join("data")).env("RUST_BACKTRACE", "0");
    command
}

/// Sends requests over a pipe, one after the other, and returns the answers and the outcome.
fn ask(folder: &Path, requests: &[(&str, Value)]) -> (Vec<Value>, Output) {
    let info = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let mut input = format!(
        "{}\n{}\n",
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
    );
    for (number, (method, params)) in requests.iter().enumerate() {
        let request =
            json!({"jsonrpc": "2.0", "id": number + 1, "method": method, "params": params});
        input += &format!("{request}\n");
    }
    let mut command = marquetry(folder, &["stdio", "--config", "m.toml", "--log-format", "json"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = piped.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let answers = String::from_utf8(output.stdout.clone()).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (answers.filter(|answer| answer["id"].as_u64() > Some(0)).collect(), output)
}

fn tool(name: &str, arguments: Value) -> (&'static str, Value) {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

#[test]
fn each_call_leaves_one_line_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "knowledge.enabled = false\n";
    fs::write(folder.path().join("m.toml"), settings).unwrap();
    let calls = [
        tool("encodePlantUML", json!({"plantumlCode": "A -> B: hush"})),
        tool("encodePlantUML", json!({"plantumlCode": " "})),
        tool(&"unknown".repeat(100), json!({})),
        ("tools/list", json!({})),
    ];
    let (answers, output) = ask(folder.path(), &calls);
    assert_eq!(answers.len(), calls.len(), "{answers:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<_> = lines.filter(|line| line["target"] == "marquetry::calls").collect();
    lines.sort_by_key(|line| line["outcome"].to_string());
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ok", "rpc_error", "tool_failed"], "{log}");
    for line in &lines {
        assert_eq!((&line["level"], &line["caller"]), (&json!("INFO"), &json!("local")), "{line}");
        assert_eq!(line["server"], "marquetry", "{line}");
        assert!(line["ms"].is_u64() && line["tool"].as_str().unwrap().len() <= 200, "{line}");
    }
    assert!(lines[0]["bytes"].as_u64() > Some(20), "{log}");
    assert!(!log.contains("hush"), "{log}");

    fs::write(
        folder.path().join("m.toml"),
        format!("{settings}log.level = 'info,marquetry::calls=warn'\n"),
    )
    .unwrap();
    let (_, output) = ask(folder.path(), &calls);
    assert!(!String::from_utf8(output.stderr).unwrap().contains("marquetry::calls"));
}

/// Returns damaged copies of a database, each with its damage.
fn damaged(whole: &[u8]) -> Vec<(String, Vec<u8>)> {
    const PAGE: usize = 4_096;
    let mut copies = Vec::new();
    for part in [1, 3] {
        copies.push((format!("{part}/4 of it"), whole[..whole.len() / 4 * part].to_vec()));
    }
    let pages = whole.len() / PAGE;
    for step in 0..12 {
        let page = step * (pages - 1) / 11;
        let mut copy = whole.to_vec();
        let bytes = &mut copy[page * PAGE..][..PAGE];
        // The headers of a page, and bytes that are not UTF-8 all over it.
        match step % 3 {
            0 => bytes.fill(0),
            1 => bytes[..64].fill(0xff),
            _ => bytes[200..].iter_mut().step_by(97).for_each(|byte| *byte = 0x80),
        }
        copies.push((format!("page {page}, {}", step % 3), copy));
    }
    // A text that is not UTF-8 in an otherwise whole file.
    let mut copy = whole.to_vec();
    while let Some(at) = find(&copy, b"\"brown.md\"").or_else(|| find(&copy, b"brown.md")) {
        copy[at + 1] = 0x80;
    }
    copies.push(("texts that are not UTF-8".to_owned(), copy));
    copies
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[test]
fn damaged_databases_are_errors_that_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("docs")).unwrap();
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(200);
    for name in ["brown", "fox", "dog"] {
        fs::write(folder.join(format!("docs/{name}.md")), format!("# {name}\n\n{text}")).unwrap();
    }
    fs::write(folder.join("m.toml"), "knowledge.database = 'k.db'\n").unwrap();
    let indexed = marquetry(folder, &["index", "--config", "m.toml", "docs"]).output().unwrap();
    assert!(indexed.status.success(), "{indexed:?}");
    let whole = fs::read(folder.join("k.db")).unwrap();
    let requests = [
        tool("am7_vector_search", json!({"query": "fox"})),
        tool("am7_list_objects", json!({"type": "data.data"})),
        tool(
            "am7_create_object",
            json!({"type": "data.data", "name": "n", "content": "new", "groupPath": "~/T"}),
        ),
        ("resources/list", json!({})),
        tool("list_artifacts", json!({})),
    ];
    let mut failed = 0;
    for (damage, bytes) in damaged(&whole) {
        for ending in ["", "-wal", "-shm"] {
            _ = fs::remove_file(folder.join(format!("k.db{ending}")));
        }
        fs::write(folder.join("k.db"), bytes).unwrap();
        let (answers, output) = ask(folder, &requests);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{damage}: {log}");
        assert!(!log.contains("panicked"), "{damage}: {log}");
        assert_eq!(answers.len(), requests.len(), "{damage}: {answers:?}\n{log}");
        for answer in answers {
            let error = answer["error"]["message"].as_str();
            let is_failed = answer["result"]["isError"] == true;
            let text = answer["result"]["content"][0]["text"].as_str().filter(|_| is_failed);
            let Some(problem) = error.or(text) else { continue };
            failed += 1;
            assert!(problem.contains("k.db: "), "{damage}: {problem}");
            let is_damage = problem.contains("damaged") || problem.contains("not a database");
            assert!(problem.contains("; restore ") || !is_damage, "{damage}: {problem}");
        }
        let checked = marquetry(folder, &["check", "--config", "m.toml"]).output().unwrap();
        let told = String::from_utf8(checked.stderr).unwrap();
        assert!(!told.contains("panicked"), "{damage}: {told}");
    }
    assert!(failed > 10, "{failed}");
}

#[tokio::test]
async fn readiness_and_check_try_the_stores() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("note.md"), "# A note\n\nWith a text.\n").unwrap();
    let settings = format!("knowledge.database = {:?}\n", folder.join("k.db"));
    fs::write(folder.join("m.toml"), &settings).unwrap();
    let arguments = ["index", "--config", "m.toml", "note.md"];
    assert!(marquetry(folder, &arguments).output().unwrap().status.success());
    let check = || marquetry(folder, &["check", "--config", "m.toml"]).output().unwrap();
    let whole = check();
    assert!(whole.status.success(), "{whole:?}");

    let mut bytes = fs::read(folder.join("k.db")).unwrap();
    bytes[4_096..].fill(0x55);
    fs::write(folder.join("k.db"), bytes).unwrap();
    let server = Running::start(&settings).await;
    let ready = server.http("GET", "/readyz", &[], b"").await;
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("failing")));
    // Anybody may ask, so the path of the file is for administrators.
    assert!(!ready.body.contains("k.db"), "{}", ready.body);
    let fault = server.app.health()["faults"][0].clone();
    assert_eq!(fault["part"], "database", "{fault}");
    assert!(fault["problem"].as_str().unwrap().contains("k.db: "), "{fault}");
    server.stop().await;

    fs::write(folder.join("s.db"), "these are notes, and no database at all").unwrap();
    let stores = "[artifacts]\nsavings_database = 's.db'\n";
    fs::write(folder.join("m.toml"), settings + stores).unwrap();
    let checked = check();
    let told = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{told}");
    for problem in [
        "knowledge.database: the database is damaged: ",
        "artifacts.savings_database: the database cannot be used: s.db: it is not a database",
    ] {
        assert!(told.contains(problem), "{problem}: {told}");
    }
}

#[test]
fn the_unit_gives_the_server_time_to_end_and_bounds_it() {
    let unit = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/marquetry.service"
    ))
    .unwrap();
    let value = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.next_back().unwrap_or_else(|| panic!("{key} is missing")).to_owned()
    };
    assert_eq!(value("LimitCORE"), "0");
    assert_eq!(value("OOMPolicy"), "continue");
    assert_eq!(value("UMask"), "0077");
    assert!(value("MemoryMax").ends_with('G') && value("MemoryHigh").ends_with('G'));
    let config = Config::default();
    let grace = config.server.shutdown_grace_ms + config.gateway.stop_grace_ms;
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() * 1_000 > 2 * grace);
}
