//! Settings and policies: which keys there are, what each does to an answer, and small items.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use expect_test::expect;
use marquetry_artifacts::{
    Artifact, ArtifactStore, Audience, Captured, Capturer, MemoryStore, Scope, Settings, ToolCall,
    Version,
    glob::Glob,
    report::{Outcome, Report, SaveStatus, Status},
    settings::{
        ArtifactOptions, Capture, CaptureLevel, CapturePolicy, Oversize, Processing, SettingsPatch,
    },
    source::{FixedClock, SeededIds},
    store::Page,
};
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The result of capturing one answer.
struct Seen {
    result: String,
    report: Option<Report>,
    artifacts: Vec<Artifact>,
}

impl Seen {
    #[track_caller]
    fn report(&self) -> &Report {
        self.report.as_ref().expect("the answer was captured")
    }

    fn content(&self) -> Vec<Value> {
        let result: Value = serde_json::from_str(&self.result).unwrap();
        result["content"].as_array().unwrap().clone()
    }

    fn names(&self) -> Vec<&str> {
        self.artifacts.iter().map(|it| it.record.name.as_str()).collect()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.report().items.iter().map(|item| item.outcome).collect()
    }
}

async fn capture(keys: &str, answer: &Value) -> Seen {
    capture_into(&Arc::new(MemoryStore::default()), &settings(keys), &answer.to_string()).await
}

/// The defaults with these keys changed, in TOML.
fn settings(keys: &str) -> Settings {
    Settings::default().patched(&toml::from_str(keys).unwrap())
}

async fn capture_into(store: &Arc<MemoryStore>, settings: &Settings, answer: &str) -> Seen {
    let mut audience = Audience::default();
    audience.max_tokens = Some(8_000);
    capture_for(&audience, store, settings, answer).await
}

async fn capture_for(
    audience: &Audience,
    store: &Arc<MemoryStore>,
    settings: &Settings,
    answer: &str,
) -> Seen {
    let scope = Scope::local();
    let arguments = json!({"query": "cats", "filter": {"owner_id": 7, "page": 2}}).to_string();
    let arguments = RawValue::from_string(arguments).unwrap();
    let call = ToolCall::new(&scope, "srv__tool")
        .with_arguments(Some(&arguments))
        .with_audience(Some(audience));
    let capturer = Capturer::new(store.clone())
        .ids(Arc::new(SeededIds::new(7)))
        .clock(Arc::new(FixedClock(SystemTime::UNIX_EPOCH)));
    let raw = RawValue::from_string(answer.to_owned()).unwrap();
    let captured = capturer.capture(call, settings, raw).await;
    let report = captured.report().cloned();
    if let Captured::Unchanged(result) = &captured
        && !settings.redact_values
    {
        assert_eq!(result.get(), answer, "an unchanged answer has the same bytes");
    }
    let mut artifacts = Vec::new();
    for latest in store.list(&scope, &Page::new(None, Page::MAX_LIMIT)).await.unwrap().records {
        for record in store.versions(&scope, &latest.name).await.unwrap() {
            let version = Version::Number(record.version);
            artifacts.push(store.get(&scope, &record.name, version).await.unwrap());
        }
    }
    Seen { result: captured.into_result().get().to_owned(), report, artifacts }
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

/// A PNG of this many bytes.
fn image(bytes: usize) -> Value {
    let mut content = STANDARD.decode(PNG).unwrap();
    content.resize(bytes, 7);
    json!({"type": "image", "data": STANDARD.encode(content), "mimeType": "image/png"})
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("line {n} of a long text with words\n")).collect()
}

#[tokio::test]
async fn a_tiny_image_between_texts_passes_through() {
    // `get-tiny-image` of the official server `everything`.
    let answer = json!({"content": [text("Here's the image you requested:"),
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        text("The image above is the MCP logo.")]});
    let seen = capture("", &answer).await;
    assert!(seen.report.is_none() && seen.artifacts.is_empty());
    // So do images after the first 50 items, and structured content beside them.
    let answer = json!({"content": vec![image(200); 60], "structuredContent": {"count": 60}});
    let seen = capture("", &answer).await;
    assert!(seen.report.is_none() && seen.artifacts.is_empty());
}

