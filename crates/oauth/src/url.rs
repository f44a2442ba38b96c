//! Comparison of URLs.

use http::Uri;

use marquetry_protocol::client::parse_server_url;

/// Returns whether two texts name one issuer or resource.
///
/// Servers and people write a name with and without its last slash, in another case of the host,
/// or with the default port. None of these variants leads to another server: the addresses of the
/// metadata are the same ones.
pub(crate) fn same_url(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    // `Uri` drops fragments; a user is another identity.
    if [a, b].iter().any(|url| url.contains(['#', '@'])) {
        return false;
    }
    let (Ok(a), Ok(b)) = (parse_server_url(a), parse_server_url(b)) else { return false };
    same_origin(&a, &b) && path(&a) == path(&b) && a.query() == b.query()
}

/// Returns whether two URLs have the same origin (RFC 6454); default ports may be left out, and
/// case does not count.
pub(crate) fn same_origin(a: &Uri, b: &Uri) -> bool {
    let is_same_host = match (a.host(), b.host()) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (a, b) => a == b,
    };
    a.scheme() == b.scheme() && is_same_host && effective_port(a) == effective_port(b)
}

/// Returns scheme and authority, as written.
pub(crate) fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

/// Returns the path without its last slash.
fn path(uri: &Uri) -> &str {
    uri.path().strip_suffix('/').unwrap_or(uri.path())
}

/// Returns the port of a URL, or the default port of its scheme.
fn effective_port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_url_are_equal_and_others_are_not() {
        for (a, b, want) in [
            ("https://a.example", "https://a.example/", true),
            ("https://a.example/t/", "https://a.example/t", true),
            ("https://A.example:443", "https://a.example", true),
            ("urn:a", "urn:a", true),
            ("https://a.example/t//", "https://a.example/t", false),
            ("https://a.example/T", "https://a.example/t", false),
            ("https://a.example", "http://a.example", false),
            ("https://a.example:8443", "https://a.example", false),
            ("https://a.example", "https://a.example/?x", false),
            ("https://a.example/#x", "https://a.example", false),
            ("https://me@a.example", "https://a.example", false),
            ("https://a.example.evil.example", "https://a.example", false),
            ("a.example", "https://a.example", false),
            ("", "https://a.example", false),
        ] {
            assert_eq!(same_url(a, b), want, "{a} {b}");
            assert_eq!(same_url(b, a), want, "{b} {a}");
        }
    }
}
