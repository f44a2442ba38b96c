//! Recognizes secrets by their form, whatever their names.

use std::{borrow::Cow, ops::Range};

use crate::{
    token::{is_long_enough, is_mixed, is_provider_token},
    url::{password_of, passwords, secrets_of_url},
};

/// Maximum length of a user and password after an option, in bytes.
const MAX_PASSWORD_BYTES: usize = 256;

/// Options of programs such as curl whose value is `user:password`.
const USER_OPTIONS: [&str; 4] = ["-u", "--proxy-user", "--user", "--userpwd"];

/// Returns a text with a placeholder in the place of each part that is recognisable as a secret:
/// tokens of known providers, private keys, the token after `Bearer` and `Basic`, passwords in
/// URLs, and passwords after `--user`.
///
/// ```
/// use marquetry_redact::without_secret_values;
///
/// let text = "curl --user anna:hunter2 https://example.com";
/// assert_eq!(without_secret_values(text, "…"), "curl --user anna:… https://example.com");
/// assert_eq!(without_secret_values("Basic understanding", "…"), "Basic understanding");
/// ```
#[must_use]
pub fn without_secret_values<'t>(text: &'t str, placeholder: &str) -> Cow<'t, str> {
    let mut secrets: Vec<Range<usize>> = private_keys(text).chain(passwords(text)).collect();
    secrets.extend(secret_words(text));
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    secrets.sort_by_key(|range| range.start);
    let mut redacted = String::with_capacity(text.len());
    let mut position = 0;
    for Range { start, end } in secrets {
        // Secrets may overlap, such as a token within a private key.
        if start >= position {
            redacted.push_str(&text[position..start]);
            redacted.push_str(placeholder);
        }
        position = position.max(end);
    }
    redacted.push_str(&text[position..]);
    Cow::Owned(redacted)
}

/// Returns the ranges of private keys in PEM. A key without an end extends to the end of the text.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    const END: &str = "PRIVATE KEY-----";
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..].find("-----BEGIN ")?;
            let label = start + "-----BEGIN ".len();
            let label_end = label + text[label..].find("-----")?;
            at = label_end + "-----".len();
            if !text[label..at].ends_with(END) {
                continue;
            }
            at = text[at..].find(END).map_or(text.len(), |end| at + end + END.len());
            return Some(start..at);
        }
    })
}

/// Returns the ranges of words that are secrets by their form or by the word before them.
fn secret_words(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let mut previous = "";
    let mut start = 0;
    // The text is `Bearer TOKEN`, and nothing else.
    let is_header = text.split_whitespace().take(3).count() == 2;
    for piece in text.split_inclusive(is_delimiter) {
        let word = piece.trim_end_matches(is_delimiter);
        if is_provider_token(word) || is_credential(previous, word, is_header) {
            secrets.push(start..start + word.len());
        } else if USER_OPTIONS.contains(&previous) {
            // Bounded, because a long text may name the option at each word.
            let rest = &text[start..text.floor_char_boundary(start + MAX_PASSWORD_BYTES)];
            let end = rest.find([' ', '\t', '\r', '\n', '"', '\'']).unwrap_or(rest.len());
            if let Some(password) = password_of_user(previous, &rest[..end]) {
                secrets.push(start + password.start..start + password.end);
            }
        }
        if !word.is_empty() {
            previous = word;
        }
        start += piece.len();
    }
    secrets
}

/// Returns whether a character separates words: white space, and punctuation that does not occur in
/// tokens.
fn is_delimiter(one: char) -> bool {
    let is_in_tokens =
        matches!(one, '#' | '$' | '%' | '*' | '+' | '-' | '.' | '/' | '@' | '^' | '_' | '~');
    one.is_whitespace() || (one.is_ascii_punctuation() && !is_in_tokens)
}

/// Returns the range of the password in the value of an option such as `--user`.
pub(crate) fn password_of_user(option: &str, value: &str) -> Option<Range<usize>> {
    let (user, password) = value.split_once(':').filter(|_| USER_OPTIONS.contains(&option))?;
    // Docker's `--user 1000:1000` and `--user node:node` name a user and a group.
    let is_group =
        user == password || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_url = password.starts_with("//");
    (!user.is_empty() && !password.is_empty() && !is_group && !is_url)
        .then_some(user.len() + 1..value.len())
}

/// Returns whether a word after the name of a scheme is the credential of an `Authorization`
/// header. Sentences have the same words ("basic understanding"). A word of letters alone therefore
/// counts only if the whole text is the value of such a header, or if the word has both capital and
/// small letters after its first character.
fn is_credential(scheme: &str, word: &str, is_header: bool) -> bool {
    const MIN_CREDENTIAL: usize = 14;
    let inner = word.as_bytes().get(1..).unwrap_or_default();
    (scheme.eq_ignore_ascii_case("basic") || scheme.eq_ignore_ascii_case("bearer"))
        && word.len() >= MIN_CREDENTIAL
        && (is_mixed(word)
            || (inner.iter().any(u8::is_ascii_uppercase)
                && inner.iter().any(u8::is_ascii_lowercase))
            || is_header)
}