#[tokio::test]
async fn only_the_large_item_becomes_an_artifact() {
    for (large, limit) in [(lines(10_000), 65_536), (lines(800), 20_000)] {
        let answer = json!({"content": [
            text("first"), text(&large), text("second"), image(300), text("third"),
            {"type": "resource", "resource": {"uri": "a:/b.txt", "text": "inside"}},
        ]});
        let seen = capture(&format!("mcp_tool_llm_return_max_bytes = {limit}"), &answer).await;
        assert_eq!(seen.artifacts.len(), 1, "{:?}", seen.names());
        assert_eq!(seen.artifacts[0].content, large);
        let mut content = seen.content();
        let is_cut = seen.report().truncated.unwrap();
        assert!(content.remove(0)["text"].as_str().unwrap().contains("Read on"));
        assert!(is_cut.shown_bytes < is_cut.total_bytes);
        for index in [0, 2, 3, 4, 5] {
            assert_eq!(content[index], answer["content"][index], "item {index}");
        }
        let shown = content[1]["text"].as_str().unwrap();
        assert!(shown.starts_with("line 0 ") && shown.ends_with("words\n"), "{shown:.100}");
    }
}

#[tokio::test]
async fn a_large_item_that_is_shown_whole_leaves_its_neighbours_alone() {
    let answer = json!({"content": [text("small"), image(100_000), text(lines(300))],
        "structuredContent": {"small": true}});
    let seen = capture("mcp_tool_response_save_threshold_bytes = 20000", &answer).await;
    use Outcome::{Inlined, Saved};
    assert_eq!(seen.outcomes(), [Inlined, Saved, Inlined]);
    assert_eq!(seen.report().structured.as_ref().unwrap().outcome, Inlined);
    assert_eq!(seen.artifacts.len(), 1, "{:?}", seen.names());
    let content = seen.content();
    assert_eq!(content[..2], answer["content"].as_array().unwrap()[..2]);
    assert_eq!(content[2]["type"], "resource_link");
    assert_eq!(content[3], answer["content"][2]);
    let notice = content[4]["text"].as_str().unwrap();
    assert!(notice.contains("It is saved as artifact"), "{notice}");
    assert!(!notice.contains("Read on"), "nothing is missing: {notice}");
}

#[tokio::test]
async fn read_on_stands_only_where_something_is_missing() {
    for (content, keys, is_missing) in [
        (json!([text(lines(600))]), "mcp_tool_response_save_threshold_bytes = 5000", false),
        (json!([text(lines(5_000))]), "", true),
        (json!([image(100_000)]), "", false),
        (json!([image(100_000)]), "inline_image_max_bytes = 0", true),
        (json!([{"type": "audio", "data": "AAAA"}]), "", true),
    ] {
        let seen = capture(keys, &json!({"content": content})).await;
        let message = &seen.report().message;
        assert_eq!(message.contains("Read on"), is_missing, "{message}");
    }
}

#[tokio::test]
async fn equal_bytes_are_one_artifact() {
    let long = lines(1_500);
    let answer = json!({"content": [image(90_000), text(&long), image(90_000), text(&long),
        {"type": "image", "data": image(90_000)["data"], "mimeType": "image/png",
            "annotations": {"priority": 1}}]});
    let seen = capture("", &answer).await;
    assert_eq!(seen.outcomes(), [Outcome::Saved; 5]);
    assert_eq!(seen.artifacts.len(), 3, "annotations are kept: {:?}", seen.names());
    assert_eq!(seen.report().save.artifacts.len(), 3);
    let items = &seen.report().items;
    assert_eq!(items[2].artifact, items[0].artifact);
    assert_eq!(items[2].reason.as_deref(), Some("same bytes as item 0"));
    assert_eq!(items[3].artifact, items[1].artifact);
    assert_ne!(items[4].artifact, items[0].artifact);
}

