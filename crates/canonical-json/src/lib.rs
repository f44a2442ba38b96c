#![doc = include_str!("../README.md")]

mod number;

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Returns the canonical text of a value.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

/// Returns the members of an object in canonical order.
#[must_use]
pub fn sorted_members(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut sorted: Vec<_> = members.iter().collect();
    // Not the order of `str`: a character beyond U+FFFF comes before U+E000 (RFC 8785, 3.2.3).
    sorted.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    sorted
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => text.push_str(&number::canonical_number(number)),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (name, member)) in sorted_members(members).into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_value(member, text);
            }
            text.push('}');
        }
    }
}

/// Writes a string with the escapes of RFC 8785, 3.2.2.2.
fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\u{1f}' => _ = write!(text, "\\u{:04x}", u32::from(character)),
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(json: &str, want: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(canonical(&value), want);
    }

    #[test]
    fn the_example_of_the_rfc_is_written_as_there() {
        // RFC 8785, 3.2.2 and 3.2.4, without the number that `serde_json` reads inexactly.
        check(
            r#"{
              "numbers": [1E30, 4.50, 2e-3, 0.000000000000000000000000001],
              "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
              "literals": [null, true, false]
            }"#,
            r#"{"literals":[null,true,false],"numbers":[1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        );
    }

    #[test]
    fn names_are_sorted_by_their_utf_16() {
        // RFC 8785, 3.2.3.
        check(
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew","1":"One",
                "\ud83d\ude00":"Emoji","\u0080":"Control","\u00f6":"Latin o"}"#,
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin o\",\"€\":\"Euro Sign\",\"😀\":\"Emoji\",\"\u{fb33}\":\"Hebrew\"}",
        );
    }

    #[test]
    fn empty_values_are_short() {
        check(" [ { } , [ ] , \"\" ] ", r#"[{},[],""]"#);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // `serde_json` reads other doubles with an error of one bit; `number` tests them.
            any::<i16>().prop_map(|it| Value::from(f64::from(it) / 8.0)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Returns the value with the members of all objects in reverse order.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(reversed).collect(),
            Value::Object(members) => {
                let members = members.iter().rev();
                Value::Object(members.map(|(name, it)| (name.clone(), reversed(it))).collect())
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn the_text_is_read_back_as_the_value(value in values()) {
            let text = canonical(&value);
            let read: Value = serde_json::from_str(&text).unwrap();
            // 1.0 is read as the integer 1, so texts are compared.
            prop_assert_eq!(canonical(&read), text);
        }

        #[test]
        fn the_order_of_members_does_not_matter(value in values()) {
            let other = reversed(&value);
            prop_assert_eq!(canonical(&other), canonical(&value));
        }

        #[test]
        fn other_values_have_other_texts(one: String, other: String) {
            let same = one == other;
            prop_assert_eq!(canonical(&json!([one])) == canonical(&json!([other])), same);
        }
    }
}
