//! Errors with the position in a file.

use std::fmt;

/// Why a configuration was refused: file, position, key, and what was expected there.
///
/// `Display` is one line in a form that editors and terminals turn into a link:
/// `marquetry.toml:3:1: server.lisen: unknown key; did you mean "listen"?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file as the user named it, or `command line`.
    pub file: String,
    /// Position in the file, if the fault has one.
    pub position: Option<Position>,
    /// The dotted path of the key, when the fault belongs to one.
    pub key: Option<String>,
    /// The problem and what was expected, as a lower-case fragment.
    pub problem: String,
}

/// A position in a text file, both counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl ConfigError {
    /// Returns an error of the file as a whole.
    #[must_use]
    pub fn of_file(file: &str, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, key: None, problem: problem.into() }
    }

    /// Returns an error of one key; `offset` is the start of its value in `text`.
    #[must_use]
    pub fn of_key(
        file: &str,
        text: &str,
        offset: Option<usize>,
        key: &[&str],
        problem: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            position: offset.map(|offset| Position::of(text, offset)),
            key: (!key.is_empty()).then(|| dotted(key)),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(position) = self.position {
            write!(f, ":{}:{}", position.line, position.column)?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl Position {
    /// Returns the position of byte `offset` in `text`. An offset past the end gives the end.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Returns the path of a key as TOML writes it, with quotes where they are needed.
#[must_use]
pub fn dotted(path: &[&str]) -> String {
    let quoted = path.iter().map(|part| {
        let bare = !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if bare { (*part).to_owned() } else { format!("{part:?}") }
    });
    quoted.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_characters_from_one() {
        let position = Position::of("a = 1\nä = \"日本\" x", 6 + 14);
        assert_eq!(position, Position { line: 2, column: 10 });
        assert_eq!(Position::of("a", 99), Position { line: 1, column: 2 });
    }

    #[test]
    fn keys_are_quoted_where_toml_would() {
        assert_eq!(dotted(&["mcp_servers", "my server", "env"]), r#"mcp_servers."my server".env"#);
    }
}
