//! Each built-in tool answers a call that asks for no size with at most 2,000 tokens, however much
//! is stored.

use std::{fmt::Write as _, sync::Arc, time::SystemTime};

use marquetry::{App, Config};
use marquetry_artifacts::{ArtifactName, ArtifactStore as _, MemoryStore, NewArtifact, Scope};
use marquetry_protocol::client::Client;
use serde_json::{Value, json};

use crate::support::{Running, call, tool_names};

/// Most tokens of an answer, of text and structured content together.
const MAX_TOKENS: u64 = 2_000;

/// Tools without the limit, each with the reason.
const WITHOUT_LIMIT: [(&str, &str); 5] = [
    ("am7_embed", "returns vectors to programs, which cannot use a part of one"),
    ("am7_chat", "returns the answer of a model, which has a limit of its own"),
    ("encodePlantUML", "returns a URL as long as the diagram in its arguments"),
    ("decodePlantUML", "returns a diagram, of which a part cannot be drawn"),
    ("renderPlantUML", "returns a picture"),
];

/// A store of many records and artifacts, of every kind that is expensive to show.
struct LargeStore {
    server: Running,
    agent: Client,
    folder: tempfile::TempDir,
    document: String,
    note: String,
}

impl LargeStore {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("knowledge.db");
        let toml = format!("[knowledge]\ndatabase = {database:?}\n");
        let store = Arc::new(MemoryStore::default());
        for number in 0..300 {
            let name =
                ArtifactName::parse(&format!("report_{number:03}_of_the_year.json")).unwrap();
            let rows: Vec<_> = (0..2_000).map(|id| json!({"id": id, "price": id * 3})).collect();
            let content = json!(rows).to_string();
            let artifact =
                NewArtifact::new(name, "application/json", SystemTime::UNIX_EPOCH, content.into());
            store.put(&Scope::local(), artifact).await.unwrap();
        }
        for (name, mime_type, content) in [
            ("digits.csv", "text/csv", "1,2,3,4,5,6,7,8\n".repeat(20_000)),
            ("one_line.txt", "text/plain", "x1Y2".repeat(50_000)),
            ("bytes.bin", "application/octet-stream", "\u{0}\u{1}z".repeat(5_000)),
        ] {
            let name = ArtifactName::parse(name).unwrap();
            let artifact =
                NewArtifact::new(name, mime_type, SystemTime::UNIX_EPOCH, content.into());
            store.put(&Scope::local(), artifact).await.unwrap();
        }
        let config = Config::from_toml(&toml, "test.toml").unwrap();
        let app = App::builder(config).store(store).start().await.unwrap();
        let server = Running::serve(app).await;
        let agent = server.agent().await;
        let mut large =
            Self { server, agent, folder, document: String::new(), note: String::new() };
        large.fill().await;
        large
    }

    async fn fill(&mut self) {
        let mut tags = Vec::new();
        for number in 0..60 {
            let tag = json!({"type": "common.tag", "name": format!("tag {number}")});
            tags.push(self.data("am7_create_object", tag).await["uri"].clone());
        }
        for number in 0..80 {
            let mut attributes = json!({"text": "A long note. ".repeat(900)});
            for attribute in 0..60 {
                attributes[format!("attribute{attribute}")] = json!("some words of it ".repeat(12));
            }
            let new = json!({
                "type": "data.note",
                "name": format!("note {number:02}"),
                "groupPath": "~/Notes/Of this year/And this month",
                "attributes": attributes,
                "tags": tags,
            });
            self.note = self.uri_of("am7_create_object", new).await;
        }
        let mut text = String::new();
        for chapter in 0..60 {
            write!(text, "# Chapter {chapter}\n\n").unwrap();
            for line in 0..80 {
                writeln!(text, "Loaf {line} of bread in chapter {chapter} costs {line}{chapter}.")
                    .unwrap();
            }
        }
        let new = json!({
            "type": "data.data",
            "name": "loaves",
            "content": text,
            "mediaType": "text/markdown",
        });
        self.document = self.uri_of("am7_create_object", new).await;
    }

    /// Calls a tool, and returns its answer, which must be within the limit.
    async fn answer(&self, tool: &str, arguments: Value) -> Value {
        let answer = call(&self.agent, tool, arguments.clone()).await.unwrap();
        assert_ne!(answer["isError"], true, "{tool} {arguments}: {answer}");
        let tokens = tokens_of(&answer);
        assert!(tokens <= MAX_TOKENS, "{tool} {arguments} has {tokens} tokens: {answer}");
        answer
    }

    /// Calls a tool as [`Self::answer`] does, and returns its data.
    async fn data(&self, tool: &str, arguments: Value) -> Value {
        self.answer(tool, arguments).await["structuredContent"].take()
    }

    async fn uri_of(&self, tool: &str, arguments: Value) -> String {
        self.data(tool, arguments).await["uri"].as_str().unwrap().to_owned()
    }
}

