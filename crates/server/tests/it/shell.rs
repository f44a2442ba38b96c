//! `marquetry call`, `tools` and `doctor` as users see them.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with two tools: `echo` answers with its arguments, and `fail` fails.
const SERVER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *\"initialize\"*) result='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *\"tools/list\"*) result='"result":{"tools":[
      {"name":"echo","description":"Echoes.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}},
      {"name":"fail","inputSchema":{"type":"object"}}]}'; result=$(echo $result);;
    *\"fail\"*) result='"result":{"isError":true,"content":[{"type":"text","text":"no luck"}]}';;
    *\"tools/call\"*)
      arguments=${line#*\"arguments\":}; arguments=${arguments%%\}*}\}
      text=$(printf %s "$arguments" | sed 's/"/\\"/g')
      result='"result":{"content":[{"type":"text","text":"'$text'"}]}';;
    *) result='"error":{"code":-32601,"message":"unknown method"}';;
  esac
  case $line in *\"id\":*) printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$result";; esac
done"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("other-was-started");
    // In a file, because `${…}` in `args` is a variable.
    let script = folder.path().join("server.sh");
    fs::write(&script, SERVER).unwrap();
    let servers = json!({"mcpServers": {
        "good": {"command": "sh", "args": [script]},
        "other": {"command": "sh", "args": ["-c", format!("touch {}; exit 0", touched.display())]},
        "bad": {"command": "no-such-program"},
        "unset": {"command": "sh", "args": ["${MARQUETRY_NOT_SET}"]},
    }});
    fs::write(folder.path().join("mcp.json"), servers.to_string()).unwrap();
    folder
}

fn marquetry(folder: &Path, arguments: &[&str]) -> Output {
    let with_servers: Vec<&str> =
        arguments.iter().copied().chain(["--mcp-config", "mcp.json"]).collect();
    marquetry_alone(folder, &with_servers)
}

/// Runs a command whose files are all below `folder`.
fn marquetry_alone(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.args(arguments).current_dir(folder);
    command.env_remove("MARQUETRY_NOT_SET").env_remove("MARQUETRY_CONFIG");
    command.env("HOME", folder).env("XDG_CONFIG_HOME", folder.join("config"));
    command.env("XDG_DATA_HOME", folder.join("data")).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs a command and checks its exit code. Returns standard output and standard error.
#[track_caller]
fn run(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = marquetry(folder, arguments);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stdout}\n{stderr}");
    (stdout, stderr)
}

#[test]
fn a_tool_is_called_and_only_its_server_is_started() {
    let folder = folder();
    let path = folder.path();
    let (stdout, stderr) = run(path, &["call", "good__echo", "n=3", "tags=a", "tags=b"], 0);
    assert_eq!(stdout, "{\"n\":3,\"tags\":[\"a\",\"b\"]}\n", "{stderr}");
    assert_eq!(stderr, "");
    assert!(!path.join("other-was-started").exists());
    let (stdout, _) = run(path, &["call", "good__echo", "{\"n\": 1}", "--json"], 0);
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(result["content"][0]["type"], "text");

    let (stdout, stderr) = run(path, &["call", "good__fail"], 1);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("", "no luck\n"));
    let (_, stderr) = run(path, &["call", "good__ech"], 2);
    assert_eq!(stderr, "error: unknown tool \"good__ech\"; did you mean \"good__echo\"?\n");
    let (_, stderr) = run(path, &["call", "good__echo", "n=x"], 2);
    assert_eq!(stderr, "error: n: \"x\" is invalid; expected an integer\n");
    let (_, stderr) = run(path, &["call", "bad__anything"], 3);
    assert!(stderr.contains("server \"bad\" is down: "), "{stderr}");
    let (stdout, _) = run(path, &["call", "encodePlantUML", "plantumlCode=A -> B", "--raw"], 0);
    assert!(stdout.contains("http"), "{stdout}");
}

#[test]
fn arguments_have_the_types_of_the_schema_also_with_tool_search() {
    let folder = folder();
    let path = folder.path();
    fs::create_dir_all(path.join("config/marquetry")).unwrap();
    fs::write(path.join("config/marquetry/marquetry.toml"), "[tools.search]\nmode = 'on'\n")
        .unwrap();
    let (stdout, stderr) = run(path, &["call", "good__echo", "tags=1"], 0);
    assert_eq!(stdout, "{\"tags\":[\"1\"]}\n", "{stderr}");
    run(path, &["call", "good__echo", "zz=1"], 2);
    assert!(run(path, &["tools", "good"], 0).0.contains("good__echo"));
}

#[test]
fn the_tools_of_one_server_are_listed() {
    let folder = folder();
    let path = folder.path();
    let (stdout, stderr) = run(path, &["tools", "--server", "good"], 0);
    let want = "good__echo(n?: integer, tags?: string[])\n    Echoes.\ngood__fail()\n";
    assert_eq!((stdout.as_str(), stderr.as_str()), (want, ""));
    let (stdout, _) = run(path, &["tools", "FAIL", "--server", "good", "--json"], 0);
    let list: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(list["tools"][0]["name"], "good__fail");
    let (_, stderr) = run(path, &["tools", "--server", "goood"], 2);
    assert!(stderr.contains("unknown server \"goood\"; did you mean \"good\"?"), "{stderr}");
    let (_, stderr) = run(path, &["tools", "--server", "bad"], 3);
    assert!(stderr.contains("`marquetry doctor bad`"), "{stderr}");
}

