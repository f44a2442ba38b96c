//! Rules of the specification for a gateway.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{Client, ClientError, ClientHandler, ClientOptions},
    types::{ClientCapabilities, ElicitAction, ElicitParams, ElicitResult},
};
use serde_json::{Value, json};

use crate::{
    scripted::{Scripted, ScriptedAnswer, complete, error, lists},
    support::{Answer, Running, ask, call, rpc_error, token_of, tool_names, users_toml},
};

const SESSION: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Sends a request without a session, with these headers in addition to those of every request.
async fn post(server: &Running, headers: &[(&str, &str)], method: &str, params: Value) -> Answer {
    post_as("test", server, headers, method, params).await
}

/// Sends such a request as the client of this name.
async fn post_as(
    client: &str,
    server: &Running,
    headers: &[(&str, &str)],
    method: &str,
    mut params: Value,
) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": client, "version": "1" },
    });
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut all = vec![
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", method),
    ];
    if !name.is_empty() {
        all.push(("Mcp-Name", &name));
    }
    all.extend(headers);
    server.http("POST", "/mcp", &all, body.to_string().as_bytes()).await
}

#[tokio::test]
async fn headers_that_repeat_arguments_of_upstream_tools_are_checked() {
    let tools = json!([{ "name": "query", "inputSchema": { "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "limit": { "type": "integer", "x-mcp-header": "Limit" },
    } } }]);
    let upstream = Scripted::start(SESSION, move |method, params| {
        let said =
            json!({ "content": [{ "type": "text", "text": params["arguments"].to_string() }] });
        Ok(lists(method, &tools, &json!([]), &json!([])).unwrap_or(said))
    })
    .await;
    let server = Running::start(&upstream.toml("db")).await;
    let listed = post(&server, &[], "tools/list", json!({})).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "db__query").unwrap();
    assert_eq!(tool["inputSchema"]["properties"]["region"]["x-mcp-header"], "Region");

    let both = json!({ "region": "eu", "limit": 3 });
    let right = [("Mcp-Param-Region", "eu"), ("Mcp-Param-Limit", "3")];
    let query = async |headers: &[(&str, &str)], arguments: &Value| {
        let params = json!({ "name": "db__query", "arguments": arguments });
        let answer = post(&server, headers, "tools/call", params).await;
        (answer.status, answer.json()["error"]["code"].as_i64())
    };
    assert_eq!(query(&right, &both).await, (200, None));
    assert_eq!(query(&[], &json!({ "region": null })).await, (200, None));
    assert_eq!(upstream.seen("tools/call").len(), 2);
    for wrong in [
        &[][..],
        &right[..1],
        &[("Mcp-Param-Region", "us"), right[1]],
        &[("Mcp-Param-Region", "=?base64?!?="), right[1]],
        &[right[0], ("Mcp-Param-Limit", "4")],
    ] {
        assert_eq!(query(wrong, &both).await, (400, Some(-32020)), "{wrong:?}");
    }
    assert_eq!(query(&right, &json!({ "region": "eu" })).await, (400, Some(-32020)));
    assert_eq!(upstream.seen("tools/call").len(), 2, "a refused call goes nowhere");
    // Requests in a session have no such headers.
    let agent = server.agent().await;
    assert!(call(&agent, "db__query", both).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn headers_are_checked_for_the_name_that_a_client_got() {
    let tools = json!([{ "name": "query.all", "inputSchema": { "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
    } } }]);
    let upstream = Scripted::start(SESSION, move |method, _| {
        let said = json!({ "content": [{ "type": "text", "text": "done" }] });
        Ok(lists(method, &tools, &json!([]), &json!([])).unwrap_or(said))
    })
    .await;
    let server = Running::start(&upstream.toml("db")).await;
    // This client takes no dots in names.
    const CLIENT: &str = "claude-ai";
    let listed = post_as(CLIENT, &server, &[], "tools/list", json!({})).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["_meta"]["marquetry/name"] == "db__query.all");
    let params = json!({ "name": tool.unwrap()["name"], "arguments": { "region": "eu" } });
    let wrong = [("Mcp-Param-Region", "us")];
    let wrong = post_as(CLIENT, &server, &wrong, "tools/call", params.clone()).await;
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (400, &json!(-32020)));
    let right = [("Mcp-Param-Region", "eu")];
    let right = post_as(CLIENT, &server, &right, "tools/call", params).await;
    assert_eq!(right.json()["result"]["content"][0]["text"], "done", "{right:?}");
    assert_eq!(upstream.seen("tools/call").len(), 1, "a refused call goes nowhere");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_checked_while_the_upstream_is_starting() {
    let upstream = Scripted::start(SESSION, move |method, _| {
        if method == "tools/list" {
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(500)));
        }
        let tools = json!([{ "name": "query", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
        } } }]);
        let said = json!({ "content": [{ "type": "text", "text": "done" }] });
        Ok(lists(method, &tools, &json!([]), &json!([])).unwrap_or(said))
    })
    .await;
    let server = Running::start_at_once(&upstream.toml("db")).await;
    let params = json!({ "name": "db__query", "arguments": { "region": "eu" } });
    let wrong = post(&server, &[("Mcp-Param-Region", "us")], "tools/call", params.clone()).await;
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (400, &json!(-32020)));
    let right = post(&server, &[("Mcp-Param-Region", "eu")], "tools/call", params).await;
    assert_eq!(right.status, 200, "{right:?}");
    assert_eq!(upstream.seen("tools/call").len(), 1, "a refused call goes nowhere");
    server.stop().await;
}

