//! Removes secrets from test cases and from the texts of servers and models; shortens texts.

mod reference;

use marquetry_redact::{
    CUT_MARK, is_secret_variable, looks_secret, secrets_of_url, secrets_of_value,
    url_without_secrets, without_secret_args,
};
pub(crate) use marquetry_redact::{HIDDEN, Redactor, likely_secrets_of_url};

pub(crate) use self::reference::Reference;
use crate::{ServerConfig, TestCase};

/// Creates a redactor of the secrets of a case, for the texts of servers and models.
/// `runner_secrets` are, for example, the keys of the runner's models.
pub(crate) fn redactor_of(case: &TestCase, runner_secrets: &[String]) -> Redactor {
    let mut secrets = runner_secrets.to_vec();
    secrets.extend(case.variable_values.iter().cloned());
    for model in [&case.judge_config, &case.agent_config].into_iter().flatten() {
        secrets.extend(model.api_key.clone());
        secrets.extend(model.base_url.iter().flat_map(|url| secrets_of_url(url)));
    }
    for server in case.server_configs.iter().flatten() {
        match server {
            ServerConfig::Stdio { env, args, .. } => {
                for (name, value) in env {
                    secrets.extend(likely_secrets_of_url(value));
                    if is_secret_variable(name) || looks_secret(value) {
                        secrets.push(value.clone());
                    }
                }
                secrets.extend(without_secret_args(args).secrets);
            }
            ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
                secrets.extend(secrets_of_url(url));
                secrets.extend(headers.values().flat_map(|value| secrets_of_value(value)));
            }
        }
    }
    Redactor::new(&secrets)
}

impl TestCase {
    /// Returns the case as it is stored and shown: without keys, without the values of environment
    /// variables and headers, and without user and query of URLs.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut case = self.clone();
        case.variable_values.clear();
        for model in [&mut case.judge_config, &mut case.agent_config].into_iter().flatten() {
            model.api_key = None;
            if let Some(url) = &mut model.base_url {
                *url = url_without_secrets(url);
            }
        }
        for server in case.server_configs.iter_mut().flatten() {
            hide_server_secrets(server, |_| false);
        }
        case
    }
}

/// Hides secret arguments, user and query of URLs, and the values of variables and headers.
/// `is_public` returns whether a value of a variable or header stays.
pub(crate) fn hide_server_secrets(server: &mut ServerConfig, is_public: fn(&str) -> bool) {
    let values = match server {
        ServerConfig::Stdio { env, args, .. } => {
            *args = without_secret_args(args).shown;
            env
        }
        ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
            *url = url_without_secrets(url);
            headers
        }
    };
    for value in values.values_mut().filter(|value| !is_public(value)) {
        HIDDEN.clone_into(value);
    }
}

/// Shortens a text to `max_bytes`, and then appends `…`. Shorter texts stay as they are.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}{CUT_MARK}", &text[..text.floor_char_boundary(max_bytes)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_variables_are_secrets_whatever_their_names() {
        let mut case = TestCase::new("a", "b");
        case.variable_values = vec!["correct horse battery staple".to_owned()];
        let redactor = redactor_of(&case, &[]);
        let text = "V=correct horse battery staple!".to_owned();
        assert_eq!(redactor.redact(text), "V=…!");
        assert_eq!(case.redacted().variable_values, [""; 0]);
    }

    #[test]
    fn secrets_are_removed_from_the_case_and_from_texts_of_others() {
        let case: TestCase = serde_json::from_value(json!({
            "name": "a", "prompt": "b",
            "judgeConfig": {"provider": "openai", "model": "m", "apiKey": "sk-123456", "baseUrl": "https://u:pass-word@h/v1"},
            "serverConfigs": [
                {"type": "stdio", "command": "c", "env": {"API_TOKEN": "env-secret", "FOLDER": "/some/folder", "GH_PAT": "k1234", "NODE_ENV": "production",
                    "DATABASE": "postgres://u:db-secret9@h/x"},
                 "args": ["--api-key=arg-secret", "--token", "next-secret", "--header", "Authorization: Bearer head-secret", "--port", "8080", "/data"]},
                {"type": "http", "url": "https://h/mcp?key=url-secret", "headers": {"Authorization": "Bearer header-secret"}},
            ],
        }))
        .unwrap();
        let text = serde_json::to_string(&case.redacted()).unwrap();
        let args =
            ["env-secret", "k1234", "db-secret9", "arg-secret", "next-secret", "head-secret"];
        for secret in ["sk-123456", "pass-word", "url-secret", "header-secret"].iter().chain(&args)
        {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("\"--port\",\"8080\",\"/data\"]"), "{text}");
        let redactor = redactor_of(&case, &["sk-of-the-runner".to_owned()]);
        for secret in args.iter().chain(&["url-secret", "sk-of-the-runner"]) {
            assert_eq!(redactor.redact(format!("<{secret}>")), "<…>");
        }
        assert_eq!(redactor.redact("production".to_owned()), "production");
        // A text may be cut within a secret.
        let long = "found: env-secret, sk-of-the-runner";
        for (max, want) in [(14, "found: …"), (29, "found: …, …"), (19, "found: …, …")] {
            assert_eq!(redactor.redact(cut(long, max)), want);
        }
        let wrote =
            json!({"sk-123456": ["env-secret", {"a": "Bearer header-secret, /some/folder"}]});
        assert_eq!(
            redactor.redact_json(wrote),
            json!({"…": ["…", {"a": "Bearer …, /some/folder"}]})
        );
        let shown = format!("{case:?}");
        for secret in ["secret", "sk-123456", "pass-word"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert_eq!(redactor.redact("<pass-word>".to_owned()), "<…>");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a…");
        assert_eq!(cut("aä", 3), "aä");
    }
}
