//! Every row of seed 000, each test under the number of its row.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    Settings, Version,
    metadata::TextFormat,
    report::{Outcome, SaveStatus, Status},
};
use serde_json::{Value, json};

use crate::support::{FailingStore, PNG, Seen, capture, capture_into, capture_raw, settings};

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Settings that save even small answers.
fn eager() -> Settings {
    settings("mcp_tool_response_save_threshold_bytes = 1")
}

/// seed: 000/1.1
#[tokio::test]
async fn below_both_thresholds_nothing_happens() {
    let seen = capture(&Settings::small_context(), text(&"a".repeat(2000))).await;
    assert!(seen.is_unchanged());
    assert!(seen.artifacts.is_empty());
}

/// seed: 000/1.2
#[tokio::test]
async fn above_the_save_threshold_it_is_saved_and_shown_whole() {
    let long = "a".repeat(3000);
    let seen = capture(&Settings::small_context(), text(&long)).await;
    assert_eq!(seen.report().status, Status::ProcessedAndSaved);
    assert_eq!(seen.report().save.status, SaveStatus::Success);
    assert_eq!(seen.texts(), [long.as_str()]);
    assert_eq!(seen.only().content, long);
    assert!(seen.report().truncated.is_none());
}

/// seed: 000/1.3
#[tokio::test]
async fn above_both_thresholds_it_is_saved_and_truncated() {
    let long = "0123456789".repeat(1000);
    let seen = capture(&Settings::small_context(), text(&long)).await;
    assert_eq!(seen.report().status, Status::ProcessedSavedAndTruncated);
    let shown = seen.texts().concat();
    assert!(shown.len() <= 4096 && shown.len() > 4000, "{}", shown.len());
    assert!(shown.starts_with(&long[..2_800]) && shown.ends_with(&long[10_000 - 1_200..]));
    assert_eq!(seen.only().content, long);
    let cut = seen.report().truncated.unwrap();
    assert_eq!(cut.total_bytes, 10_000);
    assert_eq!(&shown[..cut.head_bytes as usize], &long[..cut.head_bytes as usize]);
}

