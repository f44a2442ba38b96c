//! The program as users see it: exit codes and messages.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use expect_test::{Expect, expect};
use serde_json::Value;

fn marquetry(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().unwrap()
}

/// The program, with settings and data only from below `directory`.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
    command.args(arguments).current_dir(directory);
    command.env_remove("MARQUETRY_NOT_SET").env_remove("MARQUETRY_CONFIG");
    command.env("HOME", directory).env("XDG_CONFIG_HOME", directory.join("config"));
    command.env("XDG_DATA_HOME", directory.join("data"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
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
    // A missing program keeps only its own server from being started.
    check(
        path,
        &["check", "--mcp-config", "mcp.json"],
        expect![[r#"
        exit 1
        warning: server "a" is not started: mcp.json:2:10: mcpServers.a.args: the environment variable MARQUETRY_NOT_SET is not set; set it, or give a default with ${MARQUETRY_NOT_SET:-…}
        error: found 1 problem; everything else would work
    "#]],
    );
    check(
        path,
        &["stdio", "--config", "missing.toml"],
        expect![[r"
        exit 2
        error: missing.toml: cannot be read: No such file or directory (os error 2)
    "]],
    );
    check(
        path,
        &["serve", "--listen", "here"],
        expect![[r#"
        exit 2
        error: command line: --listen: "here" is not an address with a port; expected one like "127.0.0.1:3001", or a port alone
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
        expect![[r"
        exit 2
        error: command line: --listen: 0.0.0.0:0 can be reached from other machines, whose callers would need no token; set up [auth], listen on 127.0.0.1, or add --insecure, and list the hosts in server.allowed_hosts
    "]],
    );
    // A configuration that cannot be served is invalid.
    fs::write(path.join("open.toml"), "[server]\nlisten = '0.0.0.0:0'\n").unwrap();
    for command in ["check", "serve"] {
        check(
            path,
            &[command, "--config", "open.toml"],
            expect![[r"
            exit 2
            error: open.toml:2:10: server.listen: 0.0.0.0:0 can be reached from other machines, whose callers would need no token; set up [auth], listen on 127.0.0.1, or add --insecure, and list the hosts in server.allowed_hosts
        "]],
        );
    }
    let insecure = marquetry(path, &["check", "--config", "open.toml", "--insecure"]);
    assert!(insecure.status.success());
    let listen = "\nlisten     http://127.0.0.1:0/mcp, and every other address of this machine\n";
    assert!(text(&insecure.stdout).contains(listen), "{}", text(&insecure.stdout));
    // Or if callers must authenticate.
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
}

/// Every command with settings, with its other arguments. Each fails before it does anything.
const WITH_SETTINGS: [&[&str]; 9] = [
    &["serve", "--listen", "127.0.0.1:99999"],
    &["stdio"],
    &["check"],
    &["login", "nobody"],
    &["index", "none.txt"],
    &["search", "anything"],
    &["records", "list"],
    &["stats"],
    &["records", "delete", "am7://default/data.data/1"],
];

#[test]
fn no_command_reads_the_current_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("marquetry.toml"), "[log]\nlevel = 'loud'\n").unwrap();
    for arguments in WITH_SETTINGS {
        let stderr = text(&marquetry(path, arguments).stderr);
        assert!(!stderr.contains("loud"), "{arguments:?}: {stderr}");
        let is_told = stderr.lines().filter(|line| line.contains("./marquetry.toml is not read"));
        // An invalid port is reported first.
        let want = usize::from(arguments[0] != "serve");
        assert_eq!(is_told.count(), want, "{arguments:?}: {stderr}");

        let named = marquetry(path, &[arguments, &["--config", "marquetry.toml"]].concat());
        let stderr = text(&named.stderr);
        assert!(stderr.contains("marquetry.toml:2:9: log.level: \"loud\" is not"), "{stderr}");
        assert_eq!(named.status.code(), Some(2));
        let mut by_variable = command(path, arguments);
        let stderr =
            text(&by_variable.env("MARQUETRY_CONFIG", "marquetry.toml").output().unwrap().stderr);
        assert!(stderr.contains("log.level") && stderr.contains("$MARQUETRY_CONFIG"), "{stderr}");
    }
    check(
        path,
        &["check", "--listen", "3950"],
        expect![[r"
            exit 0
            warning: ./marquetry.toml is not read: a file in the current directory may belong to another person; to use it, add --config marquetry.toml or set MARQUETRY_CONFIG
        "]],
    );
    let listens = text(&marquetry(path, &["check", "--listen", "3950"]).stdout);
    assert!(listens.contains("\nlisten     http://127.0.0.1:3950/mcp\n"), "{listens}");
}

#[test]
fn settings_of_the_user_are_found_without_being_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let output = text(&marquetry(path, &["check"]).stdout);
    assert!(output.starts_with("settings   defaults; no file was found\n"), "{output}");
    fs::create_dir_all(path.join("config/marquetry")).unwrap();
    let file = path.join("config/marquetry/marquetry.toml");
    fs::write(&file, "server.listen = 3950\n").unwrap();
    let output = text(&marquetry(path, &["check"]).stdout);
    assert!(output.starts_with(&format!("settings   {}\n", file.display())), "{output}");
    assert!(output.contains("127.0.0.1:3950"), "{output}");
}

#[cfg(unix)]
#[test]
fn every_command_refuses_settings_that_others_may_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("m.toml"), "").unwrap();
    fs::set_permissions(path.join("m.toml"), fs::Permissions::from_mode(0o666)).unwrap();
    for arguments in WITH_SETTINGS {
        check(
            path,
            &[arguments, &["--config", "m.toml"]].concat(),
            expect![[r"
                exit 2
                error: m.toml: others may write it (mode 0666) and so decide which programs are started and where keys are sent; run `chmod go-w m.toml`
            "]],
        );
    }
    fs::write(path.join("mcp.json"), "{}").unwrap();
    fs::set_permissions(path.join("mcp.json"), fs::Permissions::from_mode(0o666)).unwrap();
    let output = marquetry(path, &["check", "--mcp-config", "mcp.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("chmod go-w mcp.json"), "{output:?}");
}

#[test]
fn a_port_in_use_is_named_and_exits_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let output = marquetry(directory.path(), &["serve", "--listen", &address]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with(&format!("error: failed to listen on {address}: ")), "{stderr}");
    assert!(stderr.contains("choose another port with --listen"), "{stderr}");
}

#[test]
fn check_prints_a_summary() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(
        path.join("mcp.json"),
        r#"{"mcpServers": {"fs": {"command": "sh", "args": ["-c", "x"], "autoApprove": [], "watch": 1}}}"#,
    )
    .unwrap();
    fs::write(path.join("k.toml"), "[knowledge]\ndatabase = 'new/k.db'\n").unwrap();
    let output = marquetry(path, &["check", "--config", "k.toml", "--mcp-config", "mcp.json"]);
    expect![[r"
        settings   k.toml
        listen     http://127.0.0.1:3001/mcp
        auth       none; every caller that can connect is accepted
        artifacts  memory; saved above 32768 bytes, shown up to 65536 bytes
        knowledge  new/k.db, does not exist yet
          vectors  built-in model
          chat     none
        servers    1
          fs  stdio  sh, 2 arguments, 0 environment variables
    "]]
    .assert_eq(&String::from_utf8(output.stdout).unwrap());
    expect![[r#"
        warning: mcp.json: server "fs": key "watch" is not used
    "#]]
    .assert_eq(&String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success());
}

#[test]
fn check_reports_problems() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(
        path.join("mcp.json"),
        r#"{"mcpServers": {"a": {"command": "no-such-program"}, "b": {"command": "npx -y x"}, "b": {"command": "./gone"}}}"#,
    )
    .unwrap();
    fs::write(path.join("notes.db"), "these are notes").unwrap();
    // A file that others may read would be one more warning.
    #[cfg(unix)]
    fs::set_permissions(path.join("notes.db"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    fs::write(path.join("m.toml"), "[knowledge]\ndatabase = 'notes.db'\n").unwrap();
    check(
        path,
        &["check", "--config", "m.toml", "--mcp-config", "mcp.json"],
        expect![[r#"
            exit 1
            warning: mcp.json: server "b" is defined twice; the later counts
            warning: server "a": program "no-such-program" not found in PATH
            warning: server "b": program "./gone" not found
            warning: knowledge.database: notes.db is not a database
            error: found 3 problems; everything else would work
        "#]],
    );
}

#[test]
fn a_server_logs_the_warnings_of_check() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let servers = r#"{"mcpServers": {
        "a b": {"command": "true", "args": ["~/x"]},
        "a_b": {"command": "true"},
        "itself": {"command": "marquetry", "args": ["stdio", "--mcp-config", "mcp.json"]}
    }}"#;
    fs::write(path.join("mcp.json"), servers).unwrap();
    fs::write(path.join("notes.db"), "these are notes").unwrap();
    fs::write(path.join("m.toml"), "[knowledge]\ndatabase = 'notes.db'\n").unwrap();
    let output = marquetry(path, &["stdio", "--config", "m.toml", "--mcp-config", "mcp.json"]);
    let log = text(&output.stderr);
    for warning in [
        "server \"a b\": argument 1 begins with ~",
        "server \"a_b\": its tools have the same prefix \"a_b__\" as those of server \"a b\"",
        "it runs Marquetry with",
        "knowledge.database: notes.db is not a database",
    ] {
        let found: Vec<_> = log.lines().filter(|line| line.contains(warning)).collect();
        assert!(found.len() == 1 && found[0].contains(" WARN "), "{warning}: {log}");
    }
}

#[test]
fn all_settings_that_cannot_be_used_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let settings = "[gateway]\nproxy = 'proxy'\nca_file = 'none.pem'\npass_env = ['A*B']\n\
                    [console]\nviews_port = 3001\n[artifacts]\nmemory_max_bytes = 0\n";
    fs::write(path.join("m.toml"), settings).unwrap();
    let want = expect![[r#"
        exit 2
        error: m.toml:8:20: artifacts.memory_max_bytes: 0 leaves no room for an artifact; expected a number from 1 on
        error: m.toml:2:9: gateway.proxy: proxy 'proxy' is not a URL like "http://proxy.example:3128"
        error: m.toml:3:11: gateway.ca_file: "none.pem": No such file or directory (os error 2)
        error: m.toml:4:12: gateway.pass_env: "A*B" has a * before its end; expected names such as "NVM_DIR" or "NVM_*"
    "#]];
    check(path, &["check", "--config", "m.toml"], want);
    // The port of the command line counts.
    fs::write(path.join("m.toml"), "[console]\nviews_port = 3950\n").unwrap();
    check(path, &["check", "--config", "m.toml"], expect![["exit 0\n"]]);
    let want = expect![[r"
        exit 1
        warning: console.views_port: 3950 is the port of server.listen; expected another one, or 0 for a free port
        error: found 1 problem; everything else would work
    "]];
    check(path, &["check", "--config", "m.toml", "--listen", "3950"], want);
}

#[test]
fn warnings_are_about_what_the_command_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("plantuml.jar"), "").unwrap();
    let settings = "[server]\nlisten = 3950\n[console]\nviews_port = 3950\n[plantuml]\nengine = 'plantuml.jar'\n\
                    [artifacts]\nstore = 'memory'\ndirectory = 'd'\n";
    fs::write(path.join("m.toml"), settings).unwrap();
    let warnings = |command_name: &str| {
        // No Java is in this folder.
        let mut command = command(path, &[command_name, "--config", "m.toml"]);
        let output = command.env("PATH", path).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let java = "plantuml.engine: diagrams cannot be drawn: \"plantuml.jar\" is a jar, which needs Java: program \"java\" not found in PATH";
    let directory =
        "m.toml:9:13: artifacts.directory: is not used, since artifacts.store is \"memory\"";
    let port = "console.views_port: 3950 is the port of server.listen";
    let (code, log) = warnings("check");
    assert!([java, directory, port].iter().all(|it| log.contains(it)), "{log}");
    assert!(code == Some(1) && log.contains("found 2 problems"), "{log}");
    // Without input, it ends.
    let (code, log) = warnings("stdio");
    assert!([java, directory].iter().all(|it| log.contains(it)), "{log}");
    assert!(code == Some(0) && !log.contains(port), "{log}");
}

#[test]
fn encoded_diagrams_decode_to_the_same_text() {
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
        expect![[r"
        exit 1
        error: large.puml: diagram is larger than 51200 bytes
    "]],
    );
    check(
        path,
        &["encode", "/dev/zero"],
        expect![[r"
        exit 1
        error: /dev/zero: diagram is larger than 51200 bytes
    "]],
    );
    fs::write(path.join("latin1.puml"), b"A -> B : \xe9").unwrap();
    check(
        path,
        &["encode", "blank.puml"],
        expect![[r"
            exit 1
            error: blank.puml: diagram is blank
        "]],
    );
    check(
        path,
        &["encode", "latin1.puml"],
        expect![[r"
        exit 1
        error: latin1.puml is not UTF-8 text
    "]],
    );
    check(
        path,
        &["encode", "none.puml"],
        expect![[r"
        exit 1
        error: failed to read none.puml: No such file or directory (os error 2)
    "]],
    );
    check(
        path,
        &["encode", "A -> B"],
        expect![[r"
        exit 1
        error: failed to read A -> B: No such file or directory (os error 2); the argument must be the name of a file: to encode text, pipe it, as in `echo 'A -> B' | marquetry encode`
    "]],
    );
    check(
        path,
        &["encode", "d.puml", "--url-base", "plantuml.example"],
        expect![[r"
        exit 2
        error: --url-base: server address does not start with http:// or https://
    "]],
    );
    check(
        path,
        &["decode", "!!"],
        expect![[r"
        exit 1
        error: Failed to decode PlantUML code: character 1, '!', is not one of 0-9 A-Z a-z - _
    "]],
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
        &["completions", "--help"],
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
fn shells_complete_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = marquetry(directory.path(), &["completions", shell]);
        let script = text(&output.stdout);
        assert!(output.status.success() && script.contains("mcp-config"), "{shell}: {script}");
        assert!(!script.contains("guard"), "{shell} shows what is hidden: {script}");
    }
    assert_eq!(marquetry(directory.path(), &["completions", "tcsh"]).status.code(), Some(2));
}

/// Parses a text in which each line must be JSON.
#[track_caller]
fn json_lines(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn log_format_json_makes_all_output_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    fs::write(path.join("marquetry.toml"), "").unwrap();
    fs::write(path.join("json.toml"), "log.format = 'json'\nserver.listen = '0.0.0.0:0'\n")
        .unwrap();
    for (arguments, code, message) in [
        (&["serve", "--log-format", "json", "--listen", &taken][..], 1, "failed to listen on"),
        (&["serve", "--log-format=json", "--listen", "here"], 2, "--listen"),
        (&["serve", "--log-format=json", "--config", "none.toml"], 2, "cannot be read"),
        (&["serve", "--log-format=json", "--wrong"], 2, "unexpected argument '--wrong'"),
        (&["stdio", "--log-format=json"], 0, "./marquetry.toml is not read"),
        (&["check", "--log-format=json"], 0, "./marquetry.toml is not read"),
        (&["check", "--config", "json.toml"], 2, "can be reached from other machines"),
        (&["login", "nobody", "--log-format=json"], 2, "no server"),
    ] {
        let output = marquetry(path, arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        let lines = json_lines(&stderr);
        let has_message = lines
            .iter()
            .any(|line| line["message"].as_str().is_some_and(|it| it.contains(message)));
        assert!(has_message, "{arguments:?}: {stderr}");
        assert!(
            lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string())
        );
        let printed = json_lines(&text(&output.stdout));
        if arguments[0] == "check" && code == 0 {
            assert_eq!(printed[0]["listen"], "http://127.0.0.1:3001/mcp", "{printed:?}");
            assert!(printed[0]["knowledge"]["database"].is_string(), "{printed:?}");
            assert_eq!(printed[0]["servers"], serde_json::json!([]));
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_is_130_and_floods_of_upstreams_are_not_logged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let noisy = "[gateway]\nstop_grace_ms = 100\n[mcp_servers.noisy]\ncommand = 'sh'\nargs = ['-c', 'seq 5000 >&2; sleep 0.2; echo enough >&2; exec sleep 30']\n";
    fs::write(path.join("m.toml"), noisy).unwrap();
    let arguments = ["serve", "--config", "m.toml", "--listen", "0", "--log-format", "json"];
    let mut serving =
        command(path, &arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serving.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    // It ends when the upstream has exited.
    for line in lines.by_ref() {
        said.push(line.unwrap());
        if said.iter().any(|line| line.contains("\"enough\"")) {
            break;
        }
    }
    interrupt(serving.id());
    said.extend(lines.map(Result::unwrap));
    assert_eq!(serving.wait().unwrap().code(), Some(130));
    let said = json_lines(&said.join("\n"));
    let listening = said.iter().find(|line| line["message"] == "listening").unwrap();
    assert!(listening["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{listening}");
    assert!(said.iter().any(|line| line["signal"] == "SIGINT"), "{said:?}");
    let logged = said.iter().filter(|line| line["target"] == "marquetry::upstream").count();
    assert!((100..400).contains(&logged), "{logged} of 5001 lines");
    let suppressed = said.iter().filter_map(|line| line["suppressed"].as_u64()).sum::<u64>();
    assert_eq!(suppressed + logged as u64, 5_001);
}

#[cfg(unix)]
#[test]
fn watching_ends_by_ctrl_c_with_130() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("notes")).unwrap();
    let mut watching = command(path, &["index", "notes", "--watch", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    interrupt(watching.id());
    assert_eq!(watching.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
fn interrupt(process: u32) {
    let sent = Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn login_refuses_unknown_and_local_servers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let servers = "[mcp_servers.files]\ncommand = 'true'\n[mcp_servers.web]\nurl = 'http://127.0.0.1:9/mcp'\n";
    fs::write(path.join("m.toml"), servers).unwrap();
    check(
        path,
        &["login", "mail", "--config", "m.toml"],
        expect![[r#"
            exit 2
            error: unknown server "mail"; configured servers: files, web
        "#]],
    );
    check(
        path,
        &["login", "files", "--config", "m.toml"],
        expect![[r#"
            exit 2
            error: server "files" needs no login: it is not reached over HTTP
        "#]],
    );
}

#[tokio::test]
async fn login_forget_removes_the_stored_registration() {
    use marquetry_oauth::client::{CredentialStore as _, Credentials, DirectoryStore};
    let directory = tempfile::tempdir().unwrap();
    // No server listens there, so the login cannot finish.
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

#[tokio::test(flavor = "multi_thread")]
async fn login_at_a_server_without_authorization_opens_no_page() {
    let directory = tempfile::tempdir().unwrap();
    let server = crate::support::Running::start("").await;
    let toml = format!(
        "gateway.credentials_directory = 'kept'\nmcp_servers.open.url = 'http://{}/mcp'\n",
        server.address
    );
    fs::write(directory.path().join("m.toml"), toml).unwrap();
    let output = marquetry(directory.path(), &["login", "open", "--config", "m.toml"]);
    let want = "error: server \"open\" needs no login: it connects without a token, and names no \
        authorization server\n";
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(2), want));
    server.stop().await;
}

#[test]
fn a_bucket_that_does_not_answer_is_a_problem() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let settings =
        "[artifacts]\nbucket = 's3://bucket/a'\nbucket_endpoint = 'http://127.0.0.1:1'\n";
    fs::write(path.join("bucket.toml"), settings).unwrap();
    for arguments in [["check", "--config", "bucket.toml"], ["serve", "--config", "bucket.toml"]] {
        let mut command = command(path, &arguments);
        command.env("AWS_ACCESS_KEY_ID", "hush-key").env("AWS_SECRET_ACCESS_KEY", "hush-secret");
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let told = text(&output.stdout) + &text(&output.stderr);
        let want = "artifacts.bucket: the server of the artifact bucket cannot be reached";
        assert!(told.contains(want), "{told}");
        assert!(!told.contains("hush"), "{told}");
        assert!(arguments[0] == "serve" || told.contains("bucket in s3://bucket/a"), "{told}");
    }
}
