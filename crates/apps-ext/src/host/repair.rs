//! Completes JSON that is not complete yet, for arguments that a model still writes.

use marquetry_protocol::types::JsonObject;

/// Completes the beginning of a JSON object: closes open strings, arrays and objects. A member
/// whose key is incomplete, or whose value is not yet a valid value (`tr`, `-`, `1.`), is left out;
/// an incomplete string, array or object is kept. Returns `None` if the text is not the beginning
/// of an object.
///
/// If the text grows, strings, arrays and objects in the result only grow. A number may change, or
/// be absent while it is unfinished, as in `1.`.
///
/// ```
/// use marquetry_apps_ext::host::repair;
///
/// let partial = repair(r#"{"city": "Par"#).unwrap();
/// assert_eq!(serde_json::to_string(&partial).unwrap(), r#"{"city":"Par"}"#);
/// assert!(repair(r#"{"city": "Paris", "days": [1, 2"#).unwrap()["days"].is_array());
/// assert!(repair(r#"{"city": "Paris", "da"#).unwrap().get("da").is_none());
/// ```
#[must_use]
pub fn repair(text: &str) -> Option<JsonObject> {
    let text = text.trim_start();
    if text.is_empty() {
        return Some(JsonObject::new());
    }
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, safe: 0, open: Vec::new() };
    let tail = scanner.scan()?;
    let mut completed = text[..scanner.safe].to_owned();
    completed.push_str(&tail);
    completed.extend(scanner.open.iter().rev().map(|open| match open {
        Open::Array => ']',
        Open::Object => '}',
    }));
    serde_json::from_str(&completed).ok()
}

/// Deeper text is not repaired; `serde_json` stops at 128.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy, PartialEq)]
enum Open {
    Array,
    Object,
}

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    FirstItem,
    FirstKey,
    Key,
    Colon,
    Separator,
    End,
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The length of the text that is valid JSON once the open arrays and objects are closed.
    safe: usize,
    open: Vec<Open>,
}

