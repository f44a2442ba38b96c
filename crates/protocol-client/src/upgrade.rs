//! Converts results of 2024-10-07 to the form of later revisions.

use marquetry_protocol_wire::types::{CallToolResult, JsonObject};
use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::error::ClientError;

/// Converts a tool's result from `toolResult` (2024-10-07) to `content`. A string becomes a text
/// item, a list of content items stays unchanged, and any other value becomes a text item with its
/// JSON.
pub(super) fn tool_answer(result: Box<RawValue>) -> Result<Box<RawValue>, ClientError> {
    match upgraded(&result) {
        Ok(Some(upgraded)) => Ok(upgraded),
        Ok(None) => Ok(result),
        Err(error) => Err(ClientError::result("tools/call", error)),
    }
}

/// Returns the converted result; [`None`] if it has no `toolResult`.
fn upgraded(result: &RawValue) -> serde_json::Result<Option<Box<RawValue>>> {
    let mut members: JsonObject = serde_json::from_str(result.get())?;
    let Some(given) = members.remove("toolResult") else { return Ok(None) };
    let content = match given {
        Value::Array(items) if !items.is_empty() && items.iter().all(is_content_item) => {
            Value::Array(items)
        }
        Value::String(text) => serde_json::to_value(CallToolResult::text(text).content)?,
        other => serde_json::to_value(CallToolResult::text(other.to_string()).content)?,
    };
    members.insert("content".to_owned(), content);
    to_raw_value(&members).map(Some)
}

/// Returns whether a value can be a content item.
fn is_content_item(item: &Value) -> bool {
    #[derive(Deserialize)]
    struct Item {
        r#type: String,
    }
    Item::deserialize(item)
        .is_ok_and(|item| matches!(&*item.r#type, "text" | "image" | "resource" | "audio"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_answer_becomes_content() {
        for (given, want) in [
            (r#"{"toolResult":"a\nb"}"#, r#"{"content":[{"type":"text","text":"a\nb"}]}"#),
            (
                r#"{"_meta":{"x":1},"toolResult":[{"type":"image","data":"","mimeType":"a/b"}]}"#,
                r#"{"_meta":{"x":1},"content":[{"type":"image","data":"","mimeType":"a/b"}]}"#,
            ),
            (
                r#"{"toolResult":{"a":[1]}}"#,
                r#"{"content":[{"type":"text","text":"{\"a\":[1]}"}]}"#,
            ),
            (r#"{"toolResult":[]}"#, r#"{"content":[{"type":"text","text":"[]"}]}"#),
            (r#"{"toolResult":null}"#, r#"{"content":[{"type":"text","text":"null"}]}"#),
            (r#"{"content":[]}"#, r#"{"content":[]}"#),
        ] {
            let got = tool_answer(RawValue::from_string(given.to_owned()).unwrap()).unwrap();
            assert_eq!(got.get(), want);
        }
    }
}
