//! `marquetry connect` and `marquetry import` as users run them, in a pipe.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs the program in a home of its own.
fn marquetry(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.args(arguments).current_dir(home).stdin(Stdio::null());
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "CONFIG_PATH", "MARQUETRY_CONFIG"] {
        command.env_remove(name);
    }
    command.env("HOME", home).env("XDG_CONFIG_HOME", home.join(".config"));
    command.env("XDG_DATA_HOME", home.join("data"));
    command.output().unwrap()
}

#[track_caller]
fn succeeds(home: &Path, arguments: &[&str]) -> String {
    let output = marquetry(home, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_client_is_connected_and_its_server_imported() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let file = home.join(".codex/config.toml");
    fs::create_dir_all(home.join(".codex")).unwrap();
    let before = "# mine\n[mcp_servers.files]\ncommand = \"sh\"\nargs = [\"-c\", \"true\"]\n";
    fs::write(&file, before).unwrap();
    let output = succeeds(home, &["import", "--replace", "--yes"]);
    assert!(output.contains("-[mcp_servers.files]\n"), "{output}");
    let connected = fs::read_to_string(&file).unwrap();
    let program = env!("CARGO_BIN_EXE_marquetry");
    assert!(connected.starts_with("# mine\n\n[mcp_servers.marquetry]\ncommand = "), "{connected}");
    assert!(
        connected.contains(program) && connected.contains("args = [\"stdio\", "),
        "{connected}"
    );
    // Marquetry takes what it wrote.
    let own = home.join(".config/marquetry/mcp.json");
    let checked = succeeds(home, &["check", "--mcp-config", own.to_str().unwrap()]);
    assert!(checked.contains("files"), "{checked}");
    succeeds(home, &["import", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // The client's own form is taken, too.
    let checked = succeeds(home, &["check", "--mcp-config", file.to_str().unwrap()]);
    assert!(checked.contains("files"), "{checked}");
}

#[test]
fn a_pipe_is_never_asked() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fs::create_dir_all(home.join(".cursor")).unwrap();
    let output = marquetry(home, &["connect", "cursor"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("This is not a terminal: pass --yes to write"), "{stderr}");
    assert!(!home.join(".cursor/mcp.json").exists());
    // Without arguments, the program prints its help as ever.
    let output = marquetry(home, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("Usage: marquetry <COMMAND>"), "{stderr}");
}
