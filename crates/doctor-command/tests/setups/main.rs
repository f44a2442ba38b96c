//! Broken set-ups: real programs, real sockets. Each has one cause, and the advice that helps.

#![cfg(unix)]

mod remote;
mod support;

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, time::Duration};

use marquetry_doctor_command::{Cause, DoctorOptions, Finding, Outcome, examine};
use marquetry_gateway::{GatewayOptions, Transport, UpstreamOptions};
use tempfile::TempDir;

use crate::support::{check, examined, failure, shell, stdio, with_env, working};

#[tokio::test]
async fn a_server_that_works_has_no_finding() {
    let report = examined(shell(&working(
        "2025-06-18",
        r#"{"name":"add","inputSchema":{"type":"object"}}"#,
    )))
    .await;
    let Outcome::Ready(ready) = &report.outcome else { panic!("{report:?}") };
    assert_eq!((ready.tools, ready.prompts, ready.resources), (1, 0, 0));
    assert_eq!(ready.introduction["revision"], "2025-06-18");
    assert!(ready.tokens > 5, "{ready:?}");
    assert!(report.warnings.is_empty(), "{report:?}");
}

#[tokio::test]
async fn programs_that_cannot_be_started() {
    check(stdio("no-such-program", &[]), Cause::ProgramNotFound, "is not in PATH", "install it")
        .await;
    check(stdio("npx -y some-server", &[]), Cause::CommandLine, "npx -y", "\"args\"").await;
    let windows = "C:\\Program Files\\nodejs\\npx.cmd";
    check(stdio(windows, &[]), Cause::WindowsPath, "Windows", "/usr/bin").await;
    check(stdio("http://127.0.0.1:1/mcp", &[]), Cause::UrlAsCommand, "URL", "\"url\"").await;

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("server.py");
    std::fs::write(&file, "print()").unwrap();
    let path = file.to_str().unwrap();
    check(stdio(path, &[]), Cause::NotExecutable, "server.py", "python3").await;
    let program = folder.path().join("server");
    std::fs::write(&program, "not a script").unwrap();
    check(stdio(program.to_str().unwrap(), &[]), Cause::NotExecutable, "server", "chmod +x").await;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    check(stdio(program.to_str().unwrap(), &[]), Cause::NotExecutable, "server", "#!/bin/sh").await;
    let folder_path = folder.path().to_str().unwrap();
    check(stdio(folder_path, &[]), Cause::NotExecutable, "folder", "program in it").await;

    let mut options = stdio("sh", &["-c", "exit"]);
    if let Transport::Stdio { cwd, .. } = &mut options.transport {
        *cwd = Some(folder.path().join("gone"));
    }
    check(options, Cause::WorkingDirectory, "gone", "\"cwd\"").await;
}

#[tokio::test]
async fn entries_that_cannot_be_used() {
    let problem = "mcp_servers.a.env.TOKEN: the environment variable TOKEN is not set".to_owned();
    let options = UpstreamOptions::new("a", Transport::Unusable { problem });
    check(options, Cause::Configuration, "TOKEN is not set", "correct the entry").await;
}

#[tokio::test]
async fn files_and_modules_that_are_missing() {
    let folder = TempDir::new().unwrap();
    let gone = folder.path().join("gone.py");
    let gone = gone.to_str().unwrap();
    check(stdio("python3", &[gone]), Cause::MissingFile, "gone.py", "absolute path").await;
    check(stdio("node", &[&gone.replace(".py", ".js")]), Cause::MissingFile, "gone.js", "").await;
    let script = "echo 'ENOENT: no such file' >&2; exit 1";
    let data = folder.path().join("data");
    let options = stdio("sh", &["-c", script, data.to_str().unwrap()]);
    check(options, Cause::MissingFile, "data", "correct the path").await;

    let module = folder.path().join("module.py");
    std::fs::write(&module, "import no_such_module_of_network\n").unwrap();
    let options = stdio("python3", &[module.to_str().unwrap()]);
    check(options, Cause::PythonModule, "no_such_module_of_network", "pip install").await;
    let options = stdio("python3", &["-m", "no_such_module"]);
    check(options, Cause::PythonModule, "no_such_module", "pip install").await;
    let module = folder.path().join("module.cjs");
    std::fs::write(&module, "require('no-such-module')").unwrap();
    let options = stdio("node", &[module.to_str().unwrap()]);
    check(options, Cause::NodeModule, "no-such-module", "npm install").await;
    let broken = folder.path().join("broken.js");
    std::fs::write(&broken, "a ??? 1").unwrap();
    let options = stdio("node", &[broken.to_str().unwrap()]);
    check(options, Cause::SyntaxError, "SyntaxError", "too old").await;
}

