//! A server on a pipe that sends invalid messages: the client uses their valid parts, and every
//! call ends.

use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientError, ClientOptions, ProtocolError, RevisionChoice},
    types::CallToolParams,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::soon;

/// Connects to a server that answers each request after `initialize` with the line that `answers`
/// returns.
async fn connected(answers: impl Fn(&Value) -> String + Send + 'static) -> Client {
    connected_with(ClientOptions::default(), answers).await
}

async fn connected_with(
    options: ClientOptions,
    answers: impl Fn(&Value) -> String + Send + 'static,
) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, mut writer) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            if request.get("id").is_none() {
                continue;
            }
            let answer = match request["method"].as_str() {
                Some("initialize") => answer(
                    &request,
                    &json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": { "tools": {} },
                        "serverInfo": { "name": "clumsy", "version": "1" },
                    }),
                ),
                _ => answers(&request),
            };
            writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    });
    let options =
        ClientOptions { revision: RevisionChoice::Only(Revision::V2025_11_25), ..options };
    let (reader, writer) = tokio::io::split(ours);
    Client::connect(reader, writer, options).await.unwrap()
}

fn answer(to: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": to["id"], "result": result }).to_string()
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// Lists the tools of a server that answers with `pages`: each by its cursor, the first by "".
async fn listed(
    pages: impl Fn(&str) -> Value + Send + 'static,
) -> (Vec<String>, Option<ProtocolError>) {
    let client = connected(move |request| {
        answer(request, &pages(request["params"]["cursor"].as_str().unwrap_or_default()))
    })
    .await;
    let fetched = soon("the list", client.fetch_tools()).await.unwrap();
    (fetched.items.into_iter().map(|tool| tool.name).collect(), fetched.incomplete)
}

#[tokio::test]
async fn tools_without_an_object_of_arguments_are_left_out() {
    for (input, output, stays) in [
        (json!({ "type": "object" }), json!({ "type": "object" }), true),
        (json!(null), json!(null), true),
        (json!({ "type": ["object"], "required": {} }), json!("x"), true),
        (json!({ "type": "object", "properties": { "a": "x" } }), json!([]), true),
        (json!("x"), json!(null), false),
        (json!({ "type": "string" }), json!(null), false),
    ] {
        let odd = json!({ "name": "odd", "inputSchema": input, "outputSchema": output });
        let shown = odd.to_string();
        let (names, incomplete) = listed(move |_| json!({ "tools": [odd, tool("a")] })).await;
        let want: &[&str] = if stays { &["odd", "a"] } else { &["a"] };
        assert_eq!(names, want, "{shown}");
        assert_eq!(incomplete, None, "{shown}");
    }
}

/// One invalid member must not hide an item: strict clients would refuse the list, and lenient ones
/// this item.
#[tokio::test]
async fn items_stay_without_their_invalid_members() {
    let client = connected(|request| {
        let list = match request["method"].as_str() {
            Some("tools/list") => json!({ "tools": [{ "name": "t", "annotations": "x" }] }),
            Some("prompts/list") => json!({ "prompts": [{ "name": "p", "arguments": {} }] }),
            Some("resources/list") => {
                json!({ "resources": [{ "name": "r", "uri": "test://r", "size": "7" }] })
            }
            _ => json!({
                "resourceTemplates": [{ "name": "r", "uriTemplate": "test://{r}", "mimeType": 1 }],
            }),
        };
        answer(request, &list)
    })
    .await;
    assert_eq!(client.list_tools().await.unwrap()[0].annotations, None);
    assert_eq!(client.list_prompts().await.unwrap()[0].arguments, []);
    assert_eq!(client.list_resources().await.unwrap()[0].size, None);
    assert_eq!(client.list_resource_templates().await.unwrap()[0].mime_type, None);
}

/// The forms in which libraries of several languages write a tool without arguments.
#[tokio::test]
async fn schemas_without_arguments_get_the_form_that_every_client_accepts() {
    for schema in [
        json!({}),
        json!({ "properties": {} }),
        json!({ "type": "object", "properties": [], "required": null }),
        json!({ "type": "object", "properties": null }),
    ] {
        let client = connected({
            let schema = schema.clone();
            move |request| {
                answer(request, &json!({ "tools": [{ "name": "t", "inputSchema": schema }] }))
            }
        })
        .await;
        let tools = client.list_tools().await.unwrap();
        let found = &tools[0].input_schema;
        assert_eq!(found["type"], "object", "{schema}");
        assert!(found.get("properties").is_none_or(Value::is_object), "{schema}");
        assert_eq!(found.get("required"), None, "{schema}");
    }
}

#[tokio::test]
async fn pages_after_one_without_tools_are_fetched() {
    let (names, incomplete) = listed(|cursor| match cursor {
        "" => json!({ "tools": [tool("a")], "nextCursor": "1" }),
        "1" => json!({ "tools": [], "nextCursor": "2" }),
        "2" => json!({ "tools": [{ "name": 1 }], "nextCursor": "3" }),
        _ => json!({ "tools": [tool("b")] }),
    })
    .await;
    assert_eq!((names, incomplete), (vec!["a".to_owned(), "b".to_owned()], None));
}

#[tokio::test]
async fn an_empty_cursor_ends_a_list() {
    let (names, incomplete) = listed(|_| json!({ "tools": [tool("a")], "nextCursor": "" })).await;
    assert_eq!((names, incomplete), (vec!["a".to_owned()], None));
}

#[tokio::test]
async fn a_list_ends_after_many_pages_without_tools() {
    let (names, incomplete) = listed(|cursor| {
        let number: u64 = cursor.parse().unwrap_or_default();
        let tools = if number == 0 { vec![tool("a")] } else { Vec::new() };
        json!({ "tools": tools, "nextCursor": (number + 1).to_string() })
    })
    .await;
    assert_eq!(names, ["a"]);
    assert_eq!(
        incomplete.unwrap().to_string(),
        "'tools/list' returned more than 100 consecutive pages without a valid item"
    );
}

#[tokio::test]
async fn a_list_without_an_end_is_used_up_to_the_limit() {
    let (names, incomplete) = listed(|cursor| {
        let page: u64 = cursor.parse().unwrap_or_default();
        let tools: Vec<_> = (0..300).map(|at| tool(&format!("{page}-{at}"))).collect();
        json!({ "tools": tools, "nextCursor": (page + 1).to_string() })
    })
    .await;
    assert_eq!((names.len(), &*names[9_999]), (10_000, "33-99"));
    assert_eq!(incomplete.unwrap().to_string(), "'tools/list' lists more than 10000 items");
}

#[tokio::test]
async fn a_cursor_that_is_no_string_ends_a_list() {
    for (cursor, is_complete) in [(json!(5), false), (json!({}), false), (json!(null), true)] {
        let (names, incomplete) =
            listed(move |_| json!({ "tools": [tool("a")], "nextCursor": cursor })).await;
        assert_eq!((names, incomplete.is_none()), (vec!["a".to_owned()], is_complete));
    }
}

#[tokio::test]
async fn a_list_that_is_null_is_empty() {
    let (names, incomplete) = listed(|_| json!({ "tools": null })).await;
    assert_eq!((names, incomplete), (Vec::new(), None));
}

/// The pages before the one that does not come are used.
#[tokio::test(start_paused = true)]
async fn a_list_that_takes_too_long_ends_early() {
    let client = connected(|request| match request["params"].get("cursor") {
        None => answer(request, &json!({ "tools": [tool("a")], "nextCursor": "1" })),
        Some(_) => String::new(),
    })
    .await;
    let fetched = client.fetch_tools().await.unwrap();
    assert_eq!(fetched.items[0].name, "a");
    assert_eq!(
        fetched.incomplete.unwrap().to_string(),
        "'tools/list' takes more than 300 s for all its pages"
    );
}

/// The pages before the one that the server refuses, or that is invalid, are used. Without such
/// pages, there is no list.
#[tokio::test]
async fn a_list_ends_at_a_page_that_fails() {
    let refusal = |request: &Value| {
        let error = json!({ "code": -32602, "message": "no such cursor" });
        json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string()
    };
    let invalid = |request: &Value| answer(request, &json!({ "tools": 5 }));
    type Failure = fn(&Value) -> String;
    for (failure, problem) in
        [(refusal as Failure, "no such cursor"), (invalid, "result of 'tools/list'")]
    {
        let client = connected(move |request| match request["params"].get("cursor") {
            None => answer(request, &json!({ "tools": [tool("a")], "nextCursor": "1" })),
            Some(_) => failure(request),
        })
        .await;
        let fetched = client.fetch_tools().await.unwrap();
        assert_eq!(fetched.items[0].name, "a");
        let incomplete = fetched.incomplete.unwrap().to_string();
        assert!(incomplete.contains("failed after its first page"), "{incomplete}");
        assert!(incomplete.contains(problem), "{incomplete}");
        assert!(connected(failure).await.fetch_tools().await.is_err());
    }
}

/// A last page over the limit is complete; with another page after it, the list ends.
#[tokio::test]
async fn a_list_has_at_most_the_bytes_of_a_message() {
    for has_more in [false, true] {
        let options = ClientOptions { max_message_bytes: 1_000, ..ClientOptions::default() };
        let client = connected_with(options, move |request| {
            let page = request["params"]["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
            let mut listed = tool(&format!("tool {page}"));
            listed["description"] = "x".repeat(400).into();
            let mut result = json!({ "tools": [listed] });
            if page < 2 || has_more {
                result["nextCursor"] = (page + 1).to_string().into();
            }
            answer(request, &result)
        })
        .await;
        let fetched = client.fetch_tools().await.unwrap();
        assert_eq!(fetched.items.len(), 3);
        let incomplete = fetched.incomplete.map(|error| error.to_string());
        let want = has_more.then(|| "'tools/list' lists more than 1000 bytes".to_owned());
        assert_eq!(incomplete, want);
    }
}

#[tokio::test]
async fn options_without_limits_list_everything() {
    let options = ClientOptions {
        max_list_items: usize::MAX,
        request_timeout: std::time::Duration::MAX,
        ..ClientOptions::default()
    };
    let client =
        connected_with(options, |request| answer(request, &json!({ "tools": [tool("a")] }))).await;
    let fetched = client.fetch_tools().await.unwrap();
    assert_eq!((fetched.items.len(), fetched.incomplete), (1, None));
}

#[tokio::test]
async fn results_for_other_clients_lack_members_that_are_null() {
    let answers = |request: &Value| {
        answer(
            request,
            &json!({
                "content": [{ "type": "text", "text": "a", "annotations": null }],
                "structuredContent": { "a": null },
                "isError": null,
                "_meta": null,
            }),
        )
    };
    let want =
        json!({ "content": [{ "type": "text", "text": "a" }], "structuredContent": { "a": null } });
    for remove_nulls in [true, false] {
        let options = ClientOptions { remove_nulls, ..ClientOptions::default() };
        let client = connected_with(options, answers).await;
        let call = CallToolParams::new("t", &json!({})).unwrap();
        let result = client.call_tool_raw(&call, CallOptions::default()).await.unwrap();
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result == want, remove_nulls, "{result}");
    }
}

#[tokio::test]
async fn a_list_ends_at_a_repeated_cursor() {
    let (names, incomplete) = listed(|cursor| match cursor {
        "" => json!({ "tools": [tool("a")], "nextCursor": "1" }),
        "1" => json!({ "tools": [tool("b")], "nextCursor": "2" }),
        _ => json!({ "tools": [tool("c")], "nextCursor": "1" }),
    })
    .await;
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        incomplete.unwrap().to_string(),
        "'tools/list' names the cursor of an earlier page as its next"
    );
}

