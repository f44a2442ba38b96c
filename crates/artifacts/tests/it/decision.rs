//! The decision table: what is saved, what is shown, and which status says so.

use std::sync::Arc;

use marquetry_artifacts::{
    Artifact, Audience, MemoryStore, Report, Scope, Settings, ToolCall,
    report::{Outcome, SavedArtifact, Status, StructuredShown},
    settings::{Oversize, SizeMeasure},
};
use serde_json::{Value, json, value::RawValue};

use crate::support::{
    FailingStore, PNG, capture, capture_into, capture_of, capture_raw, capturer, settings,
};

const AT: [u64; 5] = [99, 100, 101, 200, 201];

/// An answer of exactly this many bytes.
fn of_size(bytes: u64) -> String {
    let empty = json!({"content": [{"type": "text", "text": ""}]}).to_string();
    empty.replace("\"\"", &format!("\"{}\"", "x".repeat(bytes as usize - empty.len())))
}

fn limits(save: u64, show: u64) -> Settings {
    let mut settings = Settings::small_context();
    settings.mcp_tool_response_save_threshold_bytes = save;
    settings.mcp_tool_llm_return_max_bytes = show;
    settings
}

#[tokio::test]
async fn text_alone() {
    use Status::*;
    for (save, show, want) in [
        // A size equal to a threshold is not over it.
        (
            100,
            200,
            [
                None,
                None,
                Some(ProcessedAndSaved),
                Some(ProcessedAndSaved),
                Some(ProcessedSavedAndTruncated),
            ],
        ),
        // Over the limit everything is saved, whatever the save threshold.
        (
            1000,
            100,
            [
                None,
                None,
                Some(ProcessedSavedAndTruncated),
                Some(ProcessedSavedAndTruncated),
                Some(ProcessedSavedAndTruncated),
            ],
        ),
        (0, 1000, [Some(ProcessedAndSaved); 5]),
        (u64::MAX, u64::MAX, [None; 5]),
        (0, 0, [Some(ProcessedSavedAndTruncated); 5]),
    ] {
        for (bytes, want) in AT.into_iter().zip(want) {
            let sent = of_size(bytes);
            assert_eq!(sent.len() as u64, bytes);
            let seen = capture_raw(&limits(save, show), &sent).await;
            let status = seen.captured.report().map(|report| report.status);
            assert_eq!(status, want, "save {save}, show {show}, {bytes} bytes");
            assert_eq!(seen.artifacts.len(), usize::from(want.is_some()));
            assert_eq!(seen.is_unchanged(), want.is_none());
            if let Some(report) = seen.captured.report() {
                assert_eq!(report.size_bytes, bytes);
            }
        }
    }
}

#[tokio::test]
async fn text_that_cannot_be_saved() {
    use Status::*;
    for (oversize, want) in [
        (
            Oversize::Truncate,
            [
                None,
                None,
                Some(ProcessedSaveFailed),
                Some(ProcessedSaveFailed),
                Some(ProcessedTruncatedSaveFailed),
            ],
        ),
        (
            Oversize::Withhold,
            [
                None,
                None,
                Some(ProcessedSaveFailed),
                Some(ProcessedSaveFailed),
                Some(ProcessedWithheldSaveFailed),
            ],
        ),
    ] {
        for (bytes, want) in AT.into_iter().zip(want) {
            let mut settings = limits(100, 200);
            settings.oversize = oversize;
            let seen = capture_into(FailingStore::new(|_| true), &settings, &of_size(bytes)).await;
            assert_eq!(
                seen.captured.report().map(|report| report.status),
                want,
                "{oversize:?} {bytes}"
            );
            assert!(!seen.raw_result().contains("artifact://"));
        }
    }
}

#[tokio::test]
async fn withheld_answers_show_nothing() {
    let mut settings = limits(100, 200);
    settings.oversize = Oversize::Withhold;
    let seen = capture_raw(&settings, &of_size(201)).await;
    assert_eq!(seen.report().status, Status::ProcessedSavedAndWithheld);
    assert_eq!(seen.report().truncated.unwrap().shown_bytes, 0);
    assert!(seen.texts().is_empty() && !seen.raw_result().contains("xxxx"));
    assert_eq!(seen.content()[1]["type"], "resource_link");
    assert_eq!(seen.only().content, "x".repeat(201 - 39));

    let seen = capture_raw(&settings, &of_size(200)).await;
    assert_eq!(seen.report().status, Status::ProcessedAndSaved);
}

