//! URIs of this server's own resources.

/// The schemes of this server's own resources: artifacts, and records of its knowledge.
const RESERVED_SCHEMES: [&str; 2] = ["artifact", "am7"];

/// Returns whether a URI, or the start of a URI template, has a scheme of this server's own.
/// Upstreams cannot have such resources, even if this server has no knowledge: the meaning of a URI
/// must not depend on that. Schemes ignore case (RFC 3986, 3.1).
pub(crate) fn is_reserved(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    RESERVED_SCHEMES.iter().any(|own| own.eq_ignore_ascii_case(scheme))
}

/// Returns the URI under which clients see a resource of a server if another server has one with
/// the same URI: `memory+note://a` for `note://a`. The scheme alone may change, since relative URIs
/// and templates depend on the rest. Schemes have letters, digits, `+`, `-` and `.` (RFC 3986,
/// 3.1).
pub(crate) fn uri_with_server(server: &str, uri: &str) -> String {
    let name = server.chars().map(|c| match c {
        '.' | '-' => c,
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '-',
    });
    let name: String = name.collect();
    let first = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "s" };
    format!("{first}{name}+{uri}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_becomes_a_part_of_the_scheme() {
        for (server, want) in
            [("Memory", "memory+n://a"), ("my server_2", "my-server-2+n://a"), ("2", "s2+n://a")]
        {
            assert_eq!(uri_with_server(server, "n://a"), want);
        }
    }

    #[test]
    fn own_schemes_are_known_however_they_are_written() {
        for (uri, want) in [
            ("artifact://a", true),
            ("Artifact:a", true),
            ("am7://default/x", true),
            ("AM7:", true),
            ("artifacts://a", false),
            ("x:artifact://a", false),
            ("artifact", false),
            ("", false),
        ] {
            assert_eq!(is_reserved(uri), want, "{uri}");
        }
    }
}
