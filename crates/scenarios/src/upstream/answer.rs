//! An answer: the exact bytes that the upstream sends.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use crate::language::{Answer, Item, Question, SourceError};

/// An answer to a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerSpec {
    /// Number of progress notifications before the answer.
    #[serde(default)]
    pub(crate) progress: u32,
    /// Questions to the agent before the answer.
    #[serde(default)]
    pub(crate) asks: Vec<Question>,
    /// Delay before the answer, in milliseconds.
    #[serde(default)]
    pub(crate) delay_ms: u64,
    /// The answer.
    pub(crate) send: Send,
}

/// The forms of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Send {
    /// A result object, as JSON text.
    Result(String),
    /// A JSON-RPC error.
    Error { code: i32, message: String },
    /// No answer: the process exits.
    Crash,
    /// No answer at any time.
    Silence,
    /// A line that is not a JSON-RPC message.
    Garbage(String),
}

/// Why an answer cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the raw result is not JSON: {0}")]
    Raw(#[from] serde_json::Error),
}

impl AnswerSpec {
    /// Builds the answer. `file` paths are relative to `folder`.
    pub(crate) fn new(Answer(parts): &Answer, folder: &Path) -> Result<Self, AnswerError> {
        let delay_ms = parts.delay.map_or(0, |delay| delay.0.as_millis() as u64);
        let send = if parts.crash {
            Send::Crash
        } else if parts.silence {
            Send::Silence
        } else if let Some(line) = &parts.garbage {
            Send::Garbage(line.clone())
        } else if let Some(error) = &parts.error {
            Send::Error { code: error.code, message: error.message.clone() }
        } else if let Some(raw) = &parts.raw {
            let text = raw.text(folder)?;
            // The protocol crate can only send valid JSON. Apart from that, a raw result may be
            // wrong in any way.
            serde_json::from_str::<&RawValue>(&text)?;
            Send::Result(text.trim().to_owned())
        } else {
            let mut result = Map::new();
            let items = parts.content.iter().flatten();
            let content: Vec<_> = items.map(|it| item(it, folder)).collect::<Result<_, _>>()?;
            result.insert("content".into(), content.into());
            let rest = [
                ("structuredContent", parts.structured_content.clone()),
                ("isError", parts.is_error.map(Value::from)),
                ("_meta", parts.meta.clone()),
            ];
            for (key, value) in rest {
                if let Some(value) = value {
                    result.insert(key.into(), value);
                }
            }
            Send::Result(Value::from(result).to_string())
        };
        Ok(Self { progress: parts.progress, asks: parts.asks.clone(), delay_ms, send })
    }
}

/// Returns an item in the form of MCP.
fn item(given: &Item, folder: &Path) -> Result<Value, SourceError> {
    let mut value = if let Some(item) = &given.item {
        item.clone()
    } else if let Some(text) = &given.text {
        json!({ "type": "text", "text": text.text(folder)? })
    } else if let Some(resource) = &given.resource {
        let mut contents = Map::from_iter([("uri".to_owned(), resource.uri.clone().into())]);
        if let Some(mime_type) = &resource.mime_type {
            contents.insert("mimeType".into(), mime_type.clone().into());
        }
        if let Some(text) = &resource.text {
            contents.insert("text".into(), text.text(folder)?.into());
        }
        if let Some(blob) = &resource.blob {
            contents.insert("blob".into(), blob.base64(folder)?.into());
        }
        json!({ "type": "resource", "resource": contents })
    } else {
        let (kind, media) = match (&given.image, &given.audio) {
            (Some(image), _) => ("image", image.clone()),
            (None, audio) => ("audio", audio.clone().unwrap_or_default()),
        };
        let data = match (&media.content, &media.verbatim) {
            (Some(source), _) => source.base64(folder)?,
            (None, verbatim) => verbatim.clone().unwrap_or_default(),
        };
        let mut value = json!({ "type": kind, "data": data });
        if let Some(mime_type) = media.mime_type {
            value["mimeType"] = mime_type.into();
        }
        value
    };
    if let Some(annotations) = &given.annotations {
        value["annotations"] = annotations.clone();
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, want: Send) {
        let answer: Answer = serde_yaml::from_str(yaml).unwrap();
        assert_eq!(AnswerSpec::new(&answer, Path::new(".")).unwrap().send, want, "{yaml}");
    }

    fn result(value: Value) -> Send {
        Send::Result(value.to_string())
    }

    #[test]
    fn a_string_is_one_text_item() {
        check("hi", result(json!({"content": [{"type": "text", "text": "hi"}]})));
    }

    #[test]
    fn every_kind_of_item() {
        for (yaml, want) in [
            ("text: {base64: aGk=}", json!({"type": "text", "text": "hi"})),
            (
                "image: {mime_type: image/png, content: {base64: AAE=}}",
                json!({"type": "image", "data": "AAE=", "mimeType": "image/png"}),
            ),
            ("audio: {verbatim: '%%'}", json!({"type": "audio", "data": "%%"})),
            (
                "resource: {uri: 'a://b', mime_type: c/d, text: e}",
                json!({"type": "resource", "resource": {"uri": "a://b", "mimeType": "c/d", "text": "e"}}),
            ),
            (
                "resource: {uri: 'a://b', blob: hi}",
                json!({"type": "resource", "resource": {"uri": "a://b", "blob": "aGk="}}),
            ),
            ("item: {type: odd, x: [1]}", json!({"type": "odd", "x": [1]})),
            (
                "text: a\n    annotations: {priority: 1}",
                json!({"type": "text", "text": "a", "annotations": {"priority": 1}}),
            ),
        ] {
            let yaml = format!("content:\n  - {yaml}\n");
            check(&yaml, result(json!({"content": [want]})));
        }
    }

    #[test]
    fn the_other_members_follow_the_content() {
        check(
            "{content: [], structured_content: 1, is_error: true, meta: {a: 1}}",
            result(
                json!({"content": [], "structuredContent": 1, "isError": true, "_meta": {"a": 1}}),
            ),
        );
    }

    #[test]
    fn everything_but_results() {
        check("{raw: ' {\"content\": 1} '}", Send::Result(r#"{"content": 1}"#.into()));
        check("{crash: true}", Send::Crash);
        check("{silence: true}", Send::Silence);
        check("{garbage: '#'}", Send::Garbage("#".into()));
        check("{error: {code: -1, message: m}}", Send::Error { code: -1, message: "m".into() });
    }

    #[test]
    fn a_raw_result_must_be_json() {
        let answer: Answer = serde_yaml::from_str("{raw: '{'}").unwrap();
        let error = AnswerSpec::new(&answer, Path::new(".")).unwrap_err().to_string();
        assert!(error.starts_with("the raw result is not JSON"), "{error}");
    }
}
