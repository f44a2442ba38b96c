//! The README of a crate: it exists, it is the documentation of the crate, and it has a Rust
//! example that is compiled.

use std::{fs, io, path::Path};

/// The line of `lib.rs` that makes the README its documentation, so that rustdoc compiles the
/// examples.
const INCLUDE: &str = "#![doc = include_str!(\"../README.md\")]";

/// Returns the problem with the README of the crate in `folder`, if there is one.
pub(super) fn problem(folder: &Path) -> io::Result<Option<String>> {
    let Some(source) = read(&folder.join("src/lib.rs"))? else { return Ok(None) };
    let Some(readme) = read(&folder.join("README.md"))? else {
        return Ok(Some("no README.md".to_owned()));
    };
    if !source.lines().any(|line| line == INCLUDE) {
        return Ok(Some(format!(
            "a README.md that is not its documentation: lib.rs lacks {INCLUDE}"
        )));
    }
    if !has_example(&readme) {
        return Ok(Some("a README.md without an example in Rust that is compiled".to_owned()));
    }
    Ok(None)
}

/// Returns the text of a file, if the file exists.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the README has an example that rustdoc compiles.
fn has_example(readme: &str) -> bool {
    let mut is_inside = false;
    for line in readme.lines() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        if !is_inside && is_compiled(info) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

/// Returns whether rustdoc compiles a block with these words after its fence.
fn is_compiled(info: &str) -> bool {
    info.split(',').map(str::trim).all(|word| {
        matches!(word, "" | "rust" | "no_run" | "should_panic") || word.starts_with("edition")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(readme: Option<&str>, source: &str, want: Option<&str>) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        if let Some(readme) = readme {
            fs::write(folder.path().join("README.md"), readme).unwrap();
        }
        let problem = problem(folder.path()).unwrap();
        match want {
            None => assert_eq!(problem, None),
            Some(want) => {
                assert!(problem.as_deref().is_some_and(|it| it.contains(want)), "{problem:?}");
            }
        }
    }

    #[test]
    fn a_readme_with_an_example_is_right() {
        for fence in ["```", "```rust", "```no_run", "```rust,no_run"] {
            check(Some(&format!("# a\n\n{fence}\nlet a = 1;\n```\n")), INCLUDE, None);
        }
    }

    #[test]
    fn missing_parts_are_named() {
        check(None, INCLUDE, Some("no README.md"));
        check(Some("```\na();\n```\n"), "//! a", Some("not its documentation"));
        for fence in ["```text", "```sh", "```ignore", "```rust,ignore"] {
            let readme = format!("# a\n\n{fence}\na\n```\n");
            check(Some(&readme), INCLUDE, Some("without an example"));
        }
    }

    #[test]
    fn a_program_needs_no_readme() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(problem(folder.path()).unwrap(), None);
    }
}
