//! Items one by one: what each becomes, and every switch that changes it.

use marquetry_artifacts::{
    Artifact, Report, Settings,
    report::{Outcome, SaveStatus, Status},
};
use serde_json::{Value, json};

use crate::support::{FailingStore, PNG, capture, capture_into, capture_raw, settings};

/// The outcome and reason of a single item.
async fn check(item: Value, outcome: Outcome, reason: Option<&str>) {
    let answer = json!({"content": [item, {"type": "image", "data": PNG}]});
    let seen = capture(&Settings::small_context(), answer).await;
    let report = &seen.report().items[0];
    assert_eq!((report.outcome, report.reason.as_deref()), (outcome, reason), "{item}");
    let status = match outcome {
        Outcome::Saved | Outcome::Inlined => SaveStatus::Success,
        _ => SaveStatus::PartialSuccess,
    };
    assert_eq!(seen.report().save.status, status, "{item}");
    assert!(seen.report().save.fallback_artifact.is_none());
}

#[tokio::test]
async fn malformed_items() {
    use Outcome::*;
    for (item, outcome, reason) in [
        (json!({"type": "text", "text": ""}), Inlined, Some("text is empty")),
        (json!({"type": "text"}), Failed, Some("item has no text")),
        (json!({"type": "text", "text": 7}), Failed, Some("text is not a string")),
        (json!({"type": "text", "text": null}), Failed, Some("text is not a string")),
        (json!({"text": "x"}), Failed, Some("item has no type")),
        (json!({"type": 3}), Failed, Some("item has no type")),
        (json!("text"), Failed, Some("item is not an object")),
        (json!(null), Failed, Some("item is not an object")),
        (json!([]), Failed, Some("item is not an object")),
        (json!({"type": "hologram", "x": 1}), Skipped, Some("content type is not known")),
        (json!({"type": "image"}), Failed, Some("image has no data")),
        (json!({"type": "audio", "data": null}), Failed, Some("audio has no data")),
        (json!({"type": "image", "data": {}}), Failed, Some("data is not a string")),
        (json!({"type": "image", "data": ""}), Skipped, Some("data is empty")),
        (
            json!({"type": "image", "data": "="}),
            Failed,
            Some("data is not valid base64: byte 0x3d at offset 0 is out of place"),
        ),
        (json!({"type": "resource"}), Failed, Some("item has no resource")),
        (json!({"type": "resource", "resource": "x"}), Failed, Some("item has no resource")),
        (
            json!({"type": "resource", "resource": {}}),
            Failed,
            Some("resource has no text, no blob and no uri"),
        ),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "blob": "?"}}),
            Failed,
            Some("data is not valid base64: byte 0x3f at offset 0 is out of place"),
        ),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "blob": "", "text": "t"}}),
            Saved,
            None,
        ),
        (json!({"type": "resource", "resource": {"text": "t"}}), Saved, None),
        (
            json!({"type": "resource_link", "uri": "a:b", "name": "n"}),
            Inlined,
            Some("link is kept as sent"),
        ),
    ] {
        check(item, outcome, reason).await;
    }
}

#[tokio::test]
async fn half_surrogate_pairs_lose_no_item() {
    let seen = capture_raw(
        &settings("mcp_tool_response_save_threshold_bytes = 1"),
        r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#,
    )
    .await;
    assert_eq!(seen.only().content, "a\u{fffd}\u{fffd}\u{fffd}b");
    assert_eq!(
        seen.only().record.metadata.warnings,
        ["text held half surrogate pairs, which became U+FFFD"]
    );
}

async fn image(item: Value) -> Artifact {
    capture(&Settings::small_context(), json!({"content": [item]})).await.only().clone()
}

