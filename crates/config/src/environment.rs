//! Environment variables of this process, and the user's folders that they name.

use std::{ffi::OsString, path::PathBuf};

/// Returns the value of an environment variable; [`None`] if it is not set or not UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the user's folder that the variable `name` has, or else the one `below_home`.
///
/// A relative path in these variables does not count (XDG Base Directory Specification).
pub(crate) fn user_folder(
    variable: &dyn Fn(&str) -> Option<OsString>,
    name: &str,
    below_home: &str,
) -> Option<PathBuf> {
    absolute_path(variable, name)
        .or_else(|| Some(absolute_path(variable, "HOME")?.join(below_home)))
}

fn absolute_path(variable: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn state(variables: &[(&str, &str)]) -> Option<PathBuf> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        user_folder(&|name| Some(variables.get(name)?.into()), "XDG_STATE_HOME", ".local/state")
    }

    #[test]
    fn relative_folders_do_not_count() {
        let home = ("HOME", "/home/a");
        assert_eq!(state(&[("XDG_STATE_HOME", "/state"), home]), Some("/state".into()));
        for relative in ["", "state"] {
            let found = state(&[("XDG_STATE_HOME", relative), home]);
            assert_eq!(found, Some("/home/a/.local/state".into()));
        }
        assert_eq!(state(&[("HOME", "")]), None);
        assert_eq!(state(&[]), None);
    }
}
