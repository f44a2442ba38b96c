//! One trace from a client of FastMCP through the gateway to a server of FastMCP.

use std::process::Command;

use serde::Deserialize;
use serde_json::json;

use crate::programs::{Need, have, here, marquetry};

const PYTHON: &str = ".venv-fastmcp/bin/python";

#[derive(Debug, Deserialize)]
struct Span {
    service: String,
    name: String,
    trace: String,
    id: String,
    parent: String,
}

#[test]
fn a_call_is_one_trace_over_three_programs() {
    if !have(&[Need::Installed(PYTHON)]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = json!({ "mcpServers": { "adder": {
        "command": here().join(PYTHON), "args": [here().join("servers/traced_fastmcp.py")],
    } } });
    let mcp_json = folder.path().join("mcp.json");
    std::fs::write(&mcp_json, config.to_string()).unwrap();
    let output = Command::new(here().join(PYTHON))
        .arg(here().join("clients/traced.py"))
        .args([marquetry(), &mcp_json])
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let spans: Vec<Span> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // From the server up to the client.
    let mut span =
        spans.iter().find(|span| span.service == "upstream" && span.name.ends_with("add"));
    let mut path = Vec::new();
    while let Some(here) = span {
        path.push(format!("{} {}", here.service, here.name));
        span = spans.iter().find(|it| it.id == here.parent && it.trace == here.trace);
    }
    println!("{path:#?}");
    let want =
        ["upstream ", "marquetry tools/call add", "marquetry tools/call adder__add", "agent "];
    let mut want = want.iter().peekable();
    for step in &path {
        if want.peek().is_some_and(|want| step.starts_with(**want)) {
            want.next();
        }
    }
    assert_eq!(want.next(), None, "{path:#?}\n{spans:#?}\n{errors}");
}
