//! Environment variables of servers that must not see all of them.

/// A trailing `*` matches any suffix. The documentation of the setting `gateway.pass_env` lists
/// them.
const DEFAULT: [&str; 28] = [
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

/// Returns whether a server gets this variable even if its configuration does not name it. These
/// are the variables that programs need to run, and those for the user's language and for proxies.
/// Other variables may contain tokens, which not every server may see.
#[must_use]
pub fn is_default_variable(name: &str) -> bool {
    DEFAULT.iter().any(|pattern| variable_matches(pattern, name))
}

/// Returns whether a pattern is the name of a variable; a trailing `*` matches any suffix. On
/// Windows `Path` and `PATH` are the same.
#[must_use]
pub fn variable_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(head) => name.get(..head.len()).is_some_and(|start| is_same_name(start, head)),
        None => is_same_name(pattern, name),
    }
}

fn is_same_name(a: &str, b: &str) -> bool {
    if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_no_default() {
        for name in ["PATH", "LC_ALL", "https_proxy", "SSL_CERT_FILE", "XDG_RUNTIME_DIR"] {
            assert!(is_default_variable(name), "{name}");
        }
        for name in ["PATHS", "LC", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NVM_DIR", ""] {
            assert!(!is_default_variable(name), "{name}");
        }
    }
}