/// seed: 000/1.4
#[tokio::test]
async fn an_item_that_is_not_text_is_saved_at_any_size() {
    let answer = json!({"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]});
    let seen = capture(&settings("mcp_tool_response_save_threshold_bytes = 1000000"), answer).await;
    assert_eq!(seen.report().status, Status::ProcessedAndSaved);
    assert_eq!(seen.only().content, STANDARD.decode(PNG).unwrap());
    let content = seen.content();
    assert_eq!(content[0]["type"], "resource_link");
    assert_eq!(content[0]["uri"], seen.report().save.artifacts[0].uri);
    assert_eq!(content[0]["mimeType"], "image/png");
    assert_eq!(content.len(), 2, "a link and the notice");
    assert!(!seen.raw_result().contains(PNG));
}

/// Checks a text's artifact: its extension, MIME type and format, and that its bytes are the text.
#[track_caller]
fn check_text(seen: &Seen, sent: &str, extension: &str, mime_type: &str, format: TextFormat) {
    let artifact = seen.only();
    assert_eq!(artifact.record.name.extension(), Some(extension));
    assert_eq!(artifact.record.mime_type, mime_type);
    assert_eq!(artifact.record.metadata.detected_format, Some(format));
    assert_eq!(artifact.content, sent, "byte for byte");
    assert_eq!(seen.texts(), [sent]);
}

/// seed: 000/2.1.1
#[tokio::test]
async fn plain_text() {
    let sent = "This is a simple text response.";
    let seen = capture(&eager(), text(sent)).await;
    check_text(&seen, sent, "txt", "text/plain", TextFormat::Plain);
    assert!(seen.names()[0].starts_with("srv__tool_text_0_"));
}

/// seed: 000/2.1.2
#[tokio::test]
async fn json_text() {
    let sent = r#"{"name": "test", "nested": {"list": [1, 2]}, "ok": true}"#;
    let seen = capture(&eager(), text(sent)).await;
    check_text(&seen, sent, "json", "application/json", TextFormat::Json);
    let metadata = serde_json::to_value(&seen.only().record.metadata).unwrap();
    let summary = &metadata["parsed_data_summary"];
    assert_eq!(
        summary,
        &json!({"format": "json", "type": "object", "keys": ["name", "nested", "ok"], "key_count": 3})
    );
    let structure = json!({"name": "str", "nested": {"list": ["int"]}, "ok": "bool"});
    assert_eq!(metadata["schema"]["structure"], structure);
    assert_eq!(metadata["schema"]["inferred"], true);
}

/// seed: 000/2.1.3
#[tokio::test]
async fn csv_text() {
    let sent = "name,age,city\nAlice,30,New York\nBob,25,London\n";
    let seen = capture(&eager(), text(sent)).await;
    check_text(&seen, sent, "csv", "text/csv", TextFormat::Csv);
    let summary = seen.only().record.metadata.parsed_data_summary.clone().unwrap();
    assert_eq!((summary.rows, summary.columns), (Some(2), Some(3)));
    assert_eq!(summary.headers.unwrap(), ["name", "age", "city"]);
    assert_eq!(summary.kind, "table");
}

/// seed: 000/2.1.4
#[tokio::test]
async fn yaml_text() {
    let sent = "name: test\nitems:\n  - one\n  - two\n";
    let seen = capture(&eager(), text(sent)).await;
    check_text(&seen, sent, "yaml", "application/x-yaml", TextFormat::Yaml);

    let registered = settings(
        "mcp_tool_response_save_threshold_bytes = 1\nyaml_mime_type = \"application/yaml\"",
    );
    let seen = capture(&registered, text(sent)).await;
    check_text(&seen, sent, "yaml", "application/yaml", TextFormat::Yaml);
}

/// seed: 000/2.1.5
#[tokio::test]
async fn markdown_text() {
    let sent = "# Title\n\nSome **bold** text and a [link](http://example.com).\n\n- one\n- two\n";
    let seen = capture(&eager(), text(sent)).await;
    check_text(&seen, sent, "md", "text/markdown", TextFormat::Markdown);
}

/// Checks an item's artifact: its extension, MIME type and decoded bytes.
#[track_caller]
fn check_bytes(seen: &Seen, bytes: &[u8], name: &str, mime_type: &str) {
    let artifact = seen.only();
    assert_eq!(artifact.record.mime_type, mime_type);
    assert_eq!(artifact.content, bytes);
    let (front, back) = name.split_once('*').unwrap();
    let found = artifact.record.name.as_str();
    assert!(found.starts_with(front) && found.ends_with(back), "{found}");
}

/// Checks the warnings about an item's artifact.
#[track_caller]
fn check_warnings(seen: &Seen, warnings: &[&str]) {
    assert_eq!(seen.only().record.metadata.warnings, warnings);
}

async fn media(kind: &str, mime_type: &str, bytes: &[u8]) -> Seen {
    let data = STANDARD.encode(bytes);
    capture(
        &Settings::small_context(),
        json!({"content": [{"type": kind, "data": data, "mimeType": mime_type}]}),
    )
    .await
}

/// seed: 000/2.2.1
#[tokio::test]
async fn png_image() {
    let bytes = STANDARD.decode(PNG).unwrap();
    let seen = media("image", "image/png", &bytes).await;
    check_bytes(&seen, &bytes, "srv__tool_image_0_*.png", "image/png");
    check_warnings(&seen, &[]);
    assert_eq!(seen.only().record.metadata.image_size_bytes, Some(bytes.len() as u64));
}

/// seed: 000/2.2.2
#[tokio::test]
async fn jpeg_image() {
    let unknown = "declared as image/jpeg, but the bytes are of an unknown type";
    let cut = "the image/jpeg ends early; it is not shown as an image";
    let images: [(&[u8], &[&str]); 2] =
        [(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01", &[cut]), (b"not really a jpeg", &[unknown])];
    for (bytes, warnings) in images {
        let seen = media("image", "image/jpeg", bytes).await;
        check_bytes(&seen, bytes, "srv__tool_image_0_*.jpg", "image/jpeg");
        check_warnings(&seen, warnings);
    }
}

/// seed: 000/2.3.1
#[tokio::test]
async fn mp3_audio() {
    for bytes in [&b"ID3\x04\0\0\0\0\0\0"[..], b"not really a sound"] {
        let seen = media("audio", "audio/mpeg", bytes).await;
        check_bytes(&seen, bytes, "srv__tool_audio_0_*.mp3", "audio/mpeg");
        check_warnings(&seen, &[]);
    }
}

/// seed: 000/2.3.2
#[tokio::test]
async fn wav_audio() {
    let bytes = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0";
    let seen = media("audio", "audio/wav", bytes).await;
    check_bytes(&seen, bytes, "srv__tool_audio_0_*.wav", "audio/wav");
    check_warnings(&seen, &[]);
    assert_eq!(seen.only().record.metadata.audio_size_bytes, Some(20));
}

async fn resource(resource: Value) -> Seen {
    capture(
        &Settings::small_context(),
        json!({"content": [{"type": "resource", "resource": resource}]}),
    )
    .await
}

/// seed: 000/2.4.1
#[tokio::test]
async fn resource_of_which_only_the_uri_is_known() {
    let seen = resource(json!({"uri": "file:///data/my_document.txt"})).await;
    let wanted = b"Resource reference: file:///data/my_document.txt";
    check_bytes(&seen, wanted, "srv__tool_resource_0_my_document.txt*", "text/plain");
    let metadata = seen.only().record.metadata.resource.clone().unwrap();
    assert!(metadata.is_placeholder && !metadata.has_text_content && !metadata.has_blob_content);
    assert_eq!(metadata.resource_uri, "file:///data/my_document.txt");
}

/// seed: 000/2.4.1, where its "resource link" is MCP's `resource_link`
#[tokio::test]
async fn link_to_a_resource() {
    let link =
        json!({"type": "resource_link", "uri": "file:///data/my_document.txt", "name": "doc"});
    let answer = json!({"content": [link]});
    assert!(
        capture(&Settings::small_context(), answer.clone()).await.is_unchanged(),
        "a link is no content"
    );

    let seen = capture(&settings("resource_links = \"placeholder\""), answer).await;
    let wanted = b"Resource reference: file:///data/my_document.txt";
    check_bytes(&seen, wanted, "srv__tool_resource_0_my_document.txt*", "text/plain");
    assert_eq!(seen.content()[0], link, "the agent can still follow it");
}

/// seed: 000/2.4.2
#[tokio::test]
async fn resource_with_text() {
    let seen = resource(json!({"uri": "file:///a/config.json", "mimeType": "application/json", "text": "{\"a\": 1}"})).await;
    check_bytes(&seen, b"{\"a\": 1}", "srv__tool_resource_0_config.json*", "application/json");
    let metadata = &seen.only().record.metadata;
    assert!(metadata.schema.as_ref().unwrap().inferred);
    assert!(metadata.resource.as_ref().unwrap().is_text_based);
    assert_eq!(
        seen.content()[0]["resource"]["text"],
        "{\"a\": 1}",
        "small text stays where it was"
    );
}

/// seed: 000/2.4.3
#[tokio::test]
async fn resource_with_bytes() {
    let bytes: Vec<u8> = (0..=255).collect();
    let blob = STANDARD.encode(&bytes);
    let seen = resource(
        json!({"uri": "file:///a/data.bin", "mimeType": "application/octet-stream", "blob": blob}),
    )
    .await;
    check_bytes(&seen, &bytes, "srv__tool_resource_0_data.bin*", "application/octet-stream");
    let metadata = seen.only().record.metadata.resource.clone().unwrap();
    assert!(metadata.decoded_from_base64 && !metadata.is_text_based);
    assert_eq!(
        (metadata.original_size_bytes, metadata.decoded_size_bytes),
        (Some(blob.len() as u64), Some(256))
    );
    assert_eq!(seen.content()[0]["type"], "resource_link");
}

/// seed: 000/3.1
#[tokio::test]
async fn over_the_limit_it_is_saved_even_below_the_save_threshold() {
    let settings = settings(
        "mcp_tool_response_save_threshold_bytes = 100000\nmcp_tool_llm_return_max_bytes = 1000",
    );
    let long = "b".repeat(2000);
    let seen = capture(&settings, text(&long)).await;
    assert_eq!(seen.report().status, Status::ProcessedSavedAndTruncated);
    assert_eq!(seen.only().content, long);
    assert!(seen.texts().concat().len() <= 1000);
}

/// seed: 000/3.2
#[tokio::test]
async fn when_saving_fails_the_answer_is_shown_with_the_failure() {
    for (bytes, status) in
        [(3000, Status::ProcessedSaveFailed), (9000, Status::ProcessedTruncatedSaveFailed)]
    {
        let long = "c".repeat(bytes);
        let seen = capture_into(
            FailingStore::new(|_| true),
            &Settings::small_context(),
            &text(&long).to_string(),
        )
        .await;
        assert_eq!(seen.report().status, status);
        assert_eq!(seen.report().save.status, SaveStatus::Error);
        let shown = seen.texts().concat();
        assert!(if bytes == 3000 { shown == long } else { shown.starts_with(&long[..2_800]) });
        let notice = seen.notice();
        assert!(
            notice.contains(
                "Saving it failed, so there is no artifact to read: the disk is on fire."
            ),
            "{notice}"
        );
        assert!(
            !seen.raw_result().contains("artifact://") && !notice.contains("'read_artifact'"),
            "{notice}"
        );
        assert_eq!(notice.contains("is lost"), bytes == 9000, "{notice}");
    }
}

/// seed: 000/3.2, for a resource, of which only a link would remain.
#[tokio::test]
async fn when_saving_fails_the_text_of_a_resource_is_shown() {
    let resource = |bytes: usize| {
        let text = "c".repeat(bytes);
        json!({"type": "resource", "resource": {"uri": "file:///a.txt", "text": text}})
    };
    for (items, shown, total) in [
        (json!([resource(9000)]), 4030, 9000),
        (json!([{"type": "text", "text": "first"}, resource(9000)]), 4025, 9005),
        (json!([resource(9000), {"type": "text", "text": "x".repeat(9000)}]), 4030, 18_000),
        (json!([resource(2000), resource(3000)]), 4030, 5000),
    ] {
        let answer = json!({"content": items}).to_string();
        let seen =
            capture_into(FailingStore::new(|_| true), &Settings::small_context(), &answer).await;
        assert_eq!(seen.report().status, Status::ProcessedTruncatedSaveFailed);
        let cut = seen.report().truncated.unwrap();
        assert_eq!((cut.shown_bytes, cut.total_bytes), (shown, total));
        let texts = seen.texts().concat();
        assert!(texts.len() <= 4096 && texts.len() as u64 >= shown, "{}", texts.len());
        let notice = seen.notice();
        assert!(notice.contains(&format!("{shown} of the {total} bytes of its text")), "{notice}");
        assert!(notice.contains("is lost") && !notice.contains("whole"), "{notice}");
    }

    // The end is that of the whole text, and the mark counts all that is missing.
    let lines: String = (0..1_000).map(|line| format!("line {line} of the file\n")).collect();
    let resource_of_lines =
        json!({"type": "resource", "resource": {"uri": "file:///a.txt", "text": lines}});
    let answer = json!({"content": [resource_of_lines]}).to_string();
    let seen = capture_into(FailingStore::new(|_| true), &Settings::small_context(), &answer).await;
    let shown = seen.texts().concat();
    assert!(shown.ends_with("line 998 of the file\nline 999 of the file\n"), "{shown}");
    let missing = lines.len() as u64 - seen.report().truncated.unwrap().shown_bytes;
    assert!(shown.contains(&format!("[… {missing} bytes are left out here …]")), "{shown}");

    // Only items with an artifact become links.
    let answer = json!({"content": [resource(3000), resource(3001)]}).to_string();
    let seen =
        capture_into(FailingStore::new(|put| put == 1), &Settings::small_context(), &answer).await;
    assert_eq!(seen.content()[1]["type"], "resource_link");
    assert_eq!(seen.texts(), ["c".repeat(3001)]);
    assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
}

/// seed: 000/4.1
#[tokio::test]
async fn without_intelligent_processing_the_whole_answer_is_saved() {
    let settings = settings("[mcp_intelligent_processing]\nenable_intelligent_processing = false");
    let answer = json!({"content": [{"type": "text", "text": "d".repeat(3000)}, {"type": "image", "data": PNG}]});
    let seen = capture(&settings, answer).await;
    let artifact = seen.only();
    assert_eq!(artifact.content, seen.sent, "as sent");
    assert_eq!(artifact.record.mime_type, "application/json");
    assert!(artifact.record.name.as_str().starts_with("srv__tool_raw_"));
    assert_eq!(artifact.record.name.extension(), Some("json"));
    assert_eq!(artifact.record.metadata.processing_type.as_deref(), Some("raw_fallback"));
    let save = &seen.report().save;
    assert_eq!(save.status, SaveStatus::Success);
    assert!(save.artifacts.is_empty());
    assert_eq!(save.fallback_artifact.as_ref().unwrap().name, artifact.record.name);
}

/// seed: 000/4.2
#[tokio::test]
async fn content_that_is_no_list_is_saved_as_a_whole() {
    for content in [json!({"type": "text", "text": "x"}), json!("text"), json!(7), json!(null)] {
        let seen = capture(&Settings::small_context(), json!({"content": content})).await;
        assert_eq!(seen.only().content, seen.sent);
        assert_eq!(seen.only().record.name.extension(), Some("json"));
        let save = &seen.report().save;
        assert_eq!(save.status, SaveStatus::PartialSuccess);
        assert_eq!(save.message, "Only the whole answer is saved: content is not a list.");
        assert!(save.fallback_artifact.is_some() && save.artifacts.is_empty());
        assert_eq!(seen.texts(), [seen.sent.as_str()], "the client gets a list all the same");
    }
}

/// seed: 000/4.3
#[tokio::test]
async fn a_malformed_item_fails_and_the_others_are_saved() {
    let answer = json!({"content": [
        {"type": "text", "text": "fine"},
        {"type": "image", "data": "!!! not base64 !!!", "mimeType": "image/png"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ]});
    for fallback in [true, false] {
        let settings = settings(&format!(
            "[mcp_intelligent_processing]\nfallback_to_raw_on_error = {fallback}"
        ));
        let seen = capture(&settings, answer.clone()).await;
        assert_eq!(seen.report().save.status, SaveStatus::PartialSuccess);
        let outcomes: Vec<_> = seen.report().items.iter().map(|item| item.outcome).collect();
        assert_eq!(outcomes, [Outcome::Saved, Outcome::Failed, Outcome::Saved]);
        assert_eq!(seen.artifacts.len(), 2);
        assert!(seen.report().save.fallback_artifact.is_none());
        let content = seen.content();
        let shown = content[1]["text"].as_str().unwrap();
        assert!(shown.contains("!!! not base64 !!!"), "{shown}");
        assert!(
            seen.notice().contains("item 1 (image) failed: data is not valid base64"),
            "{}",
            seen.notice()
        );
    }
}

/// seed: 000/4.4
#[tokio::test]
async fn without_fallback_an_error_saves_nothing_and_is_reported() {
    let settings = settings("[mcp_intelligent_processing]\nfallback_to_raw_on_error = false");
    for (answer, error) in [
        (json!({"content": [{"type": "image", "data": "!!!"}]}), "data is not valid base64"),
        (json!({"content": "text"}), "content is not a list"),
        (json!({"content": [{"type": "hologram"}]}), "content type is not known"),
    ] {
        let seen = capture(&settings, answer).await;
        assert!(seen.artifacts.is_empty());
        assert_eq!(seen.report().status, Status::ProcessedSaveFailed);
        assert_eq!(seen.report().save.status, SaveStatus::Error);
        assert!(seen.notice().contains(error), "{}", seen.notice());
    }
}

/// seed: 000/5.1
#[tokio::test]
async fn a_text_and_an_image_make_two_artifacts() {
    let answer = json!({"content": [
        {"type": "text", "text": "A picture follows."},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ]});
    let seen = capture(&Settings::small_context(), answer).await;
    let kinds: Vec<_> =
        seen.artifacts.iter().map(|artifact| artifact.record.mime_type.as_str()).collect();
    assert_eq!(kinds, ["image/png", "text/plain"]);
    assert_eq!(seen.texts(), ["A picture follows."], "text beside a picture is shown");
    assert_eq!(seen.report().save.status, SaveStatus::Success);
}

/// seed: 000/5.2
#[tokio::test]
async fn the_notice_contains_what_a_second_turn_needs() {
    let csv = "name,age\n".to_owned() + &"Alice,30\n".repeat(500);
    let store = Arc::new(marquetry_artifacts::MemoryStore::default());
    let seen =
        capture_into(store.clone(), &Settings::small_context(), &text(&csv).to_string()).await;

    let notice = seen.notice();
    let name = seen.names()[0];
    let line = format!(
        "- '{name}' version 0: text/csv, {} bytes, table of 500 rows and 2 columns: name, age",
        csv.len()
    );
    assert!(notice.contains(&line), "{notice}");
    assert!(
        notice.contains("Read on with the tool 'read_artifact', name as above and start_byte="),
        "{notice}"
    );

    // The name in the notice is the name of the artifact with the whole text.
    let quoted = notice.split('\'').find(|part| part.contains("_csv_")).unwrap();
    let name = marquetry_artifacts::ArtifactName::parse(quoted).unwrap();
    let scope = marquetry_artifacts::Scope::local();
    let artifact = marquetry_artifacts::ArtifactStore::get(&*store, &scope, &name, Version::Latest)
        .await
        .unwrap();
    let text = std::str::from_utf8(&artifact.content).unwrap();
    assert_eq!((text.lines().nth(500), text.lines().count()), (Some("Alice,30"), 501));
}

/// seed: 000/5.3
#[tokio::test]
async fn texts_of_different_formats_make_artifacts_of_different_types() {
    let answer = json!({"content": [
        {"type": "text", "text": "{\"a\": [1, 2]}"},
        {"type": "text", "text": "a,b\n1,2\n3,4\n"},
    ]});
    let seen = capture(&eager(), answer).await;
    let kinds: Vec<_> =
        seen.artifacts.iter().map(|artifact| artifact.record.mime_type.as_str()).collect();
    assert_eq!(kinds, ["text/csv", "application/json"]);
    assert_eq!(seen.texts(), ["{\"a\": [1, 2]}", "a,b\n1,2\n3,4\n"]);
}

/// A repeated call creates another version of a resource's artifact, whose name has no random part.
#[tokio::test]
async fn a_resource_that_comes_again_is_a_new_version() {
    let store = Arc::new(marquetry_artifacts::MemoryStore::default());
    let answer = |text: &str| json!({"content": [{"type": "resource", "resource": {"uri": "a:/x.txt", "text": text}}]});
    for (version, text) in ["one", "two", "three"].into_iter().enumerate() {
        let seen =
            capture_into(store.clone(), &Settings::small_context(), &answer(text).to_string())
                .await;
        assert_eq!(seen.report().save.artifacts[0].version, version as u64);
        assert_eq!(seen.names()[version], "srv__tool_resource_0_x.txt");
        assert_eq!(seen.artifacts[version].content, text);
    }
}

/// An answer that is not captured keeps its white space and its order of keys.
#[tokio::test]
async fn unchanged_means_byte_for_byte() {
    let sent = "{ \"isError\" : false,\n \"content\":[ {\"text\":\"\\u00e9\",\"type\":\"text\"} ] , \"x\":1.0}";
    assert!(capture_raw(&Settings::small_context(), sent).await.is_unchanged());
}
