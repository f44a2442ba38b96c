//! Removes secrets from recorded data.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

/// Placeholder for a secret.
const HIDDEN: &str = "(hidden)";

/// Parts of the names of members that hold secrets, in lower case without `_` and `-`.
const NAMES: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "authorization",
    "credential",
    "privatekey",
    "accesstoken",
];

/// Returns JSON with the values of secret members replaced, also JSON that was cut. All other bytes
/// stay as they are: numbers may have more digits than a program keeps.
///
/// A member is secret by its name; `secret_names` names further ones, which the schema of the tool
/// marks. Under a name that looks secret, texts, numbers and lists are replaced; the secrets of an
/// object are in members of its own.
pub(crate) fn without_secrets(json: &str, secret_names: &[String]) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = memchr::memchr(b'"', rest.as_bytes()) {
        let end = end_of_string(&rest[start..]).map_or(rest.len(), |end| start + end);
        let string = &rest[start..end];
        let after = &rest[end..];
        shown.push_str(&rest[..end]);
        rest = after;
        let Some(value) = after.trim_start().strip_prefix(':').map(str::trim_start) else {
            continue;
        };
        let name = name_of(string);
        let is_marked = secret_names.iter().any(|secret| *secret == name);
        let has_scalar_or_list =
            value.starts_with(|it: char| matches!(it, '"' | '[' | '-' | '0'..='9'));
        if is_marked || (has_scalar_or_list && is_secret(&name)) {
            shown.push_str(":\"");
            shown.push_str(HIDDEN);
            shown.push('"');
            rest = &value[end_of_value(value)..];
        }
    }
    shown.push_str(rest);
    shown
}

/// Decodes a JSON string, which may contain escapes.
fn name_of(string: &str) -> Cow<'_, str> {
    if string.contains('\\')
        && let Ok(name) = serde_json::from_str::<String>(string)
    {
        return Cow::Owned(name);
    }
    Cow::Borrowed(string.trim_matches('"'))
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

fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|character| !matches!(character, '_' | '-'))
        .map(|character| character.to_ascii_lowercase())
        .collect();
    // A progress token and the cursor of a page are no secrets.
    (plain.ends_with("token") && plain != "progresstoken")
        || NAMES.iter().any(|secret| plain.contains(secret))
}

/// Returns the names of members that a schema marks as secret: `format: password` or `writeOnly:
/// true`.
#[must_use]
pub fn secret_names(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    collect(schema, schema, &mut names, 0);
    names
}

const MAX_DEPTH: usize = 32;

/// Maximum number of schemas that are inspected for one member.
const MAX_LOOKS: usize = 1_000;

/// Returns whether a member with this schema holds secrets. If the schema is too large to inspect,
/// the member counts as secret.
fn is_marked(schema: &Value, root: &Value) -> bool {
    let mut open = vec![schema];
    // References may lead to themselves.
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        let Some(schema) = next.as_object().filter(|_| seen.insert(std::ptr::from_ref(next)))
        else {
            continue;
        };
        if seen.len() > MAX_LOOKS {
            return true;
        }
        let format = schema.get("format").and_then(Value::as_str);
        let is_write_only = schema.get("writeOnly").and_then(Value::as_bool);
        if format == Some("password") || is_write_only == Some(true) {
            return true;
        }
        let lists = ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter();
        open.extend(lists.filter_map(|name| schema.get(name)?.as_array()).flatten());
        // A list or a map of secrets is secret as a whole.
        open.extend(["items", "additionalProperties"].into_iter().filter_map(|it| schema.get(it)));
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        open.extend(patterns.into_iter().flat_map(|patterns| patterns.values()));
        let to = schema.get("$ref").and_then(Value::as_str);
        open.extend(to.and_then(|to| root.pointer(to.strip_prefix('#')?)));
    }
    false
}

