//! Secrets in JSON text.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{known::without_known_secrets, name::is_secret_name, value::without_secret_values};

/// Returns JSON with a placeholder in the place of secrets, also JSON that was cut. All other bytes
/// stay as they are: numbers may have more digits than a program keeps.
///
/// A member is secret by its name; `secret_names` names further ones, such as those that a schema
/// marks. Under a name that looks secret, texts, numbers and lists are replaced. Objects are not:
/// their secrets are in members of their own, and in a schema the member `password` describes a
/// password. Other texts lose the parts that [`without_secret_values`] recognises.
#[must_use]
pub fn json_without_secrets(json: &str, secret_names: &[String], placeholder: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = memchr::memchr(b'"', rest.as_bytes()) {
        let end = end_of_string(&rest[start..]).map_or(rest.len(), |end| start + end);
        let string = &rest[start..end];
        let after = &rest[end..];
        shown.push_str(&rest[..start]);
        rest = after;
        let Some(value) = after.trim_start().strip_prefix(':').map(str::trim_start) else {
            shown.push_str(&string_without_secrets(string, secret_names, placeholder));
            continue;
        };
        shown.push_str(string);
        let name = decoded(string);
        let is_marked = secret_names.iter().any(|secret| *secret == name);
        let has_scalar_or_list =
            value.starts_with(|it: char| matches!(it, '"' | '[' | '-' | '0'..='9'));
        if is_marked || (has_scalar_or_list && is_secret_name(&name)) {
            shown.push(':');
            shown.push_str(&Value::from(placeholder).to_string());
            rest = &value[end_of_value(value)..];
        }
    }
    shown.push_str(rest);
    without_known_secrets(shown).into_owned()
}

fn string_without_secrets<'s>(
    string: &'s str,
    secret_names: &[String],
    placeholder: &str,
) -> Cow<'s, str> {
    let text = decoded(string);
    // Tools send JSON as text, with secrets under names, too.
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(&text).is_ok();
    let shown = if is_json {
        Cow::Owned(json_without_secrets(&text, secret_names, placeholder))
    } else {
        without_secret_values(&text, placeholder)
    };
    if shown == text { Cow::Borrowed(string) } else { Cow::Owned(Value::from(shown).to_string()) }
}

/// Decodes a JSON string, which may contain escapes, and may be cut.
fn decoded(string: &str) -> Cow<'_, str> {
    if string.contains('\\')
        && let Ok(name) = serde_json::from_str::<String>(string)
    {
        return Cow::Owned(name);
    }
    let inner = string.strip_prefix('"').unwrap_or(string);
    Cow::Borrowed(inner.strip_suffix('"').unwrap_or(inner))
}

/// Returns the bytes of the JSON value at the beginning of a text; all of the text if the value
/// does not end.
fn end_of_value(text: &str) -> usize {
    if !text.starts_with(['"', '{', '[']) {
        return text.find([',', '}', ']']).unwrap_or(text.len());
    }
    let mut at = 0;
    let mut depth = 0_usize;
    loop {
        let Some(found) = text[at..].find(['"', '{', '[', '}', ']']) else { return text.len() };
        at += found;
        match text.as_bytes()[at] {
            b'"' => match end_of_string(&text[at..]) {
                Some(length) => at += length,
                None => return text.len(),
            },
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
        }
        if depth == 0 {
            return at;
        }
    }
}