#[tokio::test]
async fn items_that_are_not_text() {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let answer = json!({"content": [{"type": "text", "text": "small"}, image]});
    // The picture is over the limit by itself, but it is not shown: the text is whole.
    let seen = capture(&limits(1000, 100), answer.clone()).await;
    assert_eq!(seen.report().status, Status::ProcessedAndSaved);
    assert_eq!(seen.texts(), ["small"]);
    assert!(seen.report().size_bytes > 100);

    // Items that cannot be saved stay in the answer, if it is small enough.
    for (show, items) in [(1000, 3), (100, 2)] {
        let seen =
            capture_into(FailingStore::new(|_| true), &limits(1000, show), &answer.to_string())
                .await;
        assert_eq!(seen.report().status, Status::ProcessedSaveFailed);
        assert_eq!(seen.content().len(), items, "limit {show}");
        assert_eq!(seen.raw_result().contains(PNG), items == 3);
        assert_eq!(seen.notice().contains("What is neither shown nor saved is lost."), items == 2);
    }

    let long = json!({"content": [{"type": "text", "text": "y".repeat(300)}, image]});
    let seen = capture(&limits(1000, 200), long).await;
    assert_eq!(seen.report().status, Status::ProcessedSavedAndTruncated);
    assert!(seen.texts().concat().len() <= 200);
    assert_eq!(seen.artifacts.len(), 2);
}

#[tokio::test]
async fn several_texts_share_the_limit() {
    let answer = json!({"content": [
        {"type": "text", "text": "a".repeat(150)},
        {"type": "text", "text": "b".repeat(150), "annotations": {"priority": 1}},
        {"type": "text", "text": "c"},
    ]});
    let seen = capture(&limits(100, 280), answer).await;
    let texts = seen.texts();
    assert_eq!(texts.len(), 2, "nothing follows what was cut");
    assert_eq!(texts[0], "a".repeat(150));
    assert_eq!(texts[1], "b".repeat(130), "the limit is used up");
    assert_eq!(seen.content()[2]["annotations"]["priority"], 1);
    assert_eq!(seen.artifacts.len(), 3);
}

#[tokio::test]
async fn the_notice_says_whole_only_if_all_is_shown() {
    let answer = json!({"content": vec![json!({"type": "text", "text": "a"}); 3000]});
    let seen = capture(&Settings::small_context(), answer).await;
    assert_eq!(seen.texts().len(), 1000);
    let cut = seen.report().truncated.unwrap();
    assert_eq!((cut.shown_bytes, cut.total_bytes), (1000, 3000));
    assert!(
        seen.notice().contains("1000 of the 3000 bytes of its text are shown"),
        "{}",
        seen.notice()
    );

    let seen = capture(&Settings::small_context(), json!({"foo": "x".repeat(50_000)})).await;
    assert!(seen.texts().is_empty());
    assert!(seen.notice().contains("it has no text that could be shown"), "{}", seen.notice());
}

#[tokio::test]
async fn a_limit_smaller_than_any_mark_still_holds() {
    for show in 0..80 {
        let answer = json!({"content": [{"type": "text", "text": "ä".repeat(200)}]});
        let seen = capture(&limits(0, show), answer).await;
        let shown = seen.texts().concat();
        assert!(shown.len() as u64 <= show, "{show}: {}", shown.len());
        assert!(show < 2 || shown.starts_with('ä'), "{show}: {shown}");
    }
}