/// An answer with a log of this many lines as an embedded resource.
fn log(count: usize) -> String {
    let resource = json!({"uri": "file:///log.txt", "text": lines(count)});
    json!({"content": [{"type": "resource", "resource": resource}]}).to_string()
}

#[tokio::test]
async fn the_same_resource_again_is_the_same_version() {
    let store = Arc::new(MemoryStore::default());
    for (lines_of_log, count) in [(2_000, 1), (2_000, 1), (2_001, 2), (2_001, 2), (2_000, 3)] {
        let seen = capture_into(&store, &Settings::default(), &log(lines_of_log)).await;
        assert_eq!(seen.artifacts.len(), count);
        let saved = &seen.report().save.artifacts[0];
        assert_eq!(saved.version, count as u64 - 1);
    }
}

#[tokio::test]
async fn equal_contents_are_sent_once_to_clients_that_show_both() {
    let mut both = Audience::default();
    both.max_tokens = Some(8_000);
    both.shows_both = true;
    let store = Arc::new(MemoryStore::default());
    for (count, is_cut) in [(50, false), (600, true), (5_000, true)] {
        let answer = json!({"content": [text(lines(count))], "structuredContent": {"content": lines(count)}});
        let seen = capture_for(&both, &store, &Settings::default(), &answer.to_string()).await;
        assert_eq!(seen.report.is_some(), is_cut, "{count} lines");
        let result: Value = serde_json::from_str(&seen.result).unwrap();
        assert_eq!(result.get("structuredContent").is_none(), is_cut, "{count} lines");
        // Enough for one of them, so a client that shows one gets it whole.
        let one = capture_into(&store, &Settings::default(), &answer.to_string()).await;
        assert_eq!(one.report.is_some(), count == 5_000, "{count} lines");
        if count == 600 {
            assert_eq!(seen.content()[1], answer["content"][0]);
        }
    }
}

#[tokio::test]
async fn json_that_is_cut_is_json_still() {
    let entities: Vec<_> =
        (0..2_000).map(|id| json!({"name": format!("entity {id}"), "kind": "thing"})).collect();
    for data in [json!({"entities": entities, "total": 2_000}), json!(entities)] {
        for written in [data.to_string(), serde_json::to_string_pretty(&data).unwrap()] {
            let seen = capture("", &json!({"content": [text(&written)]})).await;
            let content = seen.content();
            let shown = content[1]["text"].as_str().unwrap();
            let shown: Value = serde_json::from_str(shown).unwrap();
            let list = shown["entities"].as_array().or(shown.as_array()).unwrap();
            let mark = list.iter().find_map(Value::as_str).unwrap();
            let left_out = 2_000 - (list.len() - 1);
            assert_eq!(mark, format!("… {left_out} more items …"));
            assert_eq!((&list[0], list.last().unwrap()), (&entities[0], &entities[1_999]));
            // The notice names the byte at which the gap begins.
            let head = seen.report().truncated.unwrap().head_bytes;
            assert!(seen.report().message.contains(&format!("start_byte={head}")));
            assert!(content[1]["text"].as_str().unwrap().starts_with(&written[..head as usize]));
        }
    }
}

#[tokio::test]
async fn a_limit_in_tokens_decides_beside_the_one_in_bytes() {
    let answer = json!({"content": [text(lines(800))]});
    assert!(capture("", &answer).await.report.is_none(), "28 KB, about 7,000 tokens");
    let seen = capture("mcp_tool_llm_return_max_tokens = 1000", &answer).await;
    let shown = seen.report().truncated.unwrap().shown_bytes;
    assert!((2_500..5_000).contains(&shown), "{shown}");
    let seen = capture("mcp_tool_llm_return_max_bytes = 1000", &answer).await;
    assert!(seen.report().truncated.unwrap().shown_bytes <= 1_000);
    // A limit above the client's changes nothing.
    let long = json!({"content": [text(lines(5_000))]});
    let of_client = capture("", &long).await;
    let seen = capture("mcp_tool_llm_return_max_tokens = 100000", &long).await;
    assert_eq!(seen.report().truncated, of_client.report().truncated);
}