impl Scanner<'_> {
    /// Reads to the end. Returns the text to insert after the safe part, before the open arrays and
    /// objects are closed.
    fn scan(&mut self) -> Option<String> {
        let mut next = Next::Value;
        loop {
            while self.peek().is_some_and(|it| matches!(it, b' ' | b'\t' | b'\n' | b'\r')) {
                self.at += 1;
            }
            let Some(byte) = self.peek() else { return Some(String::new()) };
            next = match (next, byte) {
                (Next::FirstItem, b']') | (Next::FirstKey, b'}') => self.close(byte)?,
                (Next::Separator, b']' | b'}') => self.close(byte)?,
                (Next::Separator, b',') => {
                    self.at += 1;
                    if self.open.last() == Some(&Open::Object) { Next::Key } else { Next::Value }
                }
                (Next::Colon, b':') => {
                    self.at += 1;
                    Next::Value
                }
                (Next::FirstKey | Next::Key, b'"') => {
                    if self.string().is_none() {
                        return Some(String::new());
                    }
                    Next::Colon
                }
                (Next::Value | Next::FirstItem, b'{' | b'[') => self.open(byte)?,
                (Next::Value | Next::FirstItem, b'"') => {
                    if self.open.is_empty() {
                        return None;
                    }
                    match self.string() {
                        Some(()) => self.after_value(),
                        None => return Some(self.cut_string()),
                    }
                }
                (Next::Value | Next::FirstItem, _) => {
                    if self.open.is_empty() {
                        return None;
                    }
                    let start = self.at;
                    while self.peek().is_some_and(is_word) {
                        self.at += 1;
                    }
                    let word = &self.text[start..self.at];
                    let is_whole = serde_json::from_str::<serde_json::Value>(word).is_ok();
                    match (is_whole, self.at == self.bytes.len()) {
                        (true, _) => self.after_value(),
                        (false, true) => return Some(String::new()),
                        (false, false) => return None,
                    }
                }
                _ => return None,
            };
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn open(&mut self, byte: u8) -> Option<Next> {
        let (open, next) = match byte {
            b'{' => (Open::Object, Next::FirstKey),
            _ if self.open.is_empty() => return None,
            _ => (Open::Array, Next::FirstItem),
        };
        if self.open.len() == MAX_DEPTH {
            return None;
        }
        self.open.push(open);
        self.at += 1;
        self.safe = self.at;
        Some(next)
    }

    fn close(&mut self, byte: u8) -> Option<Next> {
        let expected = if byte == b'}' { Open::Object } else { Open::Array };
        if self.open.pop() != Some(expected) {
            return None;
        }
        self.at += 1;
        Some(self.after_value())
    }

    fn after_value(&mut self) -> Next {
        self.safe = self.at;
        if self.open.is_empty() { Next::End } else { Next::Separator }
    }

    /// Skips a string; returns `None` if it does not end.
    fn string(&mut self) -> Option<()> {
        self.start_string();
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        None
    }

    fn start_string(&mut self) {
        self.at += 1;
    }

    /// Returns the text after the safe part with its unfinished string closed. An unfinished escape
    /// at the end is removed.
    fn cut_string(&self) -> String {
        let since = &self.text[self.safe..];
        let start = self.value_start(since);
        let mut end = start + 1;
        let bytes = since.as_bytes();
        let mut at = end;
        while at < bytes.len() {
            let length = match bytes[at] {
                b'\\' => match escape_length(&bytes[at..]) {
                    Some(length) => length,
                    None => break,
                },
                _ => since[at..].chars().next().map_or(1, char::len_utf8),
            };
            at += length;
            end = at;
        }
        format!("{}\"", &since[..end])
    }

    /// Returns where the string of the value starts: after the key and the colon, if there are any.
    fn value_start(&self, since: &str) -> usize {
        let mut scanner =
            Scanner { text: since, bytes: since.as_bytes(), at: 0, safe: 0, open: Vec::new() };
        let is_member = self.open.last() == Some(&Open::Object);
        let mut keys = usize::from(is_member);
        while let Some(byte) = scanner.peek() {
            if byte != b'"' {
                scanner.at += 1;
            } else if keys > 0 {
                keys -= 1;
                scanner.string();
            } else {
                break;
            }
        }
        scanner.at
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// Returns the length of the escape at the start of the bytes; a surrogate pair counts as one
/// escape. Returns `None` if the escape is unfinished or not valid.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match *bytes.get(1)? {
        b'u' => {}
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => return Some(2),
        _ => return None,
    }
    fn code_unit(bytes: &[u8], from: usize) -> Option<u16> {
        let digits = std::str::from_utf8(bytes.get(from..from + 4)?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    }
    if !(0xD800..0xDC00).contains(&code_unit(bytes, 2)?) {
        return Some(6);
    }
    (bytes.get(6..8)? == b"\\u" && code_unit(bytes, 8).is_some()).then_some(12)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(text: &str, want: Value) {
        assert_eq!(repair(text).map(Value::Object), Some(want), "{text}");
    }

    #[test]
    fn beginnings_are_completed() {
        check("", json!({}));
        check("  {", json!({}));
        check(r#"{"a"#, json!({}));
        check(r#"{"a""#, json!({}));
        check(r#"{"a":"#, json!({}));
        check(r#"{"a": "b"#, json!({ "a": "b" }));
        check(r#"{"a": "b\"#, json!({ "a": "b" }));
        check(r#"{"a": "b\n"#, json!({ "a": "b\n" }));
        check(r#"{"a": "b\u00"#, json!({ "a": "b" }));
        check(r#"{"a": "\u00e9"#, json!({ "a": "é" }));
        check(r#"{"a": "b\é"#, json!({ "a": "b" }));
        check(r#"{"a": "\ud83d"#, json!({ "a": "" }));
        check(r#"{"a": "\ud83d\ude0"#, json!({ "a": "" }));
        check(r#"{"a": "\ud83d\ude00"#, json!({ "a": "😀" }));
        check(r#"{"a\"b": "c"#, json!({ "a\"b": "c" }));
        check(r#"{"a": 1, "b": "c"#, json!({ "a": 1, "b": "c" }));
        check(r#"{"a": tr"#, json!({}));
        check(r#"{"a": true"#, json!({ "a": true }));
        check(r#"{"a": 12"#, json!({ "a": 12 }));
        check(r#"{"a": 1, "b": -"#, json!({ "a": 1 }));
        check(r#"{"a": 1."#, json!({}));
        check(r#"{"a": [1, {"b": ["#, json!({ "a": [1, { "b": [] }] }));
        check(r#"{"a": ["x", "y"#, json!({ "a": ["x", "y"] }));
        check(r#"{"a": [1, "#, json!({ "a": [1] }));
        check(r#"{"a": {}, "#, json!({ "a": {} }));
        check(r#"{"a": {"b": "{[\"c"#, json!({ "a": { "b": "{[\"c" } }));
        check(r#"{"a": 1}"#, json!({ "a": 1 }));
    }

    #[test]
    fn other_text_is_not_repaired() {
        for text in
            ["[", "1", "\"a", "{a", "{]", r#"{"a" 1"#, r#"{"a": x1, "#, r#"{"a": 1} {"#, "}"]
        {
            assert_eq!(repair(text), None, "{text}");
        }
        assert_eq!(repair(&r#"{"a":"#.repeat(200)), None);
        assert_eq!(repair(&format!("{{\"a\":{}", "[".repeat(10_000))), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn every_beginning_of_an_object_is_repaired(
            members in prop::collection::btree_map(".{0,4}", any_json(), 0..4)
        ) {
            let whole: JsonObject = members.into_iter().collect();
            let text = serde_json::to_string(&whole).unwrap();
            for end in (0..=text.len()).filter(|it| text.is_char_boundary(*it)) {
                prop_assert!(repair(&text[..end]).is_some(), "{}", &text[..end]);
            }
            prop_assert_eq!(repair(&text), Some(whole));
        }

        #[test]
        fn no_text_is_a_panic(text in r#"[{}\[\]",:\\u0-9a-fé \n-]{0,40}"#) {
            let _ = repair(&text);
        }
    }
}