#[tokio::test]
async fn structured_content_follows_the_text() {
    let of = |text: &str| json!({"content": [{"type": "text", "text": "see data"}], "structuredContent": {"value": text}});
    // Small: as it was. Larger: saved, and still there.
    assert!(capture(&limits(200, 400), of("x")).await.is_unchanged());
    let seen = capture(&limits(100, 400), of(&"x".repeat(100))).await;
    assert_eq!(seen.result()["structuredContent"]["value"], "x".repeat(100));
    assert_eq!(seen.artifacts.len(), 2);
    // Too large: saved, and a note in its place, so that a client that wants structured content has
    // some.
    let seen = capture(&limits(100, 400), of(&"x".repeat(1000))).await;
    assert_eq!(seen.report().status, Status::ProcessedSavedAndTruncated);
    assert_eq!(seen.texts(), ["see data"]);
    let note = &seen.result()["structuredContent"]["marquetry/capture"];
    assert_eq!(note["status"], "processed_saved_and_truncated");
    let uri = note["artifacts"][0].as_str().unwrap();
    assert!(uri.starts_with("artifact://srv__tool_structured_"), "{uri}");
    assert!(
        seen.notice().contains("its text is shown whole, its structured content is not"),
        "{}",
        seen.notice()
    );
    let saved = seen
        .artifacts
        .iter()
        .find(|artifact| artifact.record.name.as_str().contains("structured"))
        .unwrap();
    assert_eq!(saved.content, format!("{{\"value\":\"{}\"}}", "x".repeat(1000)));
}

#[tokio::test]
async fn structured_content_may_be_null() {
    let of = |bytes: usize| {
        let text = "x".repeat(bytes);
        json!({"content": [{"type": "text", "text": text}], "structuredContent": null})
    };
    for (bytes, count) in [(10, 0), (150, 1), (1000, 1)] {
        let seen = capture(&limits(100, 400), of(bytes)).await;
        assert_eq!(seen.result().get("structuredContent"), Some(&json!(null)), "{bytes} bytes");
        assert_eq!(seen.artifacts.len(), count, "{bytes} bytes");
        if let Some(report) = seen.captured.report() {
            let structured = report.structured.as_ref().unwrap();
            assert_eq!(structured.outcome, Outcome::Inlined);
            assert_eq!(structured.reason.as_deref(), Some("null is kept as sent"));
            assert!(!seen.notice().contains("structured content"), "{}", seen.notice());
        }
    }
}

#[tokio::test]
async fn structured_content_that_says_the_same_as_a_text_is_not_saved_twice() {
    let data = json!({"list": [1, 2, 3], "name": "ä \" x"});
    let plain = "p".repeat(50);
    for (text, structured, same) in [
        (data.to_string(), data.clone(), true),
        (serde_json::to_string_pretty(&data).unwrap(), data.clone(), true),
        (plain.clone(), json!({"result": plain}), true),
        (plain.clone(), json!({"content": plain}), true),
        (plain.clone(), json!({"result": plain, "more": 1}), false),
        (plain.clone(), json!(plain), false),
        (data.to_string(), json!({"list": [1, 2]}), false),
    ] {
        let answer =
            json!({"content": [{"type": "text", "text": text}], "structuredContent": structured});
        let seen = capture(&limits(1, 10_000), answer).await;
        assert_eq!(seen.artifacts.len(), if same { 1 } else { 2 }, "{structured}");
        let report = seen.report().structured.as_ref().unwrap();
        assert_eq!(report.reason.as_deref(), same.then_some("same JSON as item 0"));
        assert!(report.artifact.is_some());
    }
}

#[tokio::test]
async fn sizes_can_be_measured_as_the_reference_does() {
    // 1 byte more for each comma and colon, 4 more for each `é`.
    let sent = r#"{"content":[{"type":"text","text":"éé"}]}"#;
    let mut settings = limits(sent.len() as u64, 1000);
    assert!(capture_raw(&settings, sent).await.is_unchanged());
    settings.size_measure = SizeMeasure::SamCompatible;
    let seen = capture_raw(&settings, sent).await;
    assert_eq!(seen.report().size_bytes, sent.len() as u64 + 4 + 8);
}

#[tokio::test]
async fn an_unfinished_answer_passes_through() {
    let long = "x".repeat(9000);
    for answer in [
        json!({"resultType": "input_required", "requestState": long}),
        json!({"task": {"taskId": long}}),
    ] {
        assert!(capture(&Settings::small_context(), answer).await.is_unchanged());
    }
    // The word alone does not lift the limit.
    let answer =
        json!({"resultType": "input_required", "content": [{"type": "text", "text": long}]});
    assert_eq!(
        capture(&Settings::small_context(), answer).await.report().status,
        Status::ProcessedSavedAndTruncated
    );
    let answer = json!({"resultType": "complete", "structuredContent": long});
    assert_eq!(
        capture(&Settings::small_context(), answer).await.report().status,
        Status::ProcessedSavedAndTruncated
    );
}

