//! A hostile or clumsy client on a pipe: an error where one can be sent, and the server goes on.

use std::time::Duration;

use marquetry_protocol::server::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{World, piped, soon};

#[tokio::test]
async fn bad_lines_get_an_error_and_the_next_one_is_served() {
    let limits = Limits { max_message_bytes: 2_000, ..Limits::default() };
    let (_world, reader, mut writer) = piped(limits);
    let mut lines = BufReader::new(reader).lines();
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{}"}}}}"#,
        "x".repeat(3_000)
    );
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let cases: [(&[u8], i64, Value); 12] = [
        (b"nonsense", -32700, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, json!(1)),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600, json!(1)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":[1]}", -32600, json!(2)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"}", -32600, json!(3)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"initialize\",\"params\":{}}", -32602, json!(4)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"1999-01-01\"}}}", -32022, json!(5)),
        (long.as_bytes(), 413, json!(1)),
        (deep.as_bytes(), -32600, json!(1)),
    ];
    for (line, code, id) in cases {
        writer.write_all(line).await.unwrap();
        writer
            .write_all(b"\n{\"jsonrpc\":\"2.0\",\"id\":\"after\",\"method\":\"ping\"}\n")
            .await
            .unwrap();
        let answer: Value = next(&mut lines).await;
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &id),
            "{}",
            String::from_utf8_lossy(line)
        );
        assert_eq!(
            next(&mut lines).await,
            json!({ "jsonrpc": "2.0", "id": "after", "result": {} })
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_do_not_reach_the_tool() {
    let (_world, reader, mut writer) = piped(Limits::default());
    let mut lines = BufReader::new(reader).lines();
    initialize(&mut writer, &mut lines).await;
    for (arguments, kind) in
        [("[1]", "an array"), (r#""str""#, "a string"), ("1", "a number"), ("true", "a boolean")]
    {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        );
        writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        let answer = next(&mut lines).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let want = format!("arguments of tool 'echo' must be an object, not {kind}");
        assert_eq!(answer["error"]["message"], want);
    }
    for arguments in ["", r#","arguments":null"#, r#","arguments": {}"#] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo"{arguments}}}}}"#
        );
        writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        assert_eq!(next(&mut lines).await["error"], json!(null), "{arguments}");
    }
}

#[tokio::test]
async fn an_id_in_flight_is_not_taken_twice() {
    let (mut world, reader, mut writer) = piped(Limits::default());
    let mut lines = BufReader::new(reader).lines();
    initialize(&mut writer, &mut lines).await;
    let wait = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}}"#;
    for _ in 0..2 {
        writer.write_all(wait).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }
    let answer = next(&mut lines).await;
    assert_eq!(answer["error"]["message"], "a request with the id 9 is already in flight");
    writer
        .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}\n")
        .await
        .unwrap();
    soon("cancellation", world.cancelled.recv()).await.unwrap();
}

#[tokio::test]
async fn too_many_requests_are_refused_one_by_one() {
    let limits = Limits { max_in_flight: 2, ..Limits::default() };
    let (_world, reader, mut writer) = piped(limits);
    let mut lines = BufReader::new(reader).lines();
    initialize(&mut writer, &mut lines).await;
    for id in 0..3 {
        let wait = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "wait" } });
        writer.write_all(format!("{wait}\n").as_bytes()).await.unwrap();
    }
    let answer = next(&mut lines).await;
    assert_eq!(answer["id"], 2);
    assert_eq!(
        answer["error"]["message"],
        "more than 2 requests of one connection or session are in flight (max_in_flight)"
    );
}

#[tokio::test]
async fn a_client_that_stops_reading_stops_being_read() {
    let limits = Limits { max_queued_messages: 4, ..Limits::default() };
    let (_world, _reader, mut writer) = piped(limits);
    // The answers are not read: when the queues are full, the server stops reading.
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(500));
    let flood = async {
        for _ in 0..100_000 {
            writer.write_all(line.as_bytes()).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), flood).await.is_err(), "50 MB were taken");
}

#[tokio::test]
async fn unread_answers_count_as_in_flight() {
    let limits = Limits { max_queued_messages: 4, max_in_flight: 16, ..Limits::default() };
    let (_world, _reader, mut writer) = piped(limits);
    let text = "x".repeat(4_000);
    let flood = async {
        for id in 0..10_000 {
            let ping =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}{text}\",\"method\":\"ping\"}}\n");
            writer.write_all(ping.as_bytes()).await.unwrap();
            // Gives the server time to do the work, so that only the answer remains in flight.
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), flood).await.is_err(), "40 MB were taken");
}

#[tokio::test]
async fn a_client_that_stops_reading_does_not_keep_the_server_from_ending() {
    let limits = Limits {
        max_queued_messages: 4,
        shutdown_grace: Duration::from_millis(200),
        ..Limits::default()
    };
    for stopped in [true, false] {
        let (world, _reader, mut writer) = piped(limits.clone());
        let text = "x".repeat(2_000);
        let call = |id: u64| {
            let params = json!({ "name": "echo", "arguments": { "text": text } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let flood = async {
            writer.write_all(format!("{open}\n").as_bytes()).await.unwrap();
            for id in 1..100 {
                writer.write_all(format!("{}\n", call(id)).as_bytes()).await.unwrap();
            }
        };
        _ = tokio::time::timeout(Duration::from_millis(300), flood).await;
        let World { stop, serving, .. } = world;
        if stopped {
            drop(stop);
        } else {
            writer.shutdown().await.unwrap();
        }
        soon("the end", serving.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn requests_in_flight_are_answered_after_the_end_of_the_input() {
    let (_world, reader, mut writer) = piped(Limits::default());
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(next(&mut lines).await["id"], 1);
    assert!(soon("the end", lines.next_line()).await.unwrap().is_none());
}

async fn initialize<R, W>(writer: &mut W, lines: &mut tokio::io::Lines<BufReader<R>>)
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let line = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    assert_eq!(next(lines).await["result"]["protocolVersion"], "2025-11-25");
}

async fn next<R: tokio::io::AsyncRead + Unpin>(
    lines: &mut tokio::io::Lines<BufReader<R>>,
) -> Value {
    let line = soon("an answer", lines.next_line()).await.unwrap().expect("a line");
    serde_json::from_str(&line).unwrap()
}