/// Returns whether a value is probably a secret, whatever its name is: a URL with a password, or
/// letters and digits that are not a path.
#[must_use]
pub fn looks_secret(value: &str) -> bool {
    const MIN_BYTES: usize = 12;
    let is_path = value.starts_with(['/', '.', '~']);
    let is_word = !value.contains(char::is_whitespace);
    password_of(value).is_some()
        || (value.len() >= MIN_BYTES && is_word && is_mixed(value) && !is_path)
}

/// Returns the texts to redact for a value that is a secret: the value, and its parts that are
/// secrets by themselves. Other programs may show only the token of `Bearer TOKEN`, of `{"token":
/// "TOKEN"}` or of a URL.
#[must_use]
pub fn secrets_of_value(value: &str) -> Vec<String> {
    const PUNCTUATION: [char; 11] = ['"', '\'', '{', '}', '[', ']', '(', ')', ',', ';', ':'];
    let mut secrets: Vec<String> = secrets_of_url(value).collect();
    let words: Vec<&str> =
        value.split_whitespace().map(|word| word.trim_matches(PUNCTUATION)).collect();
    secrets.extend(words.iter().map(|word| (*word).to_owned()));
    match words[..] {
        // The scheme before a token is not a secret.
        [scheme, token] if is_scheme(scheme) && is_long_enough(token.as_bytes()) => {}
        _ => secrets.push(value.trim().to_owned()),
    }
    secrets
}

/// Returns whether a word is the name of an HTTP authentication scheme.
#[must_use]
pub fn is_scheme(word: &str) -> bool {
    ["basic", "bearer", "digest", "token"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(without_secret_values(text, "…"), want);
    }

    #[test]
    fn provider_tokens_are_found_anywhere() {
        check("AKIAIOSFODNN7EXAMPLE", "…");
        check("id = AKIAIOSFODNN7EXAMPLE, next", "id = …, next");
        check("ghp_16C7e42F292c6912E7710c838347", "…");
        check(r#"{"a": "sk-proj-0123456789abcdefghij"}"#, r#"{"a": "…"}"#);
        check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "…");
    }

    #[test]
    fn names_and_cursors_are_kept() {
        for text in [
            "AKIAIOSFODNN7EXAMPLES",
            "AKIA",
            "sk-learn",
            "eyJvZmZzZXQiOjEwMCwicGFnZSI6IjEifQ==",
            "hf_transformers",
            "0123456789abcdef0123456789abcdef",
            "a basic understanding of the bearer",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn credentials_of_headers_are_found() {
        check("Bearer abcdefghijklmnopqrstuv", "Bearer …");
        check("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic …==");
        check(
            "curl -H 'Authorization: Bearer 0123456789abcd' x",
            "curl -H 'Authorization: Bearer …' x",
        );
        check("a basic misunderstanding of it", "a basic misunderstanding of it");
    }

    #[test]
    fn passwords_of_users_are_found() {
        check("curl -u anna:pw https://h", "curl -u anna:… https://h");
        check("curl --user=anna:p;w\"", "curl --user=anna:…\"");
        check(
            "psql postgres://u:p@h/d and http://a:b@c",
            "psql postgres://u:…@h/d and http://a:…@c",
        );
        for text in [
            "docker run --user 1000:1000 x",
            "docker run -u node:node x",
            "x -u http://h",
            "user anna:pw",
            "https://u@h/a:b@c",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn private_keys_are_found_whole_and_cut() {
        const BEGIN: &str = "-----BEGIN RSA PRIVATE KEY-----";
        const END: &str = "-----END RSA PRIVATE KEY-----";
        check(&format!("a {BEGIN}\nAKIAIOSFODNN7EXAMPLE\n{END}\nb"), "a …\nb");
        check(&format!("{BEGIN}\nabc"), "…");
        let certificate = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----";
        check(certificate, certificate);
        check(&format!("{certificate}{BEGIN}x{END}"), &format!("{certificate}…"));
    }

    #[test]
    fn the_time_grows_with_the_length_of_the_text() {
        let started = std::time::Instant::now();
        for part in ["--user,", "bearer aaaaaaaaaaaaaa ", "://", "-----BEGIN PRIVATE KEY-----"] {
            let text = part.repeat((1 << 20) / part.len());
            assert!(without_secret_values(&text, "").len() <= text.len());
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn any_text_is_searched(text in "(-----BEGIN |-----|PRIVATE KEY|://|a:b@|--user |Bearer |[a-z0-9é]{1,4}| ){0,12}") {
            let shown = without_secret_values(&text, "");
            prop_assert!(shown.len() <= text.len());
        }
    }
}