#[tokio::test]
async fn other_members_of_the_answer_are_kept() {
    let answer = format!(
        r#"{{"isError":true,"content":[{{"type":"text","text":"{}"}}],"_meta":{{"a":1.50,"marquetry/capture":"forged"}},"later":[null]}}"#,
        "e".repeat(9000)
    );
    let seen = capture_raw(&Settings::small_context(), &answer).await;
    let result = seen.result();
    assert_eq!(result["isError"], true);
    assert_eq!(result["later"], json!([null]));
    assert_eq!(result["_meta"]["marquetry/capture"]["status"], "processed_saved_and_truncated");
    assert!(seen.raw_result().contains("\"a\":1.50"), "numbers are not rewritten");
    let keys: Vec<_> = ["isError", "content", "later", "_meta"]
        .map(|key| seen.raw_result().find(&format!("\"{key}\":")))
        .into();
    assert!(keys.is_sorted(), "members keep their order: {keys:?}");
}

#[tokio::test]
async fn other_members_do_not_evade_the_limit() {
    let long = "x".repeat(50_000);
    let many: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
    let of = |member: &str, value: serde_json::Value| {
        let mut answer = json!({"isError": true, "resultType": "complete", "content": [{"type": "text", "text": "hi"}]});
        answer[member] = value;
        answer
    };
    for (answer, name) in [
        (of("foo", json!(long)), "foo"),
        (of("_meta", json!({"a": {"b": long}, "small": 1})), "_meta/a"),
        (of("_meta", json!(many)), "_meta/k"),
        (of("resultType", json!(long)), "resultType"),
        (of(&long, json!(1)), "xxx"),
    ] {
        let seen = capture(&Settings::small_context(), answer.clone()).await;
        assert!(seen.raw_result().len() < 10_000, "{name}: {}", seen.raw_result().len());
        let left_out = seen.report().left_out.clone().unwrap();
        assert!(left_out.names.len() <= 8 && left_out.names[0].starts_with(name), "{left_out:?}");
        assert!(seen.notice().contains(" bytes beside the content ("), "{}", seen.notice());
        let result = seen.result();
        assert_eq!((&result["isError"], seen.texts()), (&json!(true), vec!["hi".to_owned()]));
        assert!(name != "_meta/a" || result["_meta"]["small"] == 1);
        let whole = seen.report().save.fallback_artifact.clone().unwrap();
        let whole = seen.artifacts.iter().find(|artifact| artifact.record.name == whole.name);
        assert_eq!(whole.unwrap().content, seen.sent, "all of it is kept");

        let failed = capture_into(
            FailingStore::new(|_| true),
            &Settings::small_context(),
            &answer.to_string(),
        )
        .await;
        assert!(failed.notice().contains("is lost"), "{}", failed.notice());
    }
    // Below the limit everything stays.
    let seen = capture(&limits(100, 60_000), of("foo", json!(long))).await;
    assert_eq!(seen.result()["foo"], long);
    assert!(seen.report().left_out.is_none());
}

#[tokio::test]
async fn links_and_empty_texts_alone_are_nothing_to_save() {
    let link = json!({"type": "resource_link", "uri": "https://example.com/long", "name": "n".repeat(3000)});
    let answer = json!({"content": [link, {"type": "text", "text": ""}]});
    assert!(capture(&Settings::small_context(), answer.clone()).await.is_unchanged());
    // Over the limit the link would be lost: it is kept.
    let link = answer["content"][0].clone();
    let seen = capture(&limits(100, 200), answer).await;
    let kept: serde_json::Value = serde_json::from_slice(&seen.only().content).unwrap();
    assert_eq!(kept, json!([link]));
    assert_eq!(seen.content().len(), 1, "the notice");
    assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
}

