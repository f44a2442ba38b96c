//! JSON: one line for each scalar value, after its path.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Deserializer, value::RawValue};

use crate::{ExtractError, Extracted, Extractor, Problem, Source, decode::decode};

/// Reads one value, or several in sequence (NDJSON).
pub(crate) struct Json;

impl Extractor for Json {
    fn media_types(&self) -> &[&str] {
        &[
            "application/json",
            "application/jsonl",
            "application/ndjson",
            "application/x-ndjson",
            "text/json",
            "*+json",
        ]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("geojson", "application/geo+json"),
            ("json", "application/json"),
            ("jsonl", "application/x-ndjson"),
            ("ndjson", "application/x-ndjson"),
        ]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut extracted = decode(source.bytes, source.charset).document()?;
        extracted.wrapped = false;
        if depth(&extracted.content) > DEEPEST {
            let reason = format!("it is nested deeper than {DEEPEST}");
            extracted.problems.push(Problem::TakenAsText { reason });
            return Ok(extracted);
        }
        let mut lines = Lines { text: String::new(), path: String::new(), source: *source };
        for value in Deserializer::from_str(&extracted.content).into_iter::<&RawValue>() {
            let written = value.and_then(|value| lines.value(value, 0));
            if let Err(error) = written {
                source.check(lines.text.len())?;
                extracted.problems.push(Problem::TakenAsText { reason: error.to_string() });
                return Ok(extracted);
            }
        }
        extracted.content = lines.text;
        Ok(extracted)
    }
}

/// Depth at which arrays and objects become one line each, with their scalar values and without
/// keys and brackets. Otherwise paths would grow with the depth, and brackets would fill passages.
const MAX_DEPTH: usize = 64;

/// Deepest nesting of a document. At each of the first [`MAX_DEPTH`] levels, the parser holds a
/// byte for each level below.
const DEEPEST: usize = 1 << 18;

/// Returns the depth of the arrays and objects in a text.
fn depth(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

struct Lines<'a> {
    text: String,
    path: String,
    source: Source<'a>,
}

impl Lines<'_> {
    fn value(&mut self, value: &RawValue, depth: usize) -> Result<(), serde_json::Error> {
        let raw = value.get();
        let content: Cow<'_, str> = match raw.as_bytes().first() {
            Some(b'{' | b'[') if depth < MAX_DEPTH && !is_empty(raw) => {
                let lines = Items { lines: self, depth };
                let mut deserializer = Deserializer::from_str(raw);
                return if raw.starts_with('{') {
                    deserializer.deserialize_map(lines)
                } else {
                    deserializer.deserialize_seq(lines)
                };
            }
            Some(b'{' | b'[') if depth >= MAX_DEPTH => self.scalars(raw)?.into(),
            Some(b'"') => Deserializer::from_str(raw).deserialize_bytes(Text)?.into(),
            _ => raw.into(),
        };
        if !self.path.is_empty() {
            self.text.push_str(&self.path);
            self.text.push_str(": ");
        }
        self.text.push_str(&content);
        self.text.push('\n');
        self.source.check(self.text.len()).map_err(serde_json::Error::custom)
    }
}

impl Lines<'_> {
    /// Returns the scalar values in an array or object, with spaces between them. Reads tokens
    /// without recursion, because valid JSON may have any depth.
    fn scalars(&self, raw: &str) -> Result<String, serde_json::Error> {
        let mut scalars = String::new();
        let mut rest = raw;
        while let Some(start) = rest.find(|one: char| !is_structure(one)) {
            rest = &rest[start..];
            let length = match rest.as_bytes()[0] {
                b'"' => length_of_string(rest),
                _ => rest.find(is_structure).unwrap_or(rest.len()),
            };
            let (token, after) = rest.split_at(length);
            rest = after;
            let is_key = token.starts_with('"') && after.trim_start().starts_with(':');
            if !is_key {
                if !scalars.is_empty() {
                    scalars.push(' ');
                }
                if token.starts_with('"') {
                    scalars.push_str(&Deserializer::from_str(token).deserialize_bytes(Text)?);
                } else {
                    scalars.push_str(token);
                }
            }
            let length = self.text.len() + scalars.len();
            self.source.check(length).map_err(serde_json::Error::custom)?;
        }
        Ok(scalars)
    }
}

/// Returns whether a character outside of strings separates values.
fn is_structure(one: char) -> bool {
    matches!(one, '[' | ']' | '{' | '}' | ',' | ':') || one.is_ascii_whitespace()
}

/// Returns the length of the string at the start of a text, including its quotes.
fn length_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn is_empty(raw: &str) -> bool {
    raw[1..raw.len() - 1].trim().is_empty()
}

/// The members of an object, or the elements of an array.
struct Items<'a, 'limits> {
    lines: &'a mut Lines<'limits>,
    depth: usize,
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let length = self.lines.path.len();
        while let Some(key) = members.next_key_seed(Key)? {
            if length > 0 {
                self.lines.path.push('.');
            }
            self.lines.path.push_str(&key);
            let value: &RawValue = members.next_value()?;
            self.lines.value(value, self.depth + 1).map_err(A::Error::custom)?;
            self.lines.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let length = self.lines.path.len();
        let mut index = 0;
        while let Some(value) = elements.next_element::<&RawValue>()? {
            self.lines.path.push_str(&format!("[{index}]"));
            index += 1;
            self.lines.value(value, self.depth + 1).map_err(A::Error::custom)?;
            self.lines.path.truncate(length);
        }
        Ok(())
    }
}

/// Parses a string, with U+FFFD for each lone surrogate: serde_json returns such strings only as
/// bytes.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, key: D) -> Result<String, D::Error> {
        key.deserialize_bytes(Text)
    }
}
