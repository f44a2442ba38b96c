//! Detects YAML. Nearly every text is valid YAML, so only clear data counts.

use super::Sample;
use crate::structure::{Inspection, Node, inspect_yaml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A mapping, or a sequence with nested values.
    Nested,
    /// A sequence of scalars, as a list in prose could be.
    List,
}

/// Returns the shape of the document, if it is data.
pub(super) fn judge(sample: &Sample<'_>) -> Option<Shape> {
    let text = if sample.is_whole { sample.lines } else { whole_entries(sample.lines) };
    if !may_be_yaml(text) {
        return None;
    }
    shape(&inspect_yaml(text, 100, 6).ok()?)
}

fn shape(found: &Inspection) -> Option<Shape> {
    fn is_nested(node: &Node) -> bool {
        matches!(node, Node::Object { .. } | Node::Array { .. })
    }
    let mut has_labels = false;
    let mut has_mappings = false;
    let shape = match &found.root {
        Node::Leaf(_) => return None,
        Node::Object { members, count } => {
            let nested = members.iter().any(|(_, value)| is_nested(value));
            has_mappings = members.iter().any(|(_, value)| matches!(value, Node::Object { .. }));
            // Labels of a text for people begin with a capital: `Note: …`, `Weather: …`.
            has_labels = !nested
                && members
                    .iter()
                    .all(|(key, _)| key.starts_with(|first: char| first.is_uppercase()));
            (*count >= 2 || nested).then_some(Shape::Nested)
        }
        Node::Array { first: Some(first), .. } if is_nested(first) => Some(Shape::Nested),
        Node::Array { length, .. } => (*length >= 2).then_some(Shape::List),
    };
    // A text for people has no mappings in mappings, but data may have sentences.
    let is_prose = (found.sentences * 2 > found.strings && !has_mappings)
        || (has_labels && found.sentences > 0 && found.sentences * 2 == found.strings)
        || found.odd_keys > 0;
    shape.filter(|_| !is_prose)
}

/// Drops the last entry, which may be cut: everything from the last line that begins at the margin.
fn whole_entries(lines: &str) -> &str {
    let mut end = lines.len();
    while let Some(newline) = lines[..end].trim_end_matches('\n').rfind('\n') {
        end = newline + 1;
        if !lines[end..].starts_with([' ', '\t', '\n', '\r', '#', '-', ']', '}']) {
            return &lines[..end];
        }
        if lines[end..].starts_with("- ") {
            return &lines[..end];
        }
        end = newline;
    }
    ""
}

/// Checks quickly whether the first line with content is an entry, so that most prose is not
/// parsed.
fn may_be_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_end);
    let first = lines.find(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with('%') && line != "---"
    });
    // One line with a colon is a sentence or a message, whatever follows the colon.
    let has_more = lines.any(|line| !line.is_empty());
    first.is_some_and(|line| {
        let line = line.trim_start();
        if !has_more && !line.starts_with(['{', '[']) {
            return false;
        }
        line.ends_with(':')
            || line.contains(": ")
            || line.starts_with("- ")
            || line == "-"
            || line.starts_with(['{', '['])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_a_cut_sample_is_left_out() {
        assert_eq!(whole_entries("a: 1\nb:\n  c: 2\n  d"), "a: 1\n");
        assert_eq!(whole_entries("- a\n- b\n- c"), "- a\n- b\n");
        assert_eq!(whole_entries("a: 1"), "");
        assert_eq!(whole_entries("a:\n- 1\n- 2\n"), "a:\n- 1\n");
    }
}
