//! A text by which two JSON values can be compared exactly.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Returns a text that two JSON values share only if they say the same: the order of members and
/// the escapes of strings do not count, and numbers stay as they are written. Returns `None` for a
/// value that parsers read differently, since an object has a member twice.
///
/// Numbers are not compared by value: `12345678901234567890123` and `12345678901234567890999` are
/// one double. It takes time for each level of nesting, which the reader of a message limits.
#[must_use]
pub fn comparable(value: &RawValue) -> Option<String> {
    let mut text = String::with_capacity(value.get().len());
    write(value, &mut text)?;
    Some(text)
}

fn write(value: &RawValue, text: &mut String) -> Option<()> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'{' => {
            let Members(members) = serde_json::from_str(json).ok()?;
            text.push('{');
            for (name, member) in members {
                text.push_str(&serde_json::to_string(&name).ok()?);
                text.push(':');
                write(member, text)?;
                text.push(',');
            }
            text.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            text.push('[');
            for item in items {
                write(item, text)?;
                text.push(',');
            }
            text.push(']');
        }
        b'"' => {
            let string: String = serde_json::from_str(json).ok()?;
            text.push_str(&serde_json::to_string(&string).ok()?);
        }
        // A number, true, false or null.
        _ => text.push_str(json),
    }
    Some(())
}

/// The members of an object, of which none is there twice.
struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if members.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("a member is there twice"));
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(json: &str) -> Option<String> {
        comparable(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn only_equal_values_have_one_text() {
        assert_eq!(
            of(r#"{"a": 1, "b": {"c": "x y", "d": []}}"#),
            of(r#"{"b":{"d":[],"c":"\u0078 y"},"a":1}"#)
        );
        for (a, b) in [
            (r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890999}"#),
            (r#"{"a":1e1}"#, r#"{"a":10}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"["x","y"]"#, r#"["y","x"]"#),
            (r#"["x,\"y"]"#, r#"["x","y"]"#),
            (r#"{"a":[],"b":1}"#, r#"{"a":[1]}"#),
        ] {
            assert_ne!(of(a), of(b), "{a} {b}");
        }
        assert_eq!(of(r#"{"p":"/etc","p":"safe"}"#), None);
        assert_eq!(of(r#"{"a":{"p":1,"\u0070":2}}"#), None);
    }

    proptest! {
        #[test]
        fn the_text_of_a_value_is_one_of_that_value(items in prop::collection::vec("\\PC{0,9}", 0..5)) {
            let json = serde_json::to_string(&items).unwrap();
            let spaced = json.replace(',', " , ");
            if items.iter().all(|item| !item.contains(',')) {
                prop_assert_eq!(of(&json), of(&spaced));
            }
            prop_assert!(of(&json).is_some());
        }
    }
}
