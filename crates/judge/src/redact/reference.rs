//! References to variables: they take the place of secrets in stored configurations.

use marquetry_redact::is_scheme;

/// A reference to a variable, `${NAME}`, after the name of an authentication scheme if there is
/// one: `Bearer ${NAME}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    /// The scheme with the space after it; empty without a scheme.
    before: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Reference<'a> {
    /// Parses a value that consists of a reference. A value with any other text may contain a
    /// secret.
    pub(crate) fn parse(value: &'a str) -> Option<Self> {
        let (before, rest) = value.split_once("${")?;
        let name = rest.strip_suffix('}')?;
        let has_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'_');
        let has_only_a_scheme =
            before.is_empty() || before.strip_suffix(' ').is_some_and(is_scheme);
        (has_name && has_only_a_scheme).then_some(Self { before, name })
    }

    /// Returns the value with the variable's value in the place of the reference.
    pub(crate) fn resolved(self, value: &str) -> String {
        format!("{}{value}", self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(value: &str) -> Option<(&str, String)> {
        Reference::parse(value).map(|it| (it.name, it.resolved("v")))
    }

    #[test]
    fn a_reference_is_a_whole_value() {
        assert_eq!(resolved("${A_b1}"), Some(("A_b1", "v".to_owned())));
        assert_eq!(resolved("Bearer ${_T}"), Some(("_T", "Bearer v".to_owned())));
        for secret in [
            "",
            "secret",
            "${}",
            "${1A}",
            "${A-B}",
            "${A",
            "$A",
            "${A}b",
            "sk-1${A}",
            "word ${A}",
            "Bearer  ${A}",
            "${A}${B}",
            "…",
        ] {
            assert_eq!(resolved(secret), None, "{secret}");
        }
    }
}
