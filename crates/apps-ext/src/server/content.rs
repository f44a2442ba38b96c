//! Views inside the answers of tools.

use marquetry_protocol::types::Content;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::types::UI_SCHEME;

/// What a client without Views gets in place of an answer that has nothing else.
const ONLY_VIEWS: &str = "The tool answered with a View, which this client does not show.";

/// The part of an answer that may have Views.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The members of a content block that name a resource. Servers of MCP-UI put whole Views into
/// their answers: `{"type": "resource", "resource": {"uri": "ui://…", "text": "<html>…"}}`.
#[derive(Deserialize)]
struct Block {
    uri: Option<String>,
    resource: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    uri: Option<String>,
}

impl Block {
    fn is_view(&self) -> bool {
        let embedded = self.resource.as_ref().and_then(|it| it.uri.as_deref());
        self.uri.as_deref().or(embedded).is_some_and(is_view)
    }
}

/// Returns the answer of a tool without embedded Views and links to Views; `None` if it has none.
/// All other parts stay as they were written.
pub(super) fn without_views(answer: &RawValue) -> Option<Box<RawValue>> {
    let json = answer.get();
    // Few answers have a resource, and looking for a word is faster than parsing.
    if !json.contains("resource") {
        return None;
    }
    let content = serde_json::from_str::<Answer<'_>>(json).ok()?.content.get();
    let mut blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let count = blocks.len();
    blocks.retain(|block| !serde_json::from_str(block.get()).is_ok_and(|it: Block| it.is_view()));
    if blocks.len() == count {
        return None;
    }
    let note = to_raw_value(&Content::text(ONLY_VIEWS)).ok()?;
    if blocks.is_empty() {
        blocks.push(&note);
    }
    let rest = serde_json::to_string(&blocks).ok()?;
    // The content is a part of the same text.
    let start = content.as_ptr() as usize - json.as_ptr() as usize;
    let edited = format!("{}{rest}{}", &json[..start], &json[start + content.len()..]);
    RawValue::from_string(edited).ok()
}

/// Returns whether a URI or a template of URIs names a View. Schemes are not case-sensitive (RFC
/// 3986, 3.1).
pub(super) fn is_view(uri: &str) -> bool {
    uri.get(..UI_SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(UI_SCHEME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, want: Option<&str>) {
        let answer = RawValue::from_string(answer.to_owned()).unwrap();
        assert_eq!(without_views(&answer).as_deref().map(RawValue::get), want);
    }

    #[test]
    fn views_are_left_out_and_the_rest_stays_as_it_was_written() {
        check(
            r#"{"n":1.0e2, "content":[ {"type":"text","text":"a"}, {"type":"resource","resource":{"uri":"ui://x","text":"<p>"}}, {"type":"resource_link","name":"v","uri":"UI://y"},{"type":"resource","resource":{"uri":"file:///z","text":"é"}}],"structuredContent":{"uri":"ui://z"}}"#,
            Some(
                r#"{"n":1.0e2, "content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"file:///z","text":"é"}}],"structuredContent":{"uri":"ui://z"}}"#,
            ),
        );
        // The URI as PHP writes it.
        check(
            r#"{"content":[{"type":"resource","resource":{"uri":"ui:\/\/x","blob":"PA=="}}]}"#,
            Some(
                r#"{"content":[{"type":"text","text":"The tool answered with a View, which this client does not show."}]}"#,
            ),
        );
    }

    #[test]
    fn answers_without_views_stay_unchanged() {
        for answer in [
            r#"{"content":[{"type":"text","text":"see the resource ui://x"}]}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"ui://x"}}]}"#,
            r#"{"content":[7,null,{"resource":"ui://x"}]}"#,
            r#"{"content":"resource ui://x"}"#,
            r#"{"resource":1}"#,
            r#"["resource"]"#,
        ] {
            check(answer, None);
        }
    }
}
