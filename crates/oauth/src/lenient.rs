//! Members of OAuth's JSON documents in the forms in which servers write them.
//!
//! Optional members of several servers are `null`, numbers are texts, and lists are one text. An
//! optional member that makes no sense counts as absent, so that it does not spoil its document.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a text. `null`, an empty text and other types are none.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Reads a text that is empty if it is absent.
#[cfg(feature = "client")]
pub(crate) fn text_or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(text(from)?.unwrap_or_default())
}

/// Reads several texts: a list of them, or one text with spaces between them (RFC 6749, section
/// 3.3).
pub(crate) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        }
        Value::String(text) => Some(text.split_ascii_whitespace().map(str::to_owned).collect()),
        _ => None,
    })
}

/// Reads several texts, none of them if the member is absent.
pub(crate) fn texts_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(texts(from)?.unwrap_or_default())
}

/// Reads `true`, as a boolean or a text. Everything else is false.
pub(crate) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Bool(flag) => flag,
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        _ => false,
    })
}

/// Reads a finite number, perhaps written as a text.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let number = match Value::deserialize(from)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    Ok(number.filter(|number: &f64| number.is_finite()))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[test]
    fn members_are_read_in_every_form() {
        #[derive(Debug, Default, PartialEq, Deserialize)]
        #[serde(default)]
        struct Document {
            #[serde(deserialize_with = "super::text")]
            text: Option<String>,
            #[serde(deserialize_with = "super::texts")]
            texts: Option<Vec<String>>,
            #[serde(deserialize_with = "super::flag")]
            flag: bool,
            #[serde(deserialize_with = "super::number")]
            number: Option<f64>,
        }
        fn read(member: &str, value: &Value) -> Document {
            serde_json::from_value(json!({ member: value })).unwrap()
        }
        for member in ["text", "texts", "flag", "number"] {
            for value in [json!(null), json!({ "a": 1 })] {
                assert_eq!(read(member, &value), Document::default(), "{member} {value}");
            }
        }
        for (value, want) in [(json!("a"), Some("a")), (json!(7), Some("7")), (json!(""), None)] {
            assert_eq!(read("text", &value).text.as_deref(), want, "{value}");
        }
        for value in [json!(["a", "b"]), json!("a b"), json!(["a", null, "b"])] {
            assert_eq!(read("texts", &value).texts.unwrap(), ["a", "b"], "{value}");
        }
        for value in [json!(true), json!("true"), json!("True")] {
            assert!(read("flag", &value).flag, "{value}");
        }
        for value in [json!(3600), json!("3600"), json!(" 3600.0 ")] {
            assert_eq!(read("number", &value).number, Some(3600.0), "{value}");
        }
        assert_eq!(read("number", &json!("inf")).number, None);
    }
}
