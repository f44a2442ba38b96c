//! Secrets in the arguments of programs and in URLs.

use serde_json::Value;

use super::{HIDDEN, is_long_enough, is_mixed, names_a_secret};

/// Words of a token are at least this long. Shorter ones are in versions and names of packages,
/// too.
const SHORTEST_TOKEN_WORD: usize = 12;

/// Returns the password of a URL such as `postgres://user:password@host`.
pub(super) fn password_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    match user.split_once(':') {
        Some((_, password)) => Some(password).filter(|it| !it.is_empty()),
        // `https://TOKEN@github.com`.
        None => Some(user).filter(|user| is_token(user)),
    }
}

/// Returns the password of a URL and the values of its query and its fragment.
pub(crate) fn secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    let values = pairs_of_url(url).map(|(_, value)| value);
    password_of(url).into_iter().chain(values).map(str::to_owned)
}

/// Returns the password of a URL, and the values of its query and its fragment that are named or
/// look like secrets. Other values are ordinary words, such as the name of a project, which results
/// and cassettes have to keep.
pub(crate) fn likely_secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    let values = pairs_of_url(url).filter(|(name, value)| names_a_secret(name) || is_token(value));
    password_of(url).into_iter().chain(values.map(|(_, value)| value)).map(str::to_owned)
}

fn pairs_of_url(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = if url.contains("://") {
        url.split_once(['?', '#']).map_or("", |(_, query)| query)
    } else {
        ""
    };
    query.split(['&', '#']).filter_map(|pair| pair.split_once('='))
}

/// Returns a value that is a secret, and its parts that are secrets by themselves: of
/// `Bearer TOKEN`, `{"token": "TOKEN"}` or a URL with a key, others may show the token alone.
pub(super) fn secrets_of_value(value: &str) -> Vec<String> {
    const AROUND: [char; 11] = ['"', '\'', '{', '}', '[', ']', '(', ')', ',', ';', ':'];
    let mut secrets: Vec<String> = secrets_of_url(value).collect();
    let words: Vec<&str> = value.split_whitespace().map(|word| word.trim_matches(AROUND)).collect();
    secrets.extend(words.iter().map(|word| (*word).to_owned()));
    match words[..] {
        // The scheme before a token is not a secret.
        [scheme, token] if is_scheme(scheme) && is_long_enough(token.as_bytes()) => {}
        _ => secrets.push(value.trim().to_owned()),
    }
    secrets
}

/// Returns whether a word is the name of an HTTP authentication scheme.
pub(super) fn is_scheme(word: &str) -> bool {
    ["basic", "bearer", "digest", "token"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Collects the texts of a JSON value whose names say that they are secret, or that look like
/// tokens, and hides them.
fn hide_in_json(value: &mut Value, is_named: bool, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) if is_named || is_token(text) => {
            secrets.extend(secrets_of_value(text));
            HIDDEN.clone_into(text);
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                hide_in_json(item, is_named, secrets);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                hide_in_json(member, is_named || names_a_secret(name), secrets);
            }
        }
        _ => {}
    }
}

/// Returns the secrets among the arguments of a program, and the arguments without them.
pub(super) fn without_secret_args(args: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut secrets, mut hidden) = (Vec::new(), Vec::new());
    let mut is_value_of_secret = false;
    for arg in args {
        let json = serde_json::from_str(arg).ok().filter(Value::is_object);
        let named = arg.split_once(['=', ':']).filter(|(name, _)| names_a_secret(name));
        // A token may begin with a dash, too.
        let is_option = arg.starts_with('-')
            && (arg.starts_with("--") || named.is_some() || !(is_value_of_secret && is_token(arg)));
        if let Some(mut json) = json {
            hide_in_json(&mut json, is_value_of_secret, &mut secrets);
            hidden.push(json.to_string());
        } else if is_value_of_secret && !is_option {
            secrets.extend(secrets_of_value(arg));
            secrets.extend(tokens(arg).map(str::to_owned));
            hidden.push(HIDDEN.to_owned());
        } else if let Some((name, value)) = named {
            secrets.extend(secrets_of_value(value));
            hidden.push(format!("{name}{}{HIDDEN}", &arg[name.len()..=name.len()]));
        } else {
            secrets.extend(likely_secrets_of_url(arg));
            let mut shown = if arg.contains("://") {
                marquetry_protocol::client::without_secrets(arg)
            } else {
                arg.clone()
            };
            for token in tokens(arg) {
                secrets.push(token.to_owned());
                shown = shown.replace(token, HIDDEN);
            }
            hidden.push(shown);
        }
        is_value_of_secret = is_option && named.is_none() && names_a_secret(arg);
    }
    (secrets, hidden)
}

