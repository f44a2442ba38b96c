//! Images whose bytes, types or sizes are not what they are declared as.

use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_artifacts::{Audience, MemoryStore, Scope, Settings, ToolCall};
use serde_json::{Value, json, value::RawValue};

use crate::support::{
    FailingStore, PNG, Seen, capture, capture_into, capturer, everything, settings,
};

const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////////////////////////////////2wBDAVVaWnhpeOuCguv/////////////////////////////////////////////////////////////////////////wAARCAACAAMDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwCKiiioOg//2Q==";
const GIF: &str = "R0lGODdhAwACAIEAAMgeHgAAAAAAAAAAACwAAAAAAwACAAAIBgABCBwYEAA7";
const WEBP: &str = "UklGRh4AAABXRUJQVlA4TBEAAAAvAkAAAAdQjyLXo/+BiOh/AAA=";
const BMP: &str = "Qk1OAAAAAAAAADYAAAAoAAAAAwAAAAIAAAABABgAAAAAABgAAADEDgAAxA4AAAAAAAAAAAAAHh7IHh7IHh7IAAAAHh7IHh7IHh7IAAAA";
const TIFF: &str = "SUkqAAgAAAAKAAABBAABAAAAAwAAAAEBBAABAAAAAgAAAAIBAwADAAAAhgAAAAMBAwABAAAAAQAAAAYBAwABAAAAAgAAABEBBAABAAAAjAAAABUBAwABAAAAAwAAABYBBAABAAAAAgAAABcBBAABAAAAEgAAABwBAwABAAAAAQAAAAAAAAAIAAgACADIHh7IHh7IHh7IHh7IHh7IHh4=";
const ICO: &str = "AAABAAEAAwIAAAAAIABOAAAAFgAAAIlQTkcNChoKAAAADUlIRFIAAAADAAAAAggCAAAAEhbxTQAAABVJREFUeJxjPCEnx8DAwMDAwMQAAwATLgEIasBlYQAAAABJRU5ErkJggg==";
const AVIF: &str = "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAAAAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAIwAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEAAGF2MDFDb2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAAAwAAAAIAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwAAAAAE2NvbHJuY2x4AAEADQAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAAK21kYXQSAAoIGAQrRAQ0GhAyFR7Hh4VZ3///4sAAAJA1jjxnR0yXTA==";

fn image(data: &str, declared: Value) -> Value {
    let mut item = json!({"type": "image", "data": data});
    if !declared.is_null() {
        item["mimeType"] = declared;
    }
    json!({"content": [item]})
}

fn images(seen: &Seen) -> Vec<Value> {
    seen.content().into_iter().filter(|item| item["type"] == "image").collect()
}

