//! The environment of this process.

/// The value of an environment variable; one that is not UTF-8 counts as missing.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
