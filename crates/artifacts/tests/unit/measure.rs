//! Tests of measures.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn sizes() {
    for (json, compact, sam) in [
        ("{}", 2, 2),
        ("{ }", 2, 2),
        (r#"{"a":1}"#, 7, 8),
        ("{\n  \"a\" : [1, 2]\n}", 11, 13),
        (r#""é""#, 4, 8),
        (r#""\u00e9""#, 4, 8),
        (r#""😀""#, 6, 14),
        (r#""\ud83d\ude00""#, 6, 14),
        (r#""\ud83d""#, 5, 8),
        (r#""\ud83dx""#, 6, 9),
        (r#""a\/b\u002f""#, 6, 6),
        (r#""\n\u000a\u0001\"\\""#, 16, 16),
        ("\"\u{7f}\"", 3, 8),
        ("-1.50e3", 7, 7),
    ] {
        assert_eq!(size(json, SizeMeasure::Compact), compact, "{json}");
        assert_eq!(size(json, SizeMeasure::SamCompatible), sam, "{json}");
    }
}

proptest! {
    #[test]
    fn compact_equals_the_output_of_a_compact_writer(text in ".*", key in ".*", spaces in " {0,3}") {
        let value = serde_json::json!({ &key: [&text, { &text: 1 }], "b": null });
        let pretty = serde_json::to_string_pretty(&value).unwrap() + &spaces;
        prop_assert_eq!(size(&pretty, SizeMeasure::Compact), value.to_string().len() as u64);
        prop_assert_eq!(size(&escape_all(&value), SizeMeasure::Compact), value.to_string().len() as u64);
        prop_assert_eq!(size(&escape_all(&value), SizeMeasure::SamCompatible), size(&pretty, SizeMeasure::SamCompatible));
    }

    #[test]
    fn never_panics(text in ".*") {
        size(&text, SizeMeasure::Compact);
        size(&text, SizeMeasure::SamCompatible);
    }
}

/// Escapes everything outside of ASCII.
fn escape_all(value: &Value) -> String {
    let mut out = String::new();
    for unit in value.to_string().encode_utf16() {
        match u8::try_from(unit) {
            Ok(ascii @ 0..=0x7e) => out.push(char::from(ascii)),
            _ => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out
}
