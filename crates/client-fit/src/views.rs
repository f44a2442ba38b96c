//! What the model behind each known client sees of twelve answers and those of a tool with a View,
//! by the client's rules.

use std::{fmt::Write as _, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    Capturer, MemoryStore, Report, Scope, ToolCall, ViewUse, settings::ArtifactOptions,
    source::SeededIds,
};
use marquetry_client_profiles::{ClientProfile, Shows, known_clients};
use serde_json::{Value, json, value::to_raw_value};

use crate::Client;

/// The smallest PNG that decoders accept.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Beginning of an answer in which a client that cuts it still shows the notice.
const NOTICE_WITHIN: usize = 500;

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn image(mime_type: &str, data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": mime_type})
}

/// The answers, each with its name and its tool's output schema.
fn answers() -> Vec<(&'static str, Value, Option<Value>)> {
    let file: String = (0..2_000).map(|line| format!("line {line} of a file of text\n")).collect();
    let entities: Vec<_> = (0..2_000)
        .map(|id| json!({"name": format!("entity {id}"), "entityType": "thing"}))
        .collect();
    let graph = json!({"entities": entities});
    let graph_schema = json!({
        "type": "object",
        "properties": {"entities": {"type": "array", "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "entityType": {"type": "string"}},
            "required": ["name", "entityType"],
            "additionalProperties": false,
        }}},
        "required": ["entities"],
        "additionalProperties": false,
    });
    let file_schema = json!({
        "type": "object",
        "properties": {"content": {"type": "string"}},
        "required": ["content"],
        "additionalProperties": false,
    });
    let rows: Vec<_> = (0..10_000).map(|id| json!({"id": id, "price": id * 3})).collect();
    let csv: String = (0..20_000).map(|id| format!("{id},{}\n", id * 3)).collect();
    let log: String =
        (0..8_000).map(|id| format!("2026-11-28 INFO request {id} served\n")).collect();
    let large_svg = STANDARD.encode("<svg xmlns='http://www.w3.org/2000/svg'/>");
    vec![
        (
            "file",
            json!({"content": [text(&file)], "structuredContent": {"content": file}}),
            Some(file_schema),
        ),
        (
            "graph",
            json!({"content": [text(graph.to_string())], "structuredContent": graph}),
            Some(graph_schema),
        ),
        ("json", json!({"content": [text(json!(rows).to_string())]}), None),
        ("csv", json!({"content": [text(format!("id,price\n{csv}"))]}), None),
        ("log", json!({"content": [text(log.clone())]}), None),
        ("images", json!({"content": vec![image("image/png", PNG); 20]}), None),
        (
            "mixed",
            json!({"content": [text("two"), image("image/svg+xml", &large_svg), text(log)]}),
            None,
        ),
        ("error", json!({"content": [text("it failed")], "isError": true}), None),
        (
            "small",
            json!({"content": [text(r#"{"n":1}"#)], "structuredContent": {"n": 1}}),
            Some(json!({"type": "object"})),
        ),
        (
            "resource",
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "short"}}]}),
            None,
        ),
        (
            "link",
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}),
            None,
        ),
        ("tiny image", json!({"content": [image("image/png", PNG)]}), None),
    ]
}

/// The answers with the use that a View makes of them. The large one with text and structured
/// content comes from a tool with a View, too: for a client that shows it, and for one that does
/// not.
fn answers_and_views() -> Vec<(&'static str, Value, Option<Value>, ViewUse)> {
    let (_, graph, schema) = answers().remove(1);
    let views = [("view", ViewUse::Shown), ("view, not shown", ViewUse::NotShown)]
        .map(|(name, view)| (name, graph.clone(), schema.clone(), view));
    answers()
        .into_iter()
        .map(|(name, answer, schema)| (name, answer, schema, ViewUse::NoView))
        .chain(views)
        .collect()
}

/// Captures an answer for a client; the report is `None` if it passed unchanged.
async fn captured(
    client: &Client,
    answer: &Value,
    schema: Option<&Value>,
    view: ViewUse,
) -> (Value, Option<Report>) {
    let capturer = Capturer::new(Arc::new(MemoryStore::default())).ids(Arc::new(SeededIds::new(7)));
    let scope = Scope::local();
    let settings = ArtifactOptions::default().settings();
    let call = ToolCall::new(&scope, "srv__tool")
        .with_output_schema(schema)
        .with_audience(Some(client.audience(&settings)))
        .with_view(view);
    let captured = capturer.capture(call, &settings, to_raw_value(answer).unwrap()).await;
    let report = captured.report().cloned();
    (serde_json::from_str(captured.into_result().get()).unwrap(), report)
}

/// Returns the text that the model sees, by the client's rules, and the number of images.
fn view(profile: &ClientProfile, result: &Value) -> (String, usize) {
    let items = result["content"].as_array().unwrap();
    let mut seen = String::new();
    let structured = result.get("structuredContent");
    if structured.is_none() || profile.shows != Shows::Structured {
        for item in items {
            seen.push_str(item["text"].as_str().or(item["uri"].as_str()).unwrap_or_default());
            seen.push_str(item["resource"]["text"].as_str().unwrap_or_default());
        }
    }
    if let Some(structured) = structured.filter(|_| profile.shows != Shows::Content) {
        seen.push_str(&structured.to_string());
    }
    (seen, items.iter().filter(|item| item["type"] == "image").count())
}

#[tokio::test]
async fn each_client_sees_the_notice_and_no_more_than_fits() {
    let mut table = String::new();
    let profiles = known_clients().iter().cloned().chain([ClientProfile::default()]);
    for profile in profiles {
        writeln!(table, "{}", profile.title).unwrap();
        let client = Client::new(profile.clone(), false);
        for (name, answer, schema, view_use) in answers_and_views() {
            let (result, report) = captured(&client, &answer, schema.as_ref(), view_use).await;
            let (seen, images) = view(&profile, &result);
            let case = format!("{} {name}", profile.title);
            let is_cut = report.as_ref().is_some_and(|report| report.truncated.is_some());
            if is_cut {
                let beginning = &seen[..seen.floor_char_boundary(NOTICE_WITHIN)];
                let artifact = &report.as_ref().unwrap().save.artifacts[0].name;
                assert!(beginning.contains(artifact.as_str()), "{case}: {beginning}");
            }
            if let Some(structured) = result.get("structuredContent") {
                // A client without output schemas does not check it.
                let schema = schema.unwrap_or(Value::Bool(true));
                assert!(jsonschema::is_valid(&schema, structured), "{case}");
                assert!(!is_cut || !profile.replaces_text(), "{case}");
            }
            if view_use == ViewUse::Shown {
                // The View reads any part of the result, so the model sees all of it as well.
                assert_eq!(result["content"], answer["content"], "{case}");
                assert_eq!(result["structuredContent"], answer["structuredContent"], "{case}");
            } else {
                // The notice is added to what is shown; a client's limit has room for it.
                let tokens = marquetry_tokens::estimate(&seen);
                // An unknown client may show one of two equal parts, or both.
                let texts = if profile.name.is_none() { 2 } else { 1 };
                assert!(
                    tokens <= texts * (profile.shown_tokens() * 115 / 100 + 1_000),
                    "{case}: {tokens}"
                );
            }
            let how = match (is_cut, report.is_some()) {
                (true, _) => "notice first",
                (false, true) => "whole, saved",
                (false, false) => "unchanged",
            };
            writeln!(
                table,
                "  {name}: {how}, {} kB of text, {images} images",
                seen.len().div_ceil(1_000)
            )
            .unwrap();
        }
    }
    expect_test::expect_file!["views.txt"].assert_eq(&table);
}
