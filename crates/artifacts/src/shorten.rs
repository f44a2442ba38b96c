//! Shortens `structuredContent` so that it still satisfies its tool's output schema.
//!
//! Only changes that the schema certainly allows are made: strings are cut, lists lose their last
//! elements, maps lose members, and objects lose members that the schema does not require. No value
//! is invented.

use serde_json::{Map, Value, json, value::RawValue};

use crate::json::{self, Members};

/// Values nested deeper than this are not shortened.
const MAX_DEPTH: usize = 64;
/// Length of a chain of references that is followed.
const MAX_REFERENCES: usize = 32;
/// A schema that requires more elements or characters than this cannot be shortened.
const MAX_DEMANDED: u64 = 1024;
/// Member of shortened structured content that says what is missing.
const NOTICE_MEMBER: &str = "marquetry/notice";
/// Mark at the end of a cut string.
const CUT: &str = "…";

/// The schema that every value satisfies.
static ANYTHING: Value = Value::Bool(true);

/// Formats of strings that are always short.
const SHORT_FORMATS: [&str; 10] =
    ["date", "date-time", "time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "regex"];

/// Returns whether every value of this schema can be shortened without breaking the schema.
///
/// False for schemas that are not understood. A captured answer then has a note in place of its
/// `structuredContent`, so a gateway must not promise the schema.
///
/// ```
/// use marquetry_artifacts::shorten::is_shortenable;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]});
/// assert!(is_shortenable(&schema));
/// let schema = json!({"type": "object", "minProperties": 1000});
/// assert!(!is_shortenable(&schema));
/// ```
pub fn is_shortenable(schema: &Value) -> bool {
    Schemas { root: schema }.is_bounded(schema, &mut Vec::new())
}

/// Returns the schema of a tool's answers with room for the notice about what is missing: unchanged
/// if it allows further members, else with the notice as one more optional member. A client that
/// shows its model the structured content alone would not show the notice otherwise.
///
/// `None` if no member can be added.
///
/// ```
/// use marquetry_artifacts::shorten::with_room_for_notice;
/// use serde_json::json;
///
/// let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
/// assert_eq!(with_room_for_notice(&open), Some(open));
/// let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
/// let opened = with_room_for_notice(&closed).unwrap();
/// assert_eq!(opened["properties"]["marquetry/notice"]["type"], "string");
/// ```
#[must_use]
pub fn with_room_for_notice(schema: &Value) -> Option<Value> {
    if has_room_for_notice(schema) {
        return Some(schema.clone());
    }
    let mut opened = schema.clone();
    let keywords = opened.as_object_mut()?;
    // A limit counts this member, too, and a reference leads to a schema that others may use.
    if keywords.contains_key("maxProperties") || !matches!(plain(keywords), Rule::Plain(_)) {
        return None;
    }
    let members = keywords.entry("properties").or_insert_with(|| json!({})).as_object_mut()?;
    members.entry(NOTICE_MEMBER).or_insert_with(|| json!({"type": "string"}));
    has_room_for_notice(&opened).then_some(opened)
}

/// Returns whether values of this schema may have the member with the notice.
fn has_room_for_notice(schema: &Value) -> bool {
    match (Schemas { root: schema }).rule(schema) {
        Rule::Free => true,
        Rule::Plain(keywords) => {
            allows_more_members(keywords)
                || member(keywords, NOTICE_MEMBER).is_some_and(|notice| notice["type"] == "string")
        }
        Rule::Fixed { .. } => false,
    }
}

/// Shortens the JSON text of `value` to `room` bytes, or as far as the schema allows. None when it
/// cannot be shortened.
pub(crate) fn shorten(value: &RawValue, schema: &Value, room: usize) -> Option<ShortenedJson> {
    // From mild to severe. Only the schema limits the last one.
    let steps = [
        (room / 4, 256, true, room),
        (room / 16, 64, true, room),
        (room / 64, 16, true, room),
        (256, 4, true, room),
        (64, 1, true, room),
        (32, 0, true, room),
        (32, 0, false, room),
        (0, 0, false, usize::MAX),
    ];
    let nothing = Map::new();
    let json = steps.into_iter().find_map(|(string_bytes, elements, keeps_optional, room)| {
        let schemas = Schemas { root: schema };
        let nothing = &nothing;
        let shortening =
            Shortening { schemas, nothing, string_bytes, elements, keeps_optional, room };
        let mut out = String::new();
        shortening.write(value, schema, &mut out, 0).then_some(out)
    })?;
    Some(ShortenedJson { json, allows_member: has_room_for_notice(schema) })
}

/// Returns whether a schema allows a member that it does not declare, of any type.
fn allows_more_members(keywords: &Map<String, Value>) -> bool {
    ["additionalProperties", "unevaluatedProperties"]
        .iter()
        .all(|name| keywords.get(*name).is_none_or(|rule| *rule == Value::Bool(true)))
        && !keywords.contains_key("maxProperties")
}

/// JSON that was shortened by its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShortenedJson {
    json: String,
    /// Whether the schema allows a further member.
    allows_member: bool,
}