/// An upstream whose tool `fail` answers with the error that its arguments name.
async fn failing(revision: &'static str) -> Scripted {
    Scripted::start(revision, |method, params| {
        let tools = json!([{ "name": "fail", "inputSchema": { "type": "object" } }]);
        match lists(method, &tools, &json!([]), &json!([])) {
            Some(list) => Ok(complete(list)),
            None => Err(params["arguments"].clone()),
        }
    })
    .await
}

#[tokio::test]
async fn codes_that_the_specification_reserves_reach_no_stateless_agent() {
    for revision in [SESSION, STATELESS] {
        let upstream = failing(revision).await;
        let server = Running::start(&upstream.toml("up")).await;
        let new = server.agent_of(Revision::V2026_07_28).await;
        let old = server.agent().await;
        for (code, want) in [
            (-32019, -32019),
            (-32020, -32603),
            (-32021, -32021),
            (-32022, -32603),
            (-32023, -32603),
            (-32042, -32603),
            (-32099, -32603),
            (-32100, -32100),
            (7, 7),
        ] {
            let said = error(code, "no", json!({ "why": 1 }));
            match call(&new, "up__fail", said.clone()).await {
                Err(ClientError::Rpc(error)) => {
                    assert_eq!(error.code, want, "{revision} {code}");
                    let data: Value = serde_json::from_str(error.data.unwrap().get()).unwrap();
                    let mapped = json!({ "upstream": "up", "code": code, "data": { "why": 1 } });
                    let data_is = if want == code { json!({ "why": 1 }) } else { mapped };
                    assert_eq!(data, data_is, "{revision} {code}");
                }
                other => panic!("{revision} {code}: {other:?}"),
            }
            let (in_session, _) = rpc_error(call(&old, "up__fail", said).await);
            assert_eq!(in_session, code, "{revision}");
        }
        server.stop().await;
    }
}

/// Visits pages or refuses to, and records its notifications.
#[derive(Default)]
struct Visitor {
    told: Mutex<Vec<ElicitParams>>,
    declines: AtomicBool,
}

#[async_trait]
impl ClientHandler for Visitor {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        self.told.lock().unwrap().push(params);
        let declines = self.declines.load(Ordering::SeqCst);
        let action = if declines { ElicitAction::Decline } else { ElicitAction::Accept };
        Ok(ElicitResult { action, content: None })
    }
}