#[tokio::test]
async fn small_images_can_stay_for_models_that_see() {
    let answer = json!({"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]});
    for (most, items) in [(0, 2), (69, 2), (70, 3)] {
        let keys =
            format!("mcp_tool_response_save_threshold_bytes = 1\ninline_image_max_bytes = {most}");
        let seen = capture(&settings(&keys), answer.clone()).await;
        assert_eq!(seen.content().len(), items);
        assert_eq!(seen.raw_result().contains(PNG), items == 3);
        assert_eq!(seen.artifacts.len(), 1);
    }
    // Not with whatever else an upstream puts into the item.
    let mut answer = answer;
    answer["content"][0]["_meta"] = json!({"a": "x".repeat(9000)});
    let seen = capture(&settings("inline_image_max_bytes = 70"), answer).await;
    assert!(!seen.raw_result().contains(PNG) && seen.raw_result().len() < 9000);
}

#[tokio::test]
async fn images_that_stay_are_bounded_together() {
    // 70 bytes each. The last two are saved together, and count with their JSON: 111 bytes or so.
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let answer = json!({"content": vec![image; 5]});
    for (total, images) in [(69, 0), (140, 2), (209, 2), (210, 3), (350, 4), (450, 5)] {
        let settings = settings(&format!(
            "mcp_tool_llm_return_max_bytes = 100\ninline_image_max_bytes = 200\ninline_images_total_max_bytes = {total}\n\
             mcp_intelligent_processing.max_content_items = 3"
        ));
        let seen = capture(&settings, answer.clone()).await;
        let shown = seen.content();
        let shown = shown.iter().filter(|item| item["type"] == "image").count();
        assert_eq!(shown, images, "{total}");
        assert_eq!(seen.artifacts.len(), 2, "equal images are one artifact");
    }
}

#[tokio::test]
async fn odd_images_that_stay_are_put_in_order() {
    // Models' servers refuse base64 with line ends, and a PNG that says it is a JPEG.
    let data = format!("{}\n{}", &PNG[..20], &PNG[20..]);
    let answer = json!({"content": [{"type": "image", "data": data, "mimeType": "image/jpeg"}]});
    let seen = capture(&Settings::default(), answer).await;
    assert_eq!(seen.content()[0], json!({"type": "image", "data": PNG, "mimeType": "image/png"}));
    assert_eq!(seen.content()[1]["type"], "resource_link");
    let item = &seen.report().items[0];
    assert_eq!(item.warnings.len(), 2, "{:?}", item.warnings);
    // Data that is not an image is not shown as one.
    for (data, declared, detected) in [
        ("JVBERi0xLjQK", json!("image/png"), "application/pdf"),
        ("UEsDBAAA", json!("image/jpeg"), "application/zip"),
        ("bm8gaW1hZ2U=", json!("image/webp"), "image/webp"),
        ("/////w==", json!("image/GIF; x=y"), "image/GIF; x=y"),
        ("/////w==", json!(null), "image/png"),
    ] {
        let image = json!({"type": "image", "data": data, "mimeType": declared});
        let seen = capture(&Settings::default(), json!({"content": [image]})).await;
        assert_eq!(seen.content().len(), 2, "a link and the notice");
        assert_eq!(seen.content()[0]["type"], "resource_link");
        assert_eq!(seen.content()[0]["mimeType"], detected);
        let are = if detected.starts_with("image/") { "of an unknown type" } else { detected };
        let warnings = &seen.report().items[0].warnings;
        assert!(warnings[0].ends_with(&format!(", but the bytes are {are}")), "{warnings:?}");
    }
    // Services of models refuse images of other types.
    let image = json!({"type": "image", "data": "/////w==", "mimeType": "image/x-unheard-of"});
    let seen = capture(&Settings::default(), json!({"content": [image]})).await;
    assert_eq!(seen.content()[0]["type"], "resource_link");
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

#[tokio::test]
async fn images_of_many_items_are_checked_too() {
    let right = image(PNG);
    let wrong = image("bm8gaW1hZ2U=");
    let settings =
        settings("inline_image_max_bytes = 200\nmcp_intelligent_processing.max_content_items = 1");
    // Services of models refuse line breaks and a prefix.
    let uri = image(&format!("data:image/png;base64,{}\n{}", &PNG[..8], &PNG[8..]));
    let answer = json!({"content": [{"type": "text", "text": "a"}, right, wrong, uri]});
    let seen = capture(&settings, answer).await;
    let images = seen.content().into_iter().filter(|item| item["type"] == "image");
    assert_eq!(images.collect::<Vec<_>>(), [right.clone(), right]);
    let is_saved = |artifact: &Artifact| {
        std::str::from_utf8(&artifact.content).is_ok_and(|text| text.contains("bm8gaW1hZ2U="))
    };
    assert!(seen.artifacts.iter().any(is_saved), "{:?}", seen.artifacts);
}

/// A model reads on where the shown part ends.
#[tokio::test]
async fn the_notice_says_where_to_read_on() {
    let text = "line of text\n".repeat(100);
    let answer = json!({"content": [{"type": "text", "text": text}]});
    let seen = capture(&limits(100, 900), answer).await;
    let shown = seen.report().truncated.unwrap().head_bytes as usize;
    let rest =
        format!("Read on with the tool 'read_artifact', name as above and start_byte={shown}.");
    assert!(seen.notice().contains(&rest), "{}", seen.notice());
    let start = seen.content()[1]["text"].as_str().unwrap().to_owned();
    assert!(start.starts_with(&text[..shown]) && text[shown..].starts_with("\nline"), "{start}");
}

/// B1: below the limits nothing is changed, whatever the answer is made of but binary items.
#[tokio::test]
async fn by_default_ordinary_answers_pass_unchanged() {
    let source = "def f():\n    return 1\n".repeat(900);
    let rows = json!({"rows": vec![json!({"a": "ä"}); 400]});
    for answer in [
        json!({"content": [{"type": "text", "text": source}]}),
        json!({"content": [{"type": "resource", "resource": {"uri": "file:///a.py", "text": source}}]}),
        json!({"content": [{"type": "text", "text": source}], "structuredContent": {"content": source}}),
        json!({"content": [{"type": "text", "text": rows.to_string()}], "structuredContent": rows}),
        json!({"content": [], "structuredContent": rows, "isError": false, "_meta": {"a": 1}}),
    ] {
        assert!(capture(&Settings::default(), answer.clone()).await.is_unchanged(), "{answer}");
    }
}

/// B1: content that is both text and structured content is measured once.
#[tokio::test]
async fn structured_content_and_its_twin_are_measured_once() {
    for (wrap, bytes) in [("result", 30_000), ("content", 30_000), ("other", 30_000)] {
        let text = "x".repeat(bytes);
        let mut answer = json!({"content": [{"type": "text", "text": text}]});
        let alone = answer.to_string().len() as u64;
        answer["structuredContent"] = json!({ wrap: text });
        assert!(capture(&Settings::default(), answer.clone()).await.is_unchanged());
        let seen = capture(&limits(1, 100_000), answer.clone()).await;
        assert_eq!(seen.report().size_bytes, alone);
        answer["structuredContent"]["more"] = json!(1);
        let seen = capture(&limits(1, 100_000), answer.clone()).await;
        assert_eq!(seen.report().size_bytes, answer.to_string().len() as u64);
    }
}

/// B6: the measured size does not depend on the revision that the upstream speaks.
#[tokio::test]
async fn members_of_every_result_since_2026_07_28_are_not_measured() {
    let old = json!({"content": [{"type": "text", "text": "x".repeat(100)}], "_meta": {"a": 1}});
    let stamp = json!({"name": "s", "version": "1"});
    let mut new = old.clone();
    new["resultType"] = json!("complete");
    new["_meta"]["io.modelcontextprotocol/serverInfo"] = stamp.clone();
    let mut alone = old.clone();
    alone["_meta"] = json!({"io.modelcontextprotocol/serverInfo": stamp});
    let bytes = old.to_string().len() as u64;
    for (answer, bytes) in
        [(&old, bytes), (&new, bytes), (&alone, bytes - r#","_meta":{"a":1}"#.len() as u64)]
    {
        let seen = capture(&limits(1, 10_000), answer.clone()).await;
        assert_eq!(seen.report().size_bytes, bytes, "{answer}");
        for (save, is_unchanged) in [(bytes, true), (bytes - 1, false)] {
            let seen = capture(&limits(save, 10_000), answer.clone()).await;
            assert_eq!(seen.is_unchanged(), is_unchanged, "{save}: {answer}");
        }
    }
}

/// B3: shortened structured content satisfies the schema, and a line says how to get the whole.
#[tokio::test]
async fn shortened_structured_content_satisfies_its_schema() {
    let schema = json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "string"}}, "total": {"type": "integer"}},
        "required": ["rows", "total"],
        "additionalProperties": false,
    });
    let whole = json!({"rows": vec!["row ".repeat(20); 2000], "total": 2000});
    let validator = jsonschema::validator_for(&schema).unwrap();
    for text in [whole.to_string(), "see the rows".to_owned()] {
        let answer =
            json!({"content": [{"type": "text", "text": text}], "structuredContent": whole});
        let seen = capture_of(&limits(100, 4000), &answer.to_string(), &schema).await;
        let left = seen.result()["structuredContent"].clone();
        assert!(validator.is_valid(&left), "{left}");
        assert!(left.to_string().len() <= 4000 && left["rows"].as_array().unwrap().len() >= 16);
        assert_eq!(left["total"], 2000);
        let report = seen.report().structured.as_ref().unwrap();
        assert_eq!(report.shown, StructuredShown::Shortened);
        let notice = seen.notice();
        let line = notice.lines().find(|line| line.contains("structuredContent")).unwrap();
        let name = line.split("name '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
        assert!(line.contains("read_artifact") && line.contains("gives all of it"), "{line}");
        let artifact = seen.artifacts.iter().find(|it| it.record.name.as_str() == name).unwrap();
        let saved: serde_json::Value = serde_json::from_slice(&artifact.content).unwrap();
        assert_eq!(saved, whole);
    }
}

#[tokio::test]
async fn withheld_answers_show_no_structured_content() {
    let schema = json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "string"}}},
        "required": ["rows"],
    });
    let whole = json!({"rows": vec!["secret"; 100]});
    let mut settings = limits(100, 200);
    settings.oversize = Oversize::Withhold;
    for text in [whole.to_string(), "see the rows".to_owned()] {
        let answer =
            json!({"content": [{"type": "text", "text": text}], "structuredContent": whole});
        let seen = capture_of(&settings, &answer.to_string(), &schema).await;
        assert_eq!(seen.report().structured.as_ref().unwrap().shown, StructuredShown::Replaced);
        assert!(!seen.raw_result().contains("secret"), "{}", seen.raw_result());
    }
}