async fn call_answered_with(line: impl Fn(&Value) -> String + Send + 'static) -> ClientError {
    let client = connected(line).await;
    let call = CallToolParams::new("t", &json!({})).unwrap();
    soon("the error", client.call_tool_raw(&call, CallOptions::default())).await.unwrap_err()
}

#[tokio::test]
async fn an_error_with_an_odd_code_keeps_its_message() {
    for (code, want) in [
        ("-32700", -32_700),
        ("4.0", 4),
        ("9007199254740993", -32_603),
        ("-2147483649", -32_603),
        ("1.5", -32_603),
        (r#""ENOENT""#, -32_603),
        ("null", -32_603),
    ] {
        let error = call_answered_with(move |request| {
            let id = &request["id"];
            let error = format!(r#"{{"code":{code},"message":"no disk"}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
        })
        .await;
        let ClientError::Rpc(error) = error else { panic!("{code}: {error}") };
        assert_eq!((error.code, &*error.message), (want, "no disk"), "{code}");
    }
}

/// Calls a tool of a server that answers with the line that `line` returns, which has `ID` in place
/// of the id.
async fn called(line: &'static str) -> Result<Value, ClientError> {
    let client = connected(move |request| line.replace("ID", &request["id"].to_string())).await;
    let call = CallToolParams::new("t", &json!({})).unwrap();
    let answer = soon("the answer", client.call_tool_raw(&call, CallOptions::default())).await?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}

#[tokio::test]
async fn text_that_was_cut_spoils_nothing_else() {
    let client = connected(|request| {
        let tools = r#"[{"name":"t","description":"cut \ud83d","inputSchema":{}},{"name":"u","inputSchema":{}}]"#;
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, request["id"])
    })
    .await;
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools[0].description.as_deref(), Some("cut \u{fffd}"));
    assert_eq!(tools[1].name, "u");
    let answer = called(r#"{"jsonrpc":"2.0","id":ID,"result":{"a":"x\uDE00y"}}"#).await.unwrap();
    assert_eq!(answer["a"], "x\u{fffd}y");
}

/// Python's `json.dumps` writes numbers that are not JSON.
#[tokio::test]
async fn numbers_that_cannot_be_read_spoil_nothing_else() {
    let client = connected(|request| {
        let tools = concat!(
            r#"[{"name":"a","inputSchema":{"properties":{"x":{"maximum":1e400,"default":NaN}}}},"#,
            r#"{"name":"b","description":"NaN","inputSchema":{"properties":{"x":{"#,
            r#""maximum":18446744073709551615,"minimum":-1180591620717411303424,"multipleOf":0.01}}}}]"#,
        );
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, request["id"])
    })
    .await;
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools[0].input_schema["properties"]["x"]["maximum"], json!(f64::MAX));
    assert_eq!(tools[1].description.as_deref(), Some("NaN"));
    let limits = &tools[1].input_schema["properties"]["x"];
    let written =
        r#"{"maximum":18446744073709551615,"minimum":-1.1805916207174113e+21,"multipleOf":0.01}"#;
    assert_eq!(limits.to_string(), written);
    for (line, want) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"a":NaN}}"#, json!({ "a": null })),
        (r#"{"result":{"a":[-Infinity]},"id":ID,"jsonrpc":"2.0"}"#, json!({ "a": [null] })),
    ] {
        assert_eq!(called(line).await.unwrap(), want, "{line}");
    }
}