impl ShortenedJson {
    /// Returns the JSON with a notice where the schema allows one: as the first member, or at the
    /// beginning of the longest text that was cut. A client may show its model this JSON alone.
    pub(crate) fn with_notice(&self, notice: &str) -> String {
        let Ok(Value::Object(members)) = serde_json::from_str(&self.json) else {
            return self.json.clone();
        };
        if self.allows_member && !members.contains_key(NOTICE_MEMBER) {
            let name = Value::from(NOTICE_MEMBER);
            let rest = self.json.trim_start().trim_start_matches('{');
            let comma = if members.is_empty() { "" } else { "," };
            return format!("{{{name}:{}{comma}{rest}", Value::from(notice));
        }
        let mut value = Value::Object(members);
        let Some(text) = longest_cut_text(&mut value) else { return self.json.clone() };
        // The text stays as long as it was, because the schema may bound its length.
        let Some(rest) = text.chars().count().checked_sub(notice.chars().count() + 2) else {
            return self.json.clone();
        };
        let beginning: String = text.chars().take(rest).collect();
        *text = format!("{notice}\n{beginning}{CUT}");
        value.to_string()
    }
}

/// Returns the longest string that ends with the mark of a cut.
fn longest_cut_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) if text.ends_with(CUT) => Some(text),
        Value::Array(values) => {
            values.iter_mut().filter_map(longest_cut_text).max_by_key(|text| text.len())
        }
        Value::Object(members) => {
            let values = members.iter_mut().map(|(_, value)| value);
            values.filter_map(longest_cut_text).max_by_key(|text| text.len())
        }
        _ => None,
    }
}

/// The changes that a schema allows.
enum Rule<'s> {
    /// Any value satisfies the schema.
    Free,
    /// The value must stay unchanged. The flag says whether such values are always short.
    Fixed { is_short: bool },
    /// A schema without keywords that a shorter value might break unnoticed.
    Plain(&'s Map<String, Value>),
}

#[derive(Clone, Copy)]
struct Schemas<'s> {
    root: &'s Value,
}

impl<'s> Schemas<'s> {
    fn rule(self, schema: &'s Value) -> Rule<'s> {
        const UNKNOWN: Rule<'_> = Rule::Fixed { is_short: false };
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let keywords = match schema {
                Value::Bool(true) => return Rule::Free,
                Value::Object(keywords) => keywords,
                _ => return UNKNOWN,
            };
            let Some((combined, value)) = ["$ref", "allOf", "anyOf", "oneOf"]
                .into_iter()
                .find_map(|name| Some((name, keywords.get(name)?)))
            else {
                return plain(keywords);
            };
            if keywords.keys().any(|key| key != combined && !is_annotation(key)) {
                return UNKNOWN;
            }
            let next = match (combined, value) {
                ("$ref", Value::String(reference)) => {
                    reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
                }
                ("allOf", Value::Array(all)) => match &all[..] {
                    [only] => Some(only),
                    _ => None,
                },
                // Null is never changed, so the other branch decides.
                (_, Value::Array(any)) => match &any[..] {
                    [null, other] | [other, null] if is_null(null) && !is_null(other) => {
                        Some(other)
                    }
                    scalars if scalars.iter().all(is_scalar) => return Rule::Free,
                    _ => None,
                },
                _ => None,
            };
            match next {
                Some(next) => schema = next,
                None => return UNKNOWN,
            }
        }
        UNKNOWN
    }

