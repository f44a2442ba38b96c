//! URIs that are this server's own.

/// The schemes of this server's own resources: artifacts, and records of its knowledge.
const OWN: [&str; 2] = ["artifact", "am7"];

/// Whether a URI, or what a template of URIs begins with, has a scheme of this server's own. No upstream can have such
/// a resource, also while this server keeps no knowledge: what a URI means must not depend on that. Schemes are the
/// same in capital letters (RFC 3986, 3.1).
pub(crate) fn is_reserved(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    OWN.iter().any(|own| own.eq_ignore_ascii_case(scheme))
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