/// Parsers of JSON stop at some depth, and refuse the whole text.
#[tokio::test]
async fn an_item_that_is_nested_too_deep_hides_no_other_item() {
    for levels in [90, 120, 5_000] {
        let deep = format!("{}{}{}", r#"{"a":"#.repeat(levels), "{}", "}".repeat(levels));
        let client = connected(move |request| {
            let tools = format!(
                r#"[{{"name":"deep","inputSchema":{{"properties":{deep}}}}},{{"name":"t","inputSchema":{{}}}}]"#
            );
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, request["id"])
        })
        .await;
        let tools = soon("the list", client.list_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let want: &[&str] = if levels == 90 { &["deep", "t"] } else { &["t"] };
        assert_eq!(names, want, "{levels} levels");
    }
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let result = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"a":{deep}}}}}"#);
    let error = called(result.leak()).await.unwrap_err();
    assert!(error.to_string().contains("more than 100 levels deep"), "{error}");
    let error =
        format!(r#"{{"jsonrpc":"2.0","id":ID,"error":{{"code":1,"message":"no","data":{deep}}}}}"#);
    let ClientError::Rpc(error) = called(error.leak()).await.unwrap_err() else {
        panic!("no error")
    };
    assert_eq!(error.message, "no");
    assert!(error.data.is_none());
}

