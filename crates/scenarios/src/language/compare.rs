//! Compares a value with a matcher, and reports every difference with its place.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    matcher::{Bounds, Matcher, Op, SameStart},
    source::Source,
    template::Template,
    units::ByteSize,
    vars::Vars,
};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// JSON pointer to the difference, after the name of the whole value.
    pub(crate) at: String,
    pub(crate) expected: String,
    pub(crate) actual: String,
}

/// The captured values and the files that matchers refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) vars: &'a Vars,
    /// Folder that `file` paths are relative to.
    pub(crate) folder: &'a Path,
}

impl Context<'_> {
    /// Returns every difference between a matcher and a value. An `actual` of [`None`] means that
    /// the value is missing.
    pub(crate) fn compare(
        &self,
        at: &str,
        expected: &Matcher,
        actual: Option<&Value>,
    ) -> Vec<Mismatch> {
        let mut comparison = Comparison { context: *self, found: Vec::new() };
        comparison.matcher(at, expected, actual);
        comparison.found
    }

    fn matches(&self, expected: &Matcher, actual: Option<&Value>) -> bool {
        self.compare("", expected, actual).is_empty()
    }
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal, as `sha256sum` prints it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats bytes for a report: text as it is, other bytes as base64; long content as its digest and
/// its first bytes.
pub(crate) fn show_bytes(bytes: &[u8]) -> String {
    const SHOWN: usize = 400;
    if bytes.len() <= SHOWN {
        return match std::str::from_utf8(bytes) {
            Ok(text) => format!("{text:?}"),
            Err(_) => format!("{} bytes, base64 {}", bytes.len(), STANDARD.encode(bytes)),
        };
    }
    format!(
        "{} bytes, sha256 {}, starting {:?}",
        bytes.len(),
        sha256(bytes),
        String::from_utf8_lossy(&bytes[..SHOWN / 4])
    )
}

/// Formats a value for a report, as JSON. Long values are cut.
pub(crate) fn show(value: Option<&Value>) -> String {
    const LONG: usize = 4000;
    match value {
        None => "(nothing)".into(),
        Some(Value::String(text)) if text.len() > LONG => show_bytes(text.as_bytes()),
        Some(value) => {
            let text = value.to_string();
            if text.len() <= LONG {
                return text;
            }
            let end = text.floor_char_boundary(LONG);
            format!("{}… ({} bytes)", &text[..end], text.len())
        }
    }
}

struct Comparison<'a> {
    context: Context<'a>,
    found: Vec<Mismatch>,
}