#[test]
fn tools_that_the_policy_hides_are_counted() {
    let folder = folder();
    let path = folder.path();
    let rules = "[[policy.rules]]\nprincipals = [\"ci\"]\ntools.allow = [\"*\"]\n\
                 [[policy.rules]]\nprincipals = [\"local\"]\ntools.allow = [\"fail\"]\n";
    fs::write(path.join("rules.toml"), rules).unwrap();
    let settings = ["--config", "rules.toml"];
    let listed = [&["tools", "--server", "good"][..], &settings].concat();
    let (stdout, stderr) = run(path, &listed, 0);
    assert_eq!(stdout, "good__fail()\n", "{stderr}");
    assert!(
        stderr.contains("[policy] hides 1 tool of servers from the caller \"local\""),
        "{stderr}"
    );
    let (_, stderr) = run(path, &[&["call", "good__echo"][..], &settings].concat(), 2);
    assert!(stderr.contains("unknown tool \"good__echo\""), "{stderr}");
    assert!(stderr.contains("[policy] hides 1 tool of servers"), "{stderr}");
}

#[test]
fn the_servers_of_the_user_are_found_without_options() {
    let folder = folder();
    let path = folder.path();
    let own = path.join("config/marquetry");
    fs::create_dir_all(&own).unwrap();
    let good = json!({"command": "sh", "args": [path.join("server.sh")]});
    let own_file = own.join("mcp.json");
    let program = env!("CARGO_BIN_EXE_marquetry");
    let itself = json!({"command": program, "args": ["stdio"]});
    let servers = json!({"mcpServers": {"mine": good, "itself": itself}});
    fs::write(&own_file, servers.to_string()).unwrap();
    for (arguments, want) in [
        (&["call", "mine__echo", "n=1"][..], "{\"n\":1}\n"),
        (&["tools", "--server", "mine"], "mine__fail()"),
        (&["doctor", "mine"], "ok    mine"),
        (&["check"], "mine"),
    ] {
        let output = marquetry_alone(path, arguments);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains(want), "{arguments:?}: {output:?}");
    }
    let output = marquetry_alone(path, &["check"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("server \"itself\" is not started"), "{output:?}");

    // Servers of the settings and of an option stand alone.
    fs::write(path.join("empty.toml"), "").unwrap();
    let output = marquetry_alone(path, &["tools", "mine", "--config", "empty.toml"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let (_, stderr) = run(path, &["tools", "--server", "mine"], 2);
    assert!(stderr.contains("unknown server \"mine\""), "{stderr}");
    fs::write(own.join("marquetry.toml"), "[mcp_servers.other]\ncommand = \"sh\"\n").unwrap();
    let output = marquetry_alone(path, &["tools", "--server", "mine"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn the_doctor_names_each_cause_once() {
    let folder = folder();
    let path = folder.path();
    let (stdout, stderr) = run(path, &["doctor"], 1);
    assert_eq!(stderr, "", "{stdout}");
    assert!(stdout.contains("ok    good   2025-06-18, started in "), "{stdout}");
    assert!(stdout.contains(", 2 tools (about "), "{stdout}");
    for once in [
        "FAIL  other  it ended at once without an error",
        "FAIL  bad    the program \"no-such-program\" is not in PATH",
        "MARQUETRY_NOT_SET is not set",
    ] {
        assert_eq!(stdout.matches(once).count(), 1, "{once}: {stdout}");
    }
    let (stdout, _) = run(path, &["doctor", "bad", "good", "--json"], 1);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["servers"][0]["state"], "ok");
    assert_eq!(report["servers"][1]["problem"]["cause"], "program_not_found");
    // Warnings of the configuration about other servers are left out.
    run(path, &["doctor", "good", "--strict"], 0);
    run(path, &["doctor", "goood"], 2);

    // Defined twice: the configuration says so.
    let twice = json!({"command": "sh", "args": [path.join("server.sh")]}).to_string();
    let text = format!("{{\"mcpServers\": {{\"a\": {twice}, \"a\": {twice}}}}}");
    fs::write(path.join("mcp.json"), text).unwrap();
    let (stdout, _) = run(path, &["doctor"], 0);
    assert!(stdout.contains("server \"a\" is defined twice"), "{stdout}");
    run(path, &["doctor", "--strict"], 1);
    fs::write(path.join("mcp.json"), "{").unwrap();
    run(path, &["doctor"], 2);
}

#[test]
fn a_script_that_cannot_be_executed_is_named_behind_the_guard() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server");
    fs::write(&script, "no script").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let servers = json!({"mcpServers": {"a": {"command": script}}});
    fs::write(folder.path().join("mcp.json"), servers.to_string()).unwrap();
    let (stdout, _) = run(folder.path(), &["doctor", "--json"], 1);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["servers"][0]["problem"]["cause"], "not_executable", "{report}");
}
