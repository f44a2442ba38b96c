//! Servers as child processes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Revision,
    client::{
        CallOptions, Client, ClientError, ClientOptions, CloseReason, RevisionChoice, Stderr,
        StdioCommand,
    },
    types::CallToolParams,
};
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::soon;

/// A server in shell: answers `initialize` once, writes a word to standard error, then runs `then`.
fn shell(then: &str) -> StdioCommand {
    let script = format!(
        r#"echo hello >&2
        while read -r line; do case "$line" in
            *server/discover*) echo 'not json'; echo '{{"jsonrpc":"2.0","id":1,"error":{{"code":-32601,"message":"what?"}}}}';;
            *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":2,"result":{{"protocolVersion":"2025-11-25","capabilities":{{}},"serverInfo":{{"name":"sh","version":"1"}}}}}}';;
            *tools/call*) {then};;
        esac; done"#
    );
    StdioCommand {
        stop_grace: Duration::from_millis(200),
        stderr: Stderr::Discard,
        ..StdioCommand::new("sh", ["-c", &script])
    }
}

#[tokio::test]
async fn a_server_that_ends_in_the_middle_of_a_call_is_an_error_at_once() {
    let client = Client::spawn(shell("exit 3"), ClientOptions::default()).await.unwrap();
    let call = CallToolParams::new("t", &json!({})).unwrap();
    let error =
        soon("the error", client.call_tool_raw(&call, CallOptions::default())).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed(CloseReason::Exited { .. })), "{error}");
    assert!(client.is_closed());
}

#[cfg(unix)]
#[tokio::test]
async fn the_error_says_how_the_server_has_ended() {
    for (end, want) in [
        ("exit 3", "exit status: 3)"),
        ("kill -9 $$", "signal: 9"),
        ("exit 137", "exit status: 137, as after signal 9"),
    ] {
        for _ in 0..10 {
            let client = Client::spawn(shell(end), ClientOptions::default()).await.unwrap();
            let call = CallToolParams::new("t", &json!({})).unwrap();
            let answer = client.call_tool_raw(&call, CallOptions::default());
            let error = soon("the error", answer).await.unwrap_err().to_string();
            assert!(error.contains(want), "{end}: {error}");
        }
    }
}

