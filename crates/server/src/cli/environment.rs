//! Environment variables of this process.

/// Returns the value of an environment variable; [`None`] if it is not set or not UTF-8.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns all environment variables but those that are not UTF-8.
pub(super) fn variables() -> Vec<(String, String)> {
    let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(utf8).collect()
}
