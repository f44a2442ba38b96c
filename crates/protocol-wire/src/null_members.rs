//! Removes members with the value `null` from results and questions.
//!
//! Libraries of several languages write `null` for a missing member. MCP allows that in few places,
//! and strict clients refuse the whole result: the official TypeScript client ends the call with an
//! error, or, if `_meta` is `null`, never sees the answer.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;
use serde_json::value::RawValue;

use crate::{
    Era,
    object::{unquoted, value_len},
};

/// The methods whose results have content, or the values of an argument, and the questions of
/// servers.
const METHODS: &[&str] = &[
    "tools/call",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "elicitation/create",
    "roots/list",
    "sampling/createMessage",
];
/// The members of a result and its content that have members of their own, which MCP defines.
const NESTED: &[&str] =
    &["annotations", "completion", "content", "contents", "icons", "messages", "resource"];
/// Required arrays of a result. Some languages write `null` for an empty one.
const ARRAYS: &[&str] = &["content", "contents", "messages"];
/// The required array of a completion.
const VALUES: &str = "values";
/// May be any JSON value in the stateless era.
const STRUCTURED: &str = "structuredContent";
/// Levels of objects: result, message, content, resource, and the annotations of that.
const MAX_LEVELS: usize = 5;

/// Returns the result of `method`, or the parameters of a question of a server, without the members
/// whose value is `null`; [`None`] if there are none. A required array that is `null` becomes an
/// empty one.
///
/// The data of the server is not changed: that is, the content of `structuredContent`, of `_meta`
/// and of the schema of a form. All other values stay as they are written. Takes one pass over the
/// text, and a second one to check the changed text.
#[must_use]
pub fn remove_null_members(method: &str, era: Era, message: &RawValue) -> Option<Box<RawValue>> {
    let json = message.get();
    if !METHODS.contains(&method) || memmem::find(json.as_bytes(), b"null").is_none() {
        return None;
    }
    let mut pass = Pass { json, era, at: 0, copied: 0, out: String::new() };
    pass.value(MAX_LEVELS);
    if pass.copied == 0 {
        return None;
    }
    pass.out.push_str(&json[pass.copied..]);
    Some(RawValue::from_string(pass.out).expect("members of valid JSON make valid JSON"))
}

/// One pass over valid JSON.
struct Pass<'a> {
    json: &'a str,
    era: Era,
    /// Where the pass is.
    at: usize,
    /// Up to here, `json` is in `out`, except for what was removed. 0 until something is replaced.
    copied: usize,
    out: String,
}

impl<'a> Pass<'a> {
    /// Passes a value whose members are examined, if it is an object, and those of its objects, if
    /// it is an array.
    fn value(&mut self, levels: usize) {
        match self.peek() {
            Some(b'{') if levels > 0 => self.object(levels - 1),
            Some(b'[') => self.array(levels),
            _ => self.skip_value(),
        }
    }

    fn array(&mut self, levels: usize) {
        self.at += 1;
        while let Some(next) = self.peek() {
            match next {
                b']' => break,
                b',' => self.at += 1,
                b'{' => self.value(levels),
                _ => self.skip_value(),
            }
        }
        self.at += 1;
    }

    fn object(&mut self, levels: usize) {
        self.at += 1;
        // A member that was kept before: then a removed one takes the comma before it with it,
        // otherwise the comma after it.
        let mut has_kept = false;
        let mut comma = None;
        while let Some(next) = self.peek() {
            match next {
                b'}' => break,
                b',' => {
                    comma = Some(self.at);
                    self.at += 1;
                }
                _ => {
                    let start = self.at;
                    let name = self.name();
                    if self.peek() == Some(b'n') && !self.may_be_null(&name) {
                        let value = self.at;
                        self.skip_value();
                        let is_top = levels + 1 == MAX_LEVELS;
                        if name == VALUES || (is_top && ARRAYS.contains(&&*name)) {
                            self.replace(value..self.at, "[]");
                            has_kept = true;
                            continue;
                        }
                        if let Some(comma) = comma.filter(|_| has_kept) {
                            self.replace(comma..self.at, "");
                        } else {
                            if self.peek() == Some(b',') {
                                self.at += 1;
                            }
                            self.replace(start..self.at, "");
                        }
                        continue;
                    }
                    has_kept = true;
                    if NESTED.contains(&&*name) { self.value(levels) } else { self.skip_value() }
                }
            }
        }
        self.at += 1;
    }

    fn may_be_null(&self, name: &str) -> bool {
        name == STRUCTURED && self.era == Era::Stateless
    }