/// Returns the parts of an argument that are probably tokens, whatever they are called.
fn tokens(arg: &str) -> impl Iterator<Item = &str> {
    let ends = |one: char| one.is_whitespace() || "=:,;&?#\"'{}[]()".contains(one);
    arg.split(ends).filter(|part| is_token(part))
}

/// Whether a text is probably a token: it has a long word of letters and digits, as no name and no
/// version has, and is no path.
fn is_token(text: &str) -> bool {
    let is_name = text.starts_with(['/', '.', '~', '@']);
    let is_random = |word: &str| {
        let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
        let digits = count(u8::is_ascii_digit);
        let has_both_cases = count(u8::is_ascii_lowercase) > 0 && count(u8::is_ascii_uppercase) > 0;
        word.len() >= SHORTEST_TOKEN_WORD && is_mixed(word) && (has_both_cases || digits >= 3)
    };
    !is_name
        && (text.starts_with("sk-")
            || text.split(|one: char| !one.is_alphanumeric()).any(is_random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], secrets: &[&str], hidden: &[&str]) {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (found, shown) = without_secret_args(&args);
        for secret in secrets {
            assert!(found.iter().any(|it| it == secret), "{secret}: {found:?}");
        }
        if secrets.is_empty() {
            assert!(found.is_empty(), "{found:?}");
        }
        assert_eq!(shown, hidden);
    }

    #[test]
    fn options_and_variables_with_secret_names_have_secret_values() {
        check(&["--api-key=arg-secret"], &["arg-secret"], &["--api-key=…"]);
        check(&["--token", "next-secret", "/data"], &["next-secret"], &["--token", "…", "/data"]);
        check(&["--token", "-Ab3dEf6hIj9k"], &["-Ab3dEf6hIj9k"], &["--token", "…"]);
        check(&["--token", "--verbose"], &[], &["--token", "--verbose"]);
        check(&["-e", "GH_TOKEN=some-words"], &["some-words"], &["-e", "GH_TOKEN=…"]);
        let header = ["--header", "Authorization: Bearer head-secret"];
        check(&header, &["head-secret"], &["--header", "Authorization:…"]);
        check(&["--password", "blue elephants"], &["blue elephants"], &["--password", "…"]);
        // Their names are like those of secrets, but they are switches.
        let token = "Ab3dEf6hIj9kLmN";
        let key = format!("--api-key={token}");
        check(&["--use-keyring", &key], &[token], &["--use-keyring", "--api-key=…"]);
        check(&["--no-auth", &format!("--id={token}")], &[token], &["--no-auth", "--id=…"]);
    }

    #[test]
    fn names_in_json_are_not_secrets() {
        check(&["{\"token\": \"in-json\"}"], &["in-json"], &["{\"token\":\"…\"}"]);
        let given = r#"{"apiKey":"k-12345678","parameters":{"region":"eu"}}"#;
        let args = [given.to_owned()];
        let (secrets, hidden) = without_secret_args(&args);
        assert!(secrets.iter().all(|it| it == "k-12345678"), "{secrets:?}");
        assert_eq!(hidden, [r#"{"apiKey":"…","parameters":{"region":"eu"}}"#]);
        check(&["--auth-url=https://h/?k=in-url"], &["in-url"], &["--auth-url=…"]);
    }

    #[test]
    fn urls_are_without_passwords_and_queries() {
        let url = "https://h/mcp?api_key=url-secret&b=other#token=third";
        check(&["mcp-remote", url], &["url-secret", "third"], &["mcp-remote", "https://h/mcp"]);
        check(&["https://h/mcp?project=warehouse"], &[], &["https://h/mcp"]);
        check(&["--url=ws://u:pass-word@h/x?k=v"], &["pass-word"], &["--url=ws://h/x"]);
        let token = "ghp_16C7e42F292c6912E7710c838347";
        check(&[&format!("https://{token}@h/x")], &[token], &["https://h/x"]);
    }

    #[test]
    fn positional_tokens_are_found_and_names_are_not() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl";
        check(&["run", jwt], &[jwt], &["run", "…"]);
        check(&["sk-short"], &["sk-short"], &["…"]);
        let variable = "OTHER=0123456789abcdef";
        check(&["-e", variable], &["0123456789abcdef"], &["-e", "OTHER=…"]);
        let names = [
            "-y",
            "@modelcontextprotocol/server-everything@2025.8.18",
            "mcp-server-elasticsearch8",
            "/srv/0123456789abcdef/x",
            "http://127.0.0.1:8080/mcp",
            "--port",
            "8080",
            "--log=info",
        ];
        check(&names, &[], &names);
    }
}