#[tokio::test]
async fn a_package_that_the_registry_of_npm_does_not_have() {
    let registry =
        remote::answering(|_| remote::response("404 Not Found", "application/json", "{}")).await;
    let cache = TempDir::new().unwrap();
    let mut options = stdio("npx", &["-y", "no-such-mcp-server-at-all"]);
    with_env(&mut options, "npm_config_registry", &registry);
    with_env(&mut options, "npm_config_cache", cache.path().to_str().unwrap());
    options.start_timeout = Duration::from_mins(1);
    check(options, Cause::NpmPackage, "\"no-such-mcp-server-at-all\"", "correct the name").await;
}

#[tokio::test]
async fn programs_that_end_at_their_start() {
    let script = "echo 'Error: GITHUB_TOKEN is required' >&2; exit 1";
    check(shell(script), Cause::MissingVariable, "GITHUB_TOKEN", "\"env\"").await;
    let script = "echo starting >&2; echo 'fatal: the moon is full' >&2; exit 3";
    check(shell(script), Cause::Crashed, "the moon is full", "standard error").await;
    check(shell("exit 3"), Cause::Crashed, "exit status: 3", "terminal").await;
    check(shell("kill -9 $$"), Cause::Crashed, "signal", "terminal").await;
    check(shell("exit 0"), Cause::ExitedAtOnce, "without an error", "stdio").await;
    let script = "echo 'Error: listen EADDRINUSE: address already in use :::3000' >&2; exit 1";
    check(shell(script), Cause::PortInUse, "EADDRINUSE", "\"url\"").await;
    let script = "echo 'getaddrinfo ENOTFOUND api.example' >&2; exit 1";
    check(shell(script), Cause::Network, "api.example", "HTTPS_PROXY").await;
    let script = "echo 'usage: server [-h] --root ROOT' >&2; exit 2";
    check(shell(script), Cause::Arguments, "--root", "--help").await;
}

#[tokio::test]
async fn the_error_before_a_long_stack_is_found() {
    let frames = "i=0; while [ $i -lt 60 ]; do echo '    at f (x.js:1:1)' >&2; i=$((i+1)); done";
    let script = format!("echo \"Error: Cannot find module 'zod'\" >&2; {frames}; exit 1");
    check(shell(&script), Cause::NodeModule, "zod", "npm install").await;
}

#[tokio::test]
async fn programs_that_do_not_answer() {
    let mut options = shell("sleep 60");
    options.start_timeout = Duration::from_millis(500);
    check(options, Cause::Silent, "within 0.5 s", "start_timeout_ms").await;
    let mut options = shell("echo 'Server running at http://127.0.0.1:3000' >&2; sleep 60");
    options.start_timeout = Duration::from_millis(500);
    check(options, Cause::HttpServer, "http://127.0.0.1:3000", "\"url\"").await;
    let mut options = shell("echo 'INFO starting up'; sleep 60");
    options.start_timeout = Duration::from_millis(500);
    check(options, Cause::StrayOutput, "INFO starting up", "standard error").await;
    let folder = TempDir::new().unwrap();
    let npx = folder.path().join("npx");
    std::fs::write(&npx, "#!/bin/sh\nsleep 60").unwrap();
    std::fs::set_permissions(&npx, Permissions::from_mode(0o755)).unwrap();
    let mut options = stdio(npx.to_str().unwrap(), &["-y", "big-server"]);
    options.start_timeout = Duration::from_millis(500);
    check(options, Cause::SlowStart, "big-server", "once in a terminal").await;
}

