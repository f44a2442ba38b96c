//! Names whose values are secret: the one list of them.

/// Words that make a name secret, and all-lowercase pairs of words, such as `sessionid`.
const WORDS: [&str; 17] = [
    "auth",
    "bearer",
    "dbpass",
    "dsn",
    "encryptionkey",
    "jwt",
    "masterkey",
    "oauth",
    "otp",
    "passcode",
    "pat",
    "pwd",
    "sessionid",
    "signingkey",
    "sshpass",
    "subscriptionkey",
    "userpass",
];

/// Ends of words that make a name secret. They are long enough to mean nothing else, so they are
/// found in names without separators, too: `dbpassword`, `accesstoken`.
const ENDINGS: [&str; 17] = [
    "accesskey",
    "accesskeys",
    "apikey",
    "apikeys",
    "authorization",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "secret",
    "secrets",
    // Without the plural: counts of tokens are common in tools for language models.
    "token",
];

/// Words that make a name secret at its end only: `pass_rate` and `pin_position` are not secret.
const LAST_WORDS: [&str; 2] = ["pass", "pin"];

/// Last words of names that tell something about secrets, but not the secrets: `token_count`.
const ABOUT: [&str; 5] = ["budget", "count", "counts", "limit", "usage"];

/// Returns whether a member of an object, a header or a parameter of this name probably holds a
/// secret.
///
/// Names are compared word by word, in any of the usual notations:
///
/// ```
/// use marquetry_redact::is_secret_name;
///
/// for secret in ["api_key", "apiKey", "X-API-Key", "Set-Cookie", "DB_PASSWORD", "dbpassword"] {
///     assert!(is_secret_name(secret), "{secret}");
/// }
/// for public in ["author", "key", "max_tokens", "token_count", "progressToken", "compass"] {
///     assert!(!is_secret_name(public), "{public}");
/// }
/// ```
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    has_secret_word(&words(name))
}

/// Returns whether a variable or an option of a program of this name probably holds a secret.
///
/// These names are stricter than those of members: a variable `OPENAI_KEY` or an option `--key`
/// holds a key, but a member `key` is mostly the name of a record, such as `PROJ-12`.
#[must_use]
pub fn is_secret_variable(name: &str) -> bool {
    let words = words(name);
    has_secret_word(&words) || words.iter().any(|word| matches!(&**word, "key" | "keys" | "tokens"))
}

fn has_secret_word(words: &[String]) -> bool {
    let Some(last) = words.last() else { return false };
    if ABOUT.contains(&&**last) {
        return false;
    }
    // MCP's token of progress notifications is the only name of the protocol that looks secret.
    if matches!(words, [progress, token] if progress == "progress" && token == "token") {
        return false;
    }
    LAST_WORDS.contains(&&**last)
        || words.iter().any(|word| is_secret_word(word))
        || words.windows(2).any(|pair| is_secret_word(&pair.concat()))
}

fn is_secret_word(word: &str) -> bool {
    WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// Splits a name at separators and before capitals, in lower case and without digits at the end of
/// a word: `XApi-Key2` has the words `x`, `api` and `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            end_word(&mut word, &mut words);
            before = None;
            continue;
        }
        let starts_word = character.is_uppercase()
            && before.is_some_and(|before| {
                // `apiKey`, and the `K` of `APIKey`.
                !before.is_uppercase() || characters.peek().is_some_and(|next| next.is_lowercase())
            });
        if starts_word {
            end_word(&mut word, &mut words);
        }
        word.extend(character.to_lowercase());
        before = Some(character);
    }
    end_word(&mut word, &mut words);
    words
}

fn end_word(word: &mut String, words: &mut Vec<String>) {
    let letters = word.trim_end_matches(|character: char| character.is_ascii_digit());
    if !letters.is_empty() {
        words.push(letters.to_owned());
    }
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        for (name, want) in [
            ("x-api-key", "x api key"),
            ("apiKey", "api key"),
            ("APIKey2", "api key"),
            ("OAuthToken", "o auth token"),
            ("AUTH0_DOMAIN", "auth domain"),
            ("--db.Password", "db password"),
            ("_1_", ""),
        ] {
            assert_eq!(words(name).join(" "), want, "{name}");
        }
    }

    /// The page of the console has the same rules, and a test with the same names:
    /// `tests/browser/console-schema.test.mjs`.
    #[test]
    fn secret_names_are_found_in_every_notation() {
        #[derive(serde::Deserialize)]
        struct Names {
            secret: Vec<String>,
            public: Vec<String>,
        }
        let names: Names = serde_json::from_str(include_str!("../names.json")).unwrap();
        assert!(names.secret.len() > 40 && names.public.len() > 20);
        for name in names.secret {
            assert!(is_secret_name(&name), "{name}");
        }
        for name in names.public {
            assert!(!is_secret_name(&name), "{name}");
        }
    }

    #[test]
    fn variables_and_options_named_key_are_secret() {
        for name in ["OPENAI_KEY", "--key", "SIGNING_KEYS", "API_TOKENS", "token"] {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in ["KEYCLOAK_URL", "--use-keyring", "MONKEY", "PATH", "AUTHOR"] {
            assert!(!is_secret_variable(name), "{name}");
        }
    }
}
