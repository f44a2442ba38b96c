//! Environment variables of this process.

/// Returns the value of an environment variable; [`None`] if it is not set or not UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
