//! Leaves secrets out of what is recorded.

use std::collections::BTreeSet;

use serde_json::Value;

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// Parts of names of members whose text is a secret, in small letters without `_` and `-`.
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

/// Returns the JSON with the values of secret members replaced. A member is secret by its name; `secret_names` names further ones, which
/// the schema of the tool marks.
pub(crate) fn without_secrets(text: &str, secret_names: &[String]) -> String {
    if !mentions_secret(text, secret_names) {
        return text.to_owned();
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return HIDDEN.to_owned() };
    hide(&mut value, secret_names);
    value.to_string()
}

/// Returns the text of a message with the values of secret members replaced, also in one that was cut or is no JSON.
pub(crate) fn message_without_secrets(text: &str, secret_names: &[String]) -> String {
    if !mentions_secret(text, secret_names) {
        return text.to_owned();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            hide(&mut value, secret_names);
            value.to_string()
        }
        Err(_) => part_without_secrets(text, secret_names),
    }
}

/// Returns an answer with the values of secret members replaced. All other bytes stay as they are: numbers may have more digits than a
/// program keeps.
pub(crate) fn answer_without_secrets(text: &str, secret_names: &[String]) -> String {
    if mentions_secret(text, secret_names) {
        part_without_secrets(text, secret_names)
    } else {
        text.to_owned()
    }
}

/// Replaces the texts and numbers behind secret names in a part of JSON.
fn part_without_secrets(text: &str, secret_names: &[String]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let end = end_of_string(&rest[start..]).map_or(rest.len(), |end| start + end);
        let name = rest[start..end].trim_matches('"');
        shown.push_str(&rest[..end]);
        rest = &rest[end..];
        let is_marked = secret_names.iter().any(|secret| secret == name);
        let Some(value) = rest.trim_start().strip_prefix(':').map(str::trim_start) else {
            continue;
        };
        if !is_marked && !is_secret(name) {
            continue;
        }
        // The secrets of an object are in members of its own.
        if value.starts_with(['"', '[']) || is_marked {
            let length = end_of_value(value);
            shown.push_str(":\"");
            shown.push_str(HIDDEN);
            shown.push('"');
            rest = &value[length..];
        }
    }
    shown.push_str(rest);
    shown
}

/// Returns the bytes of the JSON value at the beginning of a text; all of the text if the value does not end.
fn end_of_value(text: &str) -> usize {
    if !text.starts_with(['"', '{', '[']) {
        return text.find([',', '}', ']']).unwrap_or(text.len());
    }
    let (mut at, mut depth) = (0, 0_usize);
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

/// Returns the bytes of the JSON string at the beginning of a text, quotes included; None if it does not end.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let mut inside = text.char_indices().skip(1);
    inside.find_map(|(at, character)| match character {
        _ if is_escaped => {
            is_escaped = false;
            None
        }
        '\\' => {
            is_escaped = true;
            None
        }
        '"' => Some(at + 1),
        _ => None,
    })
}

/// Whether one of the names may be in the text; most messages have none, and are not read further.
fn mentions_secret(text: &str, secret_names: &[String]) -> bool {
    if secret_names.iter().any(|name| text.contains(name.as_str())) {
        return true;
    }
    let plain: String = text
        .chars()
        .filter(|character| !matches!(character, '_' | '-'))
        .map(|character| character.to_ascii_lowercase())
        .collect();
    // `token` is secret only as a whole name; `max_tokens` is not.
    plain.contains("token\"") || NAMES.iter().any(|name| plain.contains(name))
}

fn hide(value: &mut Value, secret_names: &[String]) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                let is_marked = secret_names.iter().any(|secret| secret == name);
                match value {
                    Value::Null | Value::Bool(_) => {}
                    Value::String(_) | Value::Array(_) if is_secret(name) => {
                        *value = Value::from(HIDDEN);
                    }
                    _ if is_marked => *value = Value::from(HIDDEN),
                    value => hide(value, secret_names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secret_names)),
        _ => {}
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

/// Returns the names of members that a schema marks as secret: `format: password` or `writeOnly: true`.
#[must_use]
pub fn secret_names(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    collect(schema, schema, &mut names, 0);
    names
}

const MAX_DEPTH: usize = 32;

/// Schemas that are looked at to decide about one member.
const MAX_LOOKS: usize = 1_000;

/// Whether a member with this schema holds secrets. One whose schema is too much to look through counts as secret.
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
        let is = |name: &str, value: Value| schema.get(name) == Some(&value);
        if is("format", "password".into()) || is("writeOnly", true.into()) {
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
    use serde_json::json;

    fn recorded(value: Value, names: &[String]) -> String {
        without_secrets(&value.to_string(), names)
    }

    #[test]
    fn secrets_are_hidden_by_their_names() {
        let shown = recorded(
            json!({"user": "anna", "Password": "p1", "API-Key": "k2", "inner": [{"access_token": "t3"}], "token": "t4"}),
            &[],
        );
        for secret in ["p1", "k2", "t3", "t4"] {
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
        assert_eq!(recorded(value.clone(), &names), hidden.to_string());
        let text = value.to_string();
        assert_eq!(answer_without_secrets(&text, &names), hidden.to_string());
        // A message that was cut.
        let cut = part_without_secrets(r#"{"a": 1, "pins": ["x]", {"y": ["z"#, &names);
        assert_eq!(cut, r#"{"a": 1, "pins":"(hidden)""#);
    }

    #[test]
    fn an_answer_loses_its_secrets_and_no_other_byte() {
        let names = ["pin".to_owned()];
        assert_eq!(
            answer_without_secrets(
                r#"{"n": 12345678901234567890.10, "api_key" : "k\"x", "pin": 7, "a": [{"Password":"p"}], "text":"api_key"}"#,
                &names
            ),
            r#"{"n": 12345678901234567890.10, "api_key":"(hidden)", "pin":"(hidden)", "a": [{"Password":"(hidden)"}], "text":"api_key"}"#
        );
    }

    #[test]
    fn text_without_secrets_is_kept_byte_for_byte() {
        let text = r#"{ "n" : 12345678901234567890123 }"#;
        assert_eq!(without_secrets(text, &[]), text);
        assert_eq!(message_without_secrets("no JSON, token\"", &[]), "no JSON, token\"");
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
        let (whole, names) = (whole.to_string(), ["pin".to_owned()]);
        for end in 0..whole.len() {
            let shown = message_without_secrets(&whole[..end], &names);
            assert!(!shown.contains("12") && !shown.contains("xyz"), "{shown}");
        }
        let shown = message_without_secrets(&whole[..whole.len() - 2], &names);
        assert!(shown.contains(r#""name":"anna""#) && shown.contains("(hidden)"), "{shown}");
    }
}
