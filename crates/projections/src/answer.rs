//! The data of an answer, and the answer with a selection of it.

use std::borrow::Cow;

use indexmap::IndexMap;
use marquetry_artifacts::Captured;
use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::SELECT;

/// The result of a call that has data.
pub(super) struct Answer<'a> {
    members: IndexMap<Cow<'a, str>, &'a RawValue>,
    /// Items that are not text, such as images: they stay.
    other_items: Vec<&'a RawValue>,
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

impl<'a> Answer<'a> {
    /// Parses a result; `None` if it is an error, a question to the client or a task, which have no
    /// data.
    ///
    /// # Errors
    ///
    /// Returns an error if the result has neither structured content nor text.
    pub(super) fn parse(result: &'a RawValue) -> Result<Option<Self>, String> {
        let members: IndexMap<Cow<'a, str>, &'a RawValue> =
            serde_json::from_str(result.get()).map_err(|error| error.to_string())?;
        let is_error = members.get("isError").is_some_and(|value| value.get() == "true");
        let is_complete =
            members.get("resultType").is_none_or(|value| value.get() == "\"complete\"");
        let Some(content) = members.get("content").filter(|_| is_complete && !is_error) else {
            return Ok(None);
        };
        let items: Vec<&'a RawValue> =
            serde_json::from_str(content.get()).map_err(|error| error.to_string())?;
        let mut texts = Vec::new();
        let mut other_items = Vec::new();
        for item in items {
            match serde_json::from_str(item.get()) {
                Ok(Item { r#type, text: Some(text) }) if r#type == "text" => texts.push(text),
                _ => other_items.push(item),
            }
        }
        let structured = members.get("structuredContent").filter(|value| value.get() != "null");
        let data = match (structured, texts.len()) {
            (Some(structured), _) => Cow::Borrowed(structured.get()),
            (None, 0) => return Err("the answer has no text and no structured content".to_owned()),
            (None, 1) => texts.remove(0),
            // Several texts are the values of one input.
            (None, _) => Cow::Owned(texts.join("\n")),
        };
        Ok(Some(Self { members, other_items, data }))
    }

    /// Returns the JSON that a program works on.
    pub(super) fn data(&self) -> &str {
        &self.data
    }

    /// Returns the result with a text in place of the data. It has no structured content, which
    /// would break the tool's output schema.
    pub(super) fn with_text(&self, text: &str) -> serde_json::Result<Box<RawValue>> {
        let text = to_raw_value(&json!({"type": "text", "text": text.trim_end_matches('\n')}))?;
        let mut items = vec![&*text];
        items.extend(&self.other_items);
        let content = to_raw_value(&items)?;
        let mut members = self.members.clone();
        members.shift_remove("structuredContent");
        members.insert("content".into(), &content);
        to_raw_value(&members)
    }
}

/// Returns the error of a call from whose answer nothing could be selected: what failed, where the
/// whole answer is, and what the capture shows of it.
pub fn failed_selection(captured: Captured, why: &str) -> Box<RawValue> {
    /// Artifacts that the error names; the capture's notice names more.
    const NAMED: usize = 3;
    let saved = captured.report().map(|report| &report.save);
    let artifacts =
        saved.into_iter().flat_map(|it| it.artifacts.iter().chain(&it.fallback_artifact));
    let names: Vec<_> = artifacts.take(NAMED).map(|it| it.name.as_str().to_owned()).collect();
    let place = match saved {
        None => "Its answer is not saved, and follows whole".to_owned(),
        Some(_) if names.is_empty() => {
            "Its answer could not be saved; all of it that fits follows".to_owned()
        }
        Some(_) => format!(
            "Its whole answer is saved as {}: query_artifact takes jq programs, too",
            names.join(", ")
        ),
    };
    let text = format!("{SELECT}: {why}. The tool was called. {place}.");
    let is_saved = !names.is_empty();
    let result = captured.into_result();
    with_error(&result, &text, is_saved).unwrap_or(result)
}

/// Returns a result as an error that begins with a text. Structured content stays if it is not
/// saved, since it may be the only data.
fn with_error(result: &RawValue, text: &str, is_saved: bool) -> Option<Box<RawValue>> {
    let mut members: IndexMap<Cow<'_, str>, &RawValue> = serde_json::from_str(result.get()).ok()?;
    let content = members.get("content").map_or("[]", |content| content.get());
    let mut items: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let error = to_raw_value(&json!({"type": "text", "text": text})).ok()?;
    items.insert(0, &error);
    let content = to_raw_value(&items).ok()?;
    let is_error = to_raw_value(&true).ok()?;
    members.insert("content".into(), &content);
    if is_saved {
        members.shift_remove("structuredContent");
    }
    members.insert("isError".into(), &is_error);
    to_raw_value(&members).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn parsed(result: &Value) -> Result<Option<String>, String> {
        let result = to_raw_value(result).unwrap();
        Ok(Answer::parse(&result)?.map(|answer| answer.data().to_owned()))
    }

    #[test]
    fn the_data_are_structured_content_or_texts() {
        fn text(text: &str) -> Value {
            json!({"type": "text", "text": text})
        }
        let both = json!({"content": [text("1")], "structuredContent": {"a": 1.0}});
        assert_eq!(parsed(&both).unwrap().unwrap(), r#"{"a":1.0}"#);
        let texts = json!({"content": [text("{\"a\": 1}"), text("2")]});
        assert_eq!(parsed(&texts).unwrap().unwrap(), "{\"a\": 1}\n2");
        assert!(
            parsed(&json!({"content": [{"type": "image", "data": "", "mimeType": "x"}]})).is_err()
        );
        for unchanged in [
            json!({"content": [text("no")], "isError": true}),
            json!({"content": [], "resultType": "input_required"}),
            json!({"task": {"taskId": "1"}}),
        ] {
            assert_eq!(parsed(&unchanged), Ok(None), "{unchanged}");
        }
    }

    #[test]
    fn a_selection_replaces_text_alone() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let result = json!({
            "_meta": {"k": 12345678901234567890_u64},
            "content": [{"type": "text", "text": "{}"}, image],
            "structuredContent": {},
            "resultType": "complete",
        });
        let result = to_raw_value(&result).unwrap();
        let selected = Answer::parse(&result).unwrap().unwrap().with_text("1\n2\n").unwrap();
        let selected: Value = serde_json::from_str(selected.get()).unwrap();
        let want = json!({
            "_meta": {"k": 12345678901234567890_u64},
            "content": [{"type": "text", "text": "1\n2"}, image],
            "resultType": "complete",
        });
        assert_eq!(selected, want);
    }
}