fn undecodable(text: &str) -> Vec<Value> {
    vec![
        json!({"text": text}),
        json!(text),
        json!({"type": "image", "data": format!("%{text}"), "mimeType": "image/png"}),
        json!({"type": "text", "text": [text]}),
        json!({"type": "resource", "resource": {"text": [text]}}),
    ]
}

#[tokio::test]
async fn an_undecodable_item_is_shown_as_json_in_its_place() {
    let long = json!({"type": "text", "text": "t".repeat(300)});
    for item in undecodable("important") {
        let other = json!({"type": "text", "text": "u".repeat(300)});
        let seen = capture(&limits(100, 900), json!({"content": [long, item, other]})).await;
        assert_eq!(seen.artifacts.len(), 2, "{item}");
        assert_eq!(seen.report().items[1].outcome, Outcome::Failed);
        let content = seen.content();
        let shown = content[1]["text"].as_str().unwrap();
        assert!(shown.starts_with("[item 1 ("), "{shown}");
        let (head, raw) = shown.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(raw).unwrap(), item);
        let reason = seen.report().items[1].reason.as_deref().unwrap();
        assert!(head.contains(reason), "{head}");
        assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
    }
}

#[tokio::test]
async fn an_undecodable_item_that_does_not_fit_is_saved_with_others() {
    let long = json!({"type": "text", "text": "t".repeat(600)});
    for item in undecodable(&"important".repeat(500)) {
        let answer = json!({"content": [item, long]});
        let seen = capture(&limits(100, 2000), answer.clone()).await;
        let report = &seen.report().items[0];
        assert_eq!(report.outcome, Outcome::Failed);
        let is_named = |saved: &&SavedArtifact| Some(&saved.uri) == report.artifact.as_ref();
        let saved = seen.report().save.artifacts.iter().find(is_named).expect("the JSON is saved");
        let stored = seen.artifacts.iter().find(|stored| stored.record.name == saved.name);
        let items: Value = serde_json::from_slice(&stored.unwrap().content).unwrap();
        assert_eq!(items, json!([item]));
        assert!(seen.notice().contains("; its JSON is in artifact://"), "{}", seen.notice());
        assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
        let shown = seen.texts().iter().map(String::len).sum::<usize>();
        assert!(shown <= 2000, "{shown}");
    }
}

