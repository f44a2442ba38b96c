//! The challenges of a `WWW-Authenticate` header, which a server writes and a client reads.
//!
//! The crate `marquetry-oauth` gets and checks tokens.

use std::fmt;

/// A challenge: one way to authenticate that a server accepts (RFC 9110, section 11.6.1).
///
/// ```
/// use marquetry_protocol_wire::auth::Challenge;
///
/// let found = Challenge::parse(r#"Bearer scope="files:read", error="insufficient_scope", DPoP algs=ES256"#);
/// assert_eq!(found[0].get("scope"), Some("files:read"));
/// assert_eq!(found[1].scheme, "DPoP");
///
/// let written = Challenge::new("Bearer").with("realm", r#"a "b""#).to_string();
/// assert_eq!(written, r#"Bearer realm="a \"b\"""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The authentication scheme, as written; compare schemes without case.
    pub scheme: String,
    /// Parameters by name, in their order. Compare names without case, too.
    pub parameters: Vec<(String, String)>,
}

/// Maximum length of a parsed header, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of challenges, and of parameters of each challenge.
const MAX_PARTS: usize = 32;

impl Challenge {
    /// Returns a challenge without parameters.
    #[must_use]
    pub fn new(scheme: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), parameters: Vec::new() }
    }

    /// Adds a parameter. Characters that a header cannot contain become spaces.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        let value = value.as_ref().chars().map(|char| if is_quotable(char) { char } else { ' ' });
        self.parameters.push((name.to_owned(), value.collect()));
        self
    }

    /// Returns the first parameter with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut named =
            self.parameters.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Returns whether it is of that scheme.
    #[must_use]
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Parses the challenges in the value of one header. Text that is not valid is skipped up to
    /// the next comma. A value of more than 16 KiB is ignored.
    #[must_use]
    pub fn parse(header: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        if header.len() > MAX_BYTES {
            return found;
        }
        let mut rest = header;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return found;
            }
            let (word, after) = token(rest);
            if word.is_empty() {
                rest = after_comma(rest);
            } else if let Some((value, after)) = value(after) {
                // A parameter before any scheme is ignored.
                if let (Some(last), Some(value)) = (found.last_mut(), value)
                    && last.parameters.len() < MAX_PARTS
                {
                    last.parameters.push((word.to_owned(), value));
                }
                // Other text up to the next comma is not part of the parameter.
                rest = after_comma(after);
            } else if found.len() == MAX_PARTS {
                return found;
            } else {
                found.push(Self::new(word));
                rest = after_scheme(after);
            }
        }
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            write!(f, "{} {name}=\"{value}\"", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Returns a token of RFC 9110 at the start, and the rest.
fn token(text: &str) -> (&str, &str) {
    let end =
        text.find(|char: char| !(char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char)));
    text.split_at(end.unwrap_or(text.len()))
}

/// Parses `=` and a value. The inner `None` is a value without a closing quote; the outer `None` is
/// text without `=`.
fn value(text: &str) -> Option<(Option<String>, &str)> {
    let text = text.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let (word, after) = token(text);
        return (!word.is_empty()).then(|| (Some(word.to_owned()), after));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((Some(value), &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            _ => value.push(char),
        }
    }
    Some((None, ""))
}

/// Returns the text from the first parameter or the next challenge on. Skips a `token68`, which no
/// known scheme uses.
fn after_scheme(text: &str) -> &str {
    let trimmed = text.trim_start_matches([' ', '\t']);
    let (word, after) = token(trimmed);
    let is_parameter = trimmed.len() < text.len() && value(after).is_some();
    if trimmed.is_empty() || trimmed.starts_with(',') || (is_parameter && !word.is_empty()) {
        trimmed
    } else {
        after_comma(trimmed)
    }
}

fn after_comma(text: &str) -> &str {
    text.find(',').map_or("", |comma| &text[comma + 1..])
}

fn is_quotable(char: char) -> bool {
    char == ' ' || char.is_ascii_graphic()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_of_real_servers_are_read() {
        check("Bearer", "Bearer");
        check(r#"Bearer realm="x", scope="a b""#, r#"Bearer realm="x", scope="a b""#);
        check(
            r"bearer Scope = a ,error=invalid_token",
            r#"bearer Scope="a", error="invalid_token""#,
        );
        check(r#"Basic realm="a, b", Bearer x=1"#, r#"Basic realm="a, b" | Bearer x="1""#);
        check(r#"Negotiate abc==, Digest a="\"\\""#, r#"Negotiate | Digest a="\"\\""#);
        check("Bearer, DPoP algs=ES256,, ,Basic", r#"Bearer | DPoP algs="ES256" | Basic"#);
        check(
            r#"Bearer error="insufficient_scope" scope="a""#,
            r#"Bearer error="insufficient_scope""#,
        );
    }

    #[test]
    fn nonsense_is_skipped() {
        check("", "");
        check(" , ,", "");
        check(r#"scope="a", Bearer x=1"#, r#"Bearer x="1""#);
        check(r#"Bearer scope="a"#, "Bearer");
        check("Bearer;x=1, DPoP", "Bearer | DPoP");
        check("\u{e4}, Bearer a=\u{e4}, b=1", r#"Bearer b="1""#);
        check(&"Bearer a=1,".repeat(10_000), "");
    }

    #[test]
    fn names_and_schemes_differ_by_more_than_case() {
        let challenge = Challenge::new("bearer").with("Scope", "a");
        assert!(challenge.is("Bearer"));
        assert_eq!(challenge.get("sCOPE"), Some("a"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(Bearer|DPoP|[a-z]{1,3}|=|\"|,| |\\\\|\t|\u{e4}){0,40}") {
            prop_assert!(Challenge::parse(&text).len() <= 32);
        }

        #[test]
        fn written_challenges_are_read(parts in prop::collection::vec(
            ("[A-Za-z]{1,8}", prop::collection::vec(("[a-z_]{1,8}", "[ -~]{0,20}"), 0..4)), 0..4
        )) {
            let challenges: Vec<Challenge> =
                parts.into_iter().map(|(scheme, parameters)| Challenge { scheme, parameters }).collect();
            let text: Vec<String> = challenges.iter().map(ToString::to_string).collect();
            prop_assert_eq!(Challenge::parse(&text.join(", ")), challenges);
        }

        #[test]
        fn no_value_breaks_the_header(value in "\\PC{0,20}|[\\x00-\\x1f]{0,5}") {
            let text = Challenge::new("Bearer").with("error_description", value).to_string();
            prop_assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(Challenge::parse(&text).len(), 1);
        }
    }

    #[track_caller]
    fn check(header: &str, want: &str) {
        let found: Vec<String> = Challenge::parse(header).iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" | "), want);
    }
}
