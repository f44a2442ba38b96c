//! In which members two servers of one name differ.

use marquetry_redact::{json_without_secrets, url_without_secrets, without_secret_args};
use serde_json::{Map, Value};

use crate::move_secrets::secrets_of;

/// The longest value that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Returns a line for each member in which two entries differ. Secrets are not shown.
pub(crate) fn differences(one: &Map<String, Value>, other: &Map<String, Value>) -> Vec<String> {
    let mut secrets: Vec<(&str, String)> = Vec::new();
    for secret in secrets_of(one).into_iter().chain(secrets_of(other)) {
        secrets.push((secret.section, secret.name));
    }
    let mut lines = Vec::new();
    for key in keys(one, other) {
        let before = one.get(key);
        let after = other.get(key);
        if before == after {
            continue;
        }
        if !["env", "headers"].contains(&key) {
            lines.push(line(key, shown(key, before), shown(key, after)));
            continue;
        }
        let none = Map::new();
        let before = before.and_then(Value::as_object).unwrap_or(&none);
        let after = after.and_then(Value::as_object).unwrap_or(&none);
        for name in keys(before, after) {
            let before = before.get(name);
            let after = after.get(name);
            if before == after {
                continue;
            }
            let path = format!("{key}.{name}");
            if secrets.iter().any(|(section, secret)| *section == key && secret == name) {
                lines.push(line(&path, hidden(before), hidden(after)));
            } else {
                lines.push(line(&path, shown(name, before), shown(name, after)));
            }
        }
    }
    lines
}

/// Returns the keys of both maps, those of the first one first.
fn keys<'a>(
    one: &'a Map<String, Value>,
    other: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> {
    let more = other.keys().filter(|key| !one.contains_key(*key));
    one.keys().chain(more).map(String::as_str)
}

fn line(path: &str, before: String, after: String) -> String {
    if before == after {
        return format!("{path}: the values differ (hidden)");
    }
    format!("{path}: {before} | {after}")
}

fn hidden(value: Option<&Value>) -> String {
    value.map_or("not set", |_| "hidden").to_owned()
}

/// Returns a value without the secrets that its form shows.
fn shown(key: &str, value: Option<&Value>) -> String {
    let Some(value) = value else { return "not set".to_owned() };
    let safe = match value {
        Value::String(url) if key == "url" => Value::from(url_without_secrets(url)),
        Value::Array(items) if key == "args" => {
            let args: Vec<String> =
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            Value::from(without_secret_args(&args).shown)
        }
        value => value.clone(),
    };
    let text = json_without_secrets(&safe.to_string(), &[], "…");
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(one: &Value, other: &Value, want: &[&str]) {
        let found = differences(one.as_object().unwrap(), other.as_object().unwrap());
        assert_eq!(found, want);
    }

    #[test]
    fn each_member_that_differs_is_named_without_secrets() {
        let one = json!({"command": "x", "args": ["--token", "abc", "a"],
            "env": {"API_KEY": "k-1", "REGION": "eu", "SAME": "1"}});
        let other = json!({"command": "x", "args": ["--token", "def", "a"], "cwd": "/w",
            "env": {"API_KEY": "k-2", "REGION": "us", "SAME": "1", "TOKEN": "t"}});
        check(
            &one,
            &other,
            &[
                "args: the values differ (hidden)",
                "env.API_KEY: the values differ (hidden)",
                "env.REGION: \"eu\" | \"us\"",
                "env.TOKEN: not set | hidden",
                "cwd: not set | \"/w\"",
            ],
        );
        check(
            &json!({"url": "http://h/a", "headers": {"Authorization": "Bearer t-1"}}),
            &json!({"url": "http://h/b", "headers": {}}),
            &["url: \"http://h/a\" | \"http://h/b\"", "headers.Authorization: hidden | not set"],
        );
        check(&one, &one, &[]);
    }
}