#[tokio::test]
async fn base64_in_odd_forms_is_decoded_and_reported() {
    let bytes = image(json!({"type": "image", "data": PNG})).await.content;
    for (data, warning) in [
        (PNG.replace('=', ""), "base64 was not in the standard form"),
        (PNG.replace('/', "_").replace('+', "-"), "base64 was not in the standard form"),
        (format!("{}\n{}", &PNG[..40], &PNG[40..]), "base64 was not in the standard form"),
        (format!("data:image/png;base64,{PNG}"), "base64 stood behind a data: prefix"),
    ] {
        let artifact = image(json!({"type": "image", "data": data})).await;
        assert_eq!(artifact.content, bytes);
        assert_eq!(artifact.record.metadata.warnings, [warning]);
        assert_eq!(artifact.record.mime_type, "image/png");
    }
}

#[tokio::test]
async fn the_detected_type_wins_over_the_declared_one() {
    for (declared, mime_type, extension, warnings) in [
        (json!("image/png"), "image/png", "png", 0),
        (json!("IMAGE/PNG; a=b"), "image/png", "png", 1),
        (json!(null), "image/png", "png", 0),
        (json!("image/jpeg"), "image/png", "png", 1),
        (json!("application/octet-stream"), "image/png", "png", 1),
        (json!("nonsense"), "image/png", "png", 1),
        (json!("x".repeat(9000)), "image/png", "png", 1),
        (json!("../../evil"), "image/png", "png", 1),
    ] {
        let artifact = image(json!({"type": "image", "data": PNG, "mimeType": declared})).await;
        assert_eq!(artifact.record.mime_type, mime_type, "{declared}");
        assert_eq!(artifact.record.name.extension(), Some(extension), "{declared}");
        assert_eq!(
            artifact.record.metadata.warnings.len(),
            warnings,
            "{:?}",
            artifact.record.metadata.warnings
        );
        assert_eq!(artifact.record.metadata.sniffed_mime.as_deref(), Some("image/png"));
        assert!(artifact.record.metadata.original_mime_type.unwrap_or_default().len() < 300);
    }
    let unknown =
        image(json!({"type": "image", "data": "AAAA", "mimeType": "image/x-unheard-of"})).await;
    assert_eq!(
        (unknown.record.mime_type.as_str(), unknown.record.name.extension()),
        ("image/x-unheard-of", Some("bin"))
    );
    let sound = image(json!({"type": "audio", "data": "AAAA"})).await;
    assert_eq!(
        (sound.record.mime_type.as_str(), sound.record.name.extension()),
        ("audio/wav", Some("wav"))
    );
}

#[tokio::test]
async fn resources_are_named_by_their_uris() {
    for (uri, mime_type, name) in [
        ("file:///a/b.txt", "text/plain", "srv__tool_resource_0_b.txt"),
        ("file:///../../etc/passwd", "text/plain", "srv__tool_resource_0_passwd.txt"),
        ("file:///a/%2e%2e%2fx.md", "text/markdown", "srv__tool_resource_0_x.md"),
        ("file:///a/..%5C..%5Cwin.ini", "text/plain", "srv__tool_resource_0_win.ini"),
        ("file:///a/%00%e2%80%aegpj.exe", "text/plain", "srv__tool_resource_0_gpj.exe"),
        ("https://example.com", "text/plain", "srv__tool_resource_0_example_com.txt"),
        ("memo://x.metadata.json", "text/plain", "srv__tool_resource_0_x_metadata_json.txt"),
        ("memo:///x.metadata.json", "application/json", "srv__tool_resource_0_x_metadata.json"),
        ("", "text/plain", "srv__tool_resource_0_63cbe1e4.txt"),
    ] {
        let artifact =
            image(json!({"type": "resource", "resource": {"uri": uri, "text": "t"}})).await;
        assert_eq!(artifact.record.name.as_str(), name, "{uri}");
        assert_eq!(artifact.record.mime_type, mime_type, "{uri}");
    }
}

