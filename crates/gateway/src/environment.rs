//! Which variables of this process a child process sees.
//!
//! Whoever starts a server from the internet does not mean to hand it every token in the shell. What programs need to run, speak the user's
//! language and reach the network through a proxy is passed on; the rest is named in the configuration.

use std::{collections::BTreeMap, ffi::OsString};

/// What every upstream sees; a `*` at the end stands for any rest. `gateway.pass_env` says the same to users.
const ALWAYS: [&str; 28] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_*",
    // Windows starts few programs without these.
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
];

/// Tells a child how many Marquetrys stand before it: one that names itself in its own mcp.json would start itself without end.
pub(crate) const DEPTH: &str = "MARQUETRY_DEPTH";

/// So many may stand behind one another; each beyond the first is somebody's intention, this many are nobody's.
pub(crate) const MOST_DEPTH: u32 = 3;

/// How many Marquetrys stand before this one.
pub(crate) fn depth() -> u32 {
    std::env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// Those of `variables` that every upstream sees, or that `more` names; of `secret_variables` those alone that it names in so
/// many words. One that is not UTF-8 is left out.
pub(crate) fn passed(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    more: &[String],
    secret_variables: &[String],
) -> BTreeMap<String, String> {
    let patterns = || ALWAYS.into_iter().chain(more.iter().map(String::as_str));
    let names = |list: &[String], name: &str| {
        list.iter().any(|one| !one.ends_with('*') && matches(one, name))
    };
    readable(variables, |name| {
        patterns().any(|pattern| matches(pattern, name))
            && (names(more, name) || !names(secret_variables, name))
    })
}

/// All of `variables` but those that `secret_variables` names: who may come in here is no upstream's business. One that is not UTF-8 is left out.
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
        .filter_map(|(name, value)| match value.into_string() {
            Ok(value) => Some((name, value)),
            Err(_) => {
                tracing::warn!(name, "environment variable is not UTF-8 and not passed on");
                None
            }
        })
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    // Windows does not tell `Path` from `PATH`.
    let same = |a: &str, b: &str| if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b };
    match pattern.strip_suffix('*') {
        Some(head) => name.get(..head.len()).is_some_and(|start| same(start, head)),
        None => same(pattern, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_passed_and_what_was_asked_for() {
        let names = [
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
        let variables = || names.map(|name| (OsString::from(name), OsString::from("v")));
        let kept = |more: &[&str]| {
            let more: Vec<String> = more.iter().map(|&name| name.to_owned()).collect();
            passed(variables(), &more, &["EXACTLY".to_owned()])
                .into_keys()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let always = "HTTPS_PROXY LC_ALL PATH SSL_CERT_FILE XDG_RUNTIME_DIR https_proxy";
        assert_eq!(kept(&[]), always);
        let more = "EXACT HTTPS_PROXY LC_ALL NVM_BIN NVM_DIR PATH SSL_CERT_FILE XDG_RUNTIME_DIR https_proxy";
        assert_eq!(kept(&["NVM_*", "EXACT"]), more);
        let but_the_door_key = names.len() - 1;
        assert_eq!(kept(&["*"]).split(' ').count(), but_the_door_key);
        assert_eq!(kept(&["*", "EXACTLY"]).split(' ').count(), names.len());
        let inherited = inherited(variables(), &["GITHUB_TOKEN".to_owned()]);
        assert_eq!(inherited.len(), names.len() - 1);
        assert!(!inherited.contains_key("GITHUB_TOKEN"), "it opens our own door");
    }
}
