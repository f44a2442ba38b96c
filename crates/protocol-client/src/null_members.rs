//! Removes members with the value `null` from results.
//!
//! Libraries of several languages write `null` for a missing member. MCP has no such members, and strict clients refuse the
//! whole result: the official TypeScript client then waits until its time limit.

use std::borrow::Cow;

use marquetry_protocol_wire::object::{ObjectText, may_have_null};
use serde_json::value::RawValue;

/// The methods whose results have content, or the values of an argument.
const METHODS: &[&str] = &["tools/call", "resources/read", "prompts/get", "completion/complete"];
/// The members of a result and its content that have members of their own, which MCP defines.
const NESTED: &[&str] =
    &["annotations", "completion", "content", "contents", "icons", "messages", "resource"];
/// `null` is data there (since 2026-07-28).
const DATA: &[&str] = &["structuredContent"];
/// The deepest object is the annotations of a resource in the content of a message of a result.
const MOST_LEVELS: usize = 5;

/// Returns the result of `method` without members that are `null`. Data of the server (`structuredContent` and what `_meta`
/// contains) stays as it is, and so does the text of all other values.
pub(super) fn removed(method: &str, result: Box<RawValue>) -> Box<RawValue> {
    if !METHODS.contains(&method) || !may_have_null(&result) {
        return result;
    }
    match object(result.get(), MOST_LEVELS) {
        Some(json) => RawValue::from_string(json).expect("members of valid JSON make valid JSON"),
        None => result,
    }
}

/// Returns an object, or an array of objects, without members that are `null`; [`None`] if there are none.
fn without_nulls(json: &str, levels: usize) -> Option<String> {
    match json.starts_with('[') {
        true => objects(json, levels),
        false => object(json, levels),
    }
}

fn objects(json: &str, levels: usize) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    let mut is_changed = false;
    let items = items.iter().map(|item| match object(item.get(), levels) {
        Some(mended) => {
            is_changed = true;
            Cow::Owned(mended)
        }
        None => Cow::Borrowed(item.get()),
    });
    let items: Vec<_> = items.collect();
    is_changed.then(|| format!("[{}]", items.join(",")))
}

fn object(json: &str, levels: usize) -> Option<String> {
    let levels = levels.checked_sub(1)?;
    let mut object = ObjectText::of(serde_json::from_str(json).ok()?)?;
    let mut is_changed = object.remove_nulls(DATA);
    for name in NESTED {
        if let Some(mended) = object.get(name).and_then(|json| without_nulls(json, levels)) {
            object.set(name, mended);
            is_changed = true;
        }
    }
    is_changed.then(|| object.write())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn removed_from(method: &str, json: &str) -> String {
        removed(method, RawValue::from_string(json.to_owned()).unwrap()).get().to_owned()
    }

    #[test]
    fn members_that_mcp_defines_are_not_null() {
        let item = r#"{"type":"text","text":"a: null, b","annotations":{"audience":null,"priority":1.0},"_meta":null}"#;
        let mended = r#"{"type":"text","text":"a: null, b","annotations":{"priority":1.0}}"#;
        for (method, given, want) in [
            (
                "tools/call",
                format!(r#"{{"content":[{item}],"isError":null,"_meta":null}}"#),
                format!(r#"{{"content":[{mended}]}}"#),
            ),
            (
                "prompts/get",
                format!(
                    r#"{{"description":null,"messages":[{{"role":"user","content":{item}}}]}}"#
                ),
                format!(r#"{{"messages":[{{"role":"user","content":{mended}}}]}}"#),
            ),
            (
                "prompts/get",
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b","annotations":{"priority":null}}}}]}"#
                    .to_owned(),
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b","annotations":{}}}}]}"#
                    .to_owned(),
            ),
            (
                "resources/read",
                r#"{"contents":[{"uri":"a:b","mimeType":null,"text":"t"},{"uri":"a:c","blob":""}]}"#
                    .to_owned(),
                r#"{"contents":[{"uri":"a:b","text":"t"},{"uri":"a:c","blob":""}]}"#.to_owned(),
            ),
            (
                "completion/complete",
                r#"{"completion":{"values":[],"total":null}}"#.to_owned(),
                r#"{"completion":{"values":[]}}"#.to_owned(),
            ),
        ] {
            assert_eq!(removed_from(method, &given), want);
        }
    }

    #[test]
    fn data_of_the_server_stays() {
        for json in [
            r#"{"content":[ ],"structuredContent":{"a":null,"n":1e999},"_meta":{"b":null}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": null, 1}"}],"structuredContent":null}"#,
            r#"{"content":[null, {"type":"tool_use","input":{"a":null}}]}"#,
            r"[null]",
        ] {
            assert_eq!(removed_from("tools/call", json), json);
        }
        // Results of other methods may have members that are `null`.
        let task = r#"{"taskId":"1","ttl":null}"#;
        assert_eq!(removed_from("tasks/get", task), task);
    }

    /// Does the same with a parsed result.
    fn reference(value: &mut Value, levels: usize) {
        let Some(members) = value.as_object_mut().filter(|_| levels > 0) else { return };
        members.retain(|name, value| !value.is_null() || DATA.contains(&&**name));
        for name in NESTED {
            match members.get_mut(*name) {
                Some(Value::Array(items)) => {
                    items.iter_mut().for_each(|item| reference(item, levels - 1));
                }
                Some(value) => reference(value, levels - 1),
                None => {}
            }
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let names = NESTED.iter().chain(DATA).chain(&["_meta", "text", "a\"b"]);
        let name = prop::sample::select(names.map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
            Just(json!("\": null,")),
        ];
        leaf.prop_recursive(7, 60, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(name.clone(), inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_mended_as_its_value_is(value in any_json(), is_pretty: bool) {
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&value),
                false => serde_json::to_string(&value),
            };
            let got = removed_from("tools/call", &text.unwrap());
            let mut want = value;
            reference(&mut want, MOST_LEVELS);
            prop_assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), want);
        }
    }
}
