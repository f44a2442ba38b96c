//! Comment lines that are too long. rustfmt leaves comments as they are.

use std::{fs, io, path::Path};

use super::modules::rust_files;

/// The longest comment line, in characters.
pub(super) const MAX_COLUMNS: usize = 100;

/// Returns where the comments of a crate have longer lines: its Rust files, and its manifest.
pub(super) fn long_lines(folder: &Path) -> io::Result<Vec<String>> {
    let manifest = folder.join("Cargo.toml");
    let mut found = places(&manifest, "#")?;
    for part in ["src", "tests", "examples", "benches"] {
        let part = folder.join(part);
        if part.is_dir() {
            for file in rust_files(&part)? {
                found.extend(places(&file, "//")?);
            }
        }
    }
    Ok(found)
}

fn places(file: &Path, marker: &str) -> io::Result<Vec<String>> {
    let lines = long_lines_of(&fs::read_to_string(file)?, marker);
    Ok(lines.into_iter().map(|line| format!("{}:{line}", file.display())).collect())
}

/// Returns the numbers of the comment lines that are too long. Code in examples, tables and words
/// that cannot be broken, such as addresses, have no limit.
fn long_lines_of(text: &str, marker: &str) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix(marker) else {
            is_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            is_code = !is_code;
        }
        let is_breakable = !is_code && !comment.starts_with('|') && comment.contains(' ');
        if is_breakable && line.chars().count() > MAX_COLUMNS {
            found.push(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_are_found() {
        let long = "a ".repeat(60);
        let text = format!(
            "/// {long}\n//! short\n    // {long}\n/// ```\n/// {long}\n/// ```\n/// | {long}\n// {}\nlet a = \"{long}\";",
            "a".repeat(120)
        );
        assert_eq!(long_lines_of(&text, "//"), [1, 3]);
        assert_eq!(long_lines_of(&format!("# {long}\na = 1 # {long}"), "#"), [1]);
        let umlauts = format!("// {} ä", "ä".repeat(95));
        assert_eq!(long_lines_of(&umlauts, "//"), [0; 0], "characters count, not bytes");
    }
}
