//! Matchers: what a scenario expects of a value. Plain data is a matcher too:
//!
//! - a scalar matches an equal scalar, a list matches a list of the same length, item by item;
//! - a mapping matches an object that has these keys; the object may have others;
//! - a mapping of `$operators` matches if all of them do.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Number, Value};

use super::{source::Source, template::Template, units::ByteSize, vars};

/// An expectation of a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Matcher {
    /// Null, a boolean or a number.
    Scalar(Value),
    /// An equal string; it may hold captures.
    String(String),
    /// Exactly these items, in this order.
    List(Vec<Self>),
    /// At least these keys.
    Map(Vec<(String, Self)>),
    /// All of these.
    Ops(Vec<Op>),
}

/// One `$operator`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Equal in every key.
    Exact(Template),
    /// A string that the expression is found in; anchor it to match the whole string.
    Regex(Pattern),
    /// A string that contains each of these.
    Mentions(Vec<String>),
    /// A string that contains none of these.
    Lacks(Vec<String>),
    StartsWith(String),
    EndsWith(String),
    /// A string with exactly this content.
    Text(Source),
    /// A string with the same first bytes as this content.
    SameStart(SameStart),
    /// Base64 of exactly this content.
    Base64(Source),
    /// The UTF-8 length of a string.
    Bytes(Bounds<ByteSize>),
    /// Number of characters, items or keys.
    Length(Bounds<u64>),
    /// A number within bounds.
    Range(Bounds<f64>),
    /// A list with a matching item for each of these, in any order.
    Includes(Vec<Matcher>),
    /// A list whose every item matches.
    Each(Matcher),
    /// A string that is JSON and matches.
    Json(Matcher),
    Not(Matcher),
    AnyOf(Vec<Matcher>),
    All(Vec<Matcher>),
    /// True: the key is missing. False: the key exists, with any value.
    Absent(bool),
}

/// First bytes of some content.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SameStart {
    /// The content.
    pub(crate) of: Source,
    /// Number of bytes.
    pub(crate) bytes: ByteSize,
}

/// An exact number, or its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds<T> {
    pub(crate) min: Option<T>,
    pub(crate) max: Option<T>,
}

/// A regular expression, checked when the scenario is read. It may hold captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) String);

const OPERATORS: &[&str] = &[
    "$exact",
    "$regex",
    "$mentions",
    "$lacks",
    "$starts_with",
    "$ends_with",
    "$text",
    "$same_start",
    "$base64",
    "$bytes",
    "$length",
    "$range",
    "$includes",
    "$each",
    "$json",
    "$not",
    "$any_of",
    "$all",
    "$absent",
];

impl Matcher {
    /// Matches a missing value only.
    pub(crate) fn absent() -> Self {
        Self::Ops(vec![Op::Absent(true)])
    }

    /// Collects the captures that it uses.
    pub(crate) fn names<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::Scalar(_) => {}
            Self::String(text) => found.extend(vars::names(text)),
            Self::List(items) => items.iter().for_each(|item| item.names(found)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.names(found)),
            Self::Ops(ops) => ops.iter().for_each(|op| op.names(found)),
        }
    }
}

impl Op {
    fn parse<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error> {
        Ok(match name {
            "$exact" => Self::Exact(map.next_value()?),
            "$regex" => Self::Regex(map.next_value()?),
            "$mentions" => Self::Mentions(map.next_value()?),
            "$lacks" => Self::Lacks(map.next_value()?),
            "$starts_with" => Self::StartsWith(map.next_value()?),
            "$ends_with" => Self::EndsWith(map.next_value()?),
            "$text" => Self::Text(map.next_value()?),
            "$same_start" => Self::SameStart(map.next_value()?),
            "$base64" => Self::Base64(map.next_value()?),
            "$bytes" => Self::Bytes(map.next_value()?),
            "$length" => Self::Length(map.next_value()?),
            "$range" => Self::Range(map.next_value()?),
            "$includes" => Self::Includes(map.next_value()?),
            "$each" => Self::Each(map.next_value()?),
            "$json" => Self::Json(map.next_value()?),
            "$not" => Self::Not(map.next_value()?),
            "$any_of" => Self::AnyOf(map.next_value()?),
            "$all" => Self::All(map.next_value()?),
            "$absent" => Self::Absent(map.next_value()?),
            _ => return Err(de::Error::unknown_field(name, OPERATORS)),
        })
    }