/// Its standard output is closed, but it goes on.
#[tokio::test]
async fn a_server_that_closes_its_output_is_an_error_soon() {
    let client =
        Client::spawn(shell("exec sleep 5 >&- <&-"), ClientOptions::default()).await.unwrap();
    let call = CallToolParams::new("t", &json!({})).unwrap();
    let begin = Instant::now();
    let error = client.call_tool_raw(&call, CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("server has closed its output"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(3));
    client.close().await;
}

#[tokio::test]
async fn the_last_answer_of_a_server_that_ends_is_an_answer() {
    for _ in 0..20 {
        let then = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}'; exit 0"#;
        let client = Client::spawn(shell(then), ClientOptions::default()).await.unwrap();
        let call = CallToolParams::new("t", &json!({})).unwrap();
        let answer = soon("the answer", client.call_tool_raw(&call, CallOptions::default())).await;
        assert_eq!(answer.unwrap().get(), r#"{"content":[]}"#);
    }
}

#[tokio::test]
async fn an_answer_without_end_fails_its_call_at_the_limit() {
    for start in [r#"{"jsonrpc":"2.0","id":3,"result":{"text":""#, r#"{"result":{"text":""#] {
        // The server sends slightly more than the limit, and then nothing.
        let then =
            format!("printf '%s' '{start}'; head -c 150000 /dev/zero | tr '\\0' x; sleep 60");
        let options = ClientOptions { max_message_bytes: 100_000, ..ClientOptions::default() };
        let client = Client::spawn(shell(&then), options).await.unwrap();
        let call = CallToolParams::new("t", &json!({})).unwrap();
        let started = Instant::now();
        let error = soon("the error", client.call_tool_raw(&call, CallOptions::default()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
        client.close().await;
    }
}

#[tokio::test]
async fn a_line_without_end_closes_the_connection_in_the_end() {
    let options = ClientOptions { max_message_bytes: 100_000, ..ClientOptions::default() };
    let client = Client::spawn(shell("yes | tr -d '\\n'"), options).await.unwrap();
    let call = CallToolParams::new("t", &json!({})).unwrap();
    let error =
        soon("the error", client.call_tool_raw(&call, CallOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
    assert!(client.is_closed());
    client.close().await;
}

#[tokio::test]
async fn a_server_that_reads_no_more_is_an_error_at_once() {
    let client =
        Client::spawn(shell("exec <&-; sleep 60"), ClientOptions::default()).await.unwrap();
    let call = CallToolParams::new("t", &json!({ "text": "x".repeat(1 << 20) })).unwrap();
    let options =
        CallOptions { timeout: Some(Duration::from_millis(300)), ..CallOptions::default() };
    // The first call closes the server's input; the second call finds it closed.
    assert!(client.call_tool_raw(&call, options).await.is_err());
    let error =
        soon("the error", client.call_tool_raw(&call, CallOptions::default())).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
    client.close().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let error =
        Client::spawn(StdioCommand::new("/no/such/program", [""; 0]), ClientOptions::default())
            .await
            .err()
            .unwrap();
    assert!(error.to_string().starts_with("cannot start '/no/such/program': "), "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_a_server_is_recognised() {
    let error = Client::spawn(StdioCommand::new("true", [""; 0]), ClientOptions::default())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
}

#[tokio::test]
async fn standard_error_comes_line_by_line() {
    let (sender, mut lines) = mpsc::unbounded_channel();
    let stderr = Stderr::Lines(Arc::new(move |line: &str| _ = sender.send(line.to_owned())));
    let client = Client::spawn(StdioCommand { stderr, ..shell(":") }, ClientOptions::default())
        .await
        .unwrap();
    assert_eq!(soon("a line", lines.recv()).await.unwrap(), "hello");
    client.close().await;
}

/// The shell has started two processes that do not end by themselves: a `sleep` in its group, and
/// one that has left the group.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn closing_leaves_no_process_behind() {
    for how in ["close", "drop"] {
        let directory = tempfile::tempdir().unwrap();
        let pids = directory.path().join("pids");
        let then = format!(
            "trap '' TERM; sleep 600 & a=$!; setsid sleep 600 & echo $$ $a $! > {}; wait",
            pids.display()
        );
        let client = Client::spawn(shell(&then), ClientOptions::default()).await.unwrap();
        let call = CallToolParams::new("t", &json!({})).unwrap();
        let options =
            CallOptions { timeout: Some(Duration::from_millis(500)), ..CallOptions::default() };
        assert!(matches!(client.call_tool_raw(&call, options).await, Err(ClientError::Timeout(_))));
        if how == "close" {
            soon("closing", client.close()).await;
        }
        drop(client);
        let pids = std::fs::read_to_string(&pids).unwrap();
        assert_eq!(pids.split_whitespace().count(), 3);
        soon("the end of all", async {
            while pids.split_whitespace().any(is_alive) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

/// A process that has ended but was not waited for (by the process that adopted it) counts as
/// ended.
#[cfg(target_os = "linux")]
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A server in shell that begins to read after `start`, and answers each method with what the table
/// has for it.
fn scripted(start: &str, discover: &str, initialize: &str) -> StdioCommand {
    let script = format!(
        r#"{start}
        while read -r line; do case "$line" in
            *server/discover*) {discover};;
            *'"initialize"'*) {initialize};;
        esac; done"#
    );
    StdioCommand {
        stop_grace: Duration::from_millis(200),
        stderr: Stderr::Discard,
        ..StdioCommand::new("sh", ["-c", &script])
    }
}

const STATELESS: &str = r#"echo '{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}'"#;
const UNKNOWN: &str =
    r#"echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}'"#;
const SESSION: &str = r#"echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'"#;
const REFUSED: &str = r#"echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}'"#;

#[tokio::test]
async fn servers_of_both_eras_may_start_slowly() {
    let stateless = Revision::V2026_07_28;
    let session = Revision::V2025_11_25;
    let late = format!("{REFUSED}; sleep 0.3; {STATELESS}");
    let auto = RevisionChoice::Auto;
    let slow = "sleep 0.5";
    for (case, revision, probe_ms, start, discover, initialize, want) in [
        ("stateless", auto, 100, slow, STATELESS, REFUSED, stateless),
        ("stateless alone", RevisionChoice::Only(stateless), 100, slow, STATELESS, ":", stateless),
        ("session", auto, 100, slow, UNKNOWN, SESSION, session),
        ("silent to unknown methods", auto, 100, ":", ":", SESSION, session),
        ("refuses first, answers later", auto, 600, slow, ":", &late, stateless),
    ] {
        let options = ClientOptions {
            revision,
            probe_timeout: Duration::from_millis(probe_ms),
            ..ClientOptions::default()
        };
        let client = soon(case, Client::spawn(scripted(start, discover, initialize), options));
        let client = client.await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(client.server().revision, want, "{case}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_server_that_ends_at_the_first_question_is_spared_it() {
    let initialize = SESSION.replace(r#""id":2"#, r#""id":1"#).replace("2025-11-25", "2025-06-18");
    let options = ClientOptions { revision: RevisionChoice::Session, ..ClientOptions::default() };
    let client = Client::spawn(scripted(":", "exit 1", &initialize), options);
    let client = soon("the introduction", client).await.unwrap();
    assert_eq!(client.server().revision, Revision::V2025_06_18);
    client.close().await;
}

#[tokio::test]
async fn the_time_for_the_whole_introduction_is_bounded() {
    for revision in [RevisionChoice::Auto, RevisionChoice::Only(Revision::V2026_07_28)] {
        let options = ClientOptions {
            revision,
            probe_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(300),
            ..ClientOptions::default()
        };
        let error = soon("the error", Client::spawn(scripted(":", ":", ":"), options)).await;
        let error = error.err().unwrap();
        assert!(matches!(error, ClientError::Timeout(_)), "{error}");
    }
}
