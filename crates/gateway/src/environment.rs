//! Selects the environment variables that upstreams see.
//!
//! Tokens in the environment of this process must not reach every upstream. Upstreams see the
//! variables of [`is_default_variable`], and those that the configuration names.

use std::{collections::BTreeMap, ffi::OsString};

use marquetry_protocol::client::{is_default_variable, variable_matches as matches};

/// Variable that counts nested Marquetry processes. Without a limit, a Marquetry that its own
/// mcp.json names would start itself for ever.
pub(crate) const DEPTH_VARIABLE: &str = "MARQUETRY_DEPTH";

/// Maximum nesting of Marquetry processes. One Marquetry below another can be intended; deeper
/// nesting is a mistake in an mcp.json.
pub(crate) const MAX_DEPTH: u32 = 3;

/// Returns the number of Marquetry processes above this one.
pub(crate) fn depth() -> u32 {
    std::env::var(DEPTH_VARIABLE).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// Returns the variables that every upstream sees, and those that a pattern of `pass_env` matches.
/// A secret variable is returned only if `pass_env` has its exact name. Variables that are not
/// UTF-8 are left out.
pub(crate) fn selected_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    pass_env: &[String],
    secret_variables: &[String],
) -> BTreeMap<String, String> {
    utf8_variables(variables, |name| {
        let is_selected =
            is_default_variable(name) || pass_env.iter().any(|pattern| matches(pattern, name));
        let is_secret = has_exact_name(secret_variables, name);
        is_selected && (!is_secret || has_exact_name(pass_env, name))
    })
}

/// Returns whether a pattern of the list is this name, without a wildcard.
fn has_exact_name(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| !pattern.ends_with('*') && matches(pattern, name))
}

/// Returns all of `variables` except those that `secret_variables` names: upstreams must not see
/// the tokens of this server. Variables that are not UTF-8 are left out.
pub(crate) fn inherited_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    secret_variables: &[String],
) -> BTreeMap<String, String> {
    utf8_variables(variables, |name| !secret_variables.iter().any(|key| matches(key, name)))
}

/// Returns the variables that `is_passed` selects. Those that are not UTF-8 are left out and
/// logged.
fn utf8_variables(
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
    fn passed_names(pass_env: &[&str]) -> String {
        let pass_env: Vec<String> = pass_env.iter().map(|&name| name.to_owned()).collect();
        selected_variables(variables(), &pass_env, &["EXACTLY".to_owned()])
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
        let all_but_the_secret = NAMES.len() - 1;
        assert_eq!(passed_names(&["*"]).split(' ').count(), all_but_the_secret);
        assert_eq!(passed_names(&["*", "EXACTLY"]).split(' ').count(), NAMES.len());
        let inherited = inherited_variables(variables(), &["GITHUB_TOKEN".to_owned()]);
        assert_eq!(inherited.len(), NAMES.len() - 1);
        assert!(!inherited.contains_key("GITHUB_TOKEN"));
    }
}
