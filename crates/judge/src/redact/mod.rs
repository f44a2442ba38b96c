//! Texts without secrets, and cut texts.

mod arguments;
mod plain;
mod reference;
mod search;

use serde_json::{Map, Value};

pub(crate) use self::{arguments::likely_secrets_of_url, reference::Reference};
use self::{
    arguments::{password_of, secrets_of_url, secrets_of_value, without_secret_args},
    search::Searcher,
};
use crate::{ServerConfig, TestCase};

/// Placeholder for a secret.
pub(crate) const HIDDEN: &str = "…";

/// Mark at the end of a text that was cut.
const CUT: char = '…';

/// Minimum length of a value that is searched for in other texts. Shorter values would be found by
/// chance.
const SHORTEST_SECRET: usize = 8;

/// The same for values of mixed letters and digits: they are not words, so shorter ones are
/// searched for, too.
const SHORTEST_MIXED_SECRET: usize = 5;

/// A `…` in the place of a secret may come after the beginning of another one, which is found at
/// the next pass. A text without secrets must stay as it is, or a replay would differ from its
/// recording; but a text that is made for it must not take passes without end.
const MAX_PASSES: usize = 4;

/// Words in the names of variables and arguments whose values are secrets.
const SECRET_WORDS: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "CREDENTIAL", "AUTH", "COOKIE", "BEARER"];

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        // A personal access token, and not a `PATH`.
        || name.split(['_', '-']).any(|part| part == "PAT" || part == "DSN")
}

fn is_mixed(text: impl AsRef<[u8]>) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_ref().iter().any(is);
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

fn is_long_enough(secret: &[u8]) -> bool {
    secret.len() >= SHORTEST_SECRET || (secret.len() >= SHORTEST_MIXED_SECRET && is_mixed(secret))
}

/// Returns whether a value is probably a secret, regardless of its variable's name: a URL with a
/// password, or letters and digits that are not a path.
fn looks_secret(value: &str) -> bool {
    let is_path = value.starts_with(['/', '.', '~']);
    password_of(value).is_some()
        || (!is_path
            && is_mixed(value)
            && value.len() >= 12
            && !value.contains(char::is_whitespace))
}

/// The secrets of a case, to be removed from what servers and models wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    searcher: Searcher,
}

impl Redactor {
    /// `known` are secrets of the runner, such as the keys of its models.
    pub(crate) fn of(case: &TestCase, known: &[String]) -> Self {
        let mut secrets: Vec<String> = known.to_vec();
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
                        if names_a_secret(name) || looks_secret(value) {
                            secrets.push(value.clone());
                        }
                    }
                    secrets.extend(without_secret_args(args).0);
                }
                ServerConfig::Sse { url, headers, .. }
                | ServerConfig::Http { url, headers, .. } => {
                    secrets.extend(secrets_of_url(url));
                    secrets.extend(headers.values().flat_map(|value| secrets_of_value(value)));
                }
            }
        }
        Self { searcher: Searcher::new(&secrets) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.searcher.is_empty()
    }

    /// Returns whether the secrets are too many or too long to be hidden in all texts of a trial.
    pub(crate) fn is_too_large(&self) -> bool {
        self.searcher.is_too_large()
    }

    pub(crate) fn text(&self, text: String) -> String {
        let mut text = text;
        for _ in 0..MAX_PASSES {
            let found = self.searcher.find(&text);
            if found.is_empty() {
                break;
            }
            let mut hidden = String::with_capacity(text.len());
            let mut after = 0;
            for range in found {
                hidden.push_str(&text[after..range.start]);
                hidden.push_str(HIDDEN);
                after = range.end;
            }
            hidden.push_str(&text[after..]);
            text = hidden;
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
    /// Returns the case without keys, values of environment variables and headers, and user and
    /// query of URLs: as it is stored and shown.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut case = self.clone();
        case.variable_values.clear();
        for model in [&mut case.judge_config, &mut case.agent_config].into_iter().flatten() {
            model.api_key = None;
            if let Some(url) = &mut model.base_url {
                *url = marquetry_protocol::client::without_secrets(url);
            }
        }
        for server in case.server_configs.iter_mut().flatten() {
            hide_server(server, |_| false);
        }
        case
    }
}

