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

#[cfg(test)]
mod tests {
    use super::*;

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
