//! Tokens that are recognisable by their form.

/// Minimum length of a value that is searched for in other texts. Shorter values would be found by
/// chance.
const SHORTEST_SECRET: usize = 8;

/// The same for values of mixed letters and digits: they are not words, so shorter ones are
/// searched for, too.
pub(crate) const SHORTEST_MIXED_SECRET: usize = 5;

/// Words of a token are at least this long. Shorter ones are in versions and names of packages,
/// too.
const SHORTEST_TOKEN_WORD: usize = 12;

/// Beginnings of the tokens of known providers, and how many letters, digits, `_`, `-` and `.`
/// follow at least. The numbers are below the lengths that the providers document, and above those
/// of names.
const PROVIDER_TOKENS: [(&str, usize); 20] = [
    ("AIza", 30), // Google
    ("AKIA", 16), // AWS, permanent
    ("ASIA", 16), // AWS, temporary
    ("eyJ", 30),  // JSON Web Token: `{"`
    ("ghp_", 20), // GitHub, and the five after it
    ("gho_", 20),
    ("ghs_", 20),
    ("ghu_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),   // GitLab
    ("hf_", 20),      // Hugging Face
    ("npm_", 20),     // npm
    ("pypi-", 30),    // PyPI
    ("rk_live_", 16), // Stripe
    ("sk-", 20),      // OpenAI, Anthropic
    ("sk_live_", 16), // Stripe
    ("xoxa-", 12),    // Slack, and the two after it
    ("xoxb-", 12),
    ("xoxp-", 12),
];

/// Returns the parts of an argument that are probably tokens, whatever they are called.
pub(crate) fn tokens(arg: &str) -> impl Iterator<Item = &str> {
    arg.split(|one: char| one.is_whitespace() || "=:,;&?#\"'{}[]()".contains(one))
        .filter(|part| is_token(part))
}

/// Returns whether a text is probably a token: it has a long word of letters and digits, as no name
/// and no version has, and is not a path.
pub(crate) fn is_token(text: &str) -> bool {
    let is_name = text.starts_with(['/', '.', '~', '@']);
    !is_name
        && (text.starts_with("sk-")
            || is_provider_token(text)
            || text.split(|one: char| !one.is_alphanumeric()).any(is_random))
}

fn is_random(word: &str) -> bool {
    let bytes = word.as_bytes();
    let has_both_cases =
        bytes.iter().any(u8::is_ascii_lowercase) && bytes.iter().any(u8::is_ascii_uppercase);
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    bytes.len() >= SHORTEST_TOKEN_WORD && is_mixed(word) && (has_both_cases || digits >= 3)
}

pub(crate) fn is_long_enough(secret: &[u8]) -> bool {
    secret.len() >= SHORTEST_SECRET || (secret.len() >= SHORTEST_MIXED_SECRET && is_mixed(secret))
}

pub(crate) fn is_mixed(text: impl AsRef<[u8]>) -> bool {
    let bytes = text.as_ref();
    bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Returns whether a word is a token of a known provider.
pub(crate) fn is_provider_token(word: &str) -> bool {
    // Most words are shorter than any token.
    const SHORTEST: usize = 16;
    // The full stop of a sentence.
    let word = word.trim_end_matches('.');
    word.len() >= SHORTEST
        && PROVIDER_TOKENS.iter().any(|(prefix, min_length)| {
            let Some(rest) = word.strip_prefix(prefix).filter(|rest| rest.len() >= *min_length)
            else {
                return false;
            };
            let is_plain =
                rest.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it));
            match *prefix {
                // Base64 of any JSON object, such as the cursor of a page, begins like this, too.
                "eyJ" => is_plain && rest.bytes().filter(|byte| *byte == b'.').count() >= 2,
                // Letters and digits of base32: some keys are without a digit.
                "AKIA" | "ASIA" => {
                    rest.len() == *min_length
                        && rest.bytes().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit())
                }
                _ => is_plain && is_mixed(rest),
            }
        })
}
