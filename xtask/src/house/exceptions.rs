//! Crates that do not follow the rules yet. The list only shrinks: a crate that follows a rule is
//! removed from it.

/// Exceptions of a crate; 0 and `false` mean none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exceptions {
    /// Lines of source.
    pub(super) lines: usize,
    /// Modules that lie in circles.
    pub(super) circular_modules: usize,
    /// The README is missing, or has no example.
    pub(super) readme: bool,
}

/// The crates with exceptions, with the numbers that `cargo xtask house` counted. Lower a number
/// when a crate improves.
pub(super) const KNOWN: &[(&str, Exceptions)] = &[];

/// Compares a number of a crate with its limit and its exception.
pub(super) fn judge(
    name: &str,
    what: &str,
    number: usize,
    limit: usize,
    excepted: usize,
) -> Option<String> {
    if number <= limit {
        let is_stale = excepted > 0;
        return is_stale
            .then(|| format!("{name} has {number} {what}: take its exception off exceptions.rs"));
    }
    if number <= excepted {
        return None;
    }
    Some(if excepted == 0 {
        format!("{name} has {number} {what}; the limit is {limit}")
    } else {
        format!("{name} has {number} {what}; exceptions.rs allows {excepted} for it")
    })
}
