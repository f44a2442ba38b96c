//! Every revision, on one server.

use marquetry_protocol::{
    Era, Feature, Revision,
    client::{CallOptions, Client},
    server::Limits,
    types::CallToolParams,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{TOOLS, Transport, connected, piped, soon};

#[tokio::test]
async fn one_server_speaks_them_all() {
    for transport in [Transport::Pipe, Transport::Http, Transport::Sse] {
        for revision in Revision::ALL {
            if transport == Transport::Sse && revision.era() == Era::Stateless {
                continue;
            }
            let (_world, client) = connected(transport, revision).await;
            assert_eq!(client.server().revision, revision);
            let names: Vec<String> =
                client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
            assert_eq!(names, TOOLS, "{revision}");
            let answer = echo(&client).await;
            // In 2024-10-07 the member is `toolResult`, which the client translates.
            assert_eq!(answer["content"][0]["text"], "hello", "{revision}");
            assert!(answer.get("toolResult").is_none(), "{answer}");
        }
    }
}

#[tokio::test]
async fn the_first_revision_gets_lists_in_one_page() {
    let (_world, client) = connected(Transport::Http, Revision::V2024_10_07).await;
    let list = client.request("tools/list", None, CallOptions::default()).await.unwrap();
    let list: Value = serde_json::from_str(list.get()).unwrap();
    assert_eq!(list["tools"].as_array().unwrap().len(), TOOLS.len());
    assert!(list.get("nextCursor").is_none());
}

#[tokio::test]
async fn batches_are_answered_where_they_exist() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Session) {
        let (_world, reader, mut writer) = piped(Limits::default());
        let mut lines = BufReader::new(reader).lines();
        let params = json!({
            "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let ping = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        let batch = json!([ping(1), { "jsonrpc": "2.0", "method": "notifications/initialized" }, ping(2), 7]);
        let quiet = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]);
        let text = format!("{open}\n{batch}\n{quiet}\n[]\n");
        writer.write_all(text.as_bytes()).await.unwrap();
        let mut next = async || -> Value {
            let line = soon("an answer", lines.next_line()).await.unwrap().expect("a line");
            serde_json::from_str(&line).unwrap()
        };
        assert_eq!(next().await["result"]["protocolVersion"], json!(revision));
        let refused = "batches exist only in revision 2025-03-26";
        if revision.has(Feature::Batches) {
            // The refusal of the empty one needs no work, and may come first.
            let a = next().await;
            let b = next().await;
            let (answers, empty) = if a.is_array() { (a, b) } else { (b, a) };
            let ids: Vec<&Value> =
                answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
            assert_eq!(ids, [&Value::Null, &json!(1), &json!(2)]);
            assert_eq!(answers[0]["error"]["code"], -32600);
            assert_eq!(empty["error"]["message"], "a batch must not be empty");
        } else {
            assert_eq!(next().await["error"]["message"], refused);
            assert_eq!(next().await["error"]["message"], refused);
        }
    }
}

async fn echo(client: &Client) -> Value {
    let params = CallToolParams::new("echo", &json!({ "text": "hello" })).unwrap();
    let answer = client.call_tool_raw(&params, CallOptions::default()).await.unwrap();
    serde_json::from_str(answer.get()).unwrap()
}