    /// Returns whether the shortest form of every value is short. `above` are the schemas that
    /// require this one.
    fn is_bounded(self, schema: &'s Value, above: &mut Vec<&'s Value>) -> bool {
        if above.len() >= MAX_DEPTH || above.iter().any(|seen| std::ptr::eq(*seen, schema)) {
            return false;
        }
        let keywords = match self.rule(schema) {
            Rule::Free => return true,
            Rule::Fixed { is_short } => return is_short,
            Rule::Plain(keywords) => keywords,
        };
        let min_items = demanded(keywords, "minItems");
        if demanded(keywords, "minLength") > MAX_DEMANDED || min_items > MAX_DEMANDED {
            return false;
        }
        above.push(schema);
        let elements = (0..(min_items as usize).min(1 + tuple(keywords).len())).all(|index| {
            element(keywords, index).is_none_or(|element| self.is_bounded(element, above))
        });
        let members = required(keywords)
            .all(|name| member(keywords, name).is_none_or(|member| self.is_bounded(member, above)));
        above.pop();
        elements && members
    }
}

/// Returns the minimum that a keyword demands.
fn demanded(keywords: &Map<String, Value>, name: &str) -> u64 {
    keywords.get(name).map_or(0, |least| least.as_u64().unwrap_or(u64::MAX))
}

/// Returns the changes that these keywords allow, without references to other schemas.
fn plain(keywords: &Map<String, Value>) -> Rule<'_> {
    if keywords.contains_key("enum") || keywords.contains_key("const") {
        return Rule::Fixed { is_short: true };
    }
    if let Some(format) = keywords.get("format") {
        let is_short = format.as_str().is_some_and(|format| SHORT_FORMATS.contains(&format));
        let is_number = !has_type(keywords, "string");
        return if is_number { Rule::Plain(keywords) } else { Rule::Fixed { is_short } };
    }
    if keywords.is_empty() {
        return Rule::Free;
    }
    if keywords.keys().all(|key| is_understood(key) || is_annotation(key)) {
        return Rule::Plain(keywords);
    }
    Rule::Fixed {
        is_short: !["string", "array", "object"].iter().any(|name| has_type(keywords, name)),
    }
}

/// Keywords that [`Shortening`] obeys.
fn is_understood(keyword: &str) -> bool {
    const UNDERSTOOD: [&str; 18] = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "unevaluatedProperties",
    ];
    UNDERSTOOD.contains(&keyword)
}

/// Keywords without requirements.
fn is_annotation(keyword: &str) -> bool {
    const ANNOTATIONS: [&str; 13] = [
        "$schema",
        "$id",
        "$defs",
        "definitions",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
    ];
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// Returns whether the schema allows only unbounded strings, numbers, booleans or null.
fn is_scalar(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return false };
    let limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
    let scalar = ["string", "number", "integer", "boolean", "null"];
    keywords.get("type").and_then(Value::as_str).is_some_and(|kind| scalar.contains(&kind))
        && keywords
            .keys()
            .all(|key| key == "type" || is_annotation(key) || limits.contains(&key.as_str()))
}

/// Returns whether values may have this type.
fn has_type(keywords: &Map<String, Value>, name: &str) -> bool {
    match keywords.get("type") {
        None => true,
        Some(Value::Array(names)) => names.iter().any(|one| one == name),
        Some(one) => one == name,
    }
}

