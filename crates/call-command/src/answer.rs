//! The answer of a tool for people: texts as they are, files saved or named with their size.

use std::{fmt::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_atomic_file::{Readers, create};
use marquetry_printable::{printable_json, printable_line, printable_text};
use serde_json::Value;

/// Files that one answer may have.
const MAX_FILES: usize = 1_000;

/// Returns the answer as text. Images and other bytes are saved in `folder` if it is given.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub(crate) fn text(result: &Value, tool: &str, folder: Option<&Path>) -> Result<String, String> {
    let mut text = String::new();
    let items = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for item in items {
        let shown = match member(item, "type") {
            "text" => printable_text(member(item, "text")),
            "image" | "audio" => {
                file(member(item, "data"), member(item, "mimeType"), "", tool, folder)?
            }
            "resource" => resource(&item["resource"], tool, folder)?,
            "resource_link" => link(item),
            _ => printable_json(&item.to_string()),
        };
        text.push_str(&shown);
        if !shown.ends_with('\n') {
            text.push('\n');
        }
    }
    // Servers repeat structured content as text, as MCP recommends.
    if let Some(structured) = result.get("structuredContent").filter(|_| items.is_empty()) {
        _ = writeln!(text, "{}", printable_json(&format!("{structured:#}")));
    }
    Ok(text)
}

fn member<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn resource(resource: &Value, tool: &str, folder: Option<&Path>) -> Result<String, String> {
    let uri = member(resource, "uri");
    match resource.get("blob").and_then(Value::as_str) {
        Some(blob) => file(blob, member(resource, "mimeType"), uri, tool, folder),
        None => {
            Ok(format!("[{}]\n{}", printable_line(uri), printable_text(member(resource, "text"))))
        }
    }
}

fn link(item: &Value) -> String {
    let mut text = format!("[link {}", printable_line(member(item, "uri")));
    for part in [member(item, "name"), member(item, "mimeType")] {
        if !part.is_empty() {
            _ = write!(text, ", {}", printable_line(part));
        }
    }
    text + "]"
}

/// Describes bytes in base64, and saves them.
fn file(
    data: &str,
    media_type: &str,
    uri: &str,
    tool: &str,
    folder: Option<&Path>,
) -> Result<String, String> {
    let media_type = if media_type.is_empty() { "application/octet-stream" } else { media_type };
    let shown = printable_line(media_type);
    let uri = if uri.is_empty() { String::new() } else { format!("{} ", printable_line(uri)) };
    let Ok(bytes) = STANDARD.decode(data) else {
        return Ok(format!("[{uri}{shown}, not valid base64]"));
    };
    let size = bytes.len();
    let Some(folder) = folder else { return Ok(format!("[{uri}{shown}, {size} bytes]")) };
    let path = save(&bytes, media_type, tool, folder)?;
    Ok(format!("[{uri}{shown}, {size} bytes, saved as {}]", printable_line(&path)))
}

/// Writes a file that does not exist yet. Returns its path.
fn save(bytes: &[u8], media_type: &str, tool: &str, folder: &Path) -> Result<String, String> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("--output: failed to create {}: {error}", folder.display()))?;
    let stem: String = tool
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .take(100)
        .collect();
    let extension = extension(media_type);
    for number in 1..=MAX_FILES {
        let path = folder.join(format!("{stem}-{number}.{extension}"));
        match create(&path, bytes, Readers::Everyone) {
            Ok(()) => return Ok(path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(format!("--output: failed to write {}: {error}", path.display()));
            }
        }
    }
    Err(format!("--output: {} has {MAX_FILES} files of this tool already", folder.display()))
}

/// Returns the extension of files of a media type.
fn extension(media_type: &str) -> &'static str {
    match media_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "text/html" => "html",
        "text/csv" => "csv",
        media_type if media_type.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_printed_and_files_are_named() {
        let result = json!({"content": [
            {"type": "text", "text": "one\u{1b}[31m\r\n\ttwo\n"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "!"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
            {"type": "new", "x": 1},
        ], "structuredContent": {"a": 1}});
        let want = "one\\u{1b}[31m\r\n\ttwo\n[image/png, 5 bytes]\n[file:///a]\ninside\n\
                    [file:///b application/octet-stream, not valid base64]\n[link file:///c, c]\n{\"type\":\"new\",\"x\":1}\n";
        assert_eq!(text(&result, "t", None).unwrap(), want);
        let result = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(text(&result, "t", None).unwrap(), "{\n  \"a\": 1\n}\n");
        assert_eq!(text(&json!({}), "t", None).unwrap(), "");
    }

    #[test]
    fn files_replace_no_other_file_and_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let image = json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"});
        let result = json!({"content": [image, image]});
        let shown = text(&result, "../../a b", Some(&folder)).unwrap();
        for number in [1, 2] {
            let path = folder.join(format!("______a_b-{number}.png"));
            assert_eq!(std::fs::read(&path).unwrap(), b"hello");
            assert!(shown.contains(&format!("saved as {}]", path.display())), "{shown}");
        }
        let file = folder.join("______a_b-1.png");
        let error = text(&result, "t", Some(&file)).unwrap_err();
        assert!(error.starts_with("--output: failed to create "), "{error}");
    }
}
