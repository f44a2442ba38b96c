//! Normal forms of URIs (RFC 3986, section 6.2.2), so that one resource has one spelling.

use percent_encoding::percent_decode_str;

/// Returns the forms of a URI that patterns are compared with: its normal form, and, if it differs,
/// the form that a server makes of it that decodes everything before it looks at slashes and dots.
pub(crate) fn forms(uri: &str) -> (String, Option<String>) {
    let normal = normalised(uri);
    if let Some(above) = above_authority(uri) {
        return (normal, Some(above));
    }
    let decoded = decoded(&normal);
    let differs = decoded != normal;
    (normal, differs.then_some(decoded))
}

/// Returns the form of a URI whose dot segments lead above its path: that of a server that takes
/// the authority for the first part of a path. `None` for every other URI.
fn above_authority(uri: &str) -> Option<String> {
    let (scheme, _) = split_scheme(uri);
    let rest = slashes_decoded(split_scheme(uri).1);
    let path = rest.strip_prefix("//")?;
    let mut depth = 0_usize;
    for segment in path.split('/').skip(1) {
        match segment {
            "" | "." => {}
            ".." if depth == 0 => {
                let joined = without_dot_segments(&without_double_slashes(path));
                return Some(format!("{}://{joined}", scheme?.to_ascii_lowercase()));
            }
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    None
}

/// Returns a URI with scheme and host in lower case, without default ports and dot segments, and
/// with unreserved characters decoded.
pub(crate) fn normalised(uri: &str) -> String {
    let uri = with_unreserved_decoded(uri);
    let (scheme, rest) = split_scheme(&uri);
    let Some(scheme) = scheme else { return uri };
    let scheme = scheme.to_ascii_lowercase();
    let (path_and_query, authority) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (&rest[end..], Some(&rest[..end]))
        }
        None => (rest, None),
    };
    let mut normal = format!("{scheme}:");
    if let Some(authority) = authority {
        normal.push_str("//");
        normal.push_str(&normal_authority(&scheme, authority));
    }
    let end = path_and_query.find(['?', '#']).unwrap_or(path_and_query.len());
    normal.push_str(&without_dot_segments(&path_and_query[..end]));
    normal.push_str(&path_and_query[end..]);
    normal
}

/// Returns the text of a pattern with the case that normal forms have.
pub(crate) fn normal_pattern(pattern: &str) -> String {
    let pattern = with_unreserved_decoded(pattern);
    let (scheme, rest) = split_scheme(&pattern);
    let Some(scheme) = scheme else { return pattern };
    let end = rest.strip_prefix("//").map_or(0, |rest| 2 + rest.find('/').unwrap_or(rest.len()));
    let user = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!(
        "{}:{}{}{}",
        scheme.to_ascii_lowercase(),
        &rest[..user],
        rest[user..end].to_ascii_lowercase(),
        &rest[end..]
    )
}

/// Returns the text of a pattern with everything decoded; `None` if that changes nothing, or makes
/// wildcards.
pub(crate) fn decoded_pattern(pattern: &str) -> Option<String> {
    let decoded = percent_decode_str(pattern).decode_utf8_lossy();
    let wildcards = pattern.matches(['*', '?']).count();
    let has_more = decoded.matches(['*', '?']).count() > wildcards;
    (decoded != pattern && !has_more).then(|| decoded.into_owned())
}

/// Decodes everything, also what was encoded several times, and joins repeated slashes.
fn decoded(uri: &str) -> String {
    let (scheme, rest) = split_scheme(uri);
    let Some(scheme) = scheme else { return uri.to_owned() };
    let text = slashes_decoded(rest);
    let (authority, path) = match text.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, &*text),
    };
    let path = without_dot_segments(&without_double_slashes(path));
    match authority {
        Some(authority) => format!("{scheme}://{}{path}", authority.to_lowercase()),
        None => format!("{scheme}:{path}"),
    }
}

/// Decodes a text until nothing is left to decode, with slashes for backslashes.
fn slashes_decoded(text: &str) -> String {
    /// Servers decode once, proxies before them perhaps once more.
    const MAX_ROUNDS: usize = 4;
    let mut text = text.to_owned();
    for _ in 0..MAX_ROUNDS {
        let next = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if next == text {
            break;
        }
        text = next;
    }
    text.replace('\\', "/")
}

