//! Properties of every answer.

use marquetry_artifacts::{
    Captured, Settings,
    report::{ItemReport, Outcome, SaveStatus},
    settings::Oversize,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{FailingStore, PNG, Seen, capture_into, capture_raw};

fn item() -> impl Strategy<Value = Value> {
    let text = "(\\PC{0,30}\n?){0,8}";
    prop_oneof![
        4 => text.prop_map(|text| json!({"type": "text", "text": text})),
        1 => "[a-z,\n]{0,400}".prop_map(|text| json!({"type": "text", "text": text, "annotations": {"priority": 1}})),
        2 => Just(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
        1 => "[A-Za-z0-9+/=!]{0,12}".prop_map(|data| json!({"type": "audio", "data": data})),
        1 => ("\\PC{0,20}", "\\PC{0,20}").prop_map(|(uri, text)| json!({"type": "resource", "resource": {"uri": uri, "text": text}})),
        1 => "\\PC{0,20}".prop_map(|uri| json!({"type": "resource", "resource": {"uri": uri, "blob": "AAAA"}})),
        1 => Just(json!({"type": "resource_link", "uri": "a:b", "name": "n"})),
        1 => Just(json!({"type": "hologram"})),
        1 => Just(json!({"type": "text"})),
        1 => Just(json!(null)),
    ]
}

fn answer() -> impl Strategy<Value = Value> {
    let structured = prop_oneof![3 => Just(None), 1 => Just(Some(Value::Null)), 1 => "\\PC{0,300}".prop_map(|text| Some(json!({"a": text})))];
    let meta = prop_oneof![Just(None), Just(Some(json!({"a": 1}))), Just(Some(json!(7)))];
    let content = prop_oneof![
        20 => proptest::collection::vec(item(), 0..8).prop_map(Value::from),
        1 => item(),
        1 => Just(json!("text")),
    ];
    (content, structured, meta).prop_map(|(content, structured, meta)| {
        let mut answer = json!({"content": content});
        if let Some(structured) = structured {
            answer["structuredContent"] = structured;
        }
        if let Some(meta) = meta {
            answer["_meta"] = meta;
        }
        answer
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    (0_u64..600, 0_u64..600, any::<[bool; 6]>(), 0_usize..8, 0_u64..2).prop_map(
        |(save, show, flags, items, mb)| {
            let mut settings = Settings::small_context();
            settings.mcp_tool_response_save_threshold_bytes = save;
            settings.mcp_tool_llm_return_max_bytes = show;
            settings.oversize = if flags[0] { Oversize::Truncate } else { Oversize::Withhold };
            let processing = &mut settings.mcp_intelligent_processing;
            processing.enable_intelligent_processing = flags[1] || flags[2];
            processing.fallback_to_raw_on_error = flags[3];
            processing.save_raw_alongside_intelligent = flags[4] && flags[5];
            processing.max_content_items = items;
            processing.max_single_item_size_mb = mb;
            settings
        },
    )
}

fn check(seen: &Seen, settings: &Settings) -> Result<(), TestCaseError> {
    let sent: Value = serde_json::from_str(&seen.sent).unwrap();
    let Captured::Changed { report, .. } = &seen.captured else {
        prop_assert!(seen.is_unchanged() && seen.artifacts.is_empty());
        return Ok(());
    };
    // The report lists every item.
    let count = sent["content"].as_array().map_or(0, Vec::len);
    prop_assert_eq!(report.items.len() + report.items_not_listed, count);
    prop_assert!(report.items.iter().enumerate().all(|(index, item)| item.index == index));
    prop_assert_eq!(report.structured.is_some(), sent.get("structuredContent").is_some());

    // The store has exactly the artifacts that the report lists as saved.
    let made = report.save.artifacts.len() + usize::from(report.save.fallback_artifact.is_some());
    prop_assert_eq!(made, seen.artifacts.len());
    prop_assert_eq!(made == 0, report.save.status == SaveStatus::Error);
    let status = serde_json::to_string(&report.status).unwrap();
    prop_assert_eq!(made == 0, status.contains("failed"));
    prop_assert_eq!(
        report.truncated.is_some(),
        status.contains("truncated") || status.contains("withheld")
    );
    let unsaved =
        report.items.iter().any(|item| matches!(item.outcome, Outcome::Skipped | Outcome::Failed));
    prop_assert!(!unsaved || report.save.status != SaveStatus::Success);
    if made == 0 {
        prop_assert!(!seen.raw_result().contains("artifact://"));
    }

    // Over the limit the shown text is within it; otherwise all of it is there.
    let texts = seen.texts();
    let shown: usize = texts.iter().map(String::len).sum();
    let limit = settings.mcp_tool_llm_return_max_bytes;
    match report.truncated {
        Some(cut) => {
            prop_assert!(shown as u64 <= limit, "{} > {}", shown, limit);
            prop_assert!(cut.shown_bytes <= shown as u64 && cut.shown_bytes <= cut.total_bytes);
            let is_withheld = settings.oversize == Oversize::Withhold;
            prop_assert!(!is_withheld || (shown == 0 && cut.shown_bytes == 0));
        }
        None if sent["content"].is_array() => {
            let sent: Vec<&str> = sent["content"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|item| item["text"].as_str())
                .collect();
            let is_replacement = |text: &&String| text.contains(" cannot be decoded: ");
            let kept: Vec<&String> = texts.iter().filter(|text| !is_replacement(text)).collect();
            prop_assert_eq!(kept, sent);
        }
        None => {}
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_capture_keeps_the_rules(answer in answer(), settings in settings(), fails in 0_usize..3) {
        let fails: fn(u64) -> bool = [|_| false, |put| put % 2 == 1, |_| true][fails];
        let seen = run(capture_into(FailingStore::new(fails), &settings, &answer.to_string()));
        check(&seen, &settings)?;
    }

    #[test]
    fn every_part_is_shown_or_saved_with_fallback(answer in answer(), settings in settings()) {
        let mut settings = settings;
        settings.mcp_intelligent_processing.fallback_to_raw_on_error = true;
        settings.mcp_intelligent_processing.max_single_item_size_mb = 1;
        let seen = run(capture_raw(&settings, &answer.to_string()));
        check(&seen, &settings)?;
        // Media without data has nothing to keep.
        let is_empty = |item: &ItemReport| item.reason.as_deref() == Some("data is empty");
        if !seen.is_unchanged() && !seen.report().items.iter().any(is_empty) {
            prop_assert!(!seen.notice().contains("is lost"), "{}", seen.notice());
        }
    }

    #[test]
    fn any_json_is_answered(answer in json(), settings in settings()) {
        let seen = run(capture_raw(&settings, &answer.to_string()));
        if !seen.is_unchanged() {
            prop_assert!(seen.result()["content"].is_array());
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// JSON whose keys and strings are words of the protocol.
fn json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "content",
        "type",
        "text",
        "image",
        "data",
        "resource",
        "uri",
        "blob",
        "structuredContent",
        "_meta",
        "mimeType",
        "isError",
        "annotations",
        "resource_link",
        "resultType",
        "complete",
        "result",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        word.clone().prop_map(Into::into)
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|members| {
                Value::Object(
                    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
                )
            }),
        ]
    })
}
