//! Answers that a View gets beside the model, and answers that have to fit into a message.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    Audience, Captured, Capturer, META_KEY, MemoryStore, Report, Scope, Settings, ToolCall, ViewUse,
};
use serde_json::{Value, json, value::RawValue};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn captured(answer: &str, audience: &Audience, view: ViewUse) -> Captured {
    let scope = Scope::local();
    let call = ToolCall::new(&scope, "srv__tool").with_audience(Some(audience)).with_view(view);
    let raw = RawValue::from_string(answer.to_owned()).unwrap();
    Capturer::new(Arc::new(MemoryStore::default())).capture(call, &Settings::default(), raw).await
}

/// Returns an image of this many bytes.
fn png(bytes: usize) -> Value {
    let mut png = STANDARD.decode(PNG).unwrap();
    png.resize(bytes, 0);
    json!({"type": "image", "data": STANDARD.encode(png), "mimeType": "image/png"})
}

/// Returns the new answer without our report, and the report.
async fn without_report(answer: &Value, view: ViewUse) -> (Value, Report) {
    let captured = captured(&answer.to_string(), &Audience::default(), view).await;
    let report = captured.report().expect("the answer was captured").clone();
    let mut result: Value = serde_json::from_str(captured.into_result().get()).unwrap();
    let meta = result["_meta"].as_object_mut().unwrap();
    assert!(meta.remove(META_KEY).is_some());
    if meta.is_empty() {
        result.as_object_mut().unwrap().remove("_meta");
    }
    (result, report)
}

/// An answer over the limit, with members of every kind that a View may read.
fn large_answer() -> Value {
    let rows: Vec<_> =
        (0..5_000).map(|id| json!({"id": id, "name": format!("row {id}")})).collect();
    json!({
        "content": [
            {"type": "text", "text": json!({"rows": rows}).to_string(), "_meta": {"x": 1}},
            {"type": "image", "data": PNG, "mimeType": "image/svg+xml"},
            {"type": "hologram", "depth": 3},
        ],
        "structuredContent": {"rows": rows},
        "_meta": {"viewUUID": "1", "large": "x".repeat(5_000)},
        "more": "y".repeat(5_000),
    })
}

#[tokio::test]
async fn a_view_gets_a_large_answer_as_sent() {
    let answer = large_answer();
    let (result, report) = without_report(&answer, ViewUse::Shown).await;
    assert_eq!(result, answer);
    assert!(!report.save.artifacts.is_empty(), "it is saved beside that");
    assert_eq!((report.truncated, report.left_out), (None, None));
}

#[tokio::test]
async fn a_tool_with_a_view_that_is_not_shown_adds_no_block() {
    let text = json!({"type": "text", "text": "x".repeat(40_000)});
    let image = png(40_000);
    for answer in
        [json!({"content": [image]}), json!({"content": [text, image], "_meta": {"a": 1}})]
    {
        let (result, report) = without_report(&answer, ViewUse::NotShown).await;
        assert_eq!(result, answer);
        assert!(!report.save.artifacts.is_empty());
    }
    let (result, report) = without_report(&large_answer(), ViewUse::NotShown).await;
    assert!(report.truncated.is_some());
    let notice = result["content"][0]["text"].as_str().unwrap();
    assert!(notice.starts_with("[The answer of tool 'srv__tool'"), "{notice}");
}

#[tokio::test]
async fn small_answers_have_the_same_bytes() {
    let answer =
        r#"{"content":[ {"type":"text","text":"\u0041"}],  "structuredContent":{"n":1.0}}"#;
    for view in [ViewUse::NoView, ViewUse::NotShown, ViewUse::Shown] {
        let captured = captured(answer, &Audience::default(), view).await;
        let Captured::Unchanged(result) = captured else { panic!("{view:?}") };
        assert_eq!(result.get(), answer);
    }
}

#[tokio::test]
async fn an_answer_that_is_no_object_reaches_the_view() {
    let captured = captured("[1, 2]", &Audience::default(), ViewUse::Shown).await;
    assert_eq!(captured.into_result().get(), "[1, 2]");
}

#[tokio::test]
async fn links_replace_the_largest_images_of_an_answer_over_the_limit_of_a_message() {
    let image = png(200_000);
    let small = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let images = [vec![image; 19], vec![small]].concat();
    let answer = json!({"content": images});
    let mut audience = Audience::default();
    let all = captured(&answer.to_string(), &audience, ViewUse::NoView).await;
    assert!(all.into_result().get().len() > 1 << 20, "more than a client of Python can read");

    audience.max_answer_bytes = Some((1 << 20) - 1_024);
    let captured = captured(&answer.to_string(), &audience, ViewUse::NoView).await;
    let report = captured.report().unwrap().clone();
    let result = captured.into_result();
    assert!(result.get().len() < 1 << 20, "{}", result.get().len());
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let content = result["content"].as_array().unwrap();
    let images = content.iter().filter(|item| item["type"] == "image").count();
    let links = content.iter().filter(|item| item["type"] == "resource_link").count();
    assert!((3..6).contains(&images), "{images} images");
    assert_eq!(report.items.iter().filter(|item| item.artifact.is_some()).count(), 19);
    assert!(links >= 20 - images, "{links} links");
    assert!(content.iter().any(|item| item["data"] == PNG), "the small image stays");
}

#[tokio::test]
async fn errors_are_cut_at_the_limit_of_errors() {
    let text = "reason\n".repeat(3_000);
    let mut audience = Audience::default();
    audience.max_error_chars = Some(9_900);
    let mut answer = json!({"content": [{"type": "text", "text": text}], "isError": true});
    let captured_error = captured(&answer.to_string(), &audience, ViewUse::NoView).await;
    let report = captured_error.report().expect("the error is over its limit").clone();
    let result: Value = serde_json::from_str(captured_error.into_result().get()).unwrap();
    assert!(report.truncated.unwrap().shown_bytes <= 9_900);
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("[The answer of tool"));
    answer["isError"] = json!(false);
    let other = captured(&answer.to_string(), &audience, ViewUse::NoView).await;
    assert!(other.report().is_none(), "the same text is no error");
}