fn without_double_slashes(path: &str) -> String {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    path
}

/// Splits a URI behind its scheme.
fn split_scheme(uri: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = uri.split_once(':') else { return (None, uri) };
    let mut chars = scheme.chars();
    let is_scheme = chars.next().is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
    if is_scheme { (Some(scheme), rest) } else { (None, uri) }
}

fn normal_authority(scheme: &str, authority: &str) -> String {
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    let host = authority[user..].to_ascii_lowercase();
    let port = match scheme {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => ":",
    };
    let host = host.strip_suffix(port).or_else(|| host.strip_suffix(':')).unwrap_or(&host);
    format!("{}{host}", &authority[..user])
}

/// Removes the segments `.` and `..` of a path (RFC 3986, section 5.2.4).
fn without_dot_segments(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').peekable();
    // The empty segment before the first slash is not one that `..` may remove.
    let is_rooted = path.starts_with('/');
    if is_rooted {
        parts.next();
    }
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    format!("{}{}", if is_rooted { "/" } else { "" }, segments.join("/"))
}

/// Decodes percent-encoded unreserved characters, and writes the others with capital digits.
fn with_unreserved_decoded(uri: &str) -> String {
    let mut decoded = String::with_capacity(uri.len());
    let mut rest = uri;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let byte = rest.get(1..3).filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
        let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            decoded.push('%');
            rest = &rest[1..];
            continue;
        };
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            decoded.push(char::from(byte));
        } else {
            decoded.push_str(&format!("%{byte:02X}"));
        }
        rest = &rest[3..];
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_resource_has_one_spelling() {
        for (uri, normal, decoded) in [
            ("repo://acme/a", "repo://acme/a", None),
            ("REPO://Acme/A", "repo://acme/A", None),
            ("repo://acme/x/../secret/./a", "repo://acme/secret/a", None),
            ("repo://acme/%73ecret", "repo://acme/secret", None),
            ("repo://acme/x/%2e%2E/secret", "repo://acme/secret", None),
            ("repo://acme/../../a", "repo://acme/a", Some("repo://a")),
            ("DOC://pub/../secret/x", "doc://pub/secret/x", Some("doc://secret/x")),
            ("doc://pub/a/%2e%2e/..%2fsecret", "doc://pub/..%2Fsecret", Some("doc://secret")),
            ("doc://pub/a/../b", "doc://pub/b", None),
            ("repo://acme/a/..", "repo://acme/", None),
            (
                "repo://acme/x%2f..%2fsecret",
                "repo://acme/x%2F..%2Fsecret",
                Some("repo://acme/secret"),
            ),
            ("repo://acme/%252e%252e/a", "repo://acme/%252e%252e/a", Some("repo://a")),
            ("repo://acme//a", "repo://acme//a", Some("repo://acme/a")),
            ("repo://acme/x\\..\\a", "repo://acme/x\\..\\a", Some("repo://acme/a")),
            (
                "https://User@Example.com:443/a?b=..#c",
                "https://User@example.com/a?b=..#c",
                Some("https://user@example.com/a?b=..#c"),
            ),
            ("file:///a/./b", "file:///a/b", None),
            ("artifact:A", "artifact:A", None),
            ("no uri", "no uri", None),
            ("a%", "a%", None),
            ("x:%zz%2", "x:%zz%2", None),
        ] {
            let (found, further) = forms(uri);
            assert_eq!((found.as_str(), further.as_deref()), (normal, decoded), "{uri}");
        }
    }

    #[test]
    fn patterns_have_the_same_case() {
        assert_eq!(normal_pattern("REPO://Acme/Docs/**"), "repo://acme/Docs/**");
        assert_eq!(normal_pattern("HTTPS://User@Example.com"), "https://User@example.com");
        assert_eq!(normal_pattern("**"), "**");
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own(uri in "[aZ:/.%2eE?#@\\\\-]{0,24}") {
            let once = normalised(&uri);
            prop_assert_eq!(normalised(&once), once);
        }

        #[test]
        fn no_text_panics(uri in ".*") {
            forms(&uri);
            normal_pattern(&uri);
        }
    }
}