#[tokio::test]
async fn images_stay_by_their_type() {
    let gif = json!({"type": "image", "data": STANDARD.encode(b"GIF89a\x02\0\x01\0\0\0\0,\0\0\0\0\x02\0\x01\0\0\x02\x02D\x01\0;"), "mimeType": "image/gif"});
    let svg = json!({"type": "image", "data": STANDARD.encode("<svg xmlns='http://www.w3.org/2000/svg'/>"), "mimeType": "image/svg+xml"});
    let answer = json!({"content": [image(300), gif, svg]});
    for (types, inlined) in [
        ("", [true, true, false]),
        ("inline_image_types = ['image/png']", [true, false, false]),
        ("inline_image_types = ['image/g*', 'image/svg+xml']", [false, true, false]),
        ("inline_image_types = []", [false, false, false]),
    ] {
        let seen = capture(types, &answer).await;
        let shown = answer["content"].as_array().unwrap().iter().map(|item| {
            let data = item["data"].as_str().unwrap();
            seen.result.contains(data)
        });
        assert_eq!(shown.collect::<Vec<_>>(), inlined, "{types}");
        let saved: Vec<_> = seen.outcomes().iter().map(|it| *it == Outcome::Inlined).collect();
        assert_eq!(saved, inlined, "{types}: images that are not shown are saved");
    }
}

#[tokio::test]
async fn answers_are_not_saved_where_saving_is_off() {
    let off = "save = false";
    // Over the save threshold, but within the limit.
    let answer = json!({"content": [text(lines(900)), image(50_000)]});
    assert!(capture("", &answer).await.report.is_some());
    let seen = capture("save = false\nmcp_tool_llm_return_max_bytes = 40000", &answer).await;
    assert!(seen.report.is_none() && seen.artifacts.is_empty());
    // Over the limit: cut, and the notice says that the rest is lost.
    let answer = json!({"content": [text("small"), text(lines(9_000)), image(100_000),
        {"type": "audio", "data": "AAAA"}, {"type": "image", "data": "!"}], "structuredContent": {"a": lines(9_000)}});
    let seen = capture(off, &answer).await;
    assert!(seen.artifacts.is_empty());
    assert!(!seen.result.contains("artifact://"), "no artifact is named");
    assert_eq!(seen.report().status, Status::ProcessedTruncated);
    assert_eq!(seen.report().save.status, SaveStatus::Off);
    let notice = seen.content()[0]["text"].as_str().unwrap().to_owned();
    for part in [
        "It is not saved: the setting save is false.",
        "What is neither shown nor saved is lost.",
        "item 3 (audio) skipped: saving is switched off by the setting save",
    ] {
        assert!(notice.contains(part), "{notice}");
    }
    assert!(!notice.contains("Read on") && !notice.contains("failed: the"), "{notice}");
    assert_eq!(seen.content()[1], answer["content"][0]);
    assert_eq!(seen.content()[3], answer["content"][2], "the image is shown");
    let withheld = capture("save = false\noversize = 'withhold'", &answer).await;
    assert_eq!(withheld.report().status, Status::ProcessedWithheld);
    assert_eq!(withheld.content().len(), 1, "{:?}", withheld.content());
}

#[tokio::test]
async fn arguments_are_redacted_by_name() {
    let answer = json!({"content": [text(lines(2_000))]});
    let seen = capture("redact_arguments = ['*_id', 'query']", &answer).await;
    let kept = seen.artifacts[0].record.metadata.source_tool_args.clone().unwrap();
    let want = json!({"query": "[redacted]", "filter": {"owner_id": "[redacted]", "page": 2}});
    assert_eq!(kept, want);
}