fn tuple(keywords: &Map<String, Value>) -> &[Value] {
    let tuple = keywords.get("prefixItems").or_else(|| keywords.get("items"));
    tuple.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the schema of the element at this position; none when everything is allowed.
fn element(keywords: &Map<String, Value>, index: usize) -> Option<&Value> {
    tuple(keywords).get(index).or_else(|| keywords.get("items").filter(|items| !items.is_array()))
}

fn required(keywords: &Map<String, Value>) -> impl Iterator<Item = &str> {
    keywords
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the schema of the member of this name; none when everything is allowed.
fn member<'s>(keywords: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    let declared = keywords.get("properties").and_then(|properties| properties.get(name));
    declared.or_else(|| keywords.get("additionalProperties"))
}

/// A way to shorten a value.
struct Shortening<'s> {
    schemas: Schemas<'s>,
    /// The keywords of a schema without requirements.
    nothing: &'s Map<String, Value>,
    /// Length to which longer strings are cut.
    string_bytes: usize,
    /// Number of elements that lists keep, and of members that maps keep.
    elements: usize,
    /// Keeps members that the schema declares but does not require.
    keeps_optional: bool,
    room: usize,
}

impl<'s> Shortening<'s> {
    /// Writes the shortened value; false when it does not fit or cannot be parsed.
    fn write(&self, value: &RawValue, schema: &'s Value, out: &mut String, depth: usize) -> bool {
        if depth > MAX_DEPTH || out.len() > self.room {
            return false;
        }
        let keywords = match self.schemas.rule(schema) {
            Rule::Free => self.nothing,
            Rule::Plain(keywords) => keywords,
            Rule::Fixed { .. } => {
                out.push_str(value.get());
                return out.len() <= self.room;
            }
        };
        let is_written = match value.get().as_bytes().first() {
            Some(b'"') => self.write_string(value, keywords, out),
            Some(b'[') => self.write_array(value, keywords, out, depth),
            Some(b'{') => self.write_object(value, keywords, out, depth),
            _ => {
                out.push_str(value.get());
                true
            }
        };
        is_written && out.len() <= self.room
    }

    fn write_string(
        &self,
        value: &RawValue,
        keywords: &Map<String, Value>,
        out: &mut String,
    ) -> bool {
        let Some((text, _)) = json::string(value) else { return false };
        let least = keywords.get("minLength").and_then(Value::as_u64).unwrap_or(0) as usize;
        let least = text.char_indices().nth(least).map_or(text.len(), |(at, _)| at);
        // A string that needs at least one character keeps one, beside the mark.
        let end = text.floor_char_boundary(self.string_bytes).max(least);
        let shortened = if end + CUT.len() < text.len() {
            format!("{}{CUT}", &text[..end])
        } else {
            text.into_owned()
        };
        out.push_str(&Value::from(shortened).to_string());
        true
    }

    fn write_array(
        &self,
        value: &RawValue,
        keywords: &'s Map<String, Value>,
        out: &mut String,
        depth: usize,
    ) -> bool {
        let least = keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let max = self.elements.max(usize::try_from(least).unwrap_or(usize::MAX));
        let Some(elements) = json::elements(value, max) else { return false };
        out.push('[');
        for (index, one) in elements.first.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            if !self.write(one, element(keywords, index).unwrap_or(&ANYTHING), out, depth + 1) {
                return false;
            }
        }
        out.push(']');
        true
    }

    fn write_object(
        &self,
        value: &RawValue,
        keywords: &'s Map<String, Value>,
        out: &mut String,
        depth: usize,
    ) -> bool {
        let Some(members) = Members::read(value) else { return false };
        let properties = keywords.get("properties").and_then(Value::as_object);
        let mut written = 0;
        let mut free = 0;
        out.push('{');
        for (key, one) in members.iter() {
            let is_declared = properties.is_some_and(|properties| properties.contains_key(key));
            if !required(keywords).any(|name| name == key) {
                if !is_declared {
                    free += 1;
                }
                if !self.keeps_optional || (!is_declared && free > self.elements) {
                    continue;
                }
            }
            if written > 0 {
                out.push(',');
            }
            written += 1;
            out.push_str(&Value::from(key).to_string());
            out.push(':');
            if !self.write(one, member(keywords, key).unwrap_or(&ANYTHING), out, depth + 1) {
                return false;
            }
        }
        out.push('}');
        true
    }
}

#[cfg(test)]
#[path = "../tests/unit/shorten.rs"]
mod tests;
