//! The members of a JSON object as text: found, removed and replaced without parsing their values.

use std::borrow::Cow;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::{nesting::after_string, scan::position};

/// The members of a JSON object, each value as written.
///
/// Results pass through this program as text. One member can be changed without parsing the others,
/// which stay unchanged to the last digit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectText<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Returns the JSON object with only the last of the members that have one name, as parsers of most
/// languages read it; [`None`] if no name is repeated, and if it is not a JSON object.
///
/// An object with several different values of `unambiguous` stays as it is, because any of them may
/// have been meant.
#[must_use]
pub fn without_repeated_members(json: &str, unambiguous: &str) -> Option<String> {
    let json: &RawValue = serde_json::from_str(json).ok()?;
    let ObjectText(members) = ObjectText::of(json)?;
    let mut last: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    let mut is_repeated = false;
    for (name, value) in members {
        // Each name is compared with those before it, and no message has nearly as many.
        if last.len() == crate::members::Members::MAX {
            return None;
        }
        let Some((_, known)) = last.iter_mut().find(|(known, _)| *known == name) else {
            last.push((name, value));
            continue;
        };
        if name == unambiguous && *known != value {
            return None;
        }
        is_repeated = true;
        *known = value;
    }
    is_repeated.then(|| ObjectText(last).write())
}

impl<'a> ObjectText<'a> {
    /// Returns the members of `json`; `None` if it is not an object.
    #[must_use]
    pub fn of(json: &'a RawValue) -> Option<Self> {
        Self::of_valid(json.get())
    }

    /// Returns the members, as [`Self::of`] does, of text that is known to be valid JSON, such as
    /// the value of a member.
    #[must_use]
    pub fn of_valid(json: &'a str) -> Option<Self> {
        let mut rest = json.trim_ascii_start().strip_prefix('{')?;
        let mut members = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_ascii_start();
            if rest.starts_with('}') || rest.is_empty() {
                return Some(Self(members));
            }
            let (name, after) = rest.split_at_checked(value_len(rest))?;
            let value = after.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
            let (value, after) = value.split_at_checked(value_len(value))?;
            members.push((unquoted(name)?, value.into()));
            rest = after;
        }
    }

    /// Returns the value of a member. If the name occurs several times, returns the last one, as
    /// parsers do.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the members of the object that is the value of `name`.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<ObjectText<'_>> {
        ObjectText::of_valid(self.get(name)?)
    }

    /// Returns the items of the array that is the value of `name`.
    #[must_use]
    pub fn array(&self, name: &str) -> Option<Vec<&str>> {
        let items: Vec<&RawValue> = serde_json::from_str(self.get(name)?).ok()?;
        Some(items.into_iter().map(RawValue::get).collect())
    }

    /// Changes the object that is the value of `name`, if it is one.
    pub fn edit(&mut self, name: &'a str, change: impl FnOnce(&mut ObjectText<'_>)) {
        let Some(mut member) = self.object(name) else { return };
        change(&mut member);
        let json = member.write();
        self.set(name, json);
    }

    /// Changes the objects in the array that is the value of `name`, if it is one.
    pub fn edit_each(&mut self, name: &'a str, change: impl Fn(&mut ObjectText<'_>)) {
        let Some(items) = self.array(name) else { return };
        let items = items.into_iter().map(|item| match ObjectText::of_valid(item) {
            Some(mut object) => {
                change(&mut object);
                object.write()
            }
            None => item.to_owned(),
        });
        let json = array_text(items);
        self.set(name, json);
    }

    /// Removes every member of that name. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != name);
        self.0.len() < before
    }

    /// Sets the value of a member to `json`: in its place, or at the end if the member is new.
    pub fn set(&mut self, name: &'a str, json: impl Into<Cow<'a, str>>) {
        let json = json.into();
        match self.0.iter().position(|(known, _)| known == name) {
            Some(at) => {
                let mut found = 0;
                self.0[at].1 = json;
                self.0.retain(|(known, _)| {
                    found += usize::from(known == name);
                    known != name || found == 1
                });
            }
            None => self.0.push((name.into(), json)),
        }
    }

    /// Returns whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the object as JSON.
    #[must_use]
    pub fn write(&self) -> String {
        let bytes: usize = self.0.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(bytes + 2);
        for (name, value) in &self.0 {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(&serde_json::Value::from(&**name).to_string());
            out.push(':');
            out.push_str(value);
        }
        if out.is_empty() {
            out.push('{');
        }
        out.push('}');
        out
    }
}