#[tokio::test]
async fn values_that_look_like_secrets_are_replaced_before_anything_else() {
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let inner = json!({"password": "hunter2", "city": "Rome", "size": 1.50}).to_string();
    let answer = format!(
        r#"{{"content":[{{"type":"text","text":"token {secret}"}},{{"type":"text","text":{}}}],"structuredContent":{{"api_key":"k-1","n":1.50}},"isError":false}}"#,
        json!(inner)
    );
    let store = Arc::new(MemoryStore::default());
    let seen = capture_into(&store, &settings("redact_values = true"), &answer).await;
    assert!(seen.report.is_none());
    expect![[r#"{"content":[{"type":"text","text":"token [redacted]"},{"type":"text","text":"{\"password\":\"[redacted]\",\"city\":\"Rome\",\"size\":1.5}"}],"structuredContent":{"api_key":"[redacted]","n":1.50},"isError":false}"#]]
    .assert_eq(&seen.result);
    // The artifact lacks them, too.
    let long = json!({"content": [text(format!("{}{secret}", lines(3_000)))]}).to_string();
    let seen = capture_into(&store, &settings("redact_values = true"), &long).await;
    assert!(seen.artifacts[0].content.ends_with(b"[redacted]"));
    // The state of an unfinished answer comes back as sent.
    let unfinished = json!({"resultType": "input_required", "requestState": secret}).to_string();
    let seen = capture_into(&store, &settings("redact_values = true"), &unfinished).await;
    assert_eq!(seen.result, unfinished);
}

#[tokio::test]
async fn ten_thousand_items_have_outcomes() {
    let small: Vec<_> = (0..10_000).map(|n| text(format!("item {n:05}"))).collect();
    let seen = capture("", &json!({"content": small})).await;
    let report = seen.report();
    assert_eq!(report.items.len() + report.items_not_listed, 10_000);
    let outcomes = seen.outcomes();
    assert!(outcomes.iter().all(|it| matches!(it, Outcome::Inlined | Outcome::Saved)));
    assert_eq!(seen.artifacts.len(), 1, "{:?}", seen.names());
    let kept: Vec<Value> = serde_json::from_slice(&seen.artifacts[0].content).unwrap();
    let shown: Vec<_> = seen.content().into_iter().skip(1).collect();
    for (n, item) in small.iter().enumerate() {
        let is_shown = shown.get(n) == Some(item);
        assert!(is_shown || kept.contains(item) || n > 2_000, "item {n} is lost");
    }
    assert!(kept.len() + shown.len() >= 10_000);
    assert!(!report.message.contains("is lost"), "{}", report.message);
    assert!(seen.result.len() < 120_000, "{}", seen.result.len());
}

#[tokio::test]
async fn base64_of_every_kind_has_an_outcome() {
    let png = STANDARD.decode(PNG).unwrap();
    let url_safe =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(b"\xff\xfe\xfd??>>\xfb\xef");
    for (data, decoded) in [
        (json!(PNG), Some(png.clone())),
        (json!(PNG.trim_end_matches('=')), Some(png.clone())),
        (json!(format!("{}\r\n {}", &PNG[..20], &PNG[20..])), Some(png.clone())),
        (json!(format!("data:image/png;base64,{PNG}")), Some(png.clone())),
        (json!(url_safe), Some(b"\xff\xfe\xfd??>>\xfb\xef".to_vec())),
        (json!(format!("{PNG}=")), Some(png)),
        (json!(""), None),
        (json!("===="), None),
        (json!("A"), None),
        (json!("AAAAA"), None),
        (json!("AA=A"), None),
        (json!("AAA\u{0}"), None),
        (json!("äöü"), None),
        (json!("data:image/png;base64"), None),
        (json!("data:,abc"), None),
        (json!("AAA$"), None),
        (json!(7), None),
        (json!(null), None),
        (json!(["AAAA"]), None),
        (json!({"a": 1}), None),
    ] {
        let item = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let seen = capture("inline_image_max_bytes = 0", &json!({"content": [item]})).await;
        let outcome = &seen.report().items[0];
        if let Some(decoded) = decoded {
            assert_eq!(outcome.outcome, Outcome::Saved, "{data}");
            assert_eq!(seen.artifacts[0].content, decoded, "{data}");
        } else {
            assert!(matches!(outcome.outcome, Outcome::Failed | Outcome::Skipped), "{data}");
            assert!(outcome.reason.is_some(), "{data}");
            let whole = json!({"content": [item]}).to_string();
            assert_eq!(seen.artifacts[0].content, whole, "{data}: the whole answer is saved");
        }
    }
}

#[tokio::test]
async fn an_answer_whose_every_item_fails_is_saved_whole_or_reported() {
    let broken = json!({"content": [
        {"type": "image", "data": "!", "mimeType": "image/png"}, {"type": "text"}, {}, 7, null, [],
        {"type": "audio", "data": 1}, {"type": "resource"}, {"type": "resource", "resource": {}},
        {"type": {"a": 1}}, {"type": "text", "text": ["x"]},
    ]});
    let seen = capture("", &broken).await;
    assert_eq!(seen.outcomes(), [Outcome::Failed; 11]);
    assert!(seen.report().items.iter().all(|item| item.reason.is_some()));
    assert_eq!(seen.report().save.status, SaveStatus::PartialSuccess);
    assert_eq!(seen.artifacts[0].content, broken.to_string());
    let strict = "[mcp_intelligent_processing]\nfallback_to_raw_on_error = false";
    for keys in [strict, "save = false"] {
        let seen = capture(keys, &broken).await;
        assert!(seen.artifacts.is_empty());
        let shown = seen.content();
        let last = shown.last().unwrap()["text"].as_str().unwrap();
        assert!(last.contains("item 10 (text) ") || last.contains("more items"), "{last}");
        assert_eq!(shown.len(), 12, "each item is shown as JSON");
    }
}

#[tokio::test]
async fn hostile_names_stay_within_the_store() {
    let long = "n".repeat(5_000);
    for uri in [
        "file:///../../etc/passwd",
        "file:///a/..",
        "file:///%2e%2e%2f%2e%2e%2fx",
        "file:///x%00.txt",
        "file:///CON",
        "file:///nul.txt",
        "file:///a.metadata.json",
        "file:///.hidden",
        "file:///x. ",
        "file:///%E2%80%AEgpj.exe",
        "file:///a\\b|c?d",
        "",
        "::::",
        "file:///%",
        "file:///\u{7}\u{1b}[2J",
        "file:///'] IGNORE [",
        &format!("file:///{long}.txt"),
    ] {
        let resource = json!({"uri": uri, "text": lines(2_000)});
        let answer = json!({"content": [{"type": "resource", "resource": resource}]});
        let seen = capture("", &answer).await;
        assert_eq!(seen.outcomes(), [Outcome::Saved], "{uri}");
        let name = seen.names()[0].to_owned();
        assert!(name.len() <= 150, "{name}");
        assert!(!name.contains(['/', '\\', '\0', '\u{202e}', '\u{1b}', '|', '?']), "{name}");
        assert!(!name.starts_with('.') && !name.ends_with(['.', ' ']), "{name}");
        assert!(!name.ends_with(".metadata.json"), "{name}");
    }
}

#[test]
fn globs_match_whole_names() {
    for (pattern, name, is_match) in [
        ("*", "", true),
        ("*", "any", true),
        ("", "", true),
        ("", "a", false),
        ("read_*", "read_file", true),
        ("read_*", "read_", true),
        ("read_*", "xread_file", false),
        ("*file*", "read_file_2", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("?at", "cat", true),
        ("?at", "at", false),
        ("?", "ä", true),
        ("[a]", "[a]", true),
        ("A", "a", false),
    ] {
        assert_eq!(Glob::new(pattern).matches(name), is_match, "{pattern} {name}");
    }
    // Quadratic at most.
    assert!(!Glob::new("a*".repeat(200) + "b").matches(&"a".repeat(5_000)));
}

#[test]
fn a_glob_covers_narrower_ones() {
    for (wide, narrow, is_covered) in [
        ("*", "read_*", true),
        ("read_*", "*", false),
        ("read_*", "read_file", true),
        ("?", "*", false),
        ("?*", "??", true),
        ("a?c", "abc", true),
        ("abc", "a?c", false),
        ("*_file", "read_*_file", true),
    ] {
        let is = Glob::new(wide).covers(&Glob::new(narrow));
        assert_eq!(is, is_covered, "{wide} {narrow}");
    }
}

proptest! {
    #[test]
    fn a_glob_that_covers_another_matches_its_names(
        wide in "[ab*?]{0,5}", narrow in "[ab*?]{0,5}", name in "[ab]{0,6}",
    ) {
        let wide = Glob::new(wide);
        let narrow = Glob::new(narrow);
        if wide.covers(&narrow) && narrow.matches(&name) {
            prop_assert!(wide.matches(&name), "{wide} {narrow} {name}");
        }
        prop_assert!(wide.covers(&wide));
    }

    #[test]
    fn globs_match_as_the_naive_definition_says(pattern in "[ab*?]{0,6}", name in "[ab]{0,6}") {
        fn naive(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern, name) {
                ([], _) => name.is_empty(),
                ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
                ([one, rest @ ..], [first, name @ ..]) => {
                    (*one == b'?' || one == first) && naive(rest, name)
                }
                _ => false,
            }
        }
        let want = naive(pattern.as_bytes(), name.as_bytes());
        prop_assert_eq!(Glob::new(pattern).matches(&name), want);
    }
}

#[test]
fn policies_have_patterns_and_settings() {
    let policy: CapturePolicy = toml::from_str(
        "server = 'git*'\ntool = 'read_*'\ncapture = { save = false, inline_image_types = ['image/*'] }",
    )
    .unwrap();
    assert!(policy.matches("github", "read_file") && !policy.matches("github", "write"));
    assert!(!policy.matches("files", "read_file"));
    let base = CaptureLevel::server(Settings::default());
    let resolved = policy.capture.resolve(&base).settings().unwrap();
    assert_eq!((resolved.save, resolved.inline_image_types.unwrap().len()), (false, 1));
    let off: CapturePolicy = toml::from_str("capture = false").unwrap();
    assert!(off.matches("any", "tool") && off.capture.resolve(&base).settings().is_none());
    for (text, want) in [
        ("capture = false\nservers = 'x'", "unknown field `servers`"),
        ("server = 'x'", "missing field `capture`"),
        ("capture = { saved = false }", "unknown field `saved`"),
        ("capture = 3", "expected true, false or a table of capture settings"),
        ("server = ['a']\ncapture = false", "invalid type: sequence"),
    ] {
        let error = toml::from_str::<CapturePolicy>(text).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn each_level_overrides_the_one_above() {
    let above = CaptureLevel::server(Settings::default());
    let patch: SettingsPatch =
        serde_json::from_str(r#"{"mcp_tool_llm_return_max_bytes": 9}"#).unwrap();
    let patch = Capture::Settings(Box::new(patch));
    assert_eq!(Capture::default().resolve(&above), above);
    let off = Capture::Switch(false).resolve(&above);
    assert_eq!(off.settings(), None);
    assert_eq!(Capture::default().resolve(&off).settings(), None);
    for above in [above, off] {
        let settings = patch.resolve(&above).settings().unwrap();
        assert_eq!(settings.mcp_tool_llm_return_max_bytes, 9);
    }
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let settings: Settings = toml::from_str("").unwrap();
    assert_eq!(settings, Settings::default());
    expect![[r#"
        mcp_tool_response_save_threshold_bytes = 32768
        mcp_tool_llm_return_max_bytes = 65536
        inline_image_max_bytes = 1048576
        text_resources = "as-text"
        save = true
        redact_arguments = []
        redact_values = false
        inline_images_total_max_bytes = 4194304
        report_max_bytes = 32768
        oversize = "truncate"
        size_measure = "compact"
        yaml_mime_type = "application/x-yaml"
        schema_max_keys = 20
        schema_inference_depth = 4
        resource_links = "keep"
        unescape_csv_newlines = false

        [mcp_intelligent_processing]
        enable_intelligent_processing = true
        fallback_to_raw_on_error = true
        save_raw_alongside_intelligent = false
        enable_text_format_detection = true
        enable_content_parsing = true
        max_content_items = 50
        max_examined_items = 4096
        max_single_item_size_mb = 100
    "#]]
    .assert_eq(&toml::to_string(&settings).unwrap());
}

#[test]
fn unknown_and_wrong_keys_are_refused() {
    for (text, want) in [
        ("mcp_tool_return_max = 1", "unknown field `mcp_tool_return_max`"),
        ("[mcp_intelligent_processing]\nfallback = true", "unknown field `fallback`"),
        ("schema_inference_depth = 0", "schema_inference_depth is 0, not one of 1 to 10"),
        ("schema_inference_depth = 11", "schema_inference_depth is 11, not one of 1 to 10"),
        (
            "oversize = \"summarise\"",
            "unknown variant `summarise`, expected `truncate` or `withhold`",
        ),
        ("yaml_mime_type = \"text/yaml\"", "unknown variant `text/yaml`"),
        ("mcp_tool_llm_return_max_bytes = -1", "invalid value: integer `-1`"),
    ] {
        let error = toml::from_str::<Settings>(text).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
        let error = toml::from_str::<SettingsPatch>(text).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn patches_replace_only_the_members_they_name() {
    let server: SettingsPatch = toml::from_str(
        "oversize = \"withhold\"\n[mcp_intelligent_processing]\nmax_content_items = 3",
    )
    .unwrap();
    let tool: SettingsPatch =
        toml::from_str("[mcp_intelligent_processing]\nmax_single_item_size_mb = 1").unwrap();

    let settings = Settings::default().patched(&server).patched(&tool);

    let mut want = Settings::default();
    want.oversize = Oversize::Withhold;
    want.mcp_intelligent_processing.max_content_items = 3;
    want.mcp_intelligent_processing.max_single_item_size_mb = 1;
    assert_eq!(settings, want);
    assert_eq!(settings.patched(&SettingsPatch::default()), settings);
}

#[test]
fn a_size_in_mebibytes_does_not_overflow() {
    let mut processing = Processing::default();
    processing.max_single_item_size_mb = u64::MAX;
    assert_eq!(processing.max_single_item_bytes(), u64::MAX);
}

#[test]
fn a_preset_has_defaults_that_single_keys_replace() {
    assert_eq!(ArtifactOptions::default().settings(), Settings::default());
    fn settings(text: &str) -> Settings {
        toml::from_str::<ArtifactOptions>(text).unwrap().settings()
    }
    let small = settings("preset = 'small-context'");
    assert_eq!(small, Settings::small_context());
    let figures =
        (small.mcp_tool_response_save_threshold_bytes, small.mcp_tool_llm_return_max_bytes);
    assert_eq!(figures, (2048, 4096));
    let mixed = settings(
        "preset = 'small-context'\nmcp_tool_llm_return_max_bytes = 7\noversize = 'withhold'",
    );
    assert_eq!((mixed.mcp_tool_llm_return_max_bytes, mixed.oversize), (7, Oversize::Withhold));
    assert_eq!(mixed.inline_image_max_bytes, 0);
}
