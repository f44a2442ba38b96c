//! The argument `_select` of upstreams' tools.

use marquetry_apps_ext::types::declare_client;
use marquetry_protocol::{
    Revision,
    client::{Client, ClientOptions},
};
use serde_json::{Value, json};

use crate::{
    support::{Running, ask, call},
    upstream::{DataUpstream, log},
};

async fn server(toml: &str) -> (Running, DataUpstream) {
    let upstream = DataUpstream::default();
    let server = Running::start(&format!("{toml}\n{}", upstream.start().await)).await;
    (server, upstream)
}

const ON: &str = "[artifacts]\nprojections = true";

async fn listed(agent: &Client, name: &str) -> Value {
    let list = ask(agent, "tools/list", json!({})).await.unwrap();
    let tools = list["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_gets_three_fields_of_a_large_answer() {
    let (server, upstream) = server(ON).await;
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        let arguments =
            json!({"q": "x", "_select": ".[] | select(.id == 1321) | {id, name, price}"});
        let answer = call(&agent, "data__rows", arguments).await.unwrap();
        assert_eq!(text(&answer), r#"{"id":1321,"name":"user 1321","price":3963}"#);
        assert_eq!(upstream.last_arguments(), json!({"q": "x"}));
        assert_eq!(answer["content"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!(answer.get("isError"), None);

        let arguments = json!({"_select": "[.rows[].price] | add, length"});
        let answer = call(&agent, "data__structured", arguments).await.unwrap();
        assert_eq!(text(&answer), "5997000\n2000");
        assert_eq!(answer.get("structuredContent"), None);
        assert_eq!(upstream.last_arguments(), json!({}));

        // A large selection is captured like any answer.
        let large = call(&agent, "data__rows", json!({"_select": ".[]"})).await.unwrap();
        assert_eq!(large["_meta"]["marquetry/capture"]["save"]["status"], "success", "{large}");
        assert!(large.to_string().len() < 100_000);
    }
    let call = json!({"name": "data__rows", "arguments": {"_select": ".[7].name"}});
    let headers = [("Content-Type", "application/json")];
    let rest =
        server.http("POST", "/mcp/v1/tools/call", &headers, call.to_string().as_bytes()).await;
    assert_eq!(text(&rest.json()), "\"user 7\"");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_announces_the_argument() {
    let (server, upstream) = server(ON).await;
    let agent = server.agent().await;
    for name in ["data__rows", "data__structured", "data__shown"] {
        let tool = listed(&agent, name).await;
        assert_eq!(tool["inputSchema"]["properties"]["_select"]["type"], "string", "{tool}");
        assert_eq!(tool.get("outputSchema"), None);
        assert!(tool["description"].as_str().unwrap().contains("_select"));
        assert!(jsonschema::is_valid(&tool["inputSchema"], &json!({"_select": "."})));
    }
    let own = listed(&agent, "data__own").await;
    assert_eq!(own["description"], "Returns data.");
    let answer = call(&agent, "data__own", json!({"_select": ".a"})).await.unwrap();
    assert_eq!(text(&answer), r#"{"_select":".a"}"#);
    assert_eq!(upstream.last_arguments(), json!({"_select": ".a"}));
    let built_in = listed(&agent, "list_artifacts").await;
    assert_eq!(built_in["inputSchema"]["properties"].get("_select"), None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_nothing_changes() {
    let (server, upstream) = server("").await;
    let agent = server.agent().await;
    let tool = listed(&agent, "data__structured").await;
    assert_eq!(tool["inputSchema"]["properties"].get("_select"), None);
    assert!(tool.get("outputSchema").is_some() && tool["description"] == "Returns data.");
    call(&agent, "data__log", json!({"_select": ".a"})).await.unwrap();
    assert_eq!(upstream.last_arguments(), json!({"_select": ".a"}));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_selections_lose_nothing() {
    let (server, upstream) = server(ON).await;
    let agent = server.agent().await;
    for (tool, program, problem) in [
        ("data__log", ".", "not JSON"),
        ("data__rows", ".[0].name.x", "failed"),
        ("data__rows", "def f: f; f", "longer than"),
    ] {
        let answer = call(&agent, tool, json!({"_select": program})).await.unwrap();
        assert_eq!(answer["isError"], true, "{program}: {answer}");
        let said = text(&answer);
        assert!(said.starts_with("_select: ") && said.contains(problem), "{said}");
        assert!(said.contains("was called") && answer.to_string().len() < 8_000, "{answer}");
        let save = &answer["_meta"]["marquetry/capture"]["save"];
        let name = save["artifacts"][0]["name"].as_str().unwrap();
        assert!(said.contains(name), "{said}");
        if tool == "data__log" {
            let whole = json!({"name": name, "max_bytes": 200_000});
            let whole = call(&agent, "read_artifact", whole).await.unwrap();
            assert_eq!(text(&whole), log());
        }
    }
    // The artifact answers the query that failed for its time or its program.
    let before = upstream.called.lock().unwrap().len();
    for (program, problem) in [(json!(".["), "not valid"), (json!(7), "must be a jq program")] {
        let answer = call(&agent, "data__rows", json!({"_select": program})).await.unwrap();
        assert_eq!(answer["isError"], true);
        assert!(text(&answer).contains(problem), "{answer}");
    }
    assert_eq!(upstream.called.lock().unwrap().len(), before, "a wrong program calls no tool");
    let failed = call(&agent, "data__fails", json!({"_select": ".a"})).await.unwrap();
    assert_eq!((&failed["isError"], text(&failed)), (&json!(true), "{\"a\": 1}"));
    let absent = call(&agent, "data__own", json!({"_select": null})).await.unwrap();
    assert_eq!(absent.get("isError"), None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_selection_saves_nothing_where_capture_is_off() {
    let policy = "[[artifacts.policies]]\nserver = \"data\"\ncapture = false";
    let (server, _) = server(&format!("{ON}\n{policy}")).await;
    let agent = server.agent().await;
    let answer = call(&agent, "data__log", json!({"_select": "."})).await.unwrap();
    let said = text(&answer);
    assert!(said.contains("not JSON") && said.contains("not saved, and follows whole"), "{said}");
    assert_eq!((&answer["isError"], &answer["content"][1]["text"]), (&json!(true), &json!(log())));
    let structured = call(&agent, "data__structured", json!({"_select": ".rows.x"})).await.unwrap();
    assert_eq!(structured["structuredContent"]["rows"].as_array().unwrap().len(), 2_000);
    let list = call(&agent, "list_artifacts", json!({})).await.unwrap();
    assert_eq!(list["structuredContent"]["artifacts"], json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_gets_the_whole_answer() {
    let (server, upstream) = server(ON).await;
    let mut options = ClientOptions::default();
    declare_client(&mut options.capabilities);
    let agent = server.agent_with(Revision::V2025_11_25, options).await;
    let tool = listed(&agent, "data__shown").await;
    assert_eq!(tool["inputSchema"]["properties"].get("_select"), None, "{tool}");
    let answer = call(&agent, "data__shown", json!({"_select": ".points"})).await.unwrap();
    assert_eq!(answer["structuredContent"], json!({"points": [1, 2]}));
    assert_eq!(upstream.last_arguments(), json!({}));
    // A client without Views gets what it selects.
    let plain = server.agent().await;
    let answer = call(&plain, "data__shown", json!({"_select": ".points"})).await.unwrap();
    assert_eq!(text(&answer), "[1,2]");
    server.stop().await;
}