/// Returns an array of these values, each valid JSON.
#[must_use]
pub fn array_text(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns whether a JSON object may have a member with one of these names, each given in its
/// quotes. Few objects do, and searching for a few bytes is much faster than parsing an object. A
/// name can also be written with escapes.
#[must_use]
pub fn may_have(json: &RawValue, names: &[&str]) -> bool {
    let json = json.get().as_bytes();
    names.iter().chain(&["\\u00"]).any(|name| memmem::find(json, name.as_bytes()).is_some())
}

/// Returns the length of the JSON value at the start of `json`.
pub(crate) fn value_len(json: &str) -> usize {
    let bytes = json.as_bytes();
    match bytes.first() {
        Some(b'"') => bytes.len() - after_string(&bytes[1..]).len(),
        Some(b'{' | b'[') => {
            let mut depth = 0_usize;
            let mut rest = bytes;
            while let Some(at) = position(rest, |byte| {
                (byte == b'"')
                    || (byte == b'{')
                    || (byte == b'}')
                    || (byte == b'[')
                    || (byte == b']')
            }) {
                let byte = rest[at];
                rest = &rest[at + 1..];
                match byte {
                    b'"' => rest = after_string(rest),
                    b'{' | b'[' => depth += 1,
                    _ => {
                        depth -= 1;
                        if depth == 0 {
                            return bytes.len() - rest.len();
                        }
                    }
                }
            }
            bytes.len()
        }
        _ => bytes
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || b",]}:".contains(byte))
            .unwrap_or(bytes.len()),
    }
}

pub(crate) fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(json).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_repeated_members_stays() {
        for (json, want) in [
            (r#"{"a":1,"b":2,"a":[3]}"#, Some(r#"{"a":[3],"b":2}"#)),
            (r#"{"id":1,"id":1}"#, Some(r#"{"id":1}"#)),
            (r#"{"id":1,"a":2,"id":"1"}"#, None),
            (r#"{"a":{"b":1,"b":2}}"#, None),
            (r#"{"a":1,"\u0061":2}"#, Some(r#"{"a":2}"#)),
            ("[1,1]", None),
            (r#"{"a":1,"a""#, None),
        ] {
            assert_eq!(without_repeated_members(json, "id").as_deref(), want, "{json}");
        }
    }

    #[track_caller]
    fn check(json: &str, edit: impl FnOnce(&mut ObjectText<'_>), want: &str) {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let mut object = ObjectText::of(raw).unwrap();
        edit(&mut object);
        assert_eq!(object.write(), want);
        let _: &RawValue = serde_json::from_str(&object.write()).unwrap();
    }

    #[test]
    fn values_stay_as_they_are_written() {
        let json = r#" { "a" : 1e999 , "b\u0022" : [ {"}": "\"]" }, [] ], "c":"\\", "d":{},"e":-0.10,"f":null }"#;
        let want = r#"{"a":1e999,"b\"":[ {"}": "\"]" }, [] ],"c":"\\","d":{},"e":-0.10,"f":null}"#;
        check(json, |_| (), want);
        check("{}", |_| (), "{}");
        check(" {\n} ", |_| (), "{}");
    }

    #[test]
    fn members_are_found_removed_and_replaced() {
        let json = r#"{"a":1,"b":{"c":[2]},"a":3}"#;
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let object = ObjectText::of(raw).unwrap();
        assert_eq!((object.get("a"), object.get("x")), (Some("3"), None));
        assert_eq!(object.object("b").unwrap().get("c"), Some("[2]"));
        assert_eq!(object.object("a"), None);
        check(json, |object| assert!(object.remove("a")), r#"{"b":{"c":[2]}}"#);
        check(json, |object| object.set("a", "4"), r#"{"a":4,"b":{"c":[2]}}"#);
        check(json, |object| object.set("d", "5"), r#"{"a":1,"b":{"c":[2]},"a":3,"d":5}"#);
        check(r#"{"n\u0061me":1}"#, |object| assert!(object.remove("name")), "{}");
        let json = r#"{"a":[{"b":1.0},2],"c":{"b":3}}"#;
        check(
            json,
            |object| object.edit("c", |c| c.set("d", "4")),
            r#"{"a":[{"b":1.0},2],"c":{"b":3,"d":4}}"#,
        );
        check(json, |object| object.edit("a", |_| panic!("no object")), json);
        check(
            json,
            |object| object.edit_each("a", |a| a.set("d", "4")),
            r#"{"a":[{"b":1.0,"d":4},2],"c":{"b":3}}"#,
        );
        check(json, |object| object.edit_each("c", |_| panic!("no array")), json);
    }

    #[test]
    fn values_that_are_not_objects_have_no_members() {
        for json in ["[]", "1", r#""{}""#, "null", "[{}]"] {
            assert_eq!(ObjectText::of(serde_json::from_str(json).unwrap()), None, "{json}");
        }
    }
}
