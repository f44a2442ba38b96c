//! The program as a user meets it: exit codes and what it says.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use expect_test::{Expect, expect};

fn marquetry(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.args(arguments).current_dir(directory).env_remove("MARQUETRY_NOT_SET");
    command.output().unwrap()
}

/// Runs the program and compares exit code and standard error.
#[track_caller]
fn check(directory: &Path, arguments: &[&str], want: Expect) {
    let output = marquetry(directory, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    want.assert_eq(&format!("exit {}\n{stderr}", output.status.code().unwrap()));
}

#[test]
fn configuration_errors_name_the_place_and_exit_2() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("bad.toml"), "[server]\nlisen = 'x'\n").unwrap();
    fs::write(
        path.join("mcp.json"),
        "{\"mcpServers\": {\"a\": {\"command\": \"x\",\n \"args\": [\"${MARQUETRY_NOT_SET}\"]}}}",
    )
    .unwrap();
    check(
        path,
        &["serve", "--config", "bad.toml"],
        expect![[r#"
        exit 2
        error: bad.toml:2:1: server.lisen: unknown key; did you mean "listen"?
    "#]],
    );
    check(
        path,
        &["check", "--mcp-config", "mcp.json"],
        expect![[r#"
        exit 2
        error: mcp.json:2:10: mcpServers.a.args: the environment variable MARQUETRY_NOT_SET is not set; set it, or give a default with ${MARQUETRY_NOT_SET:-…}
    "#]],
    );
    check(
        path,
        &["stdio", "--config", "missing.toml"],
        expect![[r#"
        exit 2
        error: missing.toml: cannot be read: No such file or directory (os error 2)
    "#]],
    );
    check(
        path,
        &["serve", "--listen", "3001"],
        expect![[r#"
        exit 2
        error: command line: --listen: "3001" is not an address with a port; expected one like "127.0.0.1:3001"
    "#]],
    );
    check(
        path,
        &["serve", "--log", "loud"],
        expect![[r#"
        exit 2
        error: command line: --log: "loud" is not a log level; expected error, warn, info, debug, trace, off, or a list such as "info,marquetry=debug"
    "#]],
    );
    check(
        path,
        &["serve", "--listen", "0.0.0.0:0"],
        expect![[r#"
        exit 2
        error: command line: --listen: 0.0.0.0:0 can be reached from other machines, and nobody there is asked who they are; set up [auth], listen on 127.0.0.1, or add --insecure, and name the hosts in server.allowed_hosts
    "#]],
    );
    // What cannot be served is no good configuration either.
    fs::write(path.join("open.toml"), "[server]\nlisten = '0.0.0.0:0'\n").unwrap();
    for command in ["check", "serve"] {
        check(
            path,
            &[command, "--config", "open.toml"],
            expect![[r#"
            exit 2
            error: open.toml:2:10: server.listen: 0.0.0.0:0 can be reached from other machines, and nobody there is asked who they are; set up [auth], listen on 127.0.0.1, or add --insecure, and name the hosts in server.allowed_hosts
        "#]],
        );
    }
    let insecure = marquetry(path, &["check", "--config", "open.toml", "--insecure"]);
    assert!(insecure.status.success());
    // Or when people are asked who they are.
    fs::write(path.join("token"), "0123456789abcdef").unwrap();
    let auth = "[server]\nlisten = '0.0.0.0:0'\n[auth.tokens]\nci = { file = 'token' }\n";
    fs::write(path.join("auth.toml"), auth).unwrap();
    let asked = marquetry(path, &["check", "--config", "auth.toml"]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    fs::write(
        path.join("store.toml"),
        "[artifacts]\nstore = 'directory'\ndirectory = 'bad.toml'\n",
    )
    .unwrap();
    for command in ["check", "serve", "stdio"] {
        check(
            path,
            &[command, "--config", "store.toml"],
            expect![[r#"
            exit 2
            error: store.toml:3:13: artifacts.directory: "bad.toml" is not a directory
        "#]],
        );
    }
    // A file of the usual name is read without being named.
    fs::write(path.join("marquetry.toml"), "[log]\nlevel = 'loud'\n").unwrap();
    check(
        path,
        &["check"],
        expect![[r#"
        exit 2
        error: marquetry.toml:2:9: log.level: "loud" is not a log level; expected error, warn, info, debug, trace, off, or a list such as "info,marquetry=debug"
    "#]],
    );
}

#[test]
fn a_port_in_use_is_named_and_exits_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let output = marquetry(directory.path(), &["serve", "--listen", &address]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with(&format!("error: cannot listen on {address}: ")), "{stderr}");
    assert!(stderr.contains("choose another port with --listen"), "{stderr}");
}

#[test]
fn check_says_what_would_be_started() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(
        path.join("mcp.json"),
        r#"{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "x"], "autoApprove": []}}}"#,
    )
    .unwrap();
    fs::write(path.join("k.toml"), "[knowledge]\ndatabase = 'new/k.db'\n").unwrap();
    let output = marquetry(path, &["check", "--config", "k.toml", "--mcp-config", "mcp.json"]);
    expect![[r#"
        listen     http://127.0.0.1:3001/mcp
        auth       none; whoever reaches it comes in
        artifacts  memory; saved above 2048 bytes, shown up to 4096 bytes
        knowledge  new/k.db, not there yet
          vectors  by the model in this program
          chat     none
        servers    1
          fs  stdio  npx, 2 arguments, 0 variables
    "#]]
    .assert_eq(&String::from_utf8(output.stdout).unwrap());
    expect![[r#"
        warning: mcp.json: server "fs": key "autoApprove" is not used
    "#]]
    .assert_eq(&String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success());

    // Servers that nobody named are worth a warning.
    fs::write(path.join("marquetry.toml"), "[mcp_servers.web]\nurl = 'http://127.0.0.1:1/mcp'\n")
        .unwrap();
    let output = marquetry(path, &["check"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "warning: servers of ./marquetry.toml are started, as no --config was given\n"
    );
    assert!(
        String::from_utf8(output.stdout).unwrap().contains("web  http   http://127.0.0.1:1/mcp")
    );
}

#[test]
fn diagrams_go_there_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let diagram = "@startuml\nПётр -> 花子 : こんにちは 🎉\n@enduml\n";
    fs::write(path.join("d.puml"), diagram).unwrap();
    let url = marquetry(path, &["encode", "d.puml", "--format", "png"]);
    let url = String::from_utf8(url.stdout).unwrap();
    assert!(url.starts_with("https://www.plantuml.com/plantuml/png/"), "{url}");
    let text = marquetry(path, &["decode", url.trim()]);
    assert_eq!(String::from_utf8(text.stdout).unwrap().trim(), diagram.trim());

    let local = marquetry(path, &["encode", "d.puml", "--url-base", "http://127.0.0.1:8080/"]);
    assert!(String::from_utf8(local.stdout).unwrap().starts_with("http://127.0.0.1:8080/svg/"));

    fs::write(path.join("blank.puml"), " \n").unwrap();
    fs::write(path.join("large.puml"), "é".repeat(40_000)).unwrap();
    check(
        path,
        &["encode", "large.puml"],
        expect![[r#"
        exit 1
        error: large.puml: diagram is more than 51200 bytes
    "#]],
    );
    check(
        path,
        &["encode", "/dev/zero"],
        expect![[r#"
        exit 1
        error: /dev/zero: diagram is more than 51200 bytes
    "#]],
    );
    fs::write(path.join("latin1.puml"), b"A -> B : \xe9").unwrap();
    check(
        path,
        &["encode", "blank.puml"],
        expect![[r#"
            exit 1
            error: blank.puml: diagram is blank
        "#]],
    );
    check(
        path,
        &["encode", "latin1.puml"],
        expect![[r#"
        exit 1
        error: latin1.puml is not UTF-8 text
    "#]],
    );
    check(
        path,
        &["encode", "none.puml"],
        expect![[r#"
        exit 1
        error: none.puml cannot be read: No such file or directory (os error 2)
    "#]],
    );
    check(
        path,
        &["encode", "d.puml", "--url-base", "plantuml.example"],
        expect![[r#"
        exit 2
        error: --url-base: server address does not start with http:// or https://
    "#]],
    );
    check(
        path,
        &["decode", "!!"],
        expect![[r#"
        exit 1
        error: Failed to decode PlantUML code: character 1, '!', is not one of 0-9 A-Z a-z - _
    "#]],
    );
}

#[test]
fn help_has_examples_and_the_version_is_known() {
    let directory = tempfile::tempdir().unwrap();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["stdio", "--help"],
        &["encode", "--help"],
        &["decode", "--help"],
        &["check", "--help"],
    ] {
        let output = marquetry(directory.path(), command);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains("Examples:\n"), "{command:?}: {help}");
    }
    let version = marquetry(directory.path(), &["--version"]);
    let want = format!("marquetry {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), want);
    assert_eq!(marquetry(directory.path(), &["sreve"]).status.code(), Some(2));
}

#[test]
fn a_login_needs_a_server_to_log_in_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let servers = "[mcp_servers.files]\ncommand = 'true'\n[mcp_servers.web]\nurl = 'http://127.0.0.1:9/mcp'\n";
    fs::write(path.join("m.toml"), servers).unwrap();
    check(
        path,
        &["login", "mail", "--config", "m.toml"],
        expect![[r#"
            exit 2
            error: there is no server "mail"; there are: files, web
        "#]],
    );
    check(
        path,
        &["login", "files", "--config", "m.toml"],
        expect![[r#"
            exit 2
            error: server "files" is not reached over HTTP, and wants no login
        "#]],
    );
}

#[tokio::test]
async fn a_login_may_begin_as_if_for_the_first_time() {
    use marquetry_protocol::client::oauth::{CredentialStore as _, Credentials, DirectoryStore};
    let directory = tempfile::tempdir().unwrap();
    // Nobody listens there, so that no login comes to an end.
    let url = "http://127.0.0.1:1/mcp";
    let toml = format!("gateway.credentials_directory = 'kept'\nmcp_servers.files.url = '{url}'\n");
    fs::write(directory.path().join("m.toml"), toml).unwrap();
    let kept = DirectoryStore::new(directory.path().join("kept"));
    kept.save(url, &Credentials::default()).await.unwrap();
    let login = |more: &[&str]| {
        let arguments = [&["login", "files", "--config", "m.toml"], more].concat();
        marquetry(directory.path(), &arguments).status.code()
    };
    assert_eq!(login(&[]), Some(1));
    assert!(kept.load(url).await.unwrap().is_some());
    assert_eq!(login(&["--forget"]), Some(1));
    assert!(kept.load(url).await.unwrap().is_none());
}