#[tokio::test]
async fn an_undecodable_item_is_not_saved_without_fallback() {
    let mut settings = limits(100, 2000);
    settings.mcp_intelligent_processing.fallback_to_raw_on_error = false;
    let long = json!({"type": "text", "text": "t".repeat(600)});
    for item in undecodable(&"important".repeat(500)) {
        let seen = capture(&settings, json!({"content": [item, long]})).await;
        assert_eq!(seen.artifacts.len(), 1);
        assert!(seen.texts()[0].contains("and begins with:]\n"), "{:?}", seen.texts());
        assert!(seen.notice().contains("is lost"), "{}", seen.notice());
    }
}

#[tokio::test]
async fn content_that_is_no_list_is_saved_beside_structured_content() {
    let answer = json!({"content": "t".repeat(300), "structuredContent": {"a": 1}});
    let seen = capture(&limits(50, 100), answer.clone()).await;
    let whole = seen.report().save.fallback_artifact.as_ref().expect("the answer is saved");
    let whole = seen.artifacts.iter().find(|artifact| artifact.record.name == whole.name);
    assert_eq!(serde_json::from_slice::<Value>(&whole.unwrap().content).unwrap(), answer);
    assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
}

/// Captures an answer for a client that shows structured content in place of text.
async fn for_replacing_client(answer: &Value, schema: &Value) -> (Value, Report) {
    let mut audience = Audience::default();
    audience.max_tokens = Some(500);
    audience.replaces_text = true;
    let scope = Scope::local();
    let call = ToolCall::new(&scope, "srv__tool")
        .with_output_schema(Some(schema))
        .with_audience(Some(&audience));
    let raw = RawValue::from_string(answer.to_string()).unwrap();
    let captured =
        capturer(Arc::new(MemoryStore::default())).capture(call, &Settings::default(), raw).await;
    let report = captured.report().unwrap().clone();
    (serde_json::from_str(captured.into_result().get()).unwrap(), report)
}

