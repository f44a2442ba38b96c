//! Hostile answers.

use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_artifacts::{Settings, metadata::TextFormat, report::SaveStatus};
use serde_json::json;

use crate::support::{Seen, capture, capture_raw};

/// Enough for a debug build on a busy machine; quadratic work takes far longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Captures an answer within the time limit.
async fn capture_in_time(answer: &str) -> Seen {
    let begin = Instant::now();
    let seen = capture_raw(&Settings::small_context(), answer).await;
    assert!(begin.elapsed() < PATIENCE, "took {:?}", begin.elapsed());
    seen
}

/// Captures an answer within the time limit, and checks that the result is small.
async fn in_time(answer: &str) -> Seen {
    let seen = capture_in_time(answer).await;
    let size = seen.raw_result().len();
    assert!(
        seen.is_unchanged() || size < 200_000 + answer.len() / 10,
        "{} bytes became {size}",
        answer.len()
    );
    seen
}

fn text(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

#[tokio::test]
async fn fifty_megabytes_of_text() {
    let long = "All work and no play makes a dull text. ".repeat(50 * 1024 * 1024 / 40);
    let seen = in_time(&text(&long)).await;
    assert!(seen.only().content == long);
    assert!(seen.texts().concat().len() <= 4096);
}

#[tokio::test]
async fn deep_json() {
    let deep = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let seen = in_time(&text(&deep)).await;
    assert_eq!(seen.only().record.metadata.detected_format, Some(TextFormat::Json));
    let seen = in_time(&format!("{{\"content\":[],\"structuredContent\":{deep}}}")).await;
    assert_eq!(seen.only().content, deep);
    in_time(&format!("{{\"content\":{deep}}}")).await;
    in_time(&format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":\"x\",\"annotations\":{deep}}}]}}"
    ))
    .await;
    in_time(&deep).await;
}

#[tokio::test]
async fn alias_bombs() {
    let levels: String = (1..40)
        .map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}, *l{0}, *l{0}]\n", n - 1))
        .collect();
    let seen = in_time(&text(&format!("l0: &l0 [a, a, a]\n{levels}"))).await;
    assert_eq!(seen.artifacts.len(), usize::from(!seen.is_unchanged()));
    let bomb = json!({"content": [{"type": "resource", "resource": {"uri": "a:/b.yaml", "mimeType": "application/yaml",
        "text": format!("l0: &l0 [a, a, a]\n{levels}")}}]});
    let seen = in_time(&bomb.to_string()).await;
    let schema = seen.only().record.metadata.schema.clone().unwrap();
    assert!(!schema.inferred && schema.error.is_some());
}

#[tokio::test]
async fn a_table_with_a_million_columns() {
    let row = "x,".repeat(1_000_000);
    in_time(&text(&format!("{row}\n{row}\n"))).await;
    let resource = json!({"content": [{"type": "resource", "resource": {"uri": "a:/b.csv", "mimeType": "text/csv",
        "text": format!("{row}\n1\n")}}]});
    let seen = in_time(&resource.to_string()).await;
    let summary = seen.only().record.metadata.parsed_data_summary.clone().unwrap();
    assert_eq!((summary.columns, summary.rows), (Some(1_000_001), Some(1)));
}

#[tokio::test]
async fn many_items() {
    let items = vec!["{}"; 300_000].join(",");
    let seen = in_time(&format!("{{\"content\":[{items}]}}")).await;
    assert_eq!((seen.report().items.len(), seen.report().items_not_listed), (1000, 299_000));
    let items = vec![r#"{"type":"text","text":"a"}"#; 200_000].join(",");
    let seen = in_time(&format!("{{\"content\":[{items}]}}")).await;
    assert_eq!(seen.artifacts.len(), 2, "equal texts once, and the rest together");
    assert!(seen.content().len() <= 1001);
    let links = vec![r#"{"type":"resource_link","uri":"a:b","name":"n"}"#; 100_000].join(",");
    let seen = in_time(&format!("{{\"content\":[{links}]}}")).await;
    assert!(seen.content().len() < 200);
    let kept: Vec<serde_json::Value> = serde_json::from_slice(&seen.only().content).unwrap();
    assert!(kept.len() > 99_900, "{}: the links that are not shown", kept.len());
}

#[tokio::test]
async fn many_members() {
    let members: String = (0..200_000).map(|n| format!("\"k{n}\":0,")).collect();
    capture_in_time(&format!(
        "{{{members}\"content\":[{{\"type\":\"image\",\"data\":\"AAAA\"}}]}}"
    ))
    .await;
    let twice: String = vec!["\"content\":[],"; 100_000].concat();
    in_time(&format!("{{{twice}\"content\":[{{\"type\":\"image\",\"data\":\"AAAA\"}}]}}")).await;
}

#[tokio::test]
async fn odd_words_everywhere() {
    let long = "\0\u{202e}'][../".repeat(20_000);
    let answer = json!({"content": [
        {"type": &long},
        {"type": "image", "data": "AAAA", "mimeType": &long},
        {"type": "resource", "resource": {"uri": &long, "text": "x", "mimeType": &long}},
        {"type": "resource", "resource": {"uri": &long, "mimeType": &long}},
        {"type": "text", "text": "x", "annotations": {"a": &long}, "_meta": {"a": &long}},
        {"type": "image", "data": "AAAA", "annotations": {"a": &long}, "_meta": [&long]},
    ], "isError": &long, "_meta": "none"});
    let seen = capture(&Settings::small_context(), answer).await;
    assert_eq!(seen.report().save.status, SaveStatus::Success);
    let why = "five items, the one of no known type, and the whole for the sake of isError";
    assert_eq!(seen.artifacts.len(), 7, "{why}");
    for artifact in &seen.artifacts {
        let metadata = serde_json::to_string(&artifact.record.metadata).unwrap();
        assert!(metadata.len() < 20_000, "{}", metadata.len());
    }
    let notice = seen.notice();
    assert!(!notice.contains('\0') && !notice.contains('\u{202e}'));
}

#[tokio::test]
async fn base64_that_is_almost_right() {
    let data = STANDARD.encode(vec![7; 3_000_000]);
    for broken in [
        format!("{data}!"),
        format!("={data}"),
        data[1..].to_owned(),
        format!("data:;base64{data}"),
    ] {
        let seen = in_time(&json!({"content": [{"type": "image", "data": broken}, {"type": "image", "data": "AAAA"}]}).to_string()).await;
        let [_, undecodable] = &seen.artifacts[..] else { panic!("{:?}", seen.names()) };
        let items: serde_json::Value = serde_json::from_slice(&undecodable.content).unwrap();
        assert_eq!(items[0]["data"], broken);
    }
}
