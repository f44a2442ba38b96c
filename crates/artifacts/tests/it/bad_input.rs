//! Data that cannot be decoded, and texts in odd encodings: each ends in an outcome.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use expect_test::expect;
use marquetry_artifacts::{Settings, metadata::TextFormat};
use serde_json::{Value, json};

use crate::support::{Seen, capture, capture_raw};

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

async fn resource(mime_type: &str, bytes: &[u8]) -> Seen {
    let resource = json!({"uri": "a:/b", "mimeType": mime_type, "blob": STANDARD.encode(bytes)});
    let answer = json!({"content": [{"type": "resource", "resource": resource}]});
    capture(&Settings::small_context(), answer).await
}

#[tokio::test]
async fn invalid_base64_of_every_kind() {
    let cases: [(&str, Value); 21] = [
        ("empty", json!("")),
        ("white space", json!(" \n\t")),
        ("padding alone", json!("====")),
        ("one digit", json!("A")),
        ("five digits", json!("AAAAA")),
        ("bits that belong nowhere", json!("YR==")),
        ("padding in the middle", json!("YQ==YQ==")),
        ("padding before", json!("=AAA")),
        ("five times padding", json!("AAAA=====")),
        ("a character of no alphabet", json!("AA!A")),
        ("both alphabets", json!("A+_A")),
        ("NUL", json!("AAA\0")),
        ("letters that look alike", json!("АААА")),
        ("full width", json!("ＡＡＡＡ")),
        ("hexadecimal text", json!("89 50 4e 47 0")),
        ("percent signs", json!("AAAA%3D%3D")),
        ("a data URI without base64", json!("data:image/png,AAAA")),
        ("a data URI without a comma", json!("data:image/png;base64")),
        ("larger than an item may be", json!("A".repeat(2 << 20))),
        ("a number", json!(7)),
        ("null", json!(null)),
    ];
    let settings = Settings::default().patched(
        &toml::from_str("mcp_intelligent_processing.max_single_item_size_mb = 1").unwrap(),
    );
    let mut outcomes = String::new();
    for (name, data) in cases {
        let mut kinds = Vec::new();
        for item in [
            json!({"type": "image", "data": data, "mimeType": "image/png"}),
            json!({"type": "audio", "data": data, "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "a:/b", "blob": data}}),
        ] {
            let seen = capture(&settings, json!({"content": [item]})).await;
            let report = &seen.report().items[0];
            let reason = report.reason.clone().unwrap_or_default();
            kinds.push(format!("{:?} {reason}", report.outcome));
            let is_kept = seen.raw_result().contains(data.as_str().unwrap_or("no data").trim())
                || seen.notice().contains("data is empty")
                || !seen.artifacts.is_empty()
                || report.reason.is_some();
            assert!(is_kept, "{name}: {}", seen.raw_result());
        }
        kinds.dedup();
        writeln!(outcomes, "{name}: {}", kinds.join("; ")).unwrap();
    }
    expect![[r#"
        empty: Skipped data is empty; Saved 
        white space: Skipped data is empty
        padding alone: Failed data is not valid base64: byte 0x3d at offset 0 is out of place
        one digit: Failed data is not valid base64: 1 digits make no whole bytes
        five digits: Failed data is not valid base64: 5 digits make no whole bytes
        bits that belong nowhere: Failed data is not valid base64: the last digit, at offset 1, has bits that belong nowhere
        padding in the middle: Failed data is not valid base64: byte 0x3d at offset 2 is out of place
        padding before: Failed data is not valid base64: byte 0x3d at offset 0 is out of place
        five times padding: Failed data is not valid base64: byte 0x3d at offset 4 is out of place
        a character of no alphabet: Failed data is not valid base64: byte 0x21 at offset 2 is out of place
        both alphabets: Saved 
        NUL: Failed data is not valid base64: byte 0x00 at offset 3 is out of place
        letters that look alike: Failed data is not valid base64: byte 0xd0 at offset 0 is out of place
        full width: Failed data is not valid base64: byte 0xef at offset 0 is out of place
        hexadecimal text: Failed data is not valid base64: 9 digits make no whole bytes
        percent signs: Failed data is not valid base64: byte 0x25 at offset 4 is out of place
        a data URI without base64: Failed data begins with "data:" but is not a base64 data URI
        a data URI without a comma: Failed data begins with "data:" but is not a base64 data URI
        larger than an item may be: Failed data decodes to 1572864 bytes, more than the limit of 1048576
        a number: Failed data is not a string; Saved 
        null: Failed image has no data; Failed audio has no data; Saved 
    "#]].assert_eq(&outcomes);
}

#[tokio::test]
async fn texts_in_odd_encodings() {
    let utf16: Vec<u8> = "one\ntwo\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_bom = [&b"\xff\xfe"[..], &utf16].concat();
    let big: Vec<u8> = "Größe\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let warning = "the text is not UTF-8; it can only be read as bytes";
    for bytes in [&utf16[..], &with_bom, &big, b"caf\xe9", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf"] {
        for mime_type in ["text/plain", "text/csv; charset=utf-16", "application/json"] {
            let seen = resource(mime_type, bytes).await;
            assert_eq!(seen.only().content, bytes, "the bytes are kept");
            assert_eq!(seen.report().items[0].warnings, [warning], "{}", bytes.escape_ascii());
        }
    }
    let holes = "one\0\0two\n".repeat(20_000);
    let long = format!("{}ä", "a".repeat(64 * 1024 - 1));
    for bytes in ["", "plain", "\u{feff}ä", &holes, &long] {
        let seen = resource("text/plain", bytes.as_bytes()).await;
        assert_eq!(seen.report().items[0].warnings, [""; 0], "{} bytes", bytes.len());
    }
    // The type of an image or of unknown bytes says nothing about text.
    assert_eq!(
        resource("application/octet-stream", &utf16).await.report().items[0].warnings,
        [""; 0]
    );
}

#[tokio::test]
async fn holes_and_half_surrogates_keep_the_text() {
    let holes = format!("{}\0\0\0{}", "line\n".repeat(1000), "rest\n".repeat(1000));
    let seen = capture(&Settings::small_context(), text(&holes)).await;
    assert_eq!(seen.only().content, holes);
    assert_eq!(seen.only().record.mime_type, "text/plain");
    for half in ["\\ud800", "\\udc00\\ud800", "\\udbff "] {
        let filler = "x".repeat(3000);
        let answer = format!(r#"{{"content":[{{"type":"text","text":"{filler}{half}"}}]}}"#);
        let seen = capture_raw(&Settings::small_context(), &answer).await;
        let kept = String::from_utf8(seen.only().content.to_vec()).unwrap();
        assert!(kept.contains('\u{fffd}') && kept.starts_with("xxx"), "{half}");
        let warnings = &seen.report().items[0].warnings;
        assert_eq!(warnings, &["text held half surrogate pairs, which became U+FFFD"], "{half}");
        for item in [
            format!(r#"{{"type":"image","data":"AAAA{half}","mimeType":"image/png"}}"#),
            format!(r#"{{"type":"image","data":"AAAA","mimeType":"image/png{half}"}}"#),
        ] {
            let seen =
                capture_raw(&Settings::small_context(), &format!(r#"{{"content":[{item}]}}"#))
                    .await;
            assert_eq!(seen.report().items.len(), 1, "{item}");
        }
    }
}

/// The detection sees JSON, the parser of the whole does not.
#[tokio::test]
async fn long_json_that_is_broken_is_plain_text() {
    let items = "{\"id\": 1, \"name\": \"x\"}, ".repeat(10_000);
    for (broken, format) in [
        (format!("[{items}1]"), TextFormat::Json),
        (format!("[{items}{items}, 1]"), TextFormat::Plain),
        (format!("[{items}1}}, {items}1]"), TextFormat::Plain),
        (format!("[{items}\"a\n{items}]"), TextFormat::Plain),
    ] {
        let seen = capture(&Settings::default(), text(&broken)).await;
        let record = &seen.only().record;
        assert_eq!(record.metadata.detected_format, Some(format));
        let is_json = record.name.as_str().ends_with(".json");
        assert_eq!(is_json, format == TextFormat::Json, "{}", record.name);
        assert_eq!(record.metadata.format_parse_success, Some(true));
        assert_eq!(seen.only().content, broken);
    }
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let seen = capture(&Settings::small_context(), text(&deep)).await;
    assert_eq!(seen.only().record.metadata.detected_format, Some(TextFormat::Json));
    assert_eq!(seen.only().record.metadata.detection_confidence, Some(100));
}

/// The rows of a table are those below the header, whatever its line ends and delimiter.
#[tokio::test]
async fn rows_are_counted_without_the_header() {
    for (csv, rows, delimiter) in [
        ("id,name\n1,a\n2,b\n", 2, ','),
        ("id,name\r\n1,a\r\n2,b", 2, ','),
        ("\u{feff}id;text\n1;\"a\nb\n\nc\"\n2;\"d\r\ne\"\n\n3;f\n", 3, ';'),
        ("id\tn\n1\t2\n", 1, '\t'),
    ] {
        let as_text = text(csv);
        let declared = json!({"content": [{"type": "resource", "resource": {"uri": "a:/b.csv", "mimeType": "text/csv", "text": csv}}]});
        for answer in [as_text, declared] {
            let settings = crate::support::settings("mcp_tool_response_save_threshold_bytes = 1");
            let seen = capture(&settings, answer).await;
            let summary = seen.only().record.metadata.parsed_data_summary.clone().unwrap();
            assert_eq!((summary.rows, summary.delimiter), (Some(rows), Some(delimiter)), "{csv:?}");
        }
    }
}
