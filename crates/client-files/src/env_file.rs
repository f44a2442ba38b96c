//! Files of environment variables (`.env`), as VS Code and Cursor name them with `envFile`.

use std::{fs::File, io::Read as _, path::Path};

/// Reads the variables of a file, in their order.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if a line is not an assignment. The values may
/// be secret, so the error shows none.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    const MAX_BYTES: u64 = 1 << 20;
    let mut text = String::new();
    let file = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match file {
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        Ok(bytes) if bytes as u64 > MAX_BYTES => {
            Err(format!("{} has more than {MAX_BYTES} bytes", path.display()))
        }
        Ok(_) => {
            parse(&text).map_err(|line| format!("{}:{line}: expected NAME=value", path.display()))
        }
    }
}

/// Returns the assignments of a text, or the number of the first line that is not an assignment.
fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut variables = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(number)?;
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(number);
        }
        variables.push((name.to_owned(), value_of(value.trim())));
    }
    Ok(variables)
}

/// Returns a value without its quotes, or up to the comment after it.
fn value_of(value: &str) -> String {
    if let Some(inside) = quoted(value, '"') {
        return unescaped(inside);
    }
    if let Some(inside) = quoted(value, '\'') {
        return inside.to_owned();
    }
    let end = value.find(" #").unwrap_or(value.len());
    value[..end].trim_end().to_owned()
}

/// Returns the text between quotes at the start of a value.
fn quoted(value: &str, quote: char) -> Option<&str> {
    let rest = value.strip_prefix(quote)?;
    Some(&rest[..end_of_quoted(rest, quote)?])
}

/// Returns the position of the closing quote.
fn end_of_quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == quote && !escaped;
        escaped = quote == '"' && c == '\\' && !escaped;
        closes.then_some(at)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            other => plain.push(other.unwrap_or('\\')),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_comments_and_quotes() {
        let text = "\u{feff}# keys\nA=1\n\nexport B = two words # and a comment\nC=\"a # b\\n\\\"c\\\"\" # d\n\
                    D='${x} \\n'\nE=\nF=a#b\nG=\"open\n";
        let variables = parse(text).unwrap();
        let shown: Vec<_> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let want =
            ["A=1", "B=two words", "C=a # b\n\"c\"", "D=${x} \\n", "E=", "F=a#b", "G=\"open"];
        assert_eq!(shown, want);
    }

    #[test]
    fn an_invalid_line_is_reported_without_its_text() {
        assert_eq!(parse("A=1\nhush\n"), Err(2));
        assert_eq!(parse("A B=1\n"), Err(1));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        assert!(
            read(&path).unwrap_err().starts_with(&format!("{} cannot be read: ", path.display()))
        );
        std::fs::write(&path, "hush").unwrap();
        assert_eq!(read(&path).unwrap_err(), format!("{}:1: expected NAME=value", path.display()));
    }
}
