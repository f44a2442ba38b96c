//! Texts without secrets, and cut texts.

use serde_json::{Map, Value};

use crate::{ModelSettings, ServerConfig, TestCase, store::Configuration};

/// What stands for a secret.
const HIDDEN: &str = "…";

/// Shorter values are not searched for in other texts: they would be found by chance.
const SHORTEST_SECRET: usize = 8;

/// Words in the names of variables whose values are secrets.
const SECRET_WORDS: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE"];

/// The secrets of a case, to be removed from what servers and models wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    pub(crate) fn of(case: &TestCase) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for model in [&case.judge_config, &case.agent_config].into_iter().flatten() {
            secrets.extend(model.api_key.clone());
        }
        for server in case.server_configs.iter().flatten() {
            match server {
                ServerConfig::Stdio { env, .. } => secrets.extend(
                    env.iter()
                        .filter(|(name, _)| {
                            let name = name.to_ascii_uppercase();
                            SECRET_WORDS.iter().any(|word| name.contains(word))
                        })
                        .map(|(_, value)| value.clone()),
                ),
                ServerConfig::Sse { headers, .. } | ServerConfig::Http { headers, .. } => {
                    for value in headers.values() {
                        // `Authorization: Bearer TOKEN`: the token alone is a secret, too.
                        secrets.extend(value.split_whitespace().map(str::to_owned));
                    }
                }
            }
        }
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // A secret that contains another one is replaced as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    pub(crate) fn text(&self, text: String) -> String {
        let mut text = text;
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }

    pub(crate) fn value(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (self.text(name), self.value(value)))
                    .collect::<Map<_, _>>(),
            ),
            scalar => scalar,
        }
    }
}

impl TestCase {
    /// Returns the case without keys, values of environment variables and headers, and user and query of URLs: as it is
    /// stored and shown.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut case = self.clone();
        for model in [&mut case.judge_config, &mut case.agent_config].into_iter().flatten() {
            hide_model(model);
        }
        case.server_configs.iter_mut().flatten().for_each(hide_server);
        case
    }
}

impl Configuration {
    /// Returns the configuration without secrets, as [`TestCase::redacted`].
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut configuration = self.clone();
        configuration.judge_config.iter_mut().for_each(hide_model);
        configuration.server_configs.iter_mut().for_each(hide_server);
        configuration
    }
}

fn hide_model(model: &mut ModelSettings) {
    model.api_key = None;
    if let Some(url) = &mut model.base_url {
        *url = marquetry_protocol::client::without_secrets(url);
    }
}

fn hide_server(server: &mut ServerConfig) {
    match server {
        ServerConfig::Stdio { env, .. } => {
            env.values_mut().for_each(|value| *value = HIDDEN.to_owned());
        }
        ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
            *url = marquetry_protocol::client::without_secrets(url);
            headers.values_mut().for_each(|value| *value = HIDDEN.to_owned());
        }
    }
}

/// Returns a text of at most so many bytes, and `…` if something was cut off.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_removed_from_the_case_and_from_what_others_wrote() {
        let case: TestCase = serde_json::from_value(json!({
            "name": "a", "prompt": "b",
            "judgeConfig": {"provider": "openai", "model": "m", "apiKey": "sk-123456", "baseUrl": "https://u:pass-word@h/v1"},
            "serverConfigs": [
                {"type": "stdio", "command": "c", "env": {"API_TOKEN": "env-secret", "FOLDER": "/some/folder"}},
                {"type": "http", "url": "https://h/mcp?key=url-secret", "headers": {"Authorization": "Bearer header-secret"}},
            ],
        }))
        .unwrap();
        let text = serde_json::to_string(&case.redacted()).unwrap();
        for secret in ["sk-123456", "pass-word", "env-secret", "url-secret", "header-secret"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let redactor = Redactor::of(&case);
        let wrote =
            json!({"sk-123456": ["env-secret", {"a": "Bearer header-secret, /some/folder"}]});
        assert_eq!(redactor.value(wrote), json!({"…": ["…", {"a": "Bearer …, /some/folder"}]}));
        assert!(
            !format!("{case:?}").contains("secret") && !format!("{case:?}").contains("sk-123456")
        );
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a…");
        assert_eq!(cut("aä", 3), "aä");
    }
}