#[tokio::test]
async fn servers_that_answer_wrongly() {
    let old = working("2020-01-01", "");
    check(shell(&old), Cause::UnsupportedRevision, "2020-01-01", "update the server").await;
    let refuses = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%[,\}]*}
        case $line in *\"id\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32603,\"message\":\"no licence\"}}";; esac; done"#;
    check(shell(refuses), Cause::Refused, "no licence", "").await;
    let lists = working("2025-06-18", "").replace("tools/list", "tools/none");
    let found = check(shell(&lists), Cause::List, "tools could not be listed", "update").await;
    assert!(found.problem.contains("unknown"), "{found:?}");
}

#[tokio::test]
async fn servers_that_work_with_warnings() {
    let tool = r#"{"name":"add","inputSchema":{"type":"object"}}"#;
    for (script, cause, problem) in [
        (format!("sleep 0.3; {}", working("2025-06-18", tool)), Cause::SlowStart, "0."),
        (format!("echo hello; {}", working("2025-06-18", tool)), Cause::StrayOutput, "\"hello\""),
        (working("2025-06-18", &tool.replace("add", "a b/c")), Cause::ToolNames, "\"a b/c\""),
        (working("2025-06-18", &format!("{tool},{tool}")), Cause::DuplicateTools, "\"add\""),
        (
            working("2025-06-18", r#"{"name":"any","inputSchema":{"type":"object","anyOf":[]}}"#),
            Cause::ToolSchemas,
            "\"any\"",
        ),
        (
            working(
                "2025-06-18",
                &format!(r#"{tool},{{"name":"text","inputSchema":{{"type":"string"}}}}"#),
            ),
            Cause::ToolSchemas,
            "\"text\": inputSchema.type",
        ),
        (working("2025-06-18", ""), Cause::Empty, "neither tools"),
    ] {
        let gateway = GatewayOptions::default().with_upstream(shell(&script));
        let options = DoctorOptions::default().with_slow(Duration::from_millis(250));
        let report = examine(gateway, &options).await.remove(0);
        assert!(matches!(report.outcome, Outcome::Ready(_)), "{report:?}");
        let found: Vec<&Finding> = report.warnings.iter().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].cause, cause, "{found:?}");
        assert!(found[0].problem.contains(problem), "{found:?}");
    }
}

#[tokio::test]
async fn tools_of_two_servers_with_equal_names() {
    let script = working("2025-06-18", r#"{"name":"add","inputSchema":{"type":"object"}}"#);
    let mut one = shell(&script);
    one.prefix = Some(String::new());
    let mut two = one.clone();
    two.name = "second".to_owned();
    let gateway = GatewayOptions::default().with_upstream(one).with_upstream(two);
    let reports = examine(gateway, &DoctorOptions::default()).await;
    assert!(reports[0].warnings.is_empty(), "{reports:?}");
    let found = &reports[1].warnings[0];
    assert_eq!(found.cause, Cause::DuplicateTools);
    assert!(found.problem.contains("\"add\"") && found.advice.contains("prefix"), "{found:?}");
}

#[tokio::test]
async fn secrets_are_not_printed() {
    let mut options = shell("echo \"bad key $API_KEY of $1\" >&2; exit 1");
    with_env(&mut options, "API_KEY", "hush-hush-8412");
    let report = examined(options).await;
    let found = failure(&report);
    assert!(found.problem.contains("bad key …"), "{found:?}");
    assert!(!format!("{report:?}").contains("hush"), "{report:?}");
}

#[tokio::test]
async fn servers_start_side_by_side_and_keep_their_order() {
    let mut gateway = GatewayOptions::default();
    for number in 0..6 {
        let mut options = shell("sleep 1; exit 0");
        options.name = format!("s{number}");
        options.is_disabled = number == 3;
        gateway = gateway.with_upstream(options);
    }
    let start = std::time::Instant::now();
    let reports = examine(gateway, &DoctorOptions::default()).await;
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    let names: Vec<&str> = reports.iter().map(|report| &*report.name).collect();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5"]);
    assert!(matches!(reports[3].outcome, Outcome::Disabled));
}
