//! Secrets in URLs: passwords, and parameters.

use std::ops::Range;

use crate::{known::without_known_secrets, name::is_secret_variable, token::is_token};

/// Removes user, password, query and fragment from a URL, because they may be secrets: for messages
/// and logs.
///
/// ```
/// let url = "https://anna:hunter2@example.com/mcp?key=abc";
/// assert_eq!(marquetry_redact::url_without_secrets(url), "https://example.com/mcp");
/// ```
#[must_use]
pub fn url_without_secrets(url: &str) -> String {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let Some((scheme, rest)) = url.split_once("://") else {
        return without_known_secrets(url).into_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    without_known_secrets(format!("{scheme}://{host}{path}")).into_owned()
}

/// Returns the password of a URL and the values of its query and its fragment.
pub fn secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    let values = pairs_of_url(url).map(|(_, value)| value);
    password_of(url).into_iter().chain(values).map(str::to_owned)
}

/// Returns the password of a URL, and the values of its query and its fragment that are named or
/// look like secrets. Other values are ordinary words, such as the name of a project, which results
/// have to keep.
pub fn likely_secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    let values =
        pairs_of_url(url).filter(|(name, value)| is_secret_variable(name) || is_token(value));
    password_of(url).into_iter().chain(values.map(|(_, value)| value)).map(str::to_owned)
}

/// Returns the password of a URL such as `postgres://user:password@host`.
pub(crate) fn password_of(url: &str) -> Option<&str> {
    passwords(url).next().map(|range| &url[range])
}

/// Returns the places of the passwords of all URLs in a text.
pub(crate) fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, separator)| {
        let start = at + separator.len();
        let authority = text[start..].split(is_end_of_authority).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        let end = start + user.len();
        match user.split_once(':') {
            Some((_, "")) => None,
            Some((name, _)) => Some(start + name.len() + 1..end),
            // `https://TOKEN@github.com`.
            None => is_token(user).then_some(start..end),
        }
    })
}

/// Returns whether a character ends the authority of a URL, or the whole URL within a text.
fn is_end_of_authority(one: char) -> bool {
    matches!(one, '/' | '?' | '#' | '"' | '<' | '>') || one.is_whitespace()
}

fn pairs_of_url(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = if url.contains("://") {
        url.split_once(['?', '#']).map_or("", |(_, query)| query)
    } else {
        ""
    };
    query.split(['&', '#']).filter_map(|pair| pair.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            ("http://user:pw@h:1/p/q?key=hush#x", "http://h:1/p/q"),
            ("https://h", "https://h"),
            ("https://a@b@h/p@q", "https://h/p@q"),
            ("nonsense?x", "nonsense"),
        ] {
            assert_eq!(url_without_secrets(url), shown);
        }
    }

    #[test]
    fn passwords_are_found_in_the_authority_alone() {
        for (url, want) in [
            ("postgres://u:p@h/d", Some("p")),
            ("postgres://u:p:q@h", Some("p:q")),
            ("https://u@h/a:b@c", None),
            ("https://u:@h", None),
            ("mailto:a:b@c", None),
        ] {
            assert_eq!(password_of(url), want, "{url}");
        }
    }

    #[test]
    fn parameters_are_likely_secrets_by_name_or_form() {
        let url = "https://h/?key=k1&project=warehouse&id=Ab3dEf6hIj9kLmN#token=t1";
        let likely: Vec<String> = likely_secrets_of_url(url).collect();
        assert_eq!(likely, ["k1", "Ab3dEf6hIj9kLmN", "t1"]);
        assert_eq!(secrets_of_url(url).count(), 4);
    }
}