#[tokio::test]
async fn annotations_and_meta_are_kept() {
    let item = json!({"type": "image", "data": PNG, "annotations": {"audience": ["user"], "priority": 0.5, "x": 1},
        "_meta": {"origin": "camera"}});
    let seen = capture(&Settings::small_context(), json!({"content": [item]})).await;
    let metadata = &seen.only().record.metadata;
    assert_eq!(metadata.annotations.as_ref().unwrap(), &item["annotations"]);
    assert_eq!(metadata.meta.as_ref().unwrap(), &item["_meta"]);
    assert_eq!(seen.content()[0]["annotations"], item["annotations"]);
    assert_eq!(seen.content()[0]["_meta"], item["_meta"]);
}

#[tokio::test]
async fn items_of_unknown_types_stay_while_the_answer_is_small() {
    for (bytes, stays) in [(3000, true), (5000, false)] {
        let item = json!({"type": "hologram", "light": "x".repeat(bytes)});
        let answer = json!({"content": [item, {"type": "text", "text": "t"}]});
        let seen = capture(&Settings::small_context(), answer).await;
        assert_eq!(seen.content()[0] == item, stays);
        assert!(!seen.notice().contains("is lost"));
        let (status, outcome) = if stays {
            (SaveStatus::PartialSuccess, Outcome::Skipped)
        } else {
            (SaveStatus::Success, Outcome::Saved)
        };
        assert_eq!(seen.report().save.status, status);
        assert_eq!(seen.report().items[0].outcome, outcome);

        // Alone, it is kept too.
        let seen = capture(&Settings::small_context(), json!({"content": [item]})).await;
        let kept = if stays { seen.sent.clone() } else { json!([item]).to_string() };
        assert_eq!(seen.only().content, kept);
    }
}

fn text(n: usize) -> Value {
    json!({"type": "text", "text": format!("item {n:0>194}")})
}

/// B4: every item is shown, saved, or both.
#[tokio::test]
async fn items_over_the_most_are_saved_together() {
    let items: Vec<_> = (0..60).map(text).collect();
    let answer = json!({"content": items});
    let seen = capture(&Settings::small_context(), answer).await;
    assert_eq!(seen.artifacts.len(), 51);
    let report = seen.report();
    assert_eq!((report.items.len(), report.save.status), (60, SaveStatus::Success));
    assert!(report.items.iter().all(|item| item.outcome == Outcome::Saved));
    assert_eq!(report.items[59].reason.as_deref(), Some("answer has more than 50 items"));
    let shared: Vec<_> = report.items[50..].iter().map(|item| item.artifact.clone()).collect();
    assert!(shared.iter().all(|uri| uri.is_some() && *uri == shared[0]), "{shared:?}");
    let rest = seen
        .artifacts
        .iter()
        .find(|artifact| artifact.record.name.as_str().starts_with("srv__tool_items_"))
        .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&rest.content).unwrap(), json!(&items[50..]));
    assert!(!seen.notice().contains("is lost"), "{}", seen.notice());

    // Items that are saved together fail together.
    let store = FailingStore::new(|put| put == 50);
    let answer = json!({"content": items}).to_string();
    let seen = capture_into(store, &Settings::small_context(), &answer).await;
    assert!(seen.report().items[50..].iter().all(|item| item.outcome == Outcome::Failed));
    assert!(seen.notice().contains("is lost"), "{}", seen.notice());
}

/// C4: items after a number are not examined one by one, and not lost either.
#[tokio::test]
async fn items_that_are_not_examined_are_kept() {
    let items: Vec<_> =
        (0..30).map(|n| json!({"type": "text", "text": format!("item {n}")})).collect();
    let answer = json!({"content": items});
    let keys = "[mcp_intelligent_processing]\nmax_examined_items = 20\nmax_content_items = 5";
    for (show, texts) in [(100_000, 30), (50, 9)] {
        let keys = format!("mcp_tool_llm_return_max_bytes = {show}\n{keys}");
        let seen = capture(&settings(&keys), answer.clone()).await;
        assert_eq!((seen.report().items.len(), seen.report().items_not_listed), (20, 10));
        assert_eq!((seen.artifacts.len(), seen.texts().len()), (6, texts));
        let rest = &seen.report().save.artifacts[5];
        let rest = seen.artifacts.iter().find(|it| it.record.name == rest.name).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&rest.content).unwrap(), json!(&items[5..]));
        assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
    }
}