    /// Passes a name and its colon.
    fn name(&mut self) -> Cow<'a, str> {
        let start = self.at;
        self.skip_value();
        let json: &'a str = self.json;
        let name = unquoted(&json[start..self.at]).unwrap_or_default();
        // The colon.
        self.peek();
        self.at += 1;
        name
    }

    fn skip_value(&mut self) {
        self.at += value_len(&self.json[self.at..]).max(1);
    }

    /// Passes white space, and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.json.as_bytes()[self.at.min(self.json.len())..];
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.json.as_bytes().get(self.at).copied()
    }

    fn replace(&mut self, removed: Range<usize>, with: &str) {
        self.out.push_str(&self.json[self.copied..removed.start]);
        self.out.push_str(with);
        self.copied = removed.end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn removed(method: &str, era: Era, json: &str) -> String {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        remove_null_members(method, era, &raw).unwrap_or(raw).get().to_owned()
    }

    #[test]
    fn members_that_mcp_defines_are_not_null() {
        let item = r#"{"type":"text","text":"a: null, b","annotations":{"audience":null,"priority":1.0},"_meta":null}"#;
        let mended = r#"{"type":"text","text":"a: null, b","annotations":{"priority":1.0}}"#;
        for (method, from, to) in [
            (
                "tools/call",
                r#"{"content":[ITEM],"isError":null,"_meta":null}"#,
                r#"{"content":[ITEM]}"#,
            ),
            (
                "tools/call",
                r#"{"_meta":null,"content":[ITEM , ITEM]}"#,
                r#"{"content":[ITEM , ITEM]}"#,
            ),
            ("tools/call", r#"{"_meta":null}"#, "{}"),
            ("tools/call", r#"{"a":null,"b":null , "c":1,"d" : null}"#, r#"{ "c":1}"#),
            ("tools/call", r#"{"content":null}"#, r#"{"content":[]}"#),
            ("tools/call", r#"{ "is\u0045rror" : null , "content":[]}"#, r#"{  "content":[]}"#),
            (
                "prompts/get",
                r#"{"description":null,"messages":[{"role":"user","content":ITEM}]}"#,
                r#"{"messages":[{"role":"user","content":ITEM}]}"#,
            ),
            (
                "prompts/get",
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b","annotations":{"priority":null}}}}]}"#,
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b","annotations":{}}}}]}"#,
            ),
            ("prompts/get", r#"{"messages":null}"#, r#"{"messages":[]}"#),
            // The content of a message is not an array.
            (
                "prompts/get",
                r#"{"messages":[{"role":"user","content":null}]}"#,
                r#"{"messages":[{"role":"user"}]}"#,
            ),
            (
                "sampling/createMessage",
                r#"{"messages":[{"role":"user","content":ITEM}],"systemPrompt":null}"#,
                r#"{"messages":[{"role":"user","content":ITEM}]}"#,
            ),
            ("roots/list", r#"{"_meta":null}"#, "{}"),
            (
                "resources/read",
                r#"{"contents":[{"uri":"a:b","mimeType":null,"text":"t"},{"uri":"a:c","blob":""}]}"#,
                r#"{"contents":[{"uri":"a:b","text":"t"},{"uri":"a:c","blob":""}]}"#,
            ),
            (
                "completion/complete",
                r#"{"completion":{"values":null,"total":null}}"#,
                r#"{"completion":{"values":[]}}"#,
            ),
        ] {
            for era in [Era::Session, Era::Stateless] {
                assert_eq!(
                    removed(method, era, &from.replace("ITEM", item)),
                    to.replace("ITEM", mended)
                );
            }
        }
    }

    #[test]
    fn data_of_the_server_stays() {
        for json in [
            r#"{"content":[ ],"structuredContent":{"a":null,"n":1e999},"_meta":{"b":null}}"#,
            r#"{"content":[null, {"type":"tool_use","input":{"a":null}}]}"#,
            r#"{"content":[[{"a":null}]],"null":"null"}"#,
            "[null]",
            "null",
        ] {
            for era in [Era::Session, Era::Stateless] {
                assert_eq!(removed("tools/call", era, json), json);
            }
        }
        // Results of other methods may have members that are `null`.
        let task = r#"{"taskId":"1","ttl":null}"#;
        assert_eq!(removed("tasks/get", Era::Session, task), task);
    }

    #[test]
    fn null_is_data_in_the_stateless_era_only() {
        let json = r#"{"content":[],"structuredContent":null}"#;
        assert_eq!(removed("tools/call", Era::Stateless, json), json);
        assert_eq!(removed("tools/call", Era::Session, json), r#"{"content":[]}"#);
    }

    /// Does the same with a parsed result.
    fn reference(value: &mut Value, levels: usize) {
        match value {
            Value::Array(items) => items
                .iter_mut()
                .filter(|it| it.is_object())
                .for_each(|item| reference(item, levels)),
            Value::Object(members) if levels > 0 => {
                let top = ARRAYS.iter().filter(|_| levels == MAX_LEVELS);
                for name in top.chain([&VALUES]) {
                    if let Some(value @ Value::Null) = members.get_mut(*name) {
                        *value = json!([]);
                    }
                }
                members.retain(|_, value| !value.is_null());
                for name in NESTED {
                    if let Some(value) = members.get_mut(*name) {
                        reference(value, levels - 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let names =
            NESTED.iter().chain(ARRAYS).chain(&[VALUES, STRUCTURED, "_meta", "text", "a\"b"]);
        let name = prop::sample::select(names.map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let leaf = prop_oneof![
            3 => Just(Value::Null),
            1 => any::<i32>().prop_map(Value::from),
            1 => ".{0,6}".prop_map(Value::from),
            1 => Just(json!("\": null,")),
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
        fn text_is_changed_as_its_value_is(value in any_json(), is_pretty: bool) {
            let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let got = removed("tools/call", Era::Session, &text.unwrap());
            let mut want = value;
            reference(&mut want, MAX_LEVELS);
            prop_assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), want);
        }
    }
}