    fn names<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::Exact(template) => template.names(found),
            Self::Regex(Pattern(text)) | Self::StartsWith(text) | Self::EndsWith(text) => {
                found.extend(vars::names(text));
            }
            Self::Mentions(texts) | Self::Lacks(texts) => {
                found.extend(texts.iter().flat_map(|text| vars::names(text)));
            }
            Self::Includes(items) | Self::AnyOf(items) | Self::All(items) => {
                for item in items {
                    item.names(found);
                }
            }
            Self::Each(one) | Self::Json(one) | Self::Not(one) => one.names(found),
            Self::Text(_)
            | Self::SameStart(_)
            | Self::Base64(_)
            | Self::Bytes(_)
            | Self::Length(_)
            | Self::Range(_)
            | Self::Absent(_) => {}
        }
    }
}

/// Formats the matcher as a scenario would write it, on one line.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(value) => write!(f, "{value}"),
            Self::String(text) => write!(f, "{text:?}"),
            Self::List(items) => write!(f, "[{}]", List(items)),
            Self::Map(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            Self::Ops(ops) => write!(f, "{{{}}}", List(ops)),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(template) => write!(f, "$exact: {template}"),
            Self::Regex(Pattern(text)) => write!(f, "$regex: {text:?}"),
            Self::Mentions(texts) => write!(f, "$mentions: {texts:?}"),
            Self::Lacks(texts) => write!(f, "$lacks: {texts:?}"),
            Self::StartsWith(text) => write!(f, "$starts_with: {text:?}"),
            Self::EndsWith(text) => write!(f, "$ends_with: {text:?}"),
            Self::Text(source) => write!(f, "$text: {source}"),
            Self::SameStart(start) => {
                write!(f, "$same_start: {{of: {}, bytes: {}}}", start.of, start.bytes.0)
            }
            Self::Base64(source) => write!(f, "$base64: {source}"),
            Self::Bytes(Bounds { min, max }) => {
                let [min, max] = [min, max].map(|bound| bound.map(|size| size.0));
                write!(f, "$bytes: {}", Bounds { min, max })
            }
            Self::Length(bounds) => write!(f, "$length: {bounds}"),
            Self::Range(bounds) => write!(f, "$range: {bounds}"),
            Self::Includes(items) => write!(f, "$includes: [{}]", List(items)),
            Self::Each(item) => write!(f, "$each: {item}"),
            Self::Json(matcher) => write!(f, "$json: {matcher}"),
            Self::Not(matcher) => write!(f, "$not: {matcher}"),
            Self::AnyOf(matchers) => write!(f, "$any_of: [{}]", List(matchers)),
            Self::All(matchers) => write!(f, "$all: [{}]", List(matchers)),
            Self::Absent(absent) => write!(f, "$absent: {absent}"),
        }
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.min, &self.max) {
            (Some(min), Some(max)) if min == max => write!(f, "{min}"),
            (Some(min), Some(max)) => write!(f, "{{min: {min}, max: {max}}}"),
            (Some(min), None) => write!(f, "{{min: {min}}}"),
            (None, Some(max)) => write!(f, "{{max: {max}}}"),
            (None, None) => f.write_str("{}"),
        }
    }
}