/// B6: the model is told that a resource came without content, and which it is.
#[tokio::test]
async fn a_resource_without_content_is_reported() {
    let item = json!({"type": "resource", "resource": {"uri": "https://example.com/a.txt?b=1"}});
    let seen = capture(&Settings::default(), json!({"content": [item]})).await;
    let notice = seen.notice();
    assert!(notice.contains("it holds no content"), "{notice}");
    assert!(notice.contains("https://example.com/a.txt?b=1"), "{notice}");
    let description = seen.content()[0]["description"].as_str().unwrap().to_owned();
    assert!(description.ends_with("only its URI, without content"), "{description}");
}

/// B6: surplus padding is accepted, with a warning in the outcome.
#[tokio::test]
async fn surplus_padding_is_reported() {
    let answer =
        json!({"content": [{"type": "image", "data": "iVBORw0KGgA==", "mimeType": "image/png"}]});
    let seen = capture(&Settings::default(), answer).await;
    let item = &seen.report().items[0];
    assert_eq!(item.outcome, Outcome::Saved);
    let warnings = [
        "base64 had more padding than its length needs",
        "the bytes are not a PNG, JPEG, GIF or WebP; it is not shown as an image",
    ];
    assert_eq!(item.warnings, warnings);
    assert_eq!(seen.only().content, &b"\x89PNG\r\n\x1a\0"[..]);
}

/// C4: the report does not list an artifact as saved if the store removed it to make room for the
/// rest of the same answer.
#[tokio::test]
async fn an_answer_larger_than_the_store_is_reported() {
    let limits = marquetry_artifacts::MemoryLimits::default().with_max_total_bytes(13_000);
    let store = std::sync::Arc::new(marquetry_artifacts::MemoryStore::new(limits));
    let items: Vec<_> =
        (0..5).map(|n| json!({"type": "text", "text": n.to_string().repeat(3000)})).collect();
    let answer = json!({"content": items}).to_string();
    let seen = capture_into(store, &Settings::small_context(), &answer).await;
    let saved = seen.report().items.iter().filter(|item| item.outcome == Outcome::Saved).count();
    assert_eq!((saved, seen.artifacts.len()), (2, 2));
    let reason = seen.report().items[0].reason.as_deref();
    assert_eq!(reason, Some("the store had to make room for the rest of the answer"));
}

#[tokio::test]
async fn items_over_the_maximum_size_are_reported_and_not_saved() {
    let large = "x".repeat(1024 * 1024 + 1);
    let encoded = "AAAA".repeat(1024 * 1024 / 3 + 1);
    let answer = json!({"content": [
        {"type": "text", "text": &large},
        {"type": "text", "text": &large[1..]},
        {"type": "image", "data": encoded},
        {"type": "resource", "resource": {"uri": "a:b", "text": &large}},
    ], "structuredContent": {"a": &large}});
    let seen =
        capture(&settings("[mcp_intelligent_processing]\nmax_single_item_size_mb = 1"), answer)
            .await;
    let outcomes: Vec<_> = seen.report().items.iter().map(|item| item.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Saved, Outcome::Failed, Outcome::Failed]);
    assert_eq!(
        seen.report().items[0].reason.as_deref(),
        Some("text is 1048577 bytes, more than the limit of 1048576")
    );
    assert_eq!(
        seen.report().items[2].reason.as_deref(),
        Some("data decodes to 1048578 bytes, more than the limit of 1048576")
    );
    assert_eq!(seen.report().structured.as_ref().unwrap().outcome, Outcome::Failed);
    assert_eq!(seen.only().content.len(), 1024 * 1024);

    // With a limit of nothing, nothing is saved, the whole answer neither.
    let answer = json!({"content": [{"type": "text", "text": "y".repeat(3000)}]});
    let seen =
        capture(&settings("[mcp_intelligent_processing]\nmax_single_item_size_mb = 0"), answer)
            .await;
    assert!(seen.artifacts.is_empty());
    assert_eq!(seen.report().status, Status::ProcessedSaveFailed);
    let message = &seen.report().save.message;
    assert_eq!(
        message,
        "text is 3000 bytes, more than the limit of 0; the whole answer is 3039 bytes, more than the limit of 0."
    );
}