impl Comparison<'_> {
    fn differ(&mut self, at: &str, expected: impl Into<String>, actual: Option<&Value>) {
        let mismatch =
            Mismatch { at: at.to_owned(), expected: expected.into(), actual: show(actual) };
        self.found.push(mismatch);
    }

    fn matcher(&mut self, at: &str, expected: &Matcher, actual: Option<&Value>) {
        match expected {
            Matcher::Scalar(want) => {
                if !actual.is_some_and(|actual| equal(want, actual)) {
                    self.differ(at, want.to_string(), actual);
                }
            }
            Matcher::String(text) => match self.context.vars.value(text) {
                Ok(want) => {
                    if !actual.is_some_and(|actual| equal(&want, actual)) {
                        self.differ(at, show(Some(&want)), actual);
                    }
                }
                Err(error) => self.differ(at, format!("{text} ({error})"), actual),
            },
            Matcher::List(items) => self.list(at, items, actual),
            Matcher::Map(entries) => {
                let Some(Value::Object(object)) = actual else {
                    let keys: Vec<_> = entries.iter().map(|(key, _)| key.as_str()).collect();
                    return self.differ(at, format!("an object with {}", keys.join(", ")), actual);
                };
                for (key, value) in entries {
                    self.matcher(&below(at, key), value, object.get(key));
                }
            }
            Matcher::Ops(ops) => {
                for op in ops {
                    self.op(at, op, actual);
                }
            }
        }
    }

    fn list(&mut self, at: &str, items: &[Matcher], actual: Option<&Value>) {
        let Some(Value::Array(list)) = actual else {
            return self.differ(at, format!("a list of {}", items.len()), actual);
        };
        if items.len() != list.len() {
            self.found.push(Mismatch {
                at: at.to_owned(),
                expected: number_of_items(items.len()),
                actual: number_of_items(list.len()),
            });
        }
        for index in 0..items.len().max(list.len()) {
            let at = below(at, &index.to_string());
            match (items.get(index), list.get(index)) {
                (Some(item), actual) => self.matcher(&at, item, actual),
                (None, extra) => self.differ(&at, "(nothing)", extra),
            }
        }
    }

    fn op(&mut self, at: &str, op: &Op, actual: Option<&Value>) {
        match op {
            Op::Absent(true) if actual.is_some() => self.differ(at, "(nothing)", actual),
            Op::Absent(false) if actual.is_none() => self.differ(at, "anything", actual),
            Op::Absent(_) => {}
            Op::Exact(template) => self.exact(at, template, actual),
            Op::Range(bounds) => {
                if !actual.and_then(Value::as_f64).is_some_and(|n| within(bounds, n)) {
                    self.differ(at, format!("a number {}", say(bounds, |n| n.to_string())), actual);
                }
            }
            Op::Length(bounds) => {
                let length = match actual {
                    Some(Value::String(text)) => Some(text.chars().count()),
                    Some(Value::Array(list)) => Some(list.len()),
                    Some(Value::Object(object)) => Some(object.len()),
                    _ => None,
                };
                if !length.is_some_and(|length| within(bounds, length as u64)) {
                    let found = length.map_or(String::new(), |length| format!(" (it is {length})"));
                    let want = format!("a length {}{found}", say(bounds, |n| n.to_string()));
                    self.differ(at, want, actual);
                }
            }
            Op::Includes(items) => self.includes(at, items, actual),
            Op::Each(item) => match actual {
                Some(Value::Array(list)) => {
                    for (index, actual) in list.iter().enumerate() {
                        self.matcher(&below(at, &index.to_string()), item, Some(actual));
                    }
                }
                _ => self.differ(at, "a list", actual),
            },
            Op::Not(matcher) => {
                if self.context.matches(matcher, actual) {
                    self.differ(at, format!("anything but {matcher}"), actual);
                }
            }
            Op::AnyOf(matchers) => {
                if !matchers.iter().any(|matcher| self.context.matches(matcher, actual)) {
                    self.differ(at, op.to_string(), actual);
                }
            }
            Op::All(matchers) => {
                for matcher in matchers {
                    self.matcher(at, matcher, actual);
                }
            }
            Op::Regex(_)
            | Op::Mentions(_)
            | Op::Lacks(_)
            | Op::StartsWith(_)
            | Op::EndsWith(_)
            | Op::Text(_)
            | Op::SameStart(_)
            | Op::Base64(_)
            | Op::Bytes(_)
            | Op::Json(_) => match actual {
                Some(Value::String(text)) => self.text_op(at, op, text),
                _ => self.differ(at, "a string", actual),
            },
        }
    }

    /// Checks the operators on strings.
    fn text_op(&mut self, at: &str, op: &Op, text: &str) {
        let vars = self.context.vars;
        let actual = Value::from(text);
        let wrong = match op {
            Op::Regex(pattern) => match vars.text_with(&pattern.0, |text| regex::escape(&text)) {
                Ok(filled) => match regex::Regex::new(&filled) {
                    Ok(regex) if regex.is_match(text) => None,
                    Ok(_) => Some(format!("a match for /{filled}/")),
                    Err(error) => Some(error.to_string()),
                },
                Err(error) => Some(error.to_string()),
            },
            Op::Mentions(parts) => {
                for part in parts {
                    match vars.text(part) {
                        Ok(part) if text.contains(&part) => {}
                        Ok(part) => {
                            self.differ(at, format!("a mention of {part:?}"), Some(&actual));
                        }
                        Err(error) => self.differ(at, error.to_string(), Some(&actual)),
                    }
                }
                None
            }
            Op::Lacks(parts) => {
                for part in parts {
                    match vars.text(part) {
                        Ok(part) if !text.contains(&part) => {}
                        Ok(part) => {
                            self.differ(at, format!("no mention of {part:?}"), Some(&actual));
                        }
                        Err(error) => self.differ(at, error.to_string(), Some(&actual)),
                    }
                }
                None
            }
            Op::StartsWith(start) => match vars.text(start) {
                Ok(start) if text.starts_with(&start) => None,
                Ok(start) => Some(format!("a start of {start:?}")),
                Err(error) => Some(error.to_string()),
            },
            Op::EndsWith(end) => match vars.text(end) {
                Ok(end) if text.ends_with(&end) => None,
                Ok(end) => Some(format!("an end of {end:?}")),
                Err(error) => Some(error.to_string()),
            },
            Op::Text(source) => self.content(source, text.as_bytes()),
            Op::SameStart(SameStart { of, bytes }) => match of.bytes(self.context.folder) {
                Ok(want) => {
                    let start =
                        &want[..want.len().min(usize::try_from(bytes.0).unwrap_or(usize::MAX))];
                    let is_same = text.as_bytes().starts_with(start);
                    (!is_same).then(|| format!("a start of {}", show_bytes(start)))
                }
                Err(error) => Some(error.to_string()),
            },
            Op::Base64(source) => match STANDARD.decode(text) {
                Ok(bytes) => {
                    if let Some(expected) = self.content(source, &bytes) {
                        let actual = show_bytes(&bytes);
                        self.found.push(Mismatch { at: at.to_owned(), expected, actual });
                    }
                    None
                }
                Err(error) => Some(format!("base64 ({error})")),
            },
            Op::Bytes(bounds) => {
                let size = text.len() as u64;
                (!within(bounds, ByteSize(size))).then(|| {
                    format!(
                        "a size {} (it is {size})",
                        say(bounds, |size| format!("{} bytes", size.0))
                    )
                })
            }
            Op::Json(matcher) => match serde_json::from_str::<Value>(text) {
                Ok(value) => {
                    self.matcher(&format!("{at}#"), matcher, Some(&value));
                    None
                }
                Err(error) => Some(format!("JSON ({error})")),
            },
            _ => Some("a matcher for strings".into()),
        };
        if let Some(expected) = wrong {
            self.differ(at, expected, Some(&actual));
        }
    }

    /// Returns a description of the expected content if the actual content differs.
    fn content(&self, source: &Source, actual: &[u8]) -> Option<String> {
        match source.bytes(self.context.folder) {
            Ok(want) if want == actual => None,
            Ok(want) => Some(show_bytes(&want)),
            Err(error) => Some(error.to_string()),
        }
    }

    fn exact(&mut self, at: &str, template: &Template, actual: Option<&Value>) {
        match template.fill(self.context.vars, self.context.folder) {
            Ok(want) => self.equal(at, &want, actual),
            Err(error) => self.differ(at, error.to_string(), actual),
        }
    }

    /// Compares two values key by key, and reports the place of each difference.
    fn equal(&mut self, at: &str, want: &Value, actual: Option<&Value>) {
        match (want, actual) {
            (Value::Object(want), Some(Value::Object(actual))) => {
                for (key, want) in want {
                    self.equal(&below(at, key), want, actual.get(key));
                }
                for (key, extra) in actual.iter().filter(|(key, _)| !want.contains_key(*key)) {
                    self.differ(&below(at, key), "(nothing)", Some(extra));
                }
            }
            (Value::Array(want), Some(Value::Array(actual))) if want.len() == actual.len() => {
                for (index, (want, actual)) in want.iter().zip(actual).enumerate() {
                    self.equal(&below(at, &index.to_string()), want, Some(actual));
                }
            }
            (want, actual) => {
                if !actual.is_some_and(|actual| equal(want, actual)) {
                    self.differ(at, show(Some(want)), actual);
                }
            }
        }
    }

    fn includes(&mut self, at: &str, items: &[Matcher], actual: Option<&Value>) {
        let Some(Value::Array(list)) = actual else {
            return self.differ(at, "a list", actual);
        };
        for item in items {
            if !list.iter().any(|actual| self.context.matches(item, Some(actual))) {
                self.differ(at, format!("an item like {item}"), actual);
            }
        }
    }
}

