//! Secrets in the arguments of programs and in URLs.

use super::{HIDDEN, is_long_enough, is_mixed, names_a_secret};

/// Words of a token are at least this long. Shorter ones are in versions and names of packages, too.
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
    let query = match url.contains("://") {
        true => url.split_once(['?', '#']).map_or("", |(_, query)| query),
        false => "",
    };
    let values = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    password_of(url).into_iter().chain(values.map(|(_, value)| value)).map(str::to_owned)
}

/// Returns a value that is a secret, and its parts that are secrets by themselves: of `Bearer TOKEN`, `{"token": "TOKEN"}` or a URL with
/// a key, others may show the token alone.
pub(super) fn secrets_of_value(value: &str) -> Vec<String> {
    const AROUND: [char; 11] = ['"', '\'', '{', '}', '[', ']', '(', ')', ',', ';', ':'];
    let mut secrets: Vec<String> = secrets_of_url(value).collect();
    let words: Vec<&str> = value.split_whitespace().map(|word| word.trim_matches(AROUND)).collect();
    secrets.extend(words.iter().map(|word| (*word).to_owned()));
    match words[..] {
        // The scheme before a token is none.
        [_, token] if is_long_enough(token.as_bytes()) => {}
        _ => secrets.push(value.trim().to_owned()),
    }
    secrets
}

/// Returns the secrets among the arguments of a program, and the arguments without them.
pub(super) fn without_secret_args(args: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut secrets, mut hidden) = (Vec::new(), Vec::new());
    let mut is_value_of_secret = false;
    for arg in args {
        // A token may begin with a dash, too.
        let is_option = arg.starts_with('-') && !(is_value_of_secret && is_token(arg));
        let named = arg.split_once(['=', ':']).filter(|(name, _)| names_a_secret(name));
        if is_value_of_secret && !is_option {
            secrets.extend(secrets_of_value(arg));
            hidden.push(HIDDEN.to_owned());
        } else if let Some((name, value)) = named {
            secrets.extend(secrets_of_value(value));
            hidden.push(format!("{name}{}{HIDDEN}", &arg[name.len()..=name.len()]));
        } else {
            secrets.extend(secrets_of_url(arg));
            let mut shown = match arg.contains("://") {
                true => marquetry_protocol::client::without_secrets(arg),
                false => arg.clone(),
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

/// Whether a text is probably a token: it has a long word of letters and digits, as no name and no version has, and is no path.
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
        check(&["{\"token\": \"in-json\"}"], &["in-json"], &["{\"token\":…"]);
        check(&["--auth-url=https://h/?k=in-url"], &["in-url"], &["--auth-url=…"]);
    }

    #[test]
    fn urls_are_without_passwords_and_queries() {
        let url = "https://h/mcp?api_key=url-secret&b=other#token=third";
        check(
            &["mcp-remote", url],
            &["url-secret", "other", "third"],
            &["mcp-remote", "https://h/mcp"],
        );
        check(&["--url=ws://u:pass-word@h/x?k=v"], &["pass-word", "v"], &["--url=ws://h/x"]);
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
