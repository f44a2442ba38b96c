//! Secrets in the arguments of programs.

use serde_json::Value;

use crate::{
    HIDDEN,
    name::is_secret_variable,
    token::{is_token, tokens},
    url::{likely_secrets_of_url, url_without_secrets},
    value::{password_of_user, secrets_of_value},
};

/// The arguments of a program without their secrets.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedactedArguments {
    /// The arguments, with `…` in the place of each secret.
    pub shown: Vec<String>,
    /// The secrets, to be removed from other texts, too. Parts of a secret that others may show
    /// alone are listed beside it.
    pub secrets: Vec<String>,
}

/// Removes secrets from the arguments of a program: values of options and variables with secret
/// names, passwords after `--user`, members of JSON with secret names, users and queries of URLs,
/// and whatever looks like a token.
///
/// ```
/// let args = ["--api-key", "k-123", "-e", "GH_TOKEN=abc", "/data"].map(str::to_owned);
/// let redacted = marquetry_redact::without_secret_args(&args);
/// assert_eq!(redacted.shown, ["--api-key", "…", "-e", "GH_TOKEN=…", "/data"]);
/// assert!(redacted.secrets.iter().any(|secret| secret == "k-123"));
/// ```
#[must_use]
pub fn without_secret_args(args: &[String]) -> RedactedArguments {
    let mut redacted = RedactedArguments::default();
    // The option that this argument is a value of.
    let mut option = "";
    for arg in args {
        let is_value_of_secret = !option.is_empty() && is_secret_variable(option);
        let named = arg.split_once(['=', ':']).filter(|(name, _)| is_secret_variable(name));
        // A token may begin with a dash, too.
        let is_option = arg.starts_with('-')
            && (arg.starts_with("--") || named.is_some() || !(is_value_of_secret && is_token(arg)));
        let json = serde_json::from_str(arg).ok().filter(Value::is_object);
        if let Some(mut json) = json {
            hide_in_json(&mut json, is_value_of_secret, &mut redacted.secrets);
            redacted.shown.push(json.to_string());
        } else if is_value_of_secret && !is_option {
            redacted.secrets.extend(secrets_of_value(arg));
            redacted.secrets.extend(tokens(arg).map(str::to_owned));
            redacted.shown.push(HIDDEN.to_owned());
        } else if let Some((name, value)) = named {
            redacted.secrets.extend(secrets_of_value(value));
            redacted.shown.push(format!("{name}{}{HIDDEN}", &arg[name.len()..=name.len()]));
        } else {
            redacted.hide_unnamed(option, arg);
        }
        option = if is_option && named.is_none() { arg } else { "" };
    }
    redacted
}

impl RedactedArguments {
    /// Adds an argument that is neither JSON nor has a secret name; `option` is the one before it.
    fn hide_unnamed(&mut self, option: &str, arg: &str) {
        let (option, value) = arg.split_once('=').unwrap_or((option, arg));
        if let Some(password) = password_of_user(option, value) {
            self.secrets.extend([value[password.clone()].to_owned(), value.to_owned()]);
            let before_password = &arg[..arg.len() - password.len()];
            self.shown.push(format!("{before_password}{HIDDEN}"));
            return;
        }
        self.secrets.extend(likely_secrets_of_url(arg));
        let mut shown = if arg.contains("://") { url_without_secrets(arg) } else { arg.to_owned() };
        for token in tokens(arg) {
            self.secrets.push(token.to_owned());
            shown = shown.replace(token, HIDDEN);
        }
        self.shown.push(shown);
    }
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
                hide_in_json(member, is_named || is_secret_variable(name), secrets);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], secrets: &[&str], hidden: &[&str]) {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let RedactedArguments { secrets: found, shown } = without_secret_args(&args);
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
        let RedactedArguments { secrets, shown } = without_secret_args(&args);
        assert!(secrets.iter().all(|it| it == "k-12345678"), "{secrets:?}");
        assert_eq!(shown, [r#"{"apiKey":"…","parameters":{"region":"eu"}}"#]);
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

    #[test]
    fn passwords_after_users_are_secret_and_groups_are_not() {
        check(&["--user", "anna:pw-1"], &["pw-1", "anna:pw-1"], &["--user", "anna:…"]);
        check(&["-u", "anna:pw-1", "-v"], &["pw-1"], &["-u", "anna:…", "-v"]);
        check(&["--user=anna:a=b:c"], &["a=b:c"], &["--user=anna:…"]);
        let groups = ["run", "--user", "1000:1000", "-u", "node:node", "-u", "http://h:1/x"];
        check(&groups, &[], &groups);
    }

    #[test]
    fn tokens_of_providers_and_whole_words_of_names_are_secret() {
        let key = "AKIAIOSFODNN7EXAMPLE";
        check(&["--id", key], &[key], &["--id", "…"]);
        let names = ["--author=anna-12", "--monkey", "abcdefgh", "--keyring", "login"];
        check(&names, &[], &names);
    }
}