/// Compares JSON values; `1` and `1.0` are equal.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn within<T: PartialOrd + Copy>(bounds: &Bounds<T>, value: T) -> bool {
    bounds.min.is_none_or(|min| value >= min) && bounds.max.is_none_or(|max| value <= max)
}

fn say<T: PartialEq + Copy>(bounds: &Bounds<T>, show: impl Fn(T) -> String) -> String {
    match (bounds.min, bounds.max) {
        (Some(min), Some(max)) if min == max => format!("of {}", show(min)),
        (Some(min), Some(max)) => format!("from {} to {}", show(min), show(max)),
        (Some(min), None) => format!("of at least {}", show(min)),
        (None, Some(max)) => format!("of at most {}", show(max)),
        (None, None) => "of any size".into(),
    }
}

fn number_of_items(count: usize) -> String {
    format!("{count} item{}", if count == 1 { "" } else { "s" })
}

fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compare(matcher: &str, actual: Option<&Value>) -> Vec<Mismatch> {
        let mut vars = Vars::default();
        vars.set("url", json!("http://a.b/"));
        vars.set("n", json!(7));
        let matcher: Matcher = serde_yaml::from_str(matcher).unwrap();
        Context { vars: &vars, folder: Path::new(".") }.compare("", &matcher, actual)
    }

    /// Checks that a matcher succeeds on `good` and fails on `bad`.
    #[track_caller]
    fn check(matcher: &str, good: Value, bad: Value) {
        let found = compare(matcher, Some(&good));
        assert!(found.is_empty(), "{matcher} should match {good}: {found:?}");
        assert!(!compare(matcher, Some(&bad)).is_empty(), "{matcher} should not match {bad}");
        if !matcher.contains("$absent") && !matcher.contains("$not") {
            assert!(!compare(matcher, None).is_empty(), "{matcher} should not match nothing");
        }
    }

    #[test]
    fn scalars_are_equal_or_not() {
        check("1", json!(1), json!(2));
        check("1", json!(1.0), json!("1"));
        check("true", json!(true), json!(false));
        check("null", json!(null), json!(0));
        check("text", json!("text"), json!("Text"));
        check("''", json!(""), json!(" "));
        check("18446744073709551615", json!(u64::MAX), json!(u64::MAX - 9999));
    }

    #[test]
    fn captures_are_filled_in() {
        check("${url}", json!("http://a.b/"), json!("${url}"));
        check("${n}", json!(7), json!("7"));
        check("{$regex: '^${url}$'}", json!("http://a.b/"), json!("http://aXb/"));
        check("{$mentions: ['<${n}>']}", json!("a <7> b"), json!("a <8> b"));
    }

    #[test]
    fn lists_are_exact_and_mappings_are_not() {
        check("[1, 2]", json!([1, 2]), json!([1, 2, 3]));
        check("[1, 2]", json!([1, 2]), json!([2, 1]));
        check("[]", json!([]), json!([null]));
        check("{a: 1}", json!({"a": 1, "b": 2}), json!({"b": 2}));
        check("{a: {b: [1]}}", json!({"a": {"b": [1]}}), json!({"a": {"b": []}}));
    }

    #[test]
    fn exact_allows_no_other_key() {
        check("{$exact: {a: {b: 1}}}", json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 1}}));
        check("{$exact: {a: [1]}}", json!({"a": [1]}), json!({"a": [1, 1]}));
    }

    #[test]
    fn strings() {
        check("{$regex: '^a+$'}", json!("aaa"), json!("aab"));
        check("{$mentions: [a, b]}", json!("b a"), json!("b"));
        check("{$lacks: [a, b]}", json!("c"), json!("c b"));
        check("{$starts_with: ab}", json!("abc"), json!("cab"));
        check("{$ends_with: bc}", json!("abc"), json!("bca"));
        check("{$text: {base64: aGk=}}", json!("hi"), json!("hi "));
        check("{$same_start: {of: hello, bytes: 2}}", json!("help"), json!("hallo"));
        check("{$same_start: {of: hello, bytes: 9}}", json!("hello you"), json!("hell"));
        check("{$base64: hi}", json!("aGk="), json!("aGl="));
        check("{$base64: hi}", json!("aGk="), json!("hi!"));
        check("{$json: {a: 1}}", json!(r#"{"a": 1}"#), json!(r#"{"a": 2}"#));
        check("{$json: {a: 1}}", json!(r#"{"a": 1}"#), json!("{"));
    }

    #[test]
    fn sizes() {
        check("{$bytes: 3}", json!("aé"), json!("aa"));
        check("{$bytes: {max: 1KiB}}", json!("a"), json!("a".repeat(1025)));
        check("{$bytes: {min: 2}}", json!("aa"), json!("a"));
        check("{$length: 2}", json!("aé"), json!("aaa"));
        check("{$length: {min: 1}}", json!([0]), json!([]));
        check("{$length: 1}", json!({"a": 1}), json!(1));
        check("{$range: {min: 1, max: 2}}", json!(1.5), json!(2.1));
    }

    #[test]
    fn structure() {
        check("{$includes: [{a: 1}, 2]}", json!([2, 3, {"a": 1}]), json!([{"a": 1}]));
        check("{$each: {a: {$length: 1}}}", json!([{"a": "x"}, {"a": "y"}]), json!([{"a": "xx"}]));
        check("{$all: [{a: 1}, {$length: 1}]}", json!({"a": 1}), json!({"a": 1, "b": 1}));
        check("{$any_of: [1, 2]}", json!(2), json!(3));
        check("{a: {$absent: true}}", json!({}), json!({"a": null}));
        check("{a: {$absent: false}}", json!({"a": null}), json!({}));
        check("{$not: 1}", json!(2), json!(1));
    }

    #[test]
    fn a_difference_has_its_place() {
        let actual = json!({"a": [{"b/c": 1}], "d": 2});
        let found = compare("{a: [{b/c: 2}], d: 2}", Some(&actual));
        let want = Mismatch { at: "/a/0/b~1c".into(), expected: "2".into(), actual: "1".into() };
        assert_eq!(found, [want]);
    }

    #[test]
    fn an_extra_item_is_shown() {
        let found = compare("[1]", Some(&json!([1, "more"])));
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].at.as_str(), found[1].actual.as_str()), ("/1", "\"more\""));
    }

    #[test]
    fn a_missing_capture_is_a_difference() {
        let found = compare("${nobody}", Some(&json!("x")));
        assert!(found[0].expected.contains("no step has saved `nobody`"), "{found:?}");
    }
}