#[tokio::test]
async fn images_with_a_wrong_type_go_on_with_the_true_one() {
    for (data, declared, true_type, warning) in [
        (JPEG, json!("image/jpg"), "image/jpeg", "declared as image/jpg, which is image/jpeg"),
        (JPEG, json!("IMAGE/JPEG"), "image/jpeg", "declared as IMAGE/JPEG, which is image/jpeg"),
        (PNG, json!("image/x-png"), "image/png", "declared as image/x-png, which is image/png"),
        (
            PNG,
            json!("image/png; charset=binary"),
            "image/png",
            "declared as image/png; charset=binary, which is image/png",
        ),
        (
            PNG,
            json!("application/octet-stream"),
            "image/png",
            "declared as application/octet-stream, but the bytes are image/png",
        ),
        (
            GIF,
            json!("image/png"),
            "image/gif",
            "declared as image/png, but the bytes are image/gif",
        ),
        (
            WEBP,
            json!("text/html"),
            "image/webp",
            "declared as text/html, but the bytes are image/webp",
        ),
        (WEBP, json!("image"), "image/webp", "declared MIME type \"image\" is invalid"),
        (JPEG, json!(null), "image/jpeg", ""),
    ] {
        let seen = capture(&Settings::default(), image(data, declared.clone())).await;
        let shown = json!({"type": "image", "data": data, "mimeType": true_type});
        assert_eq!(images(&seen), [shown], "{declared}");
        let warnings = &seen.report().items[0].warnings;
        assert_eq!(warnings.concat(), warning, "{declared}");
        assert_eq!(seen.only().record.mime_type, true_type);
    }
    for (data, mime_type) in
        [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
    {
        let seen = capture(&Settings::default(), image(data, json!(mime_type))).await;
        assert!(seen.is_unchanged(), "{mime_type}");
    }
}

/// Returns a PNG that declares this size.
fn declaring(width: u32, height: u32) -> String {
    let mut png = STANDARD.decode(PNG).unwrap();
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    STANDARD.encode(png)
}

#[tokio::test]
async fn data_that_models_refuse_does_not_go_on_as_an_image() {
    let html = STANDARD.encode("<html><body>503</body></html>");
    let svg = STANDARD.encode("<svg xmlns=\"http://www.w3.org/2000/svg\"><text>hi</text></svg>");
    let script = STANDARD.encode("GIF89a/*<svg>*/=1;alert(1);aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let text_behind_magic = STANDARD.encode(b"\x89PNG\r\n\x1a\n<html>not an image</html>");
    let wide = declaring(8_001, 1);
    let bomb = declaring(100_000, 100_000);
    let ends_early = STANDARD.encode(&STANDARD.decode(PNG).unwrap()[..50]);
    let header = STANDARD.encode(&STANDARD.decode(PNG).unwrap()[..20]);
    for data in [
        &html,
        &svg,
        &script,
        &text_behind_magic,
        &wide,
        &bomb,
        &ends_early,
        &header,
        "",
        BMP,
        TIFF,
        ICO,
        AVIF,
        "JVBERi0xLjQK",
        "AAAA",
    ] {
        for declared in [
            json!("image/png"),
            json!("image/jpeg"),
            json!("image/jpg"),
            json!("image/gif"),
            json!("image/webp"),
            json!("image/svg+xml"),
            json!("image/bmp"),
            json!("image/tiff"),
            json!("image/avif"),
            json!("image/png; a=b"),
            json!("application/octet-stream"),
            json!("text/html"),
            json!(null),
            json!(7),
        ] {
            for max_items in [50, 0] {
                let settings = Settings::default().patched(
                    &toml::from_str(&format!(
                        "mcp_intelligent_processing.max_content_items = {max_items}"
                    ))
                    .unwrap(),
                );
                let answer = image(data, declared.clone());
                let seen = capture(&settings, answer.clone()).await;
                assert_eq!(images(&seen), [Value::Null; 0], "{data} {declared}");
                let kept =
                    seen.artifacts.iter().map(|artifact| artifact.content.len()).sum::<usize>();
                assert!(kept > 0 || data.is_empty(), "{data} {declared}");
                // Nor if it cannot be saved.
                let seen =
                    capture_into(FailingStore::new(|_| true), &settings, &answer.to_string()).await;
                assert_eq!(images(&seen), [Value::Null; 0], "{data} {declared}");
            }
        }
    }
    let seen = capture(&Settings::default(), image(&bomb, json!("image/png"))).await;
    let warning = "the image has 100000 x 100000 pixels, more than 8000 on a side; it is not shown";
    assert_eq!(seen.report().items[0].warnings, [warning]);
    let seen =
        capture(&Settings::default(), image(&declaring(8_000, 8_000), json!("image/png"))).await;
    assert_eq!(images(&seen).len(), 1);
}

/// A file that is a whole image and something else besides is an image for every decoder.
#[tokio::test]
async fn polyglots_are_images_if_they_are_whole_images() {
    let mut bytes = STANDARD.decode(PNG).unwrap();
    bytes.extend(b"PK\x03\x04<script>alert(1)</script>");
    let data = STANDARD.encode(bytes);
    let seen = capture(&Settings::default(), image(&data, json!("text/html"))).await;
    assert_eq!(images(&seen)[0]["mimeType"], "image/png");
}

async fn capture_for(audience: &Audience, settings: &Settings, answer: &Value) -> Seen {
    let store = std::sync::Arc::new(MemoryStore::default());
    let scope = Scope::local();
    let call = ToolCall::new(&scope, "srv__tool").with_audience(Some(audience));
    let raw = RawValue::from_string(answer.to_string()).unwrap();
    let captured = capturer(store.clone()).capture(call, settings, raw).await;
    Seen { sent: answer.to_string(), captured, artifacts: everything(&*store).await }
}

#[tokio::test]
async fn limits_of_a_client_hold() {
    let size = STANDARD.decode(PNG).unwrap().len() as u64;
    for max_items in [50, 0] {
        let settings = settings(&format!(
            "inline_image_max_bytes = 10000\nmcp_tool_llm_return_max_bytes = 65536\n\
             mcp_intelligent_processing.max_content_items = {max_items}"
        ));
        let answer = image(PNG, json!("image/png"));
        let mut audience = Audience::default();
        for (max, count) in [(size - 1, 0), (size, 1)] {
            audience.max_image_bytes = Some(max);
            let seen = capture_for(&audience, &settings, &answer).await;
            assert_eq!(images(&seen).len(), count, "{max}");
        }
        audience.image_types = Some(vec!["image/jpeg".to_owned()]);
        assert_eq!(images(&capture_for(&audience, &settings, &answer).await).len(), 0);
        // A client with types of its own gets those only if the bytes are of them.
        audience.image_types = Some(["image/bmp", "image/svg+xml"].map(str::to_owned).to_vec());
        let svg = STANDARD.encode("<?xml version=\"1.0\"?>\n<!-- a > b --><svg></svg>");
        let html = STANDARD.encode("<html><svg></svg></html>");
        audience.max_image_bytes = None;
        for (data, declared, count) in [
            (BMP, "image/bmp", 1),
            (PNG, "image/bmp", 0),
            (&html, "image/bmp", 0),
            (&svg, "image/svg+xml", 1),
            (&html, "image/svg+xml", 0),
        ] {
            let seen = capture_for(&audience, &settings, &image(data, json!(declared))).await;
            assert_eq!(images(&seen).len(), count, "{data} {declared}");
        }
    }
}

#[tokio::test]
async fn an_image_counts_once_towards_the_limit_of_all() {
    // Room for this image, but not for it twice.
    let settings = settings(
        "inline_image_max_bytes = 1000\ninline_images_total_max_bytes = 100\n[mcp_intelligent_processing]\nmax_content_items = 0",
    );
    let seen = capture(&settings, image(GIF, json!("image/png"))).await;
    assert_eq!(images(&seen).len(), 1, "{}", seen.raw_result());
    assert_eq!(images(&seen)[0]["mimeType"], "image/gif");
}