#[tokio::test]
async fn answers_in_odd_but_clear_forms_are_read() {
    for line in [
        r#"{"jsonrpc":"2.0","id":"ID","result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":null,"error":null,"result":{"a":1}}"#,
        // The error answers a notification.
        concat!(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":ID,"result":{"a":1}}"#,
        ),
    ] {
        assert_eq!(called(line).await.unwrap(), json!({ "a": 1 }), "{line}");
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"result":null,"error":{"code":1,"message":"no disk"}}"#,
        r#"{"jsonrpc":"2.0","id":"ID","error":{"code":"E1","message":"no disk"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":"no disk"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no disk"}}"#,
    ] {
        let ClientError::Rpc(error) = called(line).await.unwrap_err() else { panic!("{line}") };
        assert_eq!(error.message, "no disk", "{line}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_its_call_at_once() {
    for line in [
        r#"{"jsonrpc":"2.0","id":"ID","result":{"text":"cut"#,
        r#"{"jsonrpc":"2.0","result":{"text":"cut"#,
        r#"{"jsonrpc":"2.0","result":{"a":1}}"#,
        r#"{"id":ID,"result":{"a":1}}"#,
    ] {
        let error = called(line).await.unwrap_err();
        assert!(
            matches!(error, ClientError::Protocol(ProtocolError::Message(_))),
            "{line}: {error}"
        );
    }
}

/// Connects to a server that writes `result` as its answer to `initialize`.
async fn introduced(result: &str) -> Result<Client, ClientError> {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, mut writer) = tokio::io::split(theirs);
    let result = result.to_owned();
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            if request["method"] == "initialize" {
                let id = &request["id"];
                let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
                writer.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let options = ClientOptions { revision: RevisionChoice::Session, ..ClientOptions::default() };
    let (reader, writer) = tokio::io::split(ours);
    soon("the handshake", Client::connect(reader, writer, options)).await
}

#[tokio::test]
async fn odd_introductions_are_understood() {
    for (result, revision) in [
        ("{}".to_owned(), Revision::V2024_11_05),
        (r#"{"protocolVersion":null,"serverInfo":null}"#.to_owned(), Revision::V2024_11_05),
        (r#"{"protocolVersion":20250618}"#.to_owned(), Revision::V2024_11_05),
        (r#"{"protocolVersion":" 2025-06-18 "}"#.to_owned(), Revision::V2025_06_18),
        (
            r#"{"protocolVersion":"2025-03-26","protocolVersion":"2025-06-18","capabilities":{},"capabilities":{"tools":{}}}"#.to_owned(),
            Revision::V2025_06_18,
        ),
        (
            format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},"experimental":{{"x":{}{}}}}}}}"#,
                "[".repeat(150),
                "]".repeat(150)
            ),
            Revision::V2025_06_18,
        ),
    ] {
        let client = introduced(&result).await.unwrap();
        let server = client.server();
        assert_eq!(server.revision, revision, "{result}");
        assert!(server.capabilities.tools.is_some(), "{result}");
    }
    let unknown = introduced(r#"{"protocolVersion":"1999-01-01"}"#).await.err().unwrap();
    assert!(unknown.to_string().contains("1999-01-01"), "{unknown}");
}

#[tokio::test]
async fn terminal_codes_and_repeated_members_spoil_no_answer() {
    let client = connected(|request| {
        let id = &request["id"];
        match request["params"]["name"].as_str() {
            Some("codes") => {
                let answer = answer(request, &json!({ "content": [] }));
                format!("\u{1b}[2K\u{1b}[1G\u{1b}]0;server\u{7}{answer}\u{1b}[0m")
            }
            Some("repeated") => format!(
                r#"{{"jsonrpc":"2.0","jsonrpc":"2.0","id":{id},"id":{id},"result":1,"result":{{"content":[]}}}}"#
            ),
            _ => format!(r#"{{"jsonrpc":"2.0","id":"x","id":{id},"result":{{}}}}"#),
        }
    })
    .await;
    for tool in ["codes", "repeated"] {
        let params = CallToolParams::new(tool, &json!({})).unwrap();
        let call = client.call_tool(&params, CallOptions::default());
        assert_eq!(soon(tool, call).await.unwrap().content, [], "{tool}");
    }
    // The answer of an unknown id ends the only call.
    let params = CallToolParams::new("whose", &json!({})).unwrap();
    let error = soon("whose", client.call_tool(&params, CallOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("duplicate field"), "{error}");
}
