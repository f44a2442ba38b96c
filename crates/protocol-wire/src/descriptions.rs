//! Descriptions in JSON Schemas that are made of documentation comments.

use serde_json::Value;

/// Joins the lines of each paragraph in the descriptions of a JSON Schema.
///
/// Documentation comments become descriptions with the line ends of the source, which mean nothing
/// to a model or to a reader of a generated page. Empty lines, items of lists, tables and blocks of
/// code stay as they are.
///
/// ```
/// let mut schema = serde_json::json!({"description": "First line,\nsecond line.\n\nMore."});
/// marquetry_protocol_wire::join_description_lines(&mut schema);
/// assert_eq!(schema["description"], "First line, second line.\n\nMore.");
/// ```
pub fn join_description_lines(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "description" => *text = joined(text),
                    value => join_description_lines(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(join_description_lines),
        _ => {}
    }
}

fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_code = false;
    let mut ends_paragraph = true;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let begins_paragraph =
            is_code || is_fence || line.is_empty() || line.starts_with("    ") || is_item(line);
        if !joined.is_empty() {
            joined.push(if begins_paragraph || ends_paragraph { '\n' } else { ' ' });
        }
        let is_continued = !begins_paragraph && !ends_paragraph;
        joined.push_str(if is_continued { line.trim_start() } else { line });
        is_code ^= is_fence;
        ends_paragraph = is_code || is_fence || line.is_empty() || line.starts_with('|');
    }
    joined
}

/// Whether a line begins an item of a list, or is a row of a table.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    line.starts_with(['|', '#', '>'])
        || line.starts_with("- ")
        || line.starts_with("* ")
        || (number.len() < line.len() && number.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_lines_of_one_paragraph_are_joined() {
        for (text, want) in [
            ("one", "one"),
            ("one\ntwo\n\nthree\nfour", "one two\n\nthree four"),
            ("head:\n- a\n  b\n- c", "head:\n- a b\n- c"),
            ("1. a\n2. b", "1. a\n2. b"),
            ("| a |\n|---|\n| b |", "| a |\n|---|\n| b |"),
            ("code:\n```\na\nb\n```\nend", "code:\n```\na\nb\n```\nend"),
        ] {
            assert_eq!(joined(text), want, "{text}");
        }
    }

    #[test]
    fn descriptions_are_found_at_any_depth() {
        let mut schema = json!({
            "title": "a\nb",
            "properties": {"x": {"description": "a\nb"}},
            "anyOf": [{"description": "c\nd"}],
        });
        join_description_lines(&mut schema);
        let want = json!({
            "title": "a\nb",
            "properties": {"x": {"description": "a b"}},
            "anyOf": [{"description": "c d"}],
        });
        assert_eq!(schema, want);
    }
}
