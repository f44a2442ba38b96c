//! TOML: the lines of a table, and edits of its text.
//!
//! `toml_edit` is not used: it writes line ends as `\n`, so that every line of a file with `\r\n`
//! would change.

use std::ops::Range;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::{error::EditError, style::Style};

/// Returns the value of a text.
pub(crate) fn value_of(text: &str) -> Result<Value, EditError> {
    let root = parse(text)?;
    Ok(json_of(&DeValue::Table(root)))
}

/// Sets the table `section.name`.
pub(crate) fn set(
    text: &str,
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<String, EditError> {
    let style = Style::of(text);
    let table = rendered(section, name, entry, style.newline);
    if let Some(runs) = runs_of(text, section, name)?
        && let Some(first) = runs.first().cloned()
    {
        // The new table takes the place of the old one; later parts of it go.
        let mut edited = text.to_owned();
        for run in runs[1..].iter().rev() {
            edited.replace_range(run.clone(), "");
        }
        edited.replace_range(first, &table);
        return Ok(edited);
    }
    if is_inline(text, section)? {
        return Err(EditError::Unsupported {
            section: section.to_owned(),
            how: "as an inline table",
        });
    }
    let mut edited = text.to_owned();
    let content = text.trim_start_matches('\u{feff}');
    if !content.is_empty() {
        if !content.ends_with('\n') {
            edited.push_str(style.newline);
        }
        edited.push_str(style.newline);
    }
    edited.push_str(&table);
    Ok(edited)
}

/// Removes the table `section.name` with its tables, and the blank line before it.
pub(crate) fn remove(text: &str, section: &str, name: &str) -> Result<String, EditError> {
    let Some(runs) = runs_of(text, section, name)? else { return Ok(text.to_owned()) };
    let mut edited = text.to_owned();
    for run in runs.iter().rev() {
        let mut start = run.start;
        let is_followed = text[run.end..].trim_start_matches([' ', '\t']);
        if is_followed.is_empty() || is_followed.starts_with(['\n', '\r']) {
            start = without_blank_line(text, start);
        }
        edited.replace_range(start..run.end, "");
    }
    Ok(edited)
}

/// Removes the header of an empty table.
pub(crate) fn remove_empty_section(text: &str, section: &str) -> Result<String, EditError> {
    let root = parse(text)?;
    let Some((key, _)) = root.iter().find(|(key, _)| &**key.get_ref() == section) else {
        return Ok(text.to_owned());
    };
    let start = shifted(text, key.span().start);
    let line = lines(text, start..start);
    let mut edited = text.to_owned();
    edited.replace_range(without_blank_line(text, line.start)..line.end, "");
    Ok(edited)
}

fn parse(text: &str) -> Result<DeTable<'_>, EditError> {
    let content = text.trim_start_matches('\u{feff}');
    let skipped = text.len() - content.len();
    let root = DeTable::parse(content).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start) + skipped;
        EditError::syntax(text, offset, error.message().trim())
    })?;
    Ok(root.into_inner())
}

/// Returns an offset of the parsed text in the whole text.
fn shifted(text: &str, offset: usize) -> usize {
    offset + (text.len() - text.trim_start_matches('\u{feff}').len())
}

fn is_inline(text: &str, section: &str) -> Result<bool, EditError> {
    let root = parse(text)?;
    let found = root.iter().find(|(key, _)| &**key.get_ref() == section);
    let Some((_, value)) = found else { return Ok(false) };
    let start = shifted(text, value.span().start);
    Ok(text[start..].starts_with('{') && matches!(value.get_ref(), DeValue::Table(_)))
}

/// Returns the lines of a table `section.name` with all below it, as runs that no other key
/// interrupts; [`None`] if there is no such table.
fn runs_of(text: &str, section: &str, name: &str) -> Result<Option<Vec<Range<usize>>>, EditError> {
    let root = parse(text)?;
    let mut own = Vec::new();
    let mut others = Vec::new();
    let mut is_found = false;
    for (key, value) in &root {
        if &**key.get_ref() != section {
            spans_of(key.span(), value, &mut others);
            continue;
        }
        let DeValue::Table(servers) = value.get_ref() else { continue };
        for (key, value) in servers {
            if &**key.get_ref() == name {
                is_found = true;
                spans_of(key.span(), value, &mut own);
            } else {
                spans_of(key.span(), value, &mut others);
            }
        }
    }
    if !is_found {
        return Ok(None);
    }
    own.sort_by_key(|span| span.start);
    others.sort_by_key(|span| span.start);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for span in own {
        let line = lines(text, shifted(text, span.start)..shifted(text, span.end));
        match runs.last_mut() {
            Some(run)
                if !others.iter().any(|other| {
                    let start = shifted(text, other.start);
                    run.start <= start && start < line.start
                }) =>
            {
                run.end = run.end.max(line.end);
            }
            _ => runs.push(line),
        }
    }
    let is_shared = others.iter().any(|other| {
        let start = shifted(text, other.start);
        runs.iter().any(|run| run.contains(&start))
    });
    if is_shared {
        return Err(EditError::Unsupported {
            section: section.to_owned(),
            how: "as an inline table",
        });
    }
    Ok(Some(runs))
}

/// Collects the spans of a key and of all keys and values below it.
fn spans_of(key: Range<usize>, value: &toml::Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    spans.push(key);
    match value.get_ref() {
        DeValue::Table(table) => {
            // The braces of an inline table may have lines of their own; a header has its line.
            spans.push(value.span());
            for (key, value) in table {
                spans_of(key.span(), value, spans);
            }
        }
        _ => spans.push(value.span()),
    }
}

/// Returns the range of the whole lines of a range.
fn lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let start = if start == 0 && text.starts_with('\u{feff}') { 3 } else { start };
    let last = range.end.max(range.start + 1).min(text.len());
    let end = text[last - usize::from(last > range.start)..].find('\n');
    let end =
        end.map_or(text.len(), |newline| last - usize::from(last > range.start) + newline + 1);
    start..end
}

/// Returns the start of the blank line before an offset, or the offset.
fn without_blank_line(text: &str, start: usize) -> usize {
    let before = &text[..start];
    for blank in ["\r\n\r\n", "\n\n"] {
        if before.ends_with(blank) {
            return start - blank.len() / 2;
        }
    }
    start
}

fn rendered(section: &str, name: &str, entry: &Value, newline: &str) -> String {
    let mut table = format!("[{section}.{}]{newline}", key(name));
    for (name, value) in entry.as_object().into_iter().flatten() {
        table.push_str(&format!("{} = {}{newline}", key(name), value_text(value)));
    }
    table
}

fn key(name: &str) -> String {
    let is_bare = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_bare { name.to_owned() } else { string(name) }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(value_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), value_text(value)))
                .collect();
            if members.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", members.join(", "))
            }
        }
        // TOML has no null; entries of this crate have none either.
        Value::Null => "\"\"".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Renders a string. The escapes of JSON are those of TOML; DEL needs one there alone.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn json_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref())))
            .collect::<Map<_, _>>()
            .into(),
        DeValue::Integer(number) => {
            let text = number.as_str().replace('_', "");
            i64::from_str_radix(&text, number.radix()).map_or_else(|_| text.into(), Value::from)
        }
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Datetime(value) => value.to_string().into(),
    }
}
