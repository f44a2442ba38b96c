//! Sizes and times with units: `5MiB`, `250ms`.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// A number of bytes: `51200`, `50KiB`, `5MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

/// A span of time: `250ms`, `5s`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// The parts in which the two units differ, so that they share one visitor.
trait Unit: Sized {
    const EXPECTED: &'static str;
    fn from_text(text: &str) -> Option<Self>;
    /// Sizes may be bare numbers. Times may not: `within: 5` does not say whether that is seconds.
    fn from_number(number: u64) -> Option<Self>;
}

impl Unit for ByteSize {
    const EXPECTED: &'static str = "a size such as 51200, 50KiB or 5MiB";

    fn from_text(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let scale = match unit {
            "" | "B" => 1,
            "KiB" => 1024,
            "MiB" => 1024 * 1024,
            _ => return None,
        };
        number.checked_mul(scale).map(Self)
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(Self(number))
    }
}

impl Unit for Span {
    const EXPECTED: &'static str = "a time such as 250ms, 5s or 2m";

    fn from_text(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let scale = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            _ => return None,
        };
        number.checked_mul(scale).map(|ms| Self(Duration::from_millis(ms)))
    }

    fn from_number(_: u64) -> Option<Self> {
        None
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

struct UnitVisitor<T>(PhantomData<T>);

impl<T: Unit> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::from_number(number)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number)
            .ok()
            .and_then(T::from_number)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor(PhantomData))
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes: 51200, 50KiB, 5MiB.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB)?$" }],
        })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A span of time: 250ms, 5s, 2m.",
            "type": "string",
            "pattern": "^[0-9]+ ?(ms|s|m)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, want) in [
            ("17", Some(17)),
            ("17B", Some(17)),
            ("50KiB", Some(51_200)),
            ("5 MiB", Some(5 * 1024 * 1024)),
            ("5MB", None),
            ("", None),
            ("-1", None),
            ("99999999999999999MiB", None),
        ] {
            assert_eq!(ByteSize::from_text(text).map(|size| size.0), want, "{text:?}");
        }
    }

    #[test]
    fn spans() {
        for (text, want) in [
            ("250ms", Some(250)),
            ("5s", Some(5000)),
            ("2m", Some(120_000)),
            ("5", None),
            ("s", None),
        ] {
            let want = want.map(Duration::from_millis);
            assert_eq!(Span::from_text(text).map(|span| span.0), want, "{text:?}");
        }
    }

    #[test]
    fn a_bare_number_is_a_size_but_no_time() {
        assert_eq!(serde_json::from_str::<ByteSize>("51200").unwrap(), ByteSize(51_200));
        let error = serde_json::from_str::<Span>("5").unwrap_err().to_string();
        assert!(error.contains("a time such as 250ms"), "{error}");
    }
}