#[tokio::test]
async fn formats_and_outlines_can_be_switched_off() {
    let answer = json!({"content": [{"type": "text", "text": "{\"a\": 1}"}]});
    let base = "mcp_tool_response_save_threshold_bytes = 1\n[mcp_intelligent_processing]\n";
    let seen =
        capture(&settings(&format!("{base}enable_text_format_detection = false")), answer.clone())
            .await;
    assert_eq!(seen.only().record.mime_type, "text/plain");
    let seen = capture(&settings(&format!("{base}enable_content_parsing = false")), answer).await;
    let record = &seen.only().record;
    assert_eq!(record.mime_type, "application/json");
    assert!(record.metadata.schema.is_none() && record.metadata.parsed_data_summary.is_none());
}

#[tokio::test]
async fn schemas_are_as_large_as_the_settings_say() {
    let answer =
        json!({"content": [{"type": "text", "text": r#"{"a": {"b": {"c": 1}}, "d": 1, "e": 1}"#}]});
    let settings = settings(
        "mcp_tool_response_save_threshold_bytes = 1\nschema_max_keys = 2\nschema_inference_depth = 2",
    );
    let seen = capture(&settings, answer).await;
    let schema = serde_json::to_value(&seen.only().record.metadata.schema).unwrap();
    assert_eq!(schema["structure"], json!({"a": {"b": "dict"}, "d": "int", "...": "1 more keys"}));
}

#[tokio::test]
async fn csv_is_unescaped_only_when_asked_for() {
    let sent = r"a,b\n1,C:\new\n2,3";
    let answer = json!({"content": [{"type": "text", "text": sent}]});
    let seen =
        capture(&settings("mcp_tool_response_save_threshold_bytes = 1"), answer.clone()).await;
    assert_eq!(
        (seen.only().record.mime_type.as_str(), &seen.only().content[..]),
        ("text/plain", sent.as_bytes())
    );
    let unescaping =
        settings("mcp_tool_response_save_threshold_bytes = 1\nunescape_csv_newlines = true");
    let simple = json!({"content": [{"type": "text", "text": r"a,b\n1,2\n3,4"}]});
    let seen = capture(&unescaping, simple).await;
    assert_eq!(
        (seen.only().record.mime_type.as_str(), &seen.only().content[..]),
        ("text/csv", &b"a,b\n1,2\n3,4"[..])
    );
}

#[tokio::test]
async fn the_whole_answer_can_be_saved_besides() {
    let settings = settings("[mcp_intelligent_processing]\nsave_raw_alongside_intelligent = true");
    let answer = json!({"content": [{"type": "image", "data": PNG}]});
    let seen = capture(&settings, answer.clone()).await;
    assert_eq!(seen.artifacts.len(), 2);
    let save = &seen.report().save;
    assert_eq!((save.status, save.artifacts.len()), (SaveStatus::Success, 1));
    assert!(save.fallback_artifact.as_ref().unwrap().name.as_str().starts_with("srv__tool_raw_"));

    let seen =
        capture_into(FailingStore::new(|put| put == 1), &settings, &answer.to_string()).await;
    assert_eq!(seen.report().save.status, SaveStatus::PartialSuccess);
    assert_eq!(
        seen.report().save.message,
        "1 artifact saved; the whole answer is not: the disk is on fire."
    );
}

#[tokio::test]
async fn a_store_that_fails_for_some_costs_only_these() {
    let items: Vec<_> = (0..4)
        .map(|n| json!({"type": "image", "data": PNG, "annotations": {"priority": n}}))
        .collect();
    let answer = json!({"content": items}).to_string();
    let seen =
        capture_into(FailingStore::new(|put| put % 2 == 0), &Settings::small_context(), &answer)
            .await;
    let outcomes: Vec<_> = seen.report().items.iter().map(|item| item.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Saved, Outcome::Failed, Outcome::Saved]);
    assert_eq!(
        seen.report().save.message,
        "2 artifacts saved; 2 items are not: the disk is on fire."
    );
    let kinds: Vec<_> =
        seen.content().iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        kinds,
        ["image", "resource_link", "image", "resource_link", "text"],
        "what was not saved stays"
    );

    // All items fail, the whole answer does not.
    let seen =
        capture_into(FailingStore::new(|put| put < 4), &Settings::small_context(), &answer).await;
    assert_eq!(seen.report().save.status, SaveStatus::PartialSuccess);
    assert_eq!(seen.only().content, answer);
    // Without intelligent processing there is no second chance.
    let off = settings("[mcp_intelligent_processing]\nenable_intelligent_processing = false");
    let seen = capture_into(FailingStore::new(|_| true), &off, &answer).await;
    assert_eq!(seen.report().save.status, SaveStatus::Error);
    assert_eq!(seen.report().save.message, "the disk is on fire.");
    assert!(seen.report().items.iter().all(|item| item.outcome == Outcome::Failed));
}

#[tokio::test]
async fn arguments_are_kept_without_their_secrets_and_not_reported() {
    let store = std::sync::Arc::new(marquetry_artifacts::MemoryStore::default());
    let scope = marquetry_artifacts::Scope::local();
    let raw = |json: Value| serde_json::value::to_raw_value(&json).unwrap();
    let arguments = raw(json!({"city": "Rome", "api_key": "hunter2"}));
    let call = marquetry_artifacts::ToolCall::new(&scope, "t").with_arguments(Some(&arguments));
    let answer = raw(json!({"content": [{"type": "image", "data": PNG}]}));
    let captured = crate::support::capturer(store.clone())
        .capture(call, &Settings::small_context(), answer)
        .await;
    let artifacts = crate::support::everything(&*store).await;
    let kept = artifacts[0].record.metadata.source_tool_args.clone().unwrap();
    assert_eq!(kept, json!({"city": "Rome", "api_key": "[redacted]"}));
    assert!(!captured.into_result().get().contains("Rome"));
}

#[tokio::test]
async fn the_report_in_meta_is_bounded() {
    let items: Vec<_> = (0..300)
        .map(|number| json!({"type": "text", "text": format!("a,b\n{number},2\n")}))
        .collect();
    let mut settings = Settings::small_context();
    settings.mcp_intelligent_processing.max_content_items = 200;
    for max in [200_000, 60_000, 8_000, 0] {
        settings.report_max_bytes = max;
        let seen = capture(&settings, json!({"content": items})).await;
        let whole = seen.report();
        assert_eq!((whole.items.len(), whole.save.artifacts.len()), (300, 201));
        let meta = &seen.result()["_meta"]["marquetry/capture"];
        let shown: Report = serde_json::from_value(meta.clone()).unwrap();
        assert_eq!(shown.message, whole.message);
        assert_eq!(shown.items.len() + shown.items_not_listed, 300);
        assert_eq!(shown.save.artifacts.len() + shown.save.artifacts_not_listed, 201);
        assert!(
            meta.to_string().len() as u64 <= max.max(4096),
            "{max}: {}",
            meta.to_string().len()
        );
        assert_eq!(shown == *whole, max == 200_000, "{max}");
    }
}
