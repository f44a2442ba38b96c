//! Leaves secrets out of what is recorded.

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

/// Returns the text of a message with the values of secret members replaced. Text that is not JSON is returned as it is.
pub(crate) fn message_without_secrets(text: &str) -> String {
    if !mentions_secret(text, &[]) {
        return text.to_owned();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            hide(&mut value, &[]);
            value.to_string()
        }
        Err(_) => text.to_owned(),
    }
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
                let is_secret = is_secret(name) || secret_names.iter().any(|secret| secret == name);
                match value {
                    Value::String(text) if is_secret => HIDDEN.clone_into(text),
                    Value::Number(_) if secret_names.iter().any(|secret| secret == name) => {
                        *value = Value::from(HIDDEN);
                    }
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
    collect(schema, &mut names, 0);
    names
}

fn collect(schema: &Value, names: &mut Vec<String>, depth: usize) {
    const MAX_DEPTH: usize = 32;
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                for (name, property) in properties {
                    let is_secret =
                        property["format"] == "password" || property["writeOnly"] == true;
                    if is_secret {
                        names.push(name.clone());
                    }
                }
            }
            members.values().for_each(|member| collect(member, names, depth + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names, depth + 1)),
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
    fn text_without_secrets_is_kept_byte_for_byte() {
        let text = r#"{ "n" : 12345678901234567890123 }"#;
        assert_eq!(without_secrets(text, &[]), text);
        assert_eq!(message_without_secrets("no JSON, token\""), "no JSON, token\"");
    }
}
