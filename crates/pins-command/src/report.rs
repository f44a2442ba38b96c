//! Texts that the command prints.

use std::fmt::Write as _;

use marquetry_pins::{PinnedItem, StoredDefinition};
use marquetry_printable::printable_json;
use serde_json::json;

use crate::{
    difference::{Edit, difference},
    lines::lines_of,
    visible::visible_line,
    words::marked_words,
};

/// Unchanged lines that are shown beside changed ones.
const CONTEXT: usize = 3;

/// Returns a table of pins.
pub(crate) fn list(items: &[PinnedItem<'_>]) -> String {
    if items.is_empty() {
        return "No server has pins yet.\n".to_owned();
    }
    let rows: Vec<[String; 4]> = items
        .iter()
        .map(|item| {
            let [server, name] = [item.server, item.name].map(visible_line);
            [state(item).to_owned(), server, item.kind.name().to_owned(), name]
        })
        .collect();
    let mut widths = [0; 3];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            // A longer cell moves only its own line.
            *width = (*width).max(cell.chars().count()).min(60);
        }
    }
    let [first, second, third] = widths;
    let mut text = String::new();
    for [state, server, kind, name] in rows {
        let line = format!("{state:first$}  {server:second$}  {kind:third$}  {name}");
        _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Returns pins as JSON.
pub(crate) fn list_as_json(items: &[PinnedItem<'_>]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|item| {
            json!({
                "server": item.server,
                "kind": item.kind.name(),
                "name": item.name,
                "state": state(item),
                "hash": item.accepted.map(|it| it.hash().to_string()),
                "waiting": item.waiting.map(|it| it.hash().to_string()),
            })
        })
        .collect();
    printable_json(&json!(items).to_string()) + "\n"
}

fn state(item: &PinnedItem<'_>) -> &'static str {
    match (item.accepted, item.waiting) {
        (_, None) => "pinned",
        (Some(_), Some(_)) => "changed",
        (None, Some(_)) => "new",
    }
}

/// Returns the name of a definition for people: `tool "add" of sums`.
pub(crate) fn shown_name(item: &PinnedItem<'_>) -> String {
    let [server, name] = [item.server, item.name].map(visible_line);
    if item.name.is_empty() {
        format!("the {} of {server}", item.kind)
    } else {
        format!("the {} \"{name}\" of {server}", item.kind)
    }
}

/// Returns how a definition that waits differs from its pin.
pub(crate) fn difference_of(item: &PinnedItem<'_>) -> String {
    let Some(waiting) = item.waiting else { return String::new() };
    let name = shown_name(item);
    let Some(new) = waiting.text() else {
        let hash = waiting.hash();
        return format!(
            "# {name}: {}; its text is too long to be stored, its hash is {hash}\n\n",
            state(item)
        );
    };
    let is_whole = item.accepted.is_none_or(|it| it.text().is_some());
    let note = if is_whole { "" } else { "; the old text was too long to be stored" };
    let old = item.accepted.and_then(StoredDefinition::text).map(lines_of).unwrap_or_default();
    let new = lines_of(new);
    let mut text = format!("# {name}: {}{note}\n", state(item));
    write_difference(&old, &new, &mut text);
    text.push('\n');
    text
}

fn write_difference(old: &[String], new: &[String], text: &mut String) {
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let lines = paired(&difference(&old, &new));
    let mut is_skipping = false;
    for (at, (mark, line)) in lines.iter().enumerate() {
        if is_near_change(&lines, at) {
            _ = writeln!(text, "{mark} {}", visible_line(line));
            is_skipping = false;
        } else if !is_skipping {
            text.push_str("  …\n");
            is_skipping = true;
        }
    }
}

fn is_near_change(lines: &[(char, String)], at: usize) -> bool {
    let near = &lines[at.saturating_sub(CONTEXT)..lines.len().min(at + CONTEXT + 1)];
    near.iter().any(|(mark, _)| *mark != ' ')
}

/// Returns the lines of a difference with their marks. Where as many lines are added as removed,
/// those with common words become one line.
fn paired(edits: &[Edit<&str>]) -> Vec<(char, String)> {
    let mut lines = Vec::new();
    let mut rest = edits;
    while let Some(first) = rest.first() {
        if let Edit::Kept(line) = first {
            lines.push((' ', (*line).to_owned()));
            rest = &rest[1..];
            continue;
        }
        let end = rest.iter().position(|edit| matches!(edit, Edit::Kept(_)));
        let (changed, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let removed: Vec<&str> = changed
            .iter()
            .filter_map(|edit| if let Edit::Removed(line) = edit { Some(*line) } else { None })
            .collect();
        let added: Vec<&str> = changed
            .iter()
            .filter_map(|edit| if let Edit::Added(line) = edit { Some(*line) } else { None })
            .collect();
        if removed.len() != added.len() {
            lines.extend(removed.iter().map(|line| ('-', (*line).to_owned())));
            lines.extend(added.iter().map(|line| ('+', (*line).to_owned())));
            continue;
        }
        for (old, new) in removed.into_iter().zip(added) {
            if let Some(marked) = marked_words(old, new) {
                lines.push(('~', marked));
            } else {
                lines.push(('-', old.to_owned()));
                lines.push(('+', new.to_owned()));
            }
        }
    }
    lines
}