/// Hides the values of variables and headers, except those that `is_public` returns true for.
pub(crate) fn hide_server(server: &mut ServerConfig, is_public: fn(&str) -> bool) {
    let values = match server {
        ServerConfig::Stdio { env, args, .. } => {
            *args = without_secret_args(args).1;
            env
        }
        ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
            *url = marquetry_protocol::client::without_secrets(url);
            headers
        }
    };
    for value in values.values_mut().filter(|value| !is_public(value)) {
        HIDDEN.clone_into(value);
    }
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A redactor for one secret.
    fn hiding(secret: &str) -> Redactor {
        Redactor::of(&TestCase::default(), &[secret.to_owned()])
    }

    #[test]
    fn values_of_variables_are_secrets_whatever_their_names() {
        let mut case = TestCase::new("a", "b");
        case.variable_values = vec!["correct horse battery staple".to_owned()];
        let redactor = Redactor::of(&case, &[]);
        let text = "V=correct horse battery staple!".to_owned();
        assert_eq!(redactor.text(text), "V=…!");
        assert_eq!(case.redacted().variable_values, [""; 0]);
    }

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

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----\n";

    #[track_caller]
    fn check(secret: &str, text: &str, want: &str) {
        assert_eq!(hiding(secret).text(text.to_owned()), want);
    }

    #[test]
    fn encoded_and_decoded_secrets_are_found() {
        let quoted = "pass\"word\\/1";
        check(quoted, &json!({"key": quoted}).to_string(), r#"{"key":"…"}"#);
        check(
            quoted,
            &json!({"text": json!({"a": [quoted]}).to_string()}).to_string(),
            r#"{"text":"{\"a\":[\"…\"]}"}"#,
        );
        check(quoted, r#"{"key":"pass\u0022word\\\/1"}"#, r#"{"key":"…"}"#);
        check(quoted, "?key=pass%22word%5c%2F1&b=c%20d", "?key=…&b=c%20d");
        // A value as it is in a URL.
        check("pass%2Fword+1", "pass/word 1", "…");
        check("pässwörter", r"p\u00e4ssw\u00F6rter, p%C3%A4ssw%C3%B6rter", "…, …");
        check(KEY, &json!({"pem": KEY}).to_string(), r#"{"pem":"…"}"#);
        // Nothing else is changed.
        check(quoted, r#"{"a":"b\n%20+c"}"#, r#"{"a":"b\n%20+c"}"#);
    }

    #[test]
    fn lines_of_a_secret_are_found_by_themselves() {
        let lines: Vec<&str> = KEY.lines().collect();
        check(KEY, lines[1], "…");
        check(
            KEY,
            &lines.join("\r\n  "),
            "-----BEGIN PRIVATE KEY-----\r\n  …\r\n  …\r\n  -----END PRIVATE KEY-----",
        );
        check(&KEY.replace('\n', "\\n"), &format!("{} | {}", lines[1], lines[2]), "… | …");
        check(KEY, "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----");
    }

    #[test]
    fn the_beginning_of_a_secret_before_a_cut_is_removed_anywhere() {
        check(
            "env-secret-1",
            "found: env-sec… | and more; raise it",
            "found: … | and more; raise it",
        );
        check("env-\"secret\"", r#"{"a":"env-\"se…"#, r#"{"a":"…"#);
        check("env-\"secret\"", r#"{"a":"env-\… | b"#, r#"{"a":"env-\… | b"#);
        check("secret-\"12", r#"{"a":"secret-\u00… | b"#, r#"{"a":"… | b"#);
        check("secret-/12", "b=secret-%2…", "b=…");
        check("env-secret-1", "env-secret-1", "…");
        check("passw₠rd-1", "passw… | b", "… | b");
        check("env-secret-1", "env-senv-secret-1", "…");
        check("env-secret-1", "my env-sets… and more", "my env-sets… and more");
    }

    #[test]
    fn the_time_grows_with_the_length_of_the_text() {
        let case = hiding("env-secret-1");
        let started = std::time::Instant::now();
        // Each pass removes one beginning before the mark.
        let left = 6 * ((1 << 18) - MAX_PASSES) + 3;
        assert_eq!(case.text("env-se".repeat(1 << 18) + "…").len(), left);
        // Beginnings of a long secret begin at every byte.
        let long = hiding(&("a".repeat(200_000) + "b"));
        assert_eq!(long.text("a".repeat(1 << 20)).len(), 1 << 20);
        assert_eq!(case.text("env-secret-1 ".repeat(1 << 18)).len(), 4 << 18);
        assert_eq!(case.text("\\%4".repeat(1 << 20)).len(), 3 << 20);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    /// Encodes all bytes but ASCII letters and digits.
    fn percent_encoded(text: &str, is_upper: bool) -> String {
        let encoded = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte if is_upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        };
        text.bytes().map(encoded).collect()
    }

    /// JSON as some languages write it: in ASCII.
    fn in_ascii(json: &str) -> String {
        let mut units = [0; 2];
        let escaped = |one: char| match one {
            '"' | '\\' | ' '..='~' => one.to_string(),
            one => {
                one.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
        };
        json.chars().map(escaped).collect()
    }

    proptest! {
        #[test]
        fn no_form_of_any_secret_remains(secret in "[a-z%+\"\\\\/\n A4ä😀]{1,4}\\PC{0,4}[ -~\n]{8,60}[!-\\[\\]-~]", at: prop::sample::Index) {
            prop_assume!(is_long_enough(&plain::Plain::of(secret.as_bytes()).text));
            let once = json!(secret).to_string();
            let twice = json!({"a": json!({"b": secret}).to_string()}).to_string();
            let form = percent_encoded(&secret, true).replace("%20", "+");
            let encoded = [percent_encoded(&secret, false), percent_encoded(&percent_encoded(&secret, true), true)];
            let inner = |json: &str| json[1..json.len() - 1].to_owned();
            let ascii = in_ascii(&once);
            let mut forms = vec![inner(&once), inner(&once).replace('/', r"\/"), inner(&ascii), inner(&json!(inner(&once)).to_string()), form];
            forms.extend(encoded);
            forms.push(secret.clone());
            let redactor = hiding(&secret);
            for form in &forms {
                let text = format!("key \"{form}\", and ({form})");
                prop_assert_eq!(redactor.text(text), "key \"…\", and (…)", "{:?}", form);
            }
            let text = redactor.text(twice);
            prop_assert!(!text.contains(&*forms[3]), "{}", text);
            // The secret, too, is a form: of one that was encoded.
            let url = hiding(&percent_encoded(&secret, true));
            prop_assert_eq!(url.text(format!("<{secret}>")), "<…>");
            let end = at.index(secret.len());
            let text = redactor.text(format!("<{} | more", cut(&secret, end)));
            prop_assert!(text == "<… | more" || end < SHORTEST_MIXED_SECRET + 3, "{}", text);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a…");
        assert_eq!(cut("aä", 3), "aä");
    }
}