/// Formats items with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Returns whether `text` is a JSON pointer; the empty one means the whole value.
pub(crate) fn is_pointer(text: &str) -> bool {
    text.is_empty() || text.starts_with('/')
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MatcherVisitor;

        impl<'de> Visitor<'de> for MatcherVisitor {
            type Value = Matcher;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a mapping of `$operators`")
            }

            fn visit_unit<E>(self) -> Result<Matcher, E> {
                Ok(Matcher::Scalar(Value::Null))
            }

            fn visit_none<E: de::Error>(self) -> Result<Matcher, E> {
                self.visit_unit()
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Matcher, D::Error> {
                inner.deserialize_any(self)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Matcher, E> {
                Ok(Matcher::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Matcher, E> {
                Ok(Matcher::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Matcher, E> {
                Ok(Matcher::Scalar(value.into()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Matcher, E> {
                let number = Number::from_f64(value)
                    .ok_or_else(|| E::custom("not a finite number, which JSON requires"))?;
                Ok(Matcher::Scalar(number.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Matcher, E> {
                Ok(Matcher::String(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Matcher, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Matcher::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Matcher, A::Error> {
                let mut ops = Vec::new();
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if key.starts_with('$') {
                        ops.push(Op::parse(&key, &mut map)?);
                    } else {
                        entries.push((key, map.next_value()?));
                    }
                }
                if ops.is_empty() {
                    Ok(Matcher::Map(entries))
                } else if entries.is_empty() {
                    Ok(Matcher::Ops(ops))
                } else {
                    Err(de::Error::custom(
                        "a mapping holds either `$operators` or plain keys; put the keys into `$all`",
                    ))
                }
            }
        }

        deserializer.deserialize_any(MatcherVisitor)
    }
}

impl<'de, T: DeserializeOwned + Copy> Deserialize<'de> for Bounds<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct MinMax<T> {
            min: Option<T>,
            max: Option<T>,
        }

        struct BoundsVisitor<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned + Copy> Visitor<'de> for BoundsVisitor<T> {
            type Value = Bounds<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a mapping with `min` and `max`")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Bounds<T>, E> {
                exactly(T::deserialize(de::value::U64Deserializer::new(value))?)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bounds<T>, E> {
                exactly(T::deserialize(de::value::I64Deserializer::new(value))?)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Bounds<T>, E> {
                exactly(T::deserialize(de::value::F64Deserializer::new(value))?)
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Bounds<T>, E> {
                exactly(T::deserialize(de::value::StrDeserializer::new(value))?)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Bounds<T>, A::Error> {
                let MinMax { min, max } = MinMax::deserialize(MapAccessDeserializer::new(map))?;
                if min.is_none() && max.is_none() {
                    return Err(de::Error::custom("bounds need `min`, `max` or both"));
                }
                Ok(Bounds { min, max })
            }
        }

        fn exactly<T: Copy, E>(value: T) -> Result<Bounds<T>, E> {
            Ok(Bounds { min: Some(value), max: Some(value) })
        }

        deserializer.deserialize_any(BoundsVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Captures are filled in later, and escaped then; here any word can replace them.
        let mut vars = vars::Vars::default();
        for name in vars::names(&text) {
            vars.set(name, Value::from("x"));
        }
        let filled = vars.text(&text).map_err(de::Error::custom)?;
        regex::Regex::new(&filled).map_err(de::Error::custom)?;
        Ok(Self(text))
    }
}

impl JsonSchema for Matcher {
    fn schema_name() -> Cow<'static, str> {
        "Matcher".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let this = generator.subschema_for::<Self>();
        let source = generator.subschema_for::<Source>();
        let template = generator.subschema_for::<Template>();
        let same_start = generator.subschema_for::<SameStart>();
        let size = generator.subschema_for::<ByteSize>();
        let list = json_schema!({ "type": "array", "items": this });
        let texts = json_schema!({ "type": "array", "items": { "type": "string" } });
        json_schema!({
            "description": "An expectation: a plain value (scalars and lists exactly, a mapping by the keys that it names), or a mapping of $operators, all of which must hold.",
            "anyOf": [
                { "type": ["null", "boolean", "number", "string"] },
                list,
                {
                    "type": "object",
                    "minProperties": 1,
                    "properties": {
                        "$exact": template,
                        "$regex": { "type": "string", "format": "regex" },
                        "$mentions": texts,
                        "$lacks": texts,
                        "$starts_with": { "type": "string" },
                        "$ends_with": { "type": "string" },
                        "$text": source,
                        "$same_start": same_start,
                        "$base64": source,
                        "$bytes": bounds_schema(&size),
                        "$length": bounds_schema(&json_schema!({ "type": "integer", "minimum": 0 })),
                        "$range": bounds_schema(&json_schema!({ "type": "number" })),
                        "$includes": list,
                        "$each": this,
                        "$json": this,
                        "$not": this,
                        "$any_of": list,
                        "$all": list,
                        "$absent": { "type": "boolean" },
                    },
                    "additionalProperties": false,
                },
                { "type": "object", "patternProperties": { "^[^$]": this }, "additionalProperties": false },
            ],
        })
    }
}

/// Returns the schema of [`Bounds`] whose numbers have the schema `of`.
fn bounds_schema(of: &Schema) -> Schema {
    json_schema!({
        "anyOf": [
            of,
            {
                "type": "object",
                "properties": { "min": of, "max": of },
                "minProperties": 1,
                "additionalProperties": false,
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse(yaml: &str) -> Matcher {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn plain_data_is_itself() {
        assert_eq!(parse("1"), Matcher::Scalar(1.into()));
        assert_eq!(parse("null"), Matcher::Scalar(Value::Null));
        assert_eq!(parse("'1'"), Matcher::String("1".into()));
        assert_eq!(
            parse("{a: [true]}"),
            Matcher::Map(vec![("a".into(), Matcher::List(vec![Matcher::Scalar(true.into())]))])
        );
    }

    #[test]
    fn operators_gather() {
        assert_eq!(
            parse("{$starts_with: a, $length: {max: 9}}"),
            Matcher::Ops(vec![
                Op::StartsWith("a".into()),
                Op::Length(Bounds { min: None, max: Some(9) })
            ])
        );
        assert_eq!(
            parse("{$bytes: 2KiB}"),
            Matcher::Ops(vec![Op::Bytes(Bounds {
                min: Some(ByteSize(2048)),
                max: Some(ByteSize(2048))
            })])
        );
    }

    #[test]
    fn every_operator_in_the_list_parses() {
        for name in OPERATORS {
            let value = match *name {
                "$mentions" | "$lacks" | "$includes" | "$any_of" | "$all" => "[]",
                "$bytes" | "$length" | "$range" => "1",
                "$same_start" => "{of: x, bytes: 1}",
                "$absent" => "true",
                _ => "x",
            };
            assert!(matches!(parse(&format!("{{{name}: {value}}}")), Matcher::Ops(_)), "{name}");
        }
    }

    #[test]
    fn a_matcher_is_shown_as_it_is_written() {
        for yaml in [
            r#"{a: [1, null, "x"], b: {$absent: true}}"#,
            r#"{$starts_with: "a", $length: {max: 9}, $bytes: 2048}"#,
            r#"{$any_of: [{$regex: "^a$"}, {$not: {$length: 3}}], $mentions: ["b", "c"]}"#,
            r#"{$exact: {a: ["${b}", {$text: "c"}]}}"#,
            r"{$each: {$range: {min: 0.5, max: 2}}}",
        ] {
            assert_eq!(parse(yaml).to_string(), yaml);
        }
    }

    #[test]
    fn names_are_collected_everywhere() {
        let matcher = parse(
            "{a: '${b}', c: {$all: [{$regex: '^${d}$'}, {$mentions: ['${e}']}, {$exact: {f: '${g}'}}]}}",
        );
        let mut found = Vec::new();
        matcher.names(&mut found);
        assert_eq!(found, ["b", "d", "e", "g"]);
    }

    #[test]
    fn invalid_matchers_are_refused() {
        for (yaml, want) in [
            ("{$regx: a}", "$regx"),
            ("{$regex: '('}", "unclosed group"),
            ("{$regex: a, b: 1}", "either `$operators` or plain keys"),
            ("{$length: {}}", "bounds need"),
            ("{$length: {most: 1}}", "most"),
        ] {
            let error = serde_yaml::from_str::<Matcher>(yaml).unwrap_err().to_string();
            assert!(error.contains(want), "{yaml}: {error}");
        }
    }
}
