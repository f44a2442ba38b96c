//! YAML in block style: the lines of an entry, and edits of its text.
//!
//! The text is not parsed for an edit: lines are found by their indentation, and the caller
//! compares the values before and after. Flow style (`{a: b}`), anchors and several documents in a
//! file are refused.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::{error::EditError, style::Style};

/// Returns the value of a text.
pub(crate) fn value_of(text: &str) -> Result<Value, EditError> {
    let is_blank = text
        .trim_start_matches('\u{feff}')
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value = serde_yaml::from_str(text).map_err(|error| {
        let location = error.location();
        let message = error.without_snippet().to_string();
        EditError::Syntax {
            line: location.map_or(1, |location| location.line() as usize),
            column: location.map_or(1, |location| location.column() as usize),
            problem: message.lines().next().unwrap_or_default().to_owned(),
        }
    })?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        _ => Err(EditError::NotAnObject { path: String::new() }),
    }
}

/// Sets the entry `section.name`.
pub(crate) fn set(
    text: &str,
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<String, EditError> {
    let Style { newline, .. } = Style::of(text);
    let Some(found) = find(text, section)? else {
        let mut edited = text.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            edited.push_str(newline);
        }
        edited.push_str(&format!("{section}:{newline}"));
        edited.push_str(&rendered(name, entry, "  ", newline));
        return Ok(edited);
    };
    if let Some(own) = found.entries.iter().find(|own| own.name == name) {
        let mut edited = text.to_owned();
        let with = rendered(name, entry, &found.indent, newline);
        edited.replace_range(own.lines.clone(), &with);
        return Ok(edited);
    }
    let with = rendered(name, entry, &found.indent, newline);
    let mut edited = text.to_owned();
    if let Some(value) = found.empty_value {
        // `extensions: {}` becomes `extensions:` with lines below it.
        edited.replace_range(value, "");
    }
    let removed = text.len() - edited.len();
    let at = found.end - removed;
    if !edited[..at].ends_with('\n') {
        edited.push_str(newline);
        edited.push_str(&with);
        return Ok(edited);
    }
    edited.insert_str(at, &with);
    Ok(edited)
}

/// Removes the entry `section.name`. An empty section stays as `{}`, because a key without a value
/// is null.
pub(crate) fn remove(text: &str, section: &str, name: &str) -> Result<String, EditError> {
    let Some(found) = find(text, section)? else { return Ok(text.to_owned()) };
    let Some(own) = found.entries.iter().find(|own| own.name == name) else {
        return Ok(text.to_owned());
    };
    let mut edited = text.to_owned();
    edited.replace_range(own.lines.clone(), "");
    if found.entries.len() == 1 {
        edited.insert_str(found.after_colon, " {}");
    }
    Ok(edited)
}

/// Removes the line of an empty section.
pub(crate) fn remove_empty_section(text: &str, section: &str) -> String {
    let Ok(Some(found)) = find(text, section) else { return text.to_owned() };
    let start = text[..found.after_colon].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[start..].find('\n').map_or(text.len(), |newline| start + newline + 1);
    let mut edited = text.to_owned();
    edited.replace_range(start..end, "");
    edited
}

/// A section of entries.
struct Found {
    /// The offset after the colon of its key.
    after_colon: usize,
    /// The range of `{}`, `~` or `null`, with the space before it.
    empty_value: Option<Range<usize>>,
    /// The indentation of its entries.
    indent: String,
    entries: Vec<Entry>,
    /// The offset after its last line.
    end: usize,
}

struct Entry {
    name: String,
    lines: Range<usize>,
}

/// A line of a text, with its end.
struct Line<'t> {
    start: usize,
    text: &'t str,
}

impl Line<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start_matches(' ').len()
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn is_comment(&self) -> bool {
        self.text.trim_start().starts_with('#')
    }
}