/// Returns the tokens of an answer for a client that shows its model all of it.
fn tokens_of(answer: &Value) -> u64 {
    let mut tokens = answer
        .get("structuredContent")
        .map_or(0, |data| marquetry_tokens::estimate(&data.to_string()));
    for item in answer["content"].as_array().unwrap() {
        let resource = &item["resource"];
        for text in [&item["text"], &resource["text"], &resource["uri"], &resource["blob"]] {
            tokens += text.as_str().map_or(0, marquetry_tokens::estimate);
        }
    }
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn every_built_in_tool_answers_within_its_limit() {
    let store = LargeStore::start().await;
    let document = store.document.clone();
    let note = store.note.clone();
    let dense = "{\"digits\":[1,2,3,4]}\u{1}".repeat(4_000);
    let calls = [
        (
            "am7_create_object",
            json!({"type": "data.data", "name": "other", "content": "Some text."}),
        ),
        ("am7_get_object", json!({"uri": note})),
        ("am7_get_object", json!({"uri": document, "includeContent": true})),
        ("am7_update_object", json!({"uri": note, "attributes": {"more": "x"}})),
        ("am7_list_objects", json!({})),
        ("am7_list_objects", json!({"type": "data.note", "details": true})),
        ("am7_vectorize", json!({"uri": document})),
        ("am7_vector_search", json!({"query": "bread"})),
        ("am7_extract_content", json!({"uri": document})),
        ("am7_extract_content", json!({"uri": document, "format": "markdown"})),
        ("am7_extract_content", json!({"uri": document, "format": "structured"})),
        ("am7_extract_content", json!({"uri": note})),
        ("am7_chunk_content", json!({"uri": document, "preview": true})),
        ("am7_chunk_content", json!({"uri": document, "preview": true, "chunkType": "CHAPTER"})),
        (
            "am7_chunk_content",
            json!({"content": dense, "chunkType": "WORD", "chunkSize": 9, "preview": true}),
        ),
        ("am7_delete_object", json!({"uri": document})),
        ("list_artifacts", json!({})),
        ("list_artifacts", json!({"details": true})),
        ("read_artifact", json!({"name": "report_007_of_the_year.json"})),
        ("read_artifact", json!({"name": "digits.csv"})),
        ("read_artifact", json!({"name": "digits.csv", "start_line": 10})),
        ("read_artifact", json!({"name": "one_line.txt", "start_byte": 7})),
        ("read_artifact", json!({"name": "bytes.bin"})),
        ("read_artifact", json!({"name": "bytes.bin", "start_byte": 0})),
        ("search_artifact", json!({"name": "digits.csv", "pattern": "2", "max_matches": 1000})),
        ("search_artifact", json!({"name": "report_007_of_the_year.json", "words": ["price"]})),
        ("query_artifact", json!({"name": "report_007_of_the_year.json", "jq": ".[]"})),
        ("query_artifact", json!({"name": "digits.csv", "sql": "select * from data"})),
        ("delete_artifact", json!({"name": "digits.csv"})),
    ];
    for (tool, arguments) in &calls {
        store.answer(tool, arguments.clone()).await;
    }
    for tool in tool_names(&store.agent).await {
        let is_called = calls.iter().any(|(called, _)| *called == tool);
        let is_exempt = WITHOUT_LIMIT.iter().any(|(exempt, _)| *exempt == tool);
        assert!(is_called != is_exempt, "{tool} is either measured here or named as an exception");
    }
    store.server.stop().await;
    drop(store.folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_join_to_the_whole_and_arguments_ask_for_more() {
    let store = LargeStore::start().await;
    let uri = &store.document;
    let whole = json!({"uri": uri, "length": 1_000_000});
    let whole = call(&store.agent, "am7_extract_content", whole).await.unwrap();
    let whole = whole["structuredContent"]["content"].as_str().unwrap().to_owned();
    let mut joined = String::new();
    let mut start = json!(0);
    // Half of limits.max_own_answer_bytes.
    while joined.len() < 65_536 {
        let part = store.data("am7_extract_content", json!({"uri": uri, "start": start})).await;
        let content = part["content"].as_str().unwrap();
        assert!(content.len() > 1_000, "{part}");
        joined.push_str(content);
        start = part["nextStart"].clone();
    }
    assert!(joined.starts_with(&whole) && whole.len() == 65_536, "{} bytes", whole.len());
    let part =
        store.data("am7_extract_content", json!({"uri": uri, "start": 7, "length": 9})).await;
    assert_eq!((&part["start"], &part["content"]), (&json!(7), &json!(&whole[7..16])));
    assert_eq!(part["nextStart"], 16);

    // Pages of the list have each record once.
    let mut uris = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({"type": "data.note"});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = store.data("am7_list_objects", arguments).await;
        let objects = page["objects"].as_array().unwrap();
        let is_last = page["nextCursor"].is_null();
        assert!(objects.len() >= 8 || is_last, "{page}");
        uris.extend(objects.iter().map(|it| it["uri"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    uris.sort();
    uris.dedup();
    assert_eq!(uris.len(), 80);
    let all = json!({"type": "data.note", "limit": 80});
    let all = call(&store.agent, "am7_list_objects", all).await.unwrap();
    assert_eq!(all["structuredContent"]["objects"].as_array().unwrap().len(), 80);

    let whole = json!({"uri": store.note, "whole": true});
    let whole = call(&store.agent, "am7_get_object", whole).await.unwrap();
    let whole = &whole["structuredContent"];
    assert_eq!(whole["attributes"].as_object().unwrap().len(), 61);
    assert_eq!(whole.get("attributesOmitted"), None);
    let short = store.data("am7_get_object", json!({"uri": store.note})).await;
    let omitted = short["attributesOmitted"].as_str().unwrap();
    assert!(omitted.contains("text (") && omitted.contains("whole"), "{omitted}");
    store.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_around_a_citation_has_the_passage() {
    let store = LargeStore::start().await;
    store.data("am7_vectorize", json!({"uri": store.document})).await;
    let query = json!({"query": "bread in chapter 47", "scopeUri": store.document});
    let found = store.data("am7_vector_search", query).await;
    let passage = &found["results"][0];
    for format in ["text", "markdown"] {
        let around = json!({"uri": passage["uri"], "format": format});
        let around = store.data("am7_extract_content", around).await;
        let text = around["content"].as_str().unwrap();
        assert!(text.contains(passage["text"].as_str().unwrap()), "{passage} {around}");
        assert_eq!(around["sourceUri"], *store.document);
        assert!(around["start"].as_u64() < passage["start"].as_u64(), "{around}");
    }
    let missing =
        json!({"uri": "am7://default/common.vectorModelStore/00000000000000000000000000000000"});
    let missing = call(&store.agent, "am7_extract_content", missing).await.unwrap();
    assert_eq!(missing["isError"], true, "{missing}");
    store.server.stop().await;
}
