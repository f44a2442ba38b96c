//! `marquetry test` as users see it: exit codes.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

/// A scenario that holds for every server with or without tools.
const LISTS: &str = "id: lists\ntitle: Lists tools.\nsteps:\n  - request: {method: tools/list}\n";

/// A scenario that no server passes.
const FAILS: &str =
    "id: fails\ntitle: Calls a tool that no server has.\nsteps:\n  - call: no_such_tool\n";

/// A case whose server does not start.
const CASE: &str = "cases:\n  - name: no-server\n    prompt: Add.\n    judgeConfig: {provider: ollama, model: m}\n    serverConfigs: [{type: stdio, command: no-such-program}]\n";

fn test(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.arg("test").args(arguments).current_dir(directory);
    command.env_remove("MARQUETRY_CONFIG").env_remove("TEST_DATABASE");
    command.env("HOME", directory).env("XDG_CONFIG_HOME", directory.join("config"));
    command.env("XDG_DATA_HOME", directory.join("data"));
    command.output().unwrap()
}

#[track_caller]
fn check(arguments: &[&str], want: i32, contains: &str) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("lists.yaml"), LISTS).unwrap();
    fs::write(directory.path().join("fails.yaml"), FAILS).unwrap();
    fs::write(directory.path().join("case.yaml"), CASE).unwrap();
    let output = test(directory.path(), arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(want), "{printed}");
    assert!(printed.contains(contains), "{printed}");
}

#[test]
fn a_scenario_that_cannot_be_run_exits_3() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/mcp");
    let want = "\nERROR: 1 case could not be run";
    check(&["lists.yaml", "--", "no-such-program"], 3, want);
    check(&["lists.yaml", "--url", &url], 3, want);
    check(&["lists.yaml", "--url", "http://no-such-host.invalid/mcp"], 3, want);
    // It ends before it answers.
    check(&["lists.yaml", "--", "true"], 3, want);
    check(&["lists.yaml", "--format", "json", "--", "no-such-program"], 3, r#""status":"error""#);
    check(&["lists.yaml", "--format", "junit", "--", "no-such-program"], 3, "<error message=");
}

#[test]
fn schemas_are_printed_without_a_test() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, key) in [("cases", "judgeConfig"), ("scenarios", "steps")] {
        let output = test(folder.path(), &["--schema", kind]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(schema["properties"][key].is_object(), "{kind}: {schema}");
    }
    check(&["--schema", "cases", "lists.yaml"], 2, "");
    check(&["--schema", "suites"], 2, "");
    check(&[], 2, "");
}

#[test]
fn a_failed_scenario_exits_1() {
    check(&["lists.yaml"], 0, "1 passed; 0 failed");
    check(&["fails.yaml"], 1, "0 passed; 1 failed");
}

#[test]
fn one_report_has_scenarios_and_cases() {
    let counts = "<testsuites tests=\"2\" failures=\"0\" skipped=\"0\" errors=\"1\"";
    check(&["lists.yaml", "case.yaml", "--format", "junit"], 3, counts);
    check(
        &["fails.yaml", "case.yaml", "--format", "tap"],
        1,
        "not ok 2 - marquetry.judge/no-server\n",
    );
    check(&["lists.yaml", "case.yaml", "--format", "json"], 3, "\"scenarios\": [");
    check(&["lists.yaml", "case.yaml", "--format", "html"], 3, "<h2>cases</h2>");
    check(&["lists.yaml", "case.yaml"], 3, "0 passed; 0 failed; 1 without a verdict");
    // A filter may leave one kind of tests out.
    check(&["lists.yaml", "case.yaml", "--filter", "no-server", "--format", "tap"], 3, "\n1..1\n");
}