async fn visitor(server: &Running, revision: Revision, offers: Value) -> (Client, Arc<Visitor>) {
    let visitor = Arc::new(Visitor::default());
    let capabilities: ClientCapabilities = serde_json::from_value(offers).unwrap();
    let options =
        ClientOptions { capabilities, handler: visitor.clone(), ..ClientOptions::default() };
    (server.agent_with(revision, options).await, visitor)
}

/// An upstream that asks for a visit to its page, and notices it some time after the agent has
/// returned.
fn login(method: &str, calls: &AtomicUsize, until: usize) -> ScriptedAnswer {
    let tools = json!([{ "name": "pay", "inputSchema": { "type": "object" } }]);
    if let Some(list) = lists(method, &tools, &json!([]), &json!([])) {
        return Ok(list);
    }
    let page = json!({
        "mode": "url", "message": "log in", "url": "https://pay.example/", "elicitationId": "p1",
    });
    if calls.fetch_add(1, Ordering::SeqCst) < until {
        Err(error(-32042, "log in first", json!({ "elicitations": [page] })))
    } else {
        Ok(json!({ "content": [{ "type": "text", "text": "paid" }] }))
    }
}

#[tokio::test]
async fn an_error_with_url_elicitations_becomes_input_required() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let upstream = Scripted::start(SESSION, move |method, _| login(method, &counted, 3)).await;
    let server = Running::start(&upstream.toml("bank")).await;
    let url = json!({ "elicitation": { "url": {} } });
    let (agent, visitor) = visitor(&server, Revision::V2026_07_28, url.clone()).await;
    let paid = call(&agent, "bank__pay", json!({})).await.unwrap();
    assert_eq!(paid["content"][0]["text"], "paid");
    assert_eq!(calls.load(Ordering::SeqCst), 4, "it asked again until the upstream noticed");
    {
        let told = visitor.told.lock().unwrap();
        assert_eq!(told.len(), 1, "the user was asked once: {told:?}");
        assert_eq!(told[0].message, "[bank] log in");
        assert_eq!(told[0].url.as_deref(), Some("https://pay.example/"));
        assert_eq!(told[0].elicitation_id, None, "2026-07-28 has none");
    }
    // An agent that refuses gets no answer, and the upstream is not asked again.
    calls.store(0, Ordering::SeqCst);
    visitor.declines.store(true, Ordering::SeqCst);
    let (code, message) = rpc_error(call(&agent, "bank__pay", json!({})).await);
    assert_eq!(code, -32603);
    assert!(
        message.contains("upstream 'bank'") && message.contains("did not make it"),
        "{message}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    // An agent without the capability gets an error that names it.
    calls.store(0, Ordering::SeqCst);
    let (deaf, _) = self::visitor(&server, Revision::V2026_07_28, json!({})).await;
    match call(&deaf, "bank__pay", json!({})).await {
        Err(ClientError::Rpc(error)) => {
            assert_eq!(error.code, -32021);
            assert!(error.data.unwrap().get().contains(r#""elicitation":{"url""#));
        }
        other => panic!("{other:?}"),
    }
    // In a session the agent receives the error itself, with the name of the upstream.
    calls.store(0, Ordering::SeqCst);
    let (old, _) = self::visitor(&server, Revision::V2025_11_25, url).await;
    match call(&old, "bank__pay", json!({})).await {
        Err(ClientError::Rpc(error)) => {
            assert_eq!(error.code, -32042);
            assert!(error.data.unwrap().get().contains("[bank] log in"));
        }
        other => panic!("{other:?}"),
    }
    server.stop().await;
}

#[tokio::test]
async fn each_agent_gets_the_members_of_its_own_revision() {
    let upstream = Scripted::start(STATELESS, |method, params| {
        let of = |kind: &str| json!({ "type": kind });
        let tools = json!([
            { "name": "list", "inputSchema": of("object"), "outputSchema": of("array") },
            { "name": "object", "inputSchema": of("object"), "outputSchema": of("object") },
        ]);
        let resources = json!([{ "uri": "x://1", "name": "one" }]);
        let said = match method {
            "tools/call" if params["name"] == "list" => {
                json!({ "content": [], "structuredContent": [1, 2] })
            }
            "tools/call" => json!({ "content": [], "structuredContent": { "a": 1 } }),
            "resources/read" => json!({ "contents": [{ "uri": "x://1", "text": "1" }] }),
            "prompts/get" => json!({ "messages": [] }),
            method => lists(method, &tools, &resources, &json!([])).unwrap(),
        };
        Ok(complete(said))
    })
    .await;
    let server = Running::start(&upstream.toml("up")).await;
    let requests = [
        ("tools/call", json!({ "name": "up__list" })),
        ("tools/call", json!({ "name": "up__object" })),
        ("resources/read", json!({ "uri": "x://1" })),
        ("prompts/get", json!({ "name": "up__greet" })),
        ("tools/list", json!({})),
        ("resources/list", json!({})),
    ];
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        let is_new = revision == Revision::V2026_07_28;
        for (method, params) in &requests {
            let said = ask(&agent, method, params.clone()).await.unwrap();
            let is_read = !matches!(*method, "tools/call" | "prompts/get");
            for (member, has) in [
                ("resultType", is_new),
                ("ttlMs", is_new && is_read),
                ("cacheScope", is_new && is_read),
            ] {
                let has_it = said.get(member).is_some();
                assert!(has_it == has || is_new && has_it, "{revision} {method} {member}: {said}");
            }
            if is_new {
                assert_eq!(said["_meta"][SERVER_INFO]["name"], "marquetry", "{method}");
            } else {
                assert!(!said.to_string().contains("serverInfo"), "{method}: {said}");
            }
        }
        let list = ask(&agent, "tools/call", json!({ "name": "up__list" })).await.unwrap();
        let object = ask(&agent, "tools/call", json!({ "name": "up__object" })).await.unwrap();
        assert_eq!(object["structuredContent"], json!({ "a": 1 }), "{revision}");
        let text = json!([{ "type": "text", "text": "[1,2]" }]);
        if is_new {
            assert_eq!(list["structuredContent"], json!([1, 2]));
        } else {
            assert_eq!((list.get("structuredContent"), &list["content"]), (None, &text));
        }
        let listed = ask(&agent, "tools/list", json!({})).await.unwrap();
        let schema = |name: &str| {
            let mut tools = listed["tools"].as_array().unwrap().iter();
            tools.find(|tool| tool["name"] == name).unwrap().get("outputSchema").cloned()
        };
        assert!(schema("up__object").is_some(), "{revision}");
        assert!(is_new || schema("up__list").is_none(), "{revision}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_list_of_an_upstream_is_fetched_again_after_its_ttl() {
    for (ttl, want) in [(0, "up__t1"), (60_000, "up__t0")] {
        let fetches = Arc::new(Mutex::new(Vec::new()));
        let recorded = fetches.clone();
        let upstream = Scripted::start(STATELESS, move |method, _| {
            let mut fetches = recorded.lock().unwrap();
            let number = fetches.len();
            if method == "tools/list" {
                fetches.push(Instant::now());
            }
            let tools =
                json!([{ "name": format!("t{number}"), "inputSchema": { "type": "object" } }]);
            let mut list = complete(lists(method, &tools, &json!([]), &json!([])).unwrap());
            list["ttlMs"] = ttl.into();
            Ok(list)
        })
        .await;
        let toml = format!("gateway.list_refetch_ms = 1000\n{}", upstream.toml("up"));
        let server = Running::start(&toml).await;
        let agent = server.agent().await;
        let listed = async || tool_names(&agent).await.pop().unwrap();
        let fetched = || fetches.lock().unwrap().len();
        // The pause begins with the fetch, which on a busy machine is long before the first list
        // here.
        let first = fetches.lock().unwrap()[0];
        // Repeated lists do not fetch before the pause is over.
        while first.elapsed() < Duration::from_millis(300) {
            assert_eq!(listed().await, "up__t0");
        }
        assert_eq!(fetched(), 1);
        tokio::time::sleep(Duration::from_millis(1100).saturating_sub(first.elapsed())).await;
        assert_eq!(listed().await, want, "ttlMs {ttl}");
        // Without a request nothing is fetched.
        let before = fetched();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(fetched(), before);
        server.stop().await;
    }
}

#[tokio::test]
async fn with_tokens_resource_links_belong_to_their_reader() {
    let upstream = Scripted::start(STATELESS, |method, _| {
        let resources = json!([{ "uri": "x://1", "name": "one" }]);
        let read = json!({ "contents": [{ "uri": "x://1", "text": "1" }] });
        Ok(complete(lists(method, &json!([]), &resources, &json!([])).unwrap_or(read)))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let token = "hush-0123456789abcdef";
    std::fs::write(directory.path().join("token"), token).unwrap();
    let file = directory.path().join("token").display().to_string();
    let auth = format!("[auth.tokens]\nann = {{ file = '{file}' }}\n");
    let bearer = format!("Bearer {token}");
    for (head, want) in [(String::new(), "public"), (auth, "private")] {
        let server = Running::start(&format!("{head}{}", upstream.toml("up"))).await;
        let headers = [("Authorization", bearer.as_str())];
        let read =
            post(&server, &headers, "resources/read", json!({ "uri": "x://1" })).await.json();
        assert_eq!(read["result"]["contents"][0]["text"], "1", "{read}");
        assert_eq!(read["result"]["cacheScope"], want, "{read}");
        // A list from several upstreams, fetched with this server's credentials, is never public.
        let listed = post(&server, &headers, "resources/list", json!({})).await.json();
        assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
        server.stop().await;
    }
}

/// An upstream that answers reads with its own name, and whose tool returns a link to any URI.
async fn linking(name: &'static str, resources: Value, templates: Value) -> Scripted {
    Scripted::start(SESSION, move |method, params| {
        let tools = json!([{ "name": "link", "inputSchema": { "type": "object" } }]);
        Ok(match method {
            "tools/call" => {
                let uri = &params["arguments"]["uri"];
                json!({ "content": [{ "type": "resource_link", "uri": uri, "name": "x" }] })
            }
            "resources/read" => json!({ "contents": [{ "uri": params["uri"], "text": name }] }),
            method => lists(method, &tools, &resources, &templates).unwrap(),
        })
    })
    .await
}

#[tokio::test]
async fn a_resource_link_belongs_to_its_agent_and_redirects_no_other_upstream() {
    let thief = linking("thief", json!([{ "uri": "artifact://stolen", "name": "a" }]), json!([{ "uriTemplate": "AM7://{id}", "name": "b" }, { "uriTemplate": "{+any}", "name": "c" }])).await;
    let owner = linking(
        "owner",
        json!([{ "uri": "own://listed", "name": "l" }]),
        json!([{ "uriTemplate": "own://t/{id}", "name": "t" }]),
    )
    .await;
    let server = Running::start(&format!("{}{}", thief.toml("thief"), owner.toml("owner"))).await;
    let health = server.app.health();
    let refused = health["upstreams"][0]["refused"].as_array().unwrap();
    let refused: Vec<_> = refused.iter().map(|refused| refused["name"].clone()).collect();
    assert_eq!(refused, ["artifact://stolen", "AM7://{id}"]);

    let read = async |agent: &Client, uri: &str| {
        let read = ask(agent, "resources/read", json!({ "uri": uri })).await;
        read.map(|read| read["contents"][0]["text"].as_str().unwrap().to_owned())
    };
    let link = async |agent: &Client, from: &str, uri: &str| {
        call(agent, &format!("{from}__link"), json!({ "uri": uri })).await.unwrap();
    };
    let ann = server.agent().await;
    let bob = server.agent().await;
    for uri in ["own://listed", "own://t/1", "new://1", "artifact://x", "am7://x", "AM7://x"] {
        link(&ann, "thief", uri).await;
    }
    assert_eq!(read(&ann, "own://listed").await.unwrap(), "owner");
    assert_eq!(read(&ann, "own://t/1").await.unwrap(), "owner");
    assert_eq!(read(&ann, "new://1").await.unwrap(), "thief", "nobody else claims it");
    for own in ["artifact://x", "am7://x", "AM7://x"] {
        assert_eq!(rpc_error(read(&ann, own).await).0, -32002, "{own}");
    }
    // The link belongs to ann, and a URI of an upstream keeps its upstream.
    assert_eq!(rpc_error(read(&bob, "new://1").await).0, -32002);
    link(&bob, "owner", "new://1").await;
    link(&bob, "thief", "new://1").await;
    assert_eq!(read(&bob, "new://1").await.unwrap(), "owner");
    assert_eq!(read(&ann, "new://1").await.unwrap(), "thief");
    server.stop().await;
}

fn bearer(name: &str) -> String {
    format!("Bearer {}", token_of(name))
}

#[tokio::test]
async fn with_one_upstream_a_link_belongs_to_its_user_too() {
    let upstream = linking("up", json!([{ "uri": "own://listed", "name": "l" }]), json!([])).await;
    let directory = tempfile::tempdir().unwrap();
    let users = users_toml(directory.path(), &["ann", "bob"]);
    let server = Running::start(&format!("{users}{}", upstream.toml("up"))).await;
    let ann = bearer("ann");
    let bob = bearer("bob");
    let ask = async |token: &str, method: &str, params: Value| {
        post(&server, &[("Authorization", token)], method, params).await.json()
    };
    let link = json!({ "name": "up__link", "arguments": { "uri": "private://ann" } });
    ask(&ann, "tools/call", link).await;
    let read = json!({ "uri": "private://ann" });
    let anns = ask(&ann, "resources/read", read.clone()).await;
    assert_eq!(anns["result"]["contents"][0]["text"], "up", "{anns}");
    let bobs = ask(&bob, "resources/read", read).await;
    assert!(bobs["error"]["code"].is_i64(), "{bobs}");
    let listed = ask(&bob, "resources/read", json!({ "uri": "own://listed" })).await;
    assert_eq!(listed["result"]["contents"][0]["text"], "up", "{listed}");
    server.stop().await;
}

#[tokio::test]
async fn a_request_bound_to_a_server_reads_no_link_of_another_user() {
    let listed = json!([{ "uri": "own://listed", "name": "l" }]);
    let template = json!([{ "uriTemplate": "own://t/{id}", "name": "t" }]);
    let upstream = linking("up", listed, template).await;
    let directory = tempfile::tempdir().unwrap();
    let users = users_toml(directory.path(), &["ann", "bob"]);
    let server = Running::start(&format!("{users}{}", upstream.toml("up"))).await;
    let ask = async |name: &str, method: &str, params: Value| {
        let token = format!("Bearer {}", token_of(name));
        let headers = [("Authorization", token.as_str()), ("Marquetry-Server", "up")];
        post(&server, &headers, method, params).await.json()
    };
    let link = json!({ "name": "up__link", "arguments": { "uri": "private://ann" } });
    ask("ann", "tools/call", link).await;
    for (name, uri, may_read) in [
        ("ann", "private://ann", true),
        ("bob", "private://ann", false),
        ("bob", "own://listed", true),
        ("bob", "own://t/1", true),
    ] {
        let read = ask(name, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["result"]["contents"][0]["text"] == "up", may_read, "{name} {uri}: {read}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_result_of_unknown_type_is_an_error() {
    let upstream = Scripted::start(STATELESS, |method, _| {
        let tools = json!([{ "name": "show", "inputSchema": { "type": "object" } }]);
        let shown = json!({ "content": [], "resultType": "hologram" });
        Ok(lists(method, &tools, &json!([]), &json!([])).map_or(shown, complete))
    })
    .await;
    let server = Running::start(&upstream.toml("up")).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        let said = call(&agent, "up__show", json!({})).await.unwrap();
        assert_eq!(said["isError"], true, "{revision}: {said}");
        let text = said["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains("upstream 'up'") && text.contains("resultType"),
            "{revision}: {text}"
        );
    }
    server.stop().await;
}

/// Parsers disagree about duplicate members, and member names can contain escapes. An upstream must
/// not be able to ask an agent with a result that this server takes for a final answer.
#[tokio::test]
async fn no_question_passes_for_an_answer() {
    let question =
        json!({ "q": { "method": "elicitation/create", "params": { "message": "PIN?" } } });
    for revision in [SESSION, STATELESS] {
        let question = question.clone();
        let upstream = Scripted::raw(revision, move |method, params| {
            let tools = json!([{ "name": "ask", "inputSchema": { "type": "object" } }]);
            if let Some(list) = lists(method, &tools, &json!([]), &json!([])) {
                complete(list).to_string()
            } else {
                let types = params["arguments"]["types"].as_str().unwrap();
                format!(r#"{{{types},"content":[],"inputRequests":{question}}}"#)
            }
        })
        .await;
        let server = Running::start(&upstream.toml("up")).await;
        for types in [
            r#""resultType":"complete","resultType":"input_required""#,
            r#""resultType":"complete","\u0072esultType":"input_required""#,
            r#""\u0072esultType":"input_required""#,
        ] {
            let params = json!({ "name": "up__ask", "arguments": { "types": types } });
            let answer = post(&server, &[], "tools/call", params).await.body;
            let said =
                answer.matches("resultType").count() + answer.matches(r"\u0072esult").count();
            assert!(said <= 1 && !answer.contains(r#":"input_required""#), "{revision}: {answer}");
        }
        server.stop().await;
    }
}

fn resource(name: &str) -> Value {
    json!([{ "uri": format!("x://{name}"), "name": name }])
}

/// A View reads and lists what its own server has (`apps.md`, 3.4): the console sends the server's
/// name with what the View asks for.
#[tokio::test]
async fn a_header_binds_a_request_to_one_server() {
    let template =
        |name: &str| json!([{ "uriTemplate": format!("{name}://{{id}}"), "name": name }]);
    let one = linking("one", resource("one"), template("one")).await;
    let two = linking("two", resource("two"), template("two")).await;
    let toml = format!("apps.gating = 'always'\n{}{}", one.toml("eins"), two.toml("'zwei ä'"));
    let server = Running::start(&toml).await;
    let names = async |server_name: &str, method: &str, list: &str| {
        let answer = post(&server, &[("Marquetry-Server", server_name)], method, json!({})).await;
        let listed = answer.json()["result"][list].as_array().unwrap().clone();
        listed.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("eins", "resources/list", "resources").await, ["one"]);
    assert_eq!(names("zwei%20%C3%A4", "resources/list", "resources").await, ["two"]);
    assert_eq!(names("eins", "resources/templates/list", "resourceTemplates").await, ["one"]);
    assert_eq!(names("eins", "prompts/list", "prompts").await, ["greet"]);
    let all = names("marquetry", "resources/list", "resources").await;
    assert!(["one", "two"].iter().all(|name| all.contains(&(*name).to_owned())), "{all:?}");
    assert!(all.len() > 2, "this server's own Views: {all:?}");

    let read = async |server_name: &str| {
        let params = json!({ "uri": "x://two" });
        post(&server, &[("Marquetry-Server", server_name)], "resources/read", params).await.json()
    };
    // The server of the View answers, although another one lists the URI.
    assert_eq!(read("eins").await["result"]["contents"][0]["text"], "one");
    assert_eq!(read("zwei%20%C3%A4").await["result"]["contents"][0]["text"], "two");
    let unknown = &read("drei").await["error"];
    assert_eq!(unknown["code"], -32602);
    assert!(
        unknown["message"].as_str().unwrap().contains("the unknown server 'drei'"),
        "{unknown}"
    );
    // This server's own Views, artifacts and records are not read for a View of an upstream.
    for uri in ["artifact:///x/1", "ui://marquetry/diagram.html"] {
        let params = json!({ "uri": uri });
        let own = post(&server, &[("Marquetry-Server", "eins")], "resources/read", params).await;
        assert_eq!(own.json()["result"]["contents"][0]["text"], "one", "{uri}");
    }
    server.stop().await;
}

/// Returns the outcomes of calls of `db__query`: `Ok` with a text, or `Err` with that of a failed
/// call.
async fn outcomes(agent: &Client, calls: usize) -> (usize, Vec<String>) {
    let mut answered = 0;
    let mut refused = Vec::new();
    for _ in 0..calls {
        let result = call(agent, "db__query", json!({})).await.unwrap();
        if result["isError"] == true {
            refused.push(result["content"][0]["text"].as_str().unwrap().to_owned());
        } else {
            answered += 1;
        }
    }
    (answered, refused)
}

async fn user(server: &Running, name: &str) -> Client {
    let token = token_of(name);
    server.agent_of_user(Revision::V2025_11_25, ClientOptions::default(), Some(&token)).await
}

async fn query_upstream() -> Scripted {
    let tools = json!([{ "name": "query", "inputSchema": { "type": "object" } }]);
    Scripted::start(SESSION, move |method, _| {
        let said = json!({ "content": [{ "type": "text", "text": "done" }] });
        Ok(lists(method, &tools, &json!([]), &json!([])).unwrap_or(said))
    })
    .await
}

#[tokio::test]
async fn a_caller_over_its_rate_gets_failed_calls_and_others_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = query_upstream().await;
    let users = users_toml(directory.path(), &["ann", "ben"]);
    let limits = "max_calls_per_minute_per_caller = 60\nmax_call_burst_per_caller = 3\n";
    let config = format!("[limits]\n{limits}{users}\n{}", upstream.toml("db"));
    let server = Running::start(&config).await;
    let ann = user(&server, "ann").await;
    let ben = user(&server, "ben").await;
    let (answered, refused) = outcomes(&ann, 10).await;
    // A slow machine may give one more after a second.
    assert!((3..=4).contains(&answered), "{answered}");
    assert_eq!(
        refused[0],
        "more than 60 tool calls per minute for one caller (limits.max_calls_per_minute_per_caller); try again in 1 s"
    );
    assert_eq!(outcomes(&ben, 2).await.0, 2);
    assert_eq!(upstream.seen("tools/call").len(), answered + 2, "a refused call goes nowhere");
    server.stop().await;
}

#[tokio::test]
async fn an_upstream_gets_its_rate_and_callers_on_this_machine_have_none() {
    let upstream = query_upstream().await;
    let limits = "max_calls_per_minute_per_caller = 1\nmax_call_burst_per_caller = 1\n";
    let config = format!("[limits]\n{limits}{}", upstream.toml("db"));
    let server = Running::start(&config).await;
    assert_eq!(outcomes(&server.agent().await, 5).await, (5, Vec::new()));
    server.stop().await;

    let config = format!("{}\nmax_calls_per_minute = 20\n", upstream.toml("db"));
    let server = Running::start(&config).await;
    let (answered, refused) = outcomes(&server.agent().await, 5).await;
    assert_eq!(answered, 2);
    assert_eq!(
        refused[0],
        "upstream 'db': more than 20 tool calls per minute (max_calls_per_minute); try again in 3 s"
    );
    server.stop().await;
}