/// Returns the bytes of the JSON string at the beginning of a text, quotes included; None if it
/// does not end.
fn end_of_string(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
        match text.as_bytes()[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const HIDDEN: &str = "(hidden)";

    fn without_secrets(json: &str, secret_names: &[String]) -> String {
        json_without_secrets(json, secret_names, HIDDEN)
    }

    fn recorded(value: Value, names: &[String]) -> String {
        without_secrets(&value.to_string(), names)
    }

    #[test]
    fn secrets_are_hidden_by_their_names() {
        let shown = recorded(
            json!({"user": "anna", "Password": "p1", "password": 7331, "API-Key": "k2", "inner": [{"access_token": "t3"}], "token": "t4",
                "Set-Cookie": "c5", "auth": "a6", "pwd": "w7"}),
            &[],
        );
        for secret in ["p1", "7331", "k2", "t3", "t4", "c5", "a6", "w7"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("anna"), "{shown}");
        assert_eq!(
            recorded(json!({"max_tokens": 12, "progressToken": "a"}), &[]),
            r#"{"max_tokens":12,"progressToken":"a"}"#
        );
    }

    #[test]
    fn secrets_are_hidden_by_further_names() {
        let names = ["code".to_owned(), "word".to_owned()];
        let value = json!({"code": 1234, "login": {"word": "xyzzy"}});
        assert_eq!(recorded(value, &names), r#"{"code":"(hidden)","login":{"word":"(hidden)"}}"#);
    }

    /// Hides secrets as `without_secrets` does, in parsed JSON.
    fn hide(value: &mut Value, secret_names: &[String]) {
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    let is_hidden = secret_names.contains(name)
                        || (is_secret_name(name)
                            && (value.is_string() || value.is_number() || value.is_array()));
                    if is_hidden {
                        *value = HIDDEN.into();
                    } else {
                        hide(value, secret_names);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secret_names)),
            _ => {}
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![r#"[a":,{}\[\]\\\\ é]{0,6}"#, Just("token".to_owned())];
        let name = prop_oneof![
            text.clone(),
            prop::sample::select(vec!["Pass\tword", "API-Key", "code", "progressToken"])
                .prop_map(str::to_owned)
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_hidden_as_its_value_is(value in any_json(), is_pretty: bool) {
            let names = ["code".to_owned(), "\\".to_owned()];
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            let shown = without_secrets(&text, &names);
            let mut hidden = value;
            hide(&mut hidden, &names);
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), hidden, "{}", text);
        }

        #[test]
        fn all_text_is_looked_through(text in r#"[a":,{}\[\]\\\\ é]{0,40}"#) {
            without_secrets(&text, &["a".to_owned()]);
        }
    }

    #[test]
    fn lists_and_maps_of_secrets_are_hidden() {
        let names = ["codes".to_owned(), "by_host".to_owned()];
        let value = json!({"by_host": {"h": "b2"}, "codes": ["a1"], "n": [1], "passwords": ["d4"], "plain": ["c"]});
        let hidden = json!({"by_host": "(hidden)", "codes": "(hidden)", "n": [1], "passwords": "(hidden)", "plain": ["c"]});
        assert_eq!(recorded(value, &names), hidden.to_string());
        // A message that was cut.
        let cut = without_secrets(r#"{"a": 1, "codes": ["x]", {"y": ["z"#, &names);
        assert_eq!(cut, r#"{"a": 1, "codes":"(hidden)""#);
    }

    #[test]
    fn secrets_are_hidden_by_their_form() {
        let key = "AKIAIOSFODNN7EXAMPLE";
        assert_eq!(
            without_secrets(r#"{"a": "see AKIAIOSFODNN7EXAMPLE\u0021\n", "b": ["x\n"]}"#, &[]),
            r#"{"a": "see (hidden)!\n", "b": ["x\n"]}"#
        );
        let schema = json!({"properties": {"password": {"type": "string"}}, "x": [key]});
        let hidden = json!({"properties": {"password": {"type": "string"}}, "x": ["(hidden)"]});
        assert_eq!(recorded(schema, &[]), hidden.to_string());
        // A message that was cut.
        assert_eq!(without_secrets(&format!(r#"["{key}"#), &[]), r#"["(hidden)""#);
    }

    #[test]
    fn secrets_are_lost_and_no_other_byte() {
        let names = ["pin".to_owned()];
        assert_eq!(
            without_secrets(
                r#"{"n": 12345678901234567890.10, "api_key" : "k\"x", "pin": 7, "a": [{"Password":"p"}], "pass\u0077ord": "w", "text":"api_key"}"#,
                &names
            ),
            r#"{"n": 12345678901234567890.10, "api_key":"(hidden)", "pin":"(hidden)", "a": [{"Password":"(hidden)"}], "pass\u0077ord":"(hidden)", "text":"api_key"}"#
        );
    }

    #[test]
    fn text_without_secrets_is_kept_byte_for_byte() {
        let text = r#"{ "n" : 12345678901234567890123 }"#;
        assert_eq!(without_secrets(text, &[]), text);
        assert_eq!(without_secrets("no JSON, token\"", &[]), "no JSON, token\"");
    }

    #[test]
    fn a_message_that_was_cut_shows_no_secret() {
        let whole = json!({"params": {
            "pin": 1234, "password": "p\\\"q, xyzzy", "name": "anna", "token": {"key": 1}, "text": "x".repeat(99),
        }});
        let whole = whole.to_string();
        let names = ["pin".to_owned()];
        for end in 0..whole.len() {
            let shown = without_secrets(&whole[..end], &names);
            assert!(!shown.contains("12") && !shown.contains("xyz"), "{shown}");
        }
        let shown = without_secrets(&whole[..whole.len() - 2], &names);
        assert!(shown.contains(r#""name":"anna""#) && shown.contains("(hidden)"), "{shown}");
    }
}
