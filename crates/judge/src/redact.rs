//! Texts without secrets, and cut texts.

use serde_json::{Map, Value};

use crate::{ModelSettings, ServerConfig, TestCase, store::Configuration};

/// Placeholder for a secret.
const HIDDEN: &str = "…";

/// Mark at the end of a text that was cut.
const CUT: char = '…';

/// Minimum length of a value that is searched for in other texts. Shorter values would be found by chance.
const SHORTEST_SECRET: usize = 8;

/// The same for values of mixed letters and digits: they are not words, so shorter ones are searched for, too.
const SHORTEST_MIXED_SECRET: usize = 5;

/// Words in the names of variables and arguments whose values are secrets.
const SECRET_WORDS: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "CREDENTIAL", "AUTH", "COOKIE", "BEARER"];

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        // A personal access token, and not a `PATH`.
        || name.split(['_', '-']).any(|part| part == "PAT" || part == "DSN")
}

fn is_mixed(text: &str) -> bool {
    text.bytes().any(|it| it.is_ascii_digit()) && text.bytes().any(|it| it.is_ascii_alphabetic())
}

/// Returns whether a value is probably a secret, regardless of its variable's name: a URL with a password, or letters and digits that
/// are not a path.
fn looks_secret(value: &str) -> bool {
    let is_path = value.starts_with(['/', '.', '~']);
    password_of(value).is_some()
        || (!is_path
            && is_mixed(value)
            && value.len() >= 12
            && !value.contains(char::is_whitespace))
}

/// Returns the password of a URL such as `postgres://user:password@host`.
fn password_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password).filter(|it| !it.is_empty())
}

/// Returns the password of a URL and the values of its query.
fn secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    password_of(url).into_iter().chain(values.map(|(_, value)| value)).map(str::to_owned)
}

/// Returns the secrets among the arguments of a program, and the arguments without them.
fn without_secret_args(args: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut secrets, mut hidden) = (Vec::new(), Vec::new());
    let mut is_value_of_secret = false;
    for arg in args {
        let is_option = arg.starts_with('-');
        let named = arg.split_once(['=', ':']).filter(|(name, _)| names_a_secret(name));
        if is_value_of_secret && !is_option {
            secrets.push(arg.clone());
            hidden.push(HIDDEN.to_owned());
        } else if let Some((name, value)) = named {
            // `--header "Authorization: Bearer TOKEN"`: the token alone is a secret, too.
            secrets.extend(value.split_whitespace().map(str::to_owned));
            hidden.push(format!("{name}{}{HIDDEN}", &arg[name.len()..=name.len()]));
        } else if arg.contains("://") {
            secrets.extend(password_of(arg).map(str::to_owned));
            hidden.push(marquetry_protocol::client::without_secrets(arg));
        } else if !is_option && arg.starts_with("sk-") {
            secrets.push(arg.clone());
            hidden.push(HIDDEN.to_owned());
        } else {
            hidden.push(arg.clone());
        }
        is_value_of_secret = is_option && named.is_none() && names_a_secret(arg);
    }
    (secrets, hidden)
}

/// The secrets of a case, to be removed from what servers and models wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// `known` are secrets of the runner, such as the keys of its models.
    pub(crate) fn of(case: &TestCase, known: &[String]) -> Self {
        let mut secrets: Vec<String> = known.to_vec();
        for model in [&case.judge_config, &case.agent_config].into_iter().flatten() {
            secrets.extend(model.api_key.clone());
            secrets.extend(model.base_url.iter().flat_map(|url| secrets_of_url(url)));
        }
        for server in case.server_configs.iter().flatten() {
            match server {
                ServerConfig::Stdio { env, args, .. } => {
                    for (name, value) in env {
                        if names_a_secret(name) || looks_secret(value) {
                            secrets.extend(password_of(value).map(str::to_owned));
                            secrets.push(value.clone());
                        }
                    }
                    secrets.extend(without_secret_args(args).0);
                }
                ServerConfig::Sse { url, headers, .. }
                | ServerConfig::Http { url, headers, .. } => {
                    secrets.extend(secrets_of_url(url));
                    for value in headers.values() {
                        // `Authorization: Bearer TOKEN`: the token alone is a secret, too.
                        secrets.extend(value.split_whitespace().map(str::to_owned));
                    }
                }
            }
        }
        secrets.retain(|secret| {
            secret.len() >= SHORTEST_SECRET
                || (secret.len() >= SHORTEST_MIXED_SECRET && is_mixed(secret))
        });
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
            if let Some(kept) = text.strip_suffix(CUT)
                && let Some(rest) = without_beginning_of(kept, secret)
            {
                text = format!("{rest}{CUT}");
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
        ServerConfig::Stdio { env, args, .. } => {
            *args = without_secret_args(args).1;
            env.values_mut().for_each(|value| *value = HIDDEN.to_owned());
        }
        ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
            *url = marquetry_protocol::client::without_secrets(url);
            headers.values_mut().for_each(|value| *value = HIDDEN.to_owned());
        }
    }
}

/// Returns a text without the beginning of a secret at its end, where the text was cut.
fn without_beginning_of<'a>(text: &'a str, secret: &str) -> Option<&'a str> {
    let lengths = (SHORTEST_MIXED_SECRET..secret.len()).rev();
    lengths.filter_map(|length| secret.get(..length)).find_map(|part| text.strip_suffix(part))
}

/// Returns a text cut to `max_bytes`, followed by `…` if it was cut.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
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
        let redactor = Redactor::of(&case, &["sk-of-the-runner".to_owned()]);
        for secret in args.iter().chain(&["url-secret", "sk-of-the-runner"]) {
            assert_eq!(redactor.text(format!("<{secret}>")), "<…>");
        }
        assert_eq!(redactor.text("production".to_owned()), "production");
        // A text may be cut within a secret.
        let long = "found: env-secret, sk-of-the-runner";
        for (most, want) in [(14, "found: …"), (29, "found: …, …"), (19, "found: …, …")] {
            assert_eq!(redactor.text(cut(long, most)), want);
        }
        let wrote =
            json!({"sk-123456": ["env-secret", {"a": "Bearer header-secret, /some/folder"}]});
        assert_eq!(redactor.value(wrote), json!({"…": ["…", {"a": "Bearer …, /some/folder"}]}));
        let shown = format!("{case:?}");
        for secret in ["secret", "sk-123456", "pass-word"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert_eq!(redactor.text("<pass-word>".to_owned()), "<…>");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a…");
        assert_eq!(cut("aä", 3), "aä");
    }
}
