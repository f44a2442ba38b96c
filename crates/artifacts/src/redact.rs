//! Redacts the arguments of a tool call before they are saved: bounded, and without secrets.

use std::{cell::Cell, fmt};

use marquetry_redact::{is_secret_name, json_without_secrets, without_secret_values};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    glob::Glob,
    json::{self, Members},
};

/// Values (members, elements, scalars) of the arguments that are kept.
const MAX_VALUES: usize = 200;
/// Longest string of the arguments that is kept whole, in bytes.
const MAX_STRING_BYTES: usize = 200;
/// Bytes of all strings and keys that are kept.
const MAX_TOTAL_BYTES: usize = 2048;
/// Deepest nesting that is kept.
const MAX_DEPTH: usize = 8;

const REDACTED: &str = "[redacted]";
const LEFT_OUT: &str = "[left out]";

/// Replaces the values of keys for secrets and of these names, cuts long strings, and leaves out
/// the rest above the limits.
pub(crate) fn arguments(raw: &RawValue, names: &[Glob]) -> Value {
    let budget = Budget { values: Cell::new(MAX_VALUES), bytes: Cell::new(MAX_TOTAL_BYTES) };
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    Bounded { budget: &budget, names, depth: 0 }
        .deserialize(&mut reader)
        .unwrap_or_else(|_| Value::from("[not readable]"))
}

/// Replaces secrets in the content and the structured content of an answer. Returns none if there
/// are none: the answer stays as it is.
pub(crate) fn answer(raw: &RawValue) -> Option<Box<RawValue>> {
    let members = Members::read(raw)?;
    // An unfinished answer has no content, and its state must come back as sent.
    let parts = ["content", "structuredContent"].map(|name| members.get(name));
    let mut spans: Vec<_> = parts.into_iter().flatten().map(|part| json::span(raw, part)).collect();
    spans.sort_by_key(|span| span.start);
    let mut redacted = String::with_capacity(raw.get().len());
    let mut position = 0;
    for span in spans {
        redacted.push_str(&raw.get()[position..span.start]);
        redacted.push_str(&json_without_secrets(&raw.get()[span.clone()], &[], REDACTED));
        position = span.end;
    }
    redacted.push_str(&raw.get()[position..]);
    if redacted == raw.get() {
        return None;
    }
    RawValue::from_string(redacted).ok()
}

struct Budget {
    values: Cell<usize>,
    bytes: Cell<usize>,
}

impl Budget {
    fn take(counter: &Cell<usize>, amount: usize) -> bool {
        let left = counter.get().checked_sub(amount);
        counter.set(left.unwrap_or(0));
        left.is_some()
    }

    fn text(&self, text: &str) -> Value {
        // Before the text is cut: the beginning of a token is not recognisable.
        let text = without_secret_values(text, REDACTED);
        let kept = &text[..text.floor_char_boundary(MAX_STRING_BYTES)];
        if !Self::take(&self.bytes, kept.len()) {
            return Value::from(LEFT_OUT);
        }
        match text.len() - kept.len() {
            0 => Value::from(kept),
            cut => Value::from(format!("{kept}… [{cut} more bytes]")),
        }
    }
}

#[derive(Clone, Copy)]
struct Bounded<'b> {
    budget: &'b Budget,
    names: &'b [Glob],
    depth: usize,
}

impl Bounded<'_> {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > MAX_DEPTH || !Budget::take(&self.budget.values, 1) {
            serde::Deserialize::deserialize(deserializer).map(|IgnoredAny| Value::from(LEFT_OUT))
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.budget.text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(self.deeper())? {
            if self.budget.values.get() == 0 {
                elements.push(Value::from(LEFT_OUT));
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let kept = &key[..key.floor_char_boundary(MAX_STRING_BYTES)];
            if self.budget.values.get() == 0 || !Budget::take(&self.budget.bytes, kept.len()) {
                map.next_value::<IgnoredAny>()?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                members.insert("…".to_owned(), Value::from(LEFT_OUT));
                break;
            }
            let is_named = self.names.iter().any(|name| name.matches(&key));
            let value = if is_named || is_secret_name(&key) {
                map.next_value::<IgnoredAny>()?;
                Value::from(REDACTED)
            } else {
                map.next_value_seed(self.deeper())?
            };
            members.insert(kept.to_owned(), value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn secrets_are_replaced() {
        check(
            r#"{"city": "Rome", "password": "x", "API-Key": {"a": 1}, "nested": [{"accessToken": "y", "max_tokens": 5}],
               "Authorization": "Basic eA==", "auth": 1, "author": "z", "session_id": 3, "Set-Cookie": "c", "db_pwd": "d"}"#,
            expect![[
                r#"{"city":"Rome","password":"[redacted]","API-Key":"[redacted]","nested":[{"accessToken":"[redacted]","max_tokens":5}],"Authorization":"[redacted]","auth":"[redacted]","author":"z","session_id":"[redacted]","Set-Cookie":"[redacted]","db_pwd":"[redacted]"}"#
            ]],
        );
        check(
            r#"{"header": "Bearer abcdefghijklmnopqrstuv", "db": "postgres://u:p@h/d", "site": "https://u@h/a:b@c",
                "word": "basic understanding of things", "key": "-----BEGIN RSA PRIVATE KEY-----\nabc",
                "id": "AKIAIOSFODNN7EXAMPLE", "command": "curl --user anna:hunter2 x"}"#,
            expect![[
                r#"{"header":"Bearer [redacted]","db":"postgres://u:[redacted]@h/d","site":"https://u@h/a:b@c","word":"basic understanding of things","key":"[redacted]","id":"[redacted]","command":"curl --user anna:[redacted] x"}"#
            ]],
        );
    }

    #[test]
    fn arguments_are_cut_to_the_limits() {
        let long = format!(r#"{{"text": "{}"}}"#, "é".repeat(5000));
        check(
            &long,
            expect![[
                r#"{"text":"éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé… [9800 more bytes]"}"#
            ]],
        );
        check(
            &format!("{}1{}", "[".repeat(50), "]".repeat(50)),
            expect![[r#"[[[[[[[[["[left out]"]]]]]]]]]"#]],
        );
        for json in [
            format!("[{}1]", "1,".repeat(100_000)),
            format!("[{}1]", r#""abcdefghij","#.repeat(10_000)),
            format!(
                "{{{}\"z\":1}}",
                (0..9999).map(|n| format!("\"key{n}\":{n},")).collect::<String>()
            ),
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
        ] {
            let kept = arguments(&RawValue::from_string(json).unwrap(), &[]).to_string();
            assert!(kept.len() < 8 * MAX_TOTAL_BYTES, "{}", kept.len());
        }
    }

    #[track_caller]
    fn check(json: &str, want: Expect) {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        want.assert_eq(&arguments(&raw, &[]).to_string());
    }
}