fn collect(schema: &Value, root: &Value, names: &mut Vec<String>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                for (name, property) in properties {
                    if is_marked(property, root) {
                        names.push(name.clone());
                    }
                }
            }
            members.values().for_each(|member| collect(member, root, names, depth + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, root, names, depth + 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn recorded(value: Value, names: &[String]) -> String {
        without_secrets(&value.to_string(), names)
    }

    #[test]
    fn secrets_are_hidden_by_their_names() {
        let shown = recorded(
            json!({"user": "anna", "Password": "p1", "password": 7331, "API-Key": "k2", "inner": [{"access_token": "t3"}], "token": "t4"}),
            &[],
        );
        for secret in ["p1", "7331", "k2", "t3", "t4"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("anna"), "{shown}");
        assert_eq!(
            recorded(json!({"max_tokens": 12, "progressToken": "a"}), &[]),
            r#"{"max_tokens":12,"progressToken":"a"}"#
        );
    }

    #[test]
    fn secrets_are_hidden_by_the_schema() {
        let schema = json!({"properties": {
            "pin": {"type": "integer", "writeOnly": true},
            "login": {"type": "object", "properties": {"word": {"type": "string", "format": "password"}}},
        }});
        let names = secret_names(&schema);
        assert_eq!(names, ["pin", "word"]);
        let shown =
            recorded(json!({"pin": 1234, "login": {"word": "xyzzy", "name": "anna"}}), &names);
        assert!(
            !shown.contains("1234") && !shown.contains("xyzzy") && shown.contains("anna"),
            "{shown}"
        );
    }

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let own = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "items": {"$ref": "#"}});
        let mut schema = own.clone();
        schema["properties"] = json!({"a": own});
        assert!(secret_names(&schema).is_empty());
        let many: Vec<_> = (0..2_000).map(|_| json!({"type": "string"})).collect();
        let schema = json!({"properties": {"a": {"anyOf": many}}});
        assert_eq!(secret_names(&schema), ["a"], "too much to look through");
    }

    /// Hides secrets as `without_secrets` does, in parsed JSON.
    fn hide(value: &mut Value, secret_names: &[String]) {
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    let is_hidden = secret_names.contains(name)
                        || (is_secret(name)
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
            prop::sample::select(vec!["Pass\tword", "API-Key", "pin", "progressToken"])
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
            let names = ["pin".to_owned(), "\\".to_owned()];
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
        let password = json!({"type": "string", "format": "password"});
        let schema = json!({"properties": {
            "pins": {"type": "array", "items": password},
            "by_host": {"type": "object", "additionalProperties": password},
            "plain": {"type": "array", "items": {"type": "string"}},
        }});
        let names = secret_names(&schema);
        assert_eq!(names, ["pins", "by_host"]);
        let value = json!({"pins": ["a1"], "by_host": {"h": "b2"}, "plain": ["c"], "passwords": ["d4"], "n": [1]});
        let hidden = json!({"pins": "(hidden)", "by_host": "(hidden)", "plain": ["c"], "passwords": "(hidden)", "n": [1]});
        assert_eq!(recorded(value, &names), hidden.to_string());
        // A message that was cut.
        let cut = without_secrets(r#"{"a": 1, "pins": ["x]", {"y": ["z"#, &names);
        assert_eq!(cut, r#"{"a": 1, "pins":"(hidden)""#);
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
    fn alternatives_and_references_are_looked_through() {
        let schema = json!({
            "$defs": {"word": {"type": "string", "format": "password"}, "loop": {"$ref": "#/$defs/loop"}},
            "properties": {
                "a": {"anyOf": [{"type": "string", "writeOnly": true}, {"type": "null"}]},
                "b": {"$ref": "#/$defs/word"},
                "c": {"allOf": [{"$ref": "#/$defs/word"}]},
                "d": {"$ref": "#/$defs/loop"},
            },
        });
        assert_eq!(secret_names(&schema), ["a", "b", "c"]);
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