#[tokio::test]
async fn a_client_that_shows_structured_content_alone_sees_the_notice() {
    let text: String = (0..500).map(|number| format!("line {number}\n")).collect();
    let answer = json!({
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"content": text},
    });
    let schema = json!({"type": "object", "properties": {"content": {"type": "string"}}});
    let (result, report) = for_replacing_client(&answer, &schema).await;
    assert_eq!(result.get("structuredContent"), None);
    assert_eq!(report.structured.unwrap().shown, StructuredShown::Dropped);
    let notice = result["content"][0]["text"].as_str().unwrap();
    assert!(notice.starts_with("[The answer of tool 'srv__tool' has "), "{notice}");
    let shown = result["content"][1]["text"].as_str().unwrap();
    assert!(shown.starts_with("line 0\n") && shown.ends_with("line 499\n"), "{shown}");
}

#[tokio::test]
async fn shortened_structured_content_carries_the_notice() {
    let rows: Vec<String> = (0..500).map(|number| format!("row {number}")).collect();
    let answer = json!({"content": [], "structuredContent": {"rows": rows}});
    let mut schema = json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "string"}}},
    });
    let seen = capture_of(&limits(100, 1_000), &answer.to_string(), &schema).await;
    let notice =
        seen.result()["structuredContent"]["marquetry/notice"].as_str().unwrap().to_owned();
    assert!(notice.contains("is saved as"), "{notice}");

    // A schema without room for another member has it at the beginning of a text that was cut.
    schema = json!({
        "type": "object",
        "properties": {"content": {"type": "string"}},
        "required": ["content"],
        "additionalProperties": false,
    });
    let answer = json!({"content": [], "structuredContent": {"content": "x".repeat(50_000)}});
    let seen = capture_of(&limits(100, 4_000), &answer.to_string(), &schema).await;
    let structured = &seen.result()["structuredContent"];
    let shown = structured["content"].as_str().unwrap();
    assert!(shown.starts_with("[The answer of tool") && shown.ends_with("x…"), "{shown}");
    assert!(jsonschema::is_valid(&schema, structured));
}
