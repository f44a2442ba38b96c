//! Removes known secrets from texts that others wrote.

use std::fmt;

use serde_json::{Map, Value};

use crate::{HIDDEN, search::Searcher};

/// Maximum number of passes over a text.
///
/// Replacing a secret can put `…` right after the beginning of another secret, which only then
/// looks cut and needs one more pass. The maximum bounds the time that a crafted text takes.
const MAX_PASSES: usize = 4;

/// Removes known secrets from texts: as they are, escaped as JSON, encoded for URLs or decoded,
/// line by line, and cut.
#[derive(Clone, Default)]
pub struct Redactor {
    searcher: Searcher,
}

impl Redactor {
    /// Creates a redactor of these secrets. Ignores secrets so short that ordinary text would
    /// contain them by chance.
    #[must_use]
    pub fn new(secrets: &[String]) -> Self {
        Self { searcher: Searcher::new(secrets) }
    }

    /// Returns whether there is nothing to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.searcher.is_empty()
    }

    /// Returns whether the secrets are too many or too long to be searched for in many texts.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.searcher.is_too_large()
    }

    /// Replaces each secret in a text by `…`. A text without secrets stays unchanged, so that a
    /// replay equals its recording.
    #[must_use]
    pub fn redact(&self, mut text: String) -> String {
        for _ in 0..MAX_PASSES {
            let found = self.searcher.find(&text);
            if found.is_empty() {
                break;
            }
            let mut redacted = String::with_capacity(text.len());
            let mut copied = 0;
            for secret in found {
                redacted.push_str(&text[copied..secret.start]);
                redacted.push_str(HIDDEN);
                copied = secret.end;
            }
            redacted.push_str(&text[copied..]);
            text = redacted;
        }
        text
    }

    /// Replaces each secret in the strings and member names of a JSON value by `…`.
    #[must_use]
    pub fn redact_json(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (self.redact(name), self.redact_json(value)))
                    .collect::<Map<_, _>>(),
            ),
            scalar => scalar,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Redactor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        CUT_MARK,
        plain::Plain,
        token::{SHORTEST_MIXED_SECRET, is_long_enough},
    };

    fn redactor_of(secret: &str) -> Redactor {
        Redactor::new(&[secret.to_owned()])
    }

    /// Cuts a text to `max_bytes` and appends the mark, as writers of cut texts do.
    fn cut(text: &str, max_bytes: usize) -> String {
        if text.len() <= max_bytes {
            return text.to_owned();
        }
        format!("{}{CUT_MARK}", &text[..text.floor_char_boundary(max_bytes)])
    }

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----\n";

    #[track_caller]
    fn check(secret: &str, text: &str, want: &str) {
        assert_eq!(redactor_of(secret).redact(text.to_owned()), want);
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
        // The secret is stored as it is in a URL, and the text has it decoded.
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
        let short = redactor_of("env-secret-1");
        let started = std::time::Instant::now();
        // Each pass removes one beginning of the secret before the mark.
        let left = 6 * ((1 << 18) - MAX_PASSES) + 3;
        assert_eq!(short.redact("env-se".repeat(1 << 18) + "…").len(), left);
        // A beginning of the long secret starts at every byte.
        let long = redactor_of(&("a".repeat(200_000) + "b"));
        assert_eq!(long.redact("a".repeat(1 << 20)).len(), 1 << 20);
        assert_eq!(short.redact("env-secret-1 ".repeat(1 << 18)).len(), 4 << 18);
        assert_eq!(short.redact("\\%4".repeat(1 << 20)).len(), 3 << 20);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    /// Encodes all bytes but ASCII letters and digits.
    fn percent_encoded(text: &str, is_upper: bool) -> String {
        text.bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                byte if is_upper => format!("%{byte:02X}"),
                byte => format!("%{byte:02x}"),
            })
            .collect()
    }

    /// JSON as some languages write it: in ASCII.
    fn in_ascii(json: &str) -> String {
        let mut units = [0; 2];
        json.chars()
            .map(|one| match one {
                '"' | '\\' | ' '..='~' => one.to_string(),
                one => one
                    .encode_utf16(&mut units)
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect(),
            })
            .collect()
    }

    fn unquoted(json: &str) -> String {
        json[1..json.len() - 1].to_owned()
    }

    proptest! {
        #[test]
        fn no_form_of_any_secret_remains(secret in "[a-z%+\"\\\\/\n A4ä😀]{1,4}\\PC{0,4}[ -~\n]{8,60}[!-\\[\\]-~]", at: prop::sample::Index) {
            prop_assume!(is_long_enough(&Plain::of(secret.as_bytes()).text));
            let once = json!(secret).to_string();
            let twice = json!({"a": json!({"b": secret}).to_string()}).to_string();
            let ascii = in_ascii(&once);
            let encoded = percent_encoded(&secret, true);
            let forms = [
                secret.clone(),
                unquoted(&once),
                unquoted(&once).replace('/', r"\/"),
                unquoted(&ascii),
                unquoted(&json!(unquoted(&once)).to_string()),
                encoded.replace("%20", "+"),
                percent_encoded(&secret, false),
                percent_encoded(&encoded, true),
            ];
            let redactor = redactor_of(&secret);
            for form in &forms {
                let text = format!("key \"{form}\", and ({form})");
                prop_assert_eq!(redactor.redact(text), "key \"…\", and (…)", "{:?}", form);
            }
            let text = redactor.redact(twice);
            let quoted_twice = unquoted(&json!(unquoted(&once)).to_string());
            prop_assert!(!text.contains(&quoted_twice), "{}", text);
            // A percent-encoded secret is found decoded, too.
            let url = redactor_of(&encoded);
            prop_assert_eq!(url.redact(format!("<{secret}>")), "<…>");
            let end = at.index(secret.len());
            let text = redactor.redact(format!("<{} | more", cut(&secret, end)));
            prop_assert!(text == "<… | more" || end < SHORTEST_MIXED_SECRET + 3, "{}", text);
        }
    }
}