fn find(text: &str, section: &str) -> Result<Option<Found>, EditError> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let bom = if start == 0 && line.starts_with('\u{feff}') { 3 } else { 0 };
        lines.push(Line { start: start + bom, text: &line[bom..] });
        start += line.len();
    }
    let markers = lines.iter().filter(|line| line.text.trim_end() == "...").count();
    let documents = lines.iter().skip(1).filter(|line| is_document_start(line.text)).count();
    let is_first_content = lines.iter().take_while(|line| !is_document_start(line.text));
    let has_content_before = documents > 0
        && is_first_content
            .into_iter()
            .any(|line| !line.is_blank() && !line.is_comment() && !line.text.starts_with('%'));
    if markers > 0 || has_content_before || documents > 1 {
        return Err(unsupported(section, "in a file of several documents"));
    }
    let Some((at, rest)) = lines.iter().enumerate().find_map(|(at, line)| {
        let (key, rest) = key_of(line.text)?;
        (key == section && line.indent() == 0).then_some((at, rest))
    }) else {
        // The root may be in flow style, which no line can be added to.
        let root = lines
            .iter()
            .find(|line| !line.is_blank() && !line.is_comment() && !is_document_start(line.text));
        if root.is_some_and(|line| line.text.starts_with(['{', '['])) {
            return Err(unsupported(section, "in flow style"));
        }
        return Ok(None);
    };
    let line = &lines[at];
    let after_colon = line.end() - rest.len();
    let value = value_without_comment(rest);
    let empty_value = match value {
        "" => None,
        "{}" | "~" | "null" | "{ }" => {
            let offset = rest.find(value).unwrap_or_default();
            Some(after_colon..after_colon + offset + value.len())
        }
        _ if value.starts_with(['&', '*', '!']) => {
            return Err(unsupported(section, "with an anchor or a tag"));
        }
        _ => return Err(unsupported(section, "in flow style")),
    };
    let below = &lines[at + 1..];
    let length = below
        .iter()
        .position(|line| !line.is_blank() && !line.is_comment() && line.indent() == 0)
        .unwrap_or(below.len());
    let below = &below[..length];
    let Some(first) = below.iter().find(|line| !line.is_blank() && !line.is_comment()) else {
        let indent = "  ".to_owned();
        let end = line.end();
        return Ok(Some(Found { after_colon, empty_value, indent, entries: Vec::new(), end }));
    };
    if first.text.starts_with('\t') {
        return Err(unsupported(section, "with tabs"));
    }
    let depth = first.indent();
    let end = below.iter().rev().find(|line| belongs(line, depth)).map_or(line.end(), Line::end);
    let mut entries: Vec<Entry> = Vec::new();
    for line in below.iter().filter(|line| belongs(line, depth)) {
        if line.indent() > depth {
            if let Some(entry) = entries.last_mut() {
                entry.lines.end = line.end();
            }
            continue;
        }
        let Some((name, rest)) = key_of(line.text) else {
            return Err(unsupported(section, "in a form other than one key a line"));
        };
        if name == "<<" || value_without_comment(rest).starts_with(['&', '*']) {
            return Err(unsupported(section, "with an anchor"));
        }
        entries.push(Entry { name, lines: line.start..line.end() });
    }
    let indent = " ".repeat(depth);
    Ok(Some(Found { after_colon, empty_value, indent, entries, end }))
}

fn unsupported(section: &str, how: &'static str) -> EditError {
    EditError::Unsupported { section: section.to_owned(), how }
}

/// Returns whether a line is part of the entries at this indentation.
fn belongs(line: &Line<'_>, depth: usize) -> bool {
    !line.is_blank() && line.indent() >= depth && !(line.is_comment() && line.indent() <= depth)
}

fn is_document_start(line: &str) -> bool {
    line == "---"
        || line.starts_with("---\n")
        || line.starts_with("---\r")
        || line.starts_with("--- ")
}

/// Returns the key of a line and the text after its colon.
fn key_of(line: &str) -> Option<(String, &str)> {
    let line = line.trim_start_matches(' ');
    if line.starts_with(['#', '-', '?', '{', '[', '&', '*', '!', '|', '>', '%', '@', '`'])
        && !line.starts_with("---")
    {
        return None;
    }
    if let Some(quoted) = line.strip_prefix('\'') {
        let end = quoted.find('\'')?;
        let rest = quoted[end + 1..].trim_start_matches(' ').strip_prefix(':')?;
        return Some((quoted[..end].to_owned(), rest));
    }
    if line.starts_with('"') {
        let bytes = line.as_bytes();
        let mut end = 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let name = serde_json::from_str(line.get(..=end)?).ok()?;
        let rest = line[end + 1..].trim_start_matches(' ').strip_prefix(':')?;
        return Some((name, rest));
    }
    let colon = line.match_indices(':').map(|(at, _)| at).find(|at| {
        line[at + 1..].is_empty() || line[at + 1..].starts_with([' ', '\t', '\r', '\n'])
    })?;
    Some((line[..colon].trim_end().to_owned(), &line[colon + 1..]))
}

fn value_without_comment(rest: &str) -> &str {
    let value = rest.trim();
    if value.starts_with('#') {
        return "";
    }
    value.split(" #").next().unwrap_or(value).trim_end()
}

fn rendered(name: &str, entry: &Value, indent: &str, newline: &str) -> String {
    let mut lines = format!("{indent}{}:{newline}", scalar(name));
    for (key, value) in entry.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if !members.is_empty() => {
                lines.push_str(&format!("{indent}  {}:{newline}", scalar(key)));
                for (name, value) in members {
                    lines.push_str(&format!(
                        "{indent}    {}: {}{newline}",
                        scalar(name),
                        flow(value)
                    ));
                }
            }
            other => {
                lines.push_str(&format!("{indent}  {}: {}{newline}", scalar(key), flow(other)));
            }
        }
    }
    lines
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        // JSON is a part of YAML.
        other => other.to_string(),
    }
}

/// Renders a string: plain if that is clearly a string, else in double quotes.
fn scalar(text: &str) -> String {
    let is_word = text.contains(|c: char| c.is_ascii_alphabetic());
    let is_plain = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'.' | b':' | b'-' | b' '));
    let first_is_plain =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_' | '-'));
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_reserved = reserved.contains(&text.to_ascii_lowercase().as_str());
    let is_odd = text.starts_with("- ")
        || text.starts_with("---")
        || text.contains(": ")
        || text.ends_with([':', ' '])
        || text.starts_with("-.");
    if is_word && is_plain && first_is_plain && !is_reserved && !is_odd {
        return text.to_owned();
    }
    Value::from(text).to_string().replace('\u{7f}', "\\x7f")
}
