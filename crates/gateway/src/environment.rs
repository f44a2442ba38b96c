//! Selects the environment variables that upstreams see.
//!
//! Tokens in the environment of this process must not reach every upstream. Upstreams see those of
//! [`is_default_variable`]; the configuration can name others.

use std::{collections::BTreeMap, ffi::OsString};

use marquetry_protocol::client::{is_default_variable, variable_matches as matches};

/// Variable with the number of nested Marquetry processes. Without this limit, a Marquetry that is
/// named in its own mcp.json would start itself forever.
pub(crate) const DEPTH: &str = "MARQUETRY_DEPTH";

/// Deepest nesting of Marquetry processes. Two can be intended; more are a mistake in an mcp.json.
pub(crate) const MAX_DEPTH: u32 = 3;

/// Returns the number of Marquetry processes above this one.
pub(crate) fn depth() -> u32 {
    std::env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// Returns the variables that every upstream sees or that `more` matches. A secret variable is
/// returned only if `more` has its exact name. Variables that are not UTF-8 are left out.
pub(crate) fn passed(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    more: &[String],
    secret_variables: &[String],
) -> BTreeMap<String, String> {
    readable(variables, |name| {
        (is_default_variable(name) || more.iter().any(|pattern| matches(pattern, name)))
            && (has_exact_name(more, name) || !has_exact_name(secret_variables, name))
    })
}

/// Returns whether a pattern of the list is this name, without a wildcard.
fn has_exact_name(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| !pattern.ends_with('*') && matches(pattern, name))
}

/// Returns all of `variables` except those that `secret_variables` names: upstreams must not see
/// the tokens of this server. Variables that are not UTF-8 are left out.
pub(crate) fn inherited(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    secret_variables: &[String],
) -> BTreeMap<String, String> {
    readable(variables, |name| !secret_variables.iter().any(|key| matches(key, name)))
}

fn readable(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    is_passed: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| is_passed(name))
        .filter_map(|(name, value)| {
            if let Ok(value) = value.into_string() {
                Some((name, value))
            } else {
                tracing::warn!(name, "environment variable is not UTF-8 and not passed on");
                None
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "PATH",
        "LC_ALL",
        "https_proxy",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "XDG_RUNTIME_DIR",
        "PATHS",
        "LC",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "NVM_DIR",
        "NVM_BIN",
        "EXACT",
        "EXACTLY",
    ];

    fn variables() -> impl Iterator<Item = (OsString, OsString)> {
        NAMES.iter().map(|name| (OsString::from(name), OsString::from("v")))
    }

    /// Returns the names that are passed, if `EXACTLY` is secret.
    fn passed_names(more: &[&str]) -> String {
        let more: Vec<String> = more.iter().map(|&name| name.to_owned()).collect();
        passed(variables(), &more, &["EXACTLY".to_owned()])
            .into_keys()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn only_the_usual_and_the_requested_variables_are_passed() {
        let always = "HTTPS_PROXY LC_ALL PATH SSL_CERT_FILE XDG_RUNTIME_DIR https_proxy";
        assert_eq!(passed_names(&[]), always);
        let more = "EXACT HTTPS_PROXY LC_ALL NVM_BIN NVM_DIR PATH SSL_CERT_FILE XDG_RUNTIME_DIR https_proxy";
        assert_eq!(passed_names(&["NVM_*", "EXACT"]), more);
        let but_the_door_key = NAMES.len() - 1;
        assert_eq!(passed_names(&["*"]).split(' ').count(), but_the_door_key);
        assert_eq!(passed_names(&["*", "EXACTLY"]).split(' ').count(), NAMES.len());
        let inherited = inherited(variables(), &["GITHUB_TOKEN".to_owned()]);
        assert_eq!(inherited.len(), NAMES.len() - 1);
        assert!(!inherited.contains_key("GITHUB_TOKEN"), "it opens our own door");
    }
}
