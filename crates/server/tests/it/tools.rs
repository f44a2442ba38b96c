//! Captured answers, and the built-in tools that read them.

use marquetry_protocol::{Revision, client::CallOptions};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    support::{Running, ask, call, rpc_error, text_of, until, within},
    upstream::{HttpUpstream, PNG, SAVED_IMAGES},
};

/// A server with an upstream, and the artifacts of one call of each kind.
async fn captured(toml: &str) -> (Running, HttpUpstream, marquetry_protocol::client::Client) {
    let web = HttpUpstream::start().await;
    let seed = "[testing]\nseed = 7\nclock = '2026-01-01T00:00:00Z'\n";
    let server = Running::start(&format!("{seed}{}{toml}", web.toml("web"))).await;
    let agent = server.agent().await;
    (server, web, agent)
}

async fn artifact_names(agent: &marquetry_protocol::client::Client) -> Vec<String> {
    let listed = call(agent, "list_artifacts", json!({})).await.unwrap();
    let artifacts = listed["structuredContent"]["artifacts"].as_array().unwrap();
    artifacts.iter().map(|artifact| artifact["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_small_answer_is_not_changed() {
    let (server, _web, agent) = captured("").await;
    let answer = call(&agent, "web__echo", json!({"text": "small"})).await.unwrap();
    assert_eq!(answer, json!({"content": [{"type": "text", "text": "small"}]}));
    assert_eq!(artifact_names(&agent).await, Vec::<String>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_large_answer_is_saved_and_read_in_parts() {
    let (server, _web, agent) = captured("").await;
    let mut told = agent.notifications();
    let answer = call(&agent, "web__big", json!({"words": 20_000})).await.unwrap();
    let report = &answer["_meta"]["marquetry/capture"];
    assert_eq!(report["status"], "processed_saved_and_truncated");
    let name = report["save"]["artifacts"][0]["name"].as_str().unwrap();
    assert_eq!(artifact_names(&agent).await, [name]);
    until("the change is announced", async || {
        told.try_recv().is_ok_and(|told| &*told.method == "notifications/resources/list_changed")
    })
    .await;

    // The parts together are the whole. Answers of these tools are never captured.
    let mut text = String::new();
    let mut start = json!(0);
    while !start.is_null() {
        let arguments = json!({"name": name, "start_byte": start, "max_bytes": 50_000});
        let part = call(&agent, "read_artifact", arguments).await.unwrap();
        text += part["content"][0]["text"].as_str().unwrap();
        assert!(part["_meta"]["marquetry/capture"].is_null());
        start = part["_meta"]["marquetry/read"]["next_start_byte"].clone();
    }
    assert_eq!(text, "lorem ".repeat(20_000));

    let uri = report["save"]["artifacts"][0]["uri"].as_str().unwrap();
    let resource = ask(&agent, "resources/read", json!({"uri": uri})).await.unwrap();
    assert_eq!(resource["contents"][0]["text"].as_str().unwrap().len(), 120_000);
    assert_eq!(
        text_of(&agent, "read_artifact", json!({"name": uri, "max_bytes": 11})).await,
        "lorem lorem"
    );
    server.stop().await;
}

fn without_numbers(text: &str) -> String {
    let words = text.split_whitespace();
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_guide_quotes_what_the_model_sees() {
    let (server, _web, agent) = captured("").await;
    let answer = call(&agent, "web__big", json!({"words": 1_000_000})).await.unwrap();
    let content = answer["content"].as_array().unwrap();
    let texts: Vec<_> = content.iter().filter_map(|item| item["text"].as_str()).collect();
    let notice = texts.iter().find(|text| text.contains("The answer of")).unwrap();
    let said = notice.lines().find(|line| line.contains("The answer of")).unwrap();
    // Numbers and generated names differ between answers.
    let said = without_numbers(&said.replace("web__big", "files__read_text_file"));
    let guide = without_numbers(include_str!("../../../../docs/guide/artifacts.md"));
    assert!(guide.contains(&said), "docs/guide/artifacts.md must have: {said}");
    server.stop().await;
}

#[tokio::test]
async fn an_image_is_saved_and_read_as_an_image() {
    let (server, _web, agent) = captured(SAVED_IMAGES).await;
    let answer = call(&agent, "web__image", json!({})).await.unwrap();
    let artifacts = &answer["_meta"]["marquetry/capture"]["save"]["artifacts"];
    let image =
        artifacts.as_array().unwrap().iter().find(|a| a["mime_type"] == "image/png").unwrap();
    let read = call(&agent, "read_artifact", json!({"name": image["name"]})).await.unwrap();
    assert_eq!(read["content"][0], json!({"type": "image", "data": PNG, "mimeType": "image/png"}));

    // Too large for one answer, which describes it and says how to read it.
    let read = call(&agent, "read_artifact", json!({"name": image["name"], "max_bytes": 10}))
        .await
        .unwrap();
    let note = read["content"][0]["text"].as_str().unwrap();
    assert!(
        note.contains("It is an image and has 70 bytes") && note.contains("start_byte"),
        "{note}"
    );
    let range = json!({"name": image["name"], "start_byte": 0, "end_byte": 4});
    let read = call(&agent, "read_artifact", range).await.unwrap();
    assert_eq!(read["content"][0]["resource"]["blob"], "iVBORw==");

    let resource = ask(&agent, "resources/read", json!({"uri": image["uri"]})).await.unwrap();
    assert_eq!(resource["contents"][0]["blob"], PNG);
    server.stop().await;
}

#[tokio::test]
async fn capture_can_be_off_and_different_by_tool() {
    let toml = "capture.mcp_tool_llm_return_max_bytes = 100000\ntools.image.capture = false\n";
    let (server, _web, agent) = captured(toml).await;
    let image = call(&agent, "web__image", json!({})).await.unwrap();
    assert_eq!(image["content"][1]["data"], PNG);
    let big = call(&agent, "web__big", json!({"words": 10_000})).await.unwrap();
    assert_eq!(big["_meta"]["marquetry/capture"]["status"], "processed_and_saved");
    server.stop().await;
}

#[tokio::test]
async fn lines_are_read_by_number() {
    let (server, _web, agent) = captured("[artifacts]\npreset = 'small-context'\n").await;
    let text: String = (1..=1_000).map(|line| format!("line {line}\n")).collect();
    let answer = call(&agent, "web__echo", json!({"text": text})).await.unwrap();
    let name = &answer["_meta"]["marquetry/capture"]["save"]["artifacts"][0]["name"];
    let arguments = json!({"name": name, "start_line": 998, "line_count": 2});
    let read = call(&agent, "read_artifact", arguments).await.unwrap();
    assert_eq!(read["content"][0]["text"], "line 998\nline 999\n");
    assert_eq!(read["_meta"]["marquetry/read"]["next_start_line"], 1_000);
    let note = read["content"][1]["text"].as_str().unwrap();
    assert!(
        note.contains("Lines 998 to 999 of 1000") && note.contains("start_line=1000"),
        "{note}"
    );
    server.stop().await;
}

#[tokio::test]
async fn wrong_arguments_are_failed_calls_that_say_why() {
    let (server, _web, agent) = captured(SAVED_IMAGES).await;
    call(&agent, "web__image", json!({})).await.unwrap();
    let name =
        artifact_names(&agent).await.into_iter().find(|name| name.contains("image")).unwrap();
    let cases: Vec<(&str, Value, &str)> = vec![
        ("read_artifact", json!({}), "name"),
        ("read_artifact", json!({"name": "../x"}), "is not an artifact's name"),
        ("read_artifact", json!({"name": "nothing.txt"}), "nothing.txt"),
        ("read_artifact", json!({"name": name, "start_line": 1}), "is not text"),
        ("read_artifact", json!({"name": name, "start_line": 0}), "start_line"),
        ("read_artifact", json!({"name": name, "start_line": 1, "start_byte": 1}), "either lines"),
        ("read_artifact", json!({"name": name, "start_byte": 70}), "which has 70"),
        ("read_artifact", json!({"name": name, "start_byte": 3, "end_byte": 3}), "are not part of"),
        ("read_artifact", json!({"name": name, "version": 9}), "9"),
        ("read_artifact", json!({"name": name, "lines": 9}), "lines"),
        ("list_artifacts", json!({"cursor": "../x"}), "cursor"),
        (
            "encodePlantUML",
            json!({"plantumlCode": " "}),
            "plantumlCode is required and cannot be empty",
        ),
        (
            "encodePlantUML",
            json!({"plantumlCode": "x".repeat(51_201)}),
            "exceeds maximum size of 50KB",
        ),
        ("decodePlantUML", json!({"code": "!"}), "Failed to decode"),
    ];
    for (tool, arguments, want) in cases {
        let answer = call(&agent, tool, arguments.clone()).await.unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["isError"], true, "{tool} {arguments}: {answer}");
        assert!(text.contains(want), "{tool} {arguments}: {text}");
    }
    for uri in ["artifact://nothing.txt", "artifact://..%2Fx", "artifact:"] {
        assert_eq!(
            rpc_error(ask(&agent, "resources/read", json!({"uri": uri})).await).0,
            -32002,
            "{uri}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn half_a_surrogate_pair_cannot_be_encoded() {
    let server = Running::start("").await;
    let agent = server.agent().await;
    let params =
        to_raw_value(&json!({"name": "encodePlantUML", "arguments": {"plantumlCode": "X"}}));
    let params = params.unwrap().get().replace('X', "A -> B : \\ud800");
    let params = RawValue::from_string(params).unwrap();
    let answer = agent.request("tools/call", Some(&params), CallOptions::default());
    let answer: Value = serde_json::from_str(within(answer).await.unwrap().get()).unwrap();
    assert_eq!(answer["isError"], true);
    assert_eq!(answer["content"][0]["text"], "Failed to encode PlantUML code");
    assert_eq!(answer["_meta"]["marquetry/error"], json!({"code": "ENCODING_FAILED"}));
    server.stop().await;
}

#[tokio::test]
async fn artifacts_are_resources_in_pages() {
    let toml = format!("{SAVED_IMAGES}[limits]\nlist_page_size = 2\n");
    let (server, _web, agent) = captured(&toml).await;
    for _ in 0..3 {
        call(&agent, "web__image", json!({})).await.unwrap();
    }
    let listed = agent.list_resources().await.unwrap();
    let mut uris: Vec<_> = listed.iter().map(|resource| resource.uri.clone()).collect();
    let artifacts = uris.iter().filter(|uri| uri.starts_with("artifact://")).count();
    assert!(uris[0] == "test://static" && artifacts >= 3, "{uris:?}");
    uris.sort();
    uris.dedup();
    assert_eq!(uris.len(), listed.len());

    let page = call(&agent, "list_artifacts", json!({"limit": 1})).await.unwrap();
    let cursor = &page["structuredContent"]["next_cursor"];
    let next = call(&agent, "list_artifacts", json!({"limit": 1, "cursor": cursor})).await.unwrap();
    assert_ne!(page["structuredContent"]["artifacts"], next["structuredContent"]["artifacts"]);
    let none = call(&agent, "list_artifacts", json!({"filter": "no such thing"})).await.unwrap();
    assert_eq!(none["structuredContent"], json!({"artifacts": []}));
    let some = call(&agent, "list_artifacts", json!({"filter": "PNG"})).await.unwrap();
    assert_eq!(some["structuredContent"]["artifacts"].as_array().unwrap().len(), 3);
    server.stop().await;
}

#[tokio::test]
async fn diagrams_are_encoded_in_both_eras() {
    let server = Running::start("").await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        let diagram =
            call(&agent, "encodePlantUML", json!({"plantumlCode": "A --> B"})).await.unwrap();
        let url = "https://www.plantuml.com/plantuml/svg/SrJGrRLJS080";
        assert_eq!(diagram["structuredContent"]["url"], url);
        let text: Value =
            serde_json::from_str(diagram["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, diagram["structuredContent"]);
        let back = call(&agent, "decodePlantUML", json!({"code": url})).await.unwrap();
        assert_eq!(back["structuredContent"]["plantumlCode"], "@startuml\nA --> B\n@enduml");
    }
    server.stop().await;
}

/// Returns the tools in a client's list, and their size in bytes.
async fn listed(toml: &str) -> (Vec<String>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("knowledge.db");
    let knowledge = format!("[knowledge]\nenabled = true\ndatabase = {database:?}\n");
    let server = Running::start(&format!("{knowledge}{toml}")).await;
    let agent = server.agent().await;
    let listed = ask(&agent, "tools/list", json!({})).await.unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len() + 1).sum();
    for tool in tools {
        println!("{:6} {}", tool.to_string().len(), tool["name"]);
    }
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    server.stop().await;
    (names, bytes)
}

#[tokio::test]
async fn our_own_tools_cost_a_client_at_most_14_kib() {
    let (names, bytes) = listed("").await;
    assert!(!names.iter().any(|name| name == "am7_chat"), "there is no model: {names:?}");
    assert!(names.iter().any(|name| name == "am7_vector_search"), "{names:?}");
    assert!(bytes <= 14 << 10, "{bytes} bytes");
    let model = "[knowledge.chat]\nprovider = 'ollama'\nmodel = 'qwen3:4b'\n";
    let (names, bytes) = listed(model).await;
    assert!(names.iter().any(|name| name == "am7_chat"), "{names:?}");
    assert!(bytes <= 14 << 10, "{bytes} bytes");
}

#[tokio::test]
async fn groups_of_tools_are_switched_off() {
    let (names, bytes) = listed("[tools]\nknowledge = false\ndiagrams = false\n").await;
    assert!(bytes <= 4 << 10, "all artifact tools have {bytes} bytes");
    assert!(
        names.iter().all(|name| name.ends_with("artifacts") || name.ends_with("artifact")),
        "{names:?}"
    );
    assert!(names.iter().any(|name| name == "read_artifact"), "{names:?}");
    let (names, _) = listed("[tools]\nartifacts = false\nchat = false\n[knowledge.chat]\nprovider = 'ollama'\nmodel = 'm'\n").await;
    assert!(
        names.iter().all(|name| name.starts_with("am7_") || name.ends_with("PlantUML")),
        "{names:?}"
    );
    assert!(!names.iter().any(|name| name == "am7_chat"), "{names:?}");
    let server = Running::start("[tools]\ndiagrams = false\n").await;
    let agent = server.agent().await;
    let (code, message) =
        rpc_error(call(&agent, "encodePlantUML", json!({"plantumlCode": "a"})).await);
    assert_eq!((code, message.as_str()), (-32602, "unknown tool 'encodePlantUML'"));
    let (code, message) = rpc_error(call(&agent, "encodePlantUML", json!({})).await);
    assert_eq!((code, message.as_str()), (-32602, "unknown tool 'encodePlantUML'"));
    server.stop().await;
}

#[tokio::test]
async fn texts_do_not_mention_tools_that_are_switched_off() {
    let (server, _web, agent) = captured("[tools]\nartifacts = false\nknowledge = false\n").await;
    let instructions = agent.server().instructions.clone().unwrap();
    for tool in ["list_artifacts", "read_artifact", "am7_vector_search"] {
        assert!(!instructions.contains(tool), "{instructions}");
    }
    let answer = call(&agent, "web__big", json!({"words": 20_000})).await.unwrap();
    assert_eq!(answer["_meta"]["marquetry/capture"]["status"], "processed_saved_and_truncated");
    let text = answer["content"].to_string();
    assert!(!text.contains("_artifact"), "{}", &text[..2_000]);
    server.stop().await;
    let (server, _web, agent) = captured("").await;
    let instructions = agent.server().instructions.clone().unwrap();
    for tool in ["list_artifacts", "read_artifact"] {
        assert!(instructions.contains(tool), "{instructions}");
    }
    server.stop().await;
}
