//! The list of tools for people.

use std::fmt::Write as _;

use marquetry_printable::printable_line;
use marquetry_protocol::types::Tool;
use serde_json::Value;

/// Returns each tool with its arguments, and the first line of its description.
pub(crate) fn text<'a>(tools: impl Iterator<Item = &'a Tool>) -> String {
    const MAX_CHARS: usize = 100;
    let mut text = String::new();
    for tool in tools {
        _ = writeln!(text, "{}({})", printable_line(&tool.name), arguments(&tool.input_schema));
        let description = tool.description.as_deref().or(tool.title.as_deref());
        let line = description.unwrap_or_default().lines().map(str::trim).find(|it| !it.is_empty());
        if let Some(line) = line {
            let start: String = line.chars().take(MAX_CHARS).collect();
            let end = if start.len() < line.len() { "…" } else { "" };
            _ = writeln!(text, "    {}{end}", printable_line(&start));
        }
    }
    text
}

/// Returns the arguments of a tool on one line: `path: string, limit?: integer`.
fn arguments(schema: &Value) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let shown = properties.into_iter().flatten().map(|(name, property)| {
        let mark = if required.contains(&&**name) { "" } else { "?" };
        printable_line(&format!("{name}{mark}: {}", type_name(property)))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the type of an argument, or its values.
fn type_name(schema: &Value) -> String {
    const MAX_VALUES: usize = 6;
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values.iter().take(MAX_VALUES).map(ToString::to_string).collect();
        let more = if values.len() > MAX_VALUES { " | …" } else { "" };
        return shown.join(" | ") + more;
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => {
            let items = schema.get("items").and_then(|items| items.get("type"));
            match items.and_then(Value::as_str) {
                Some(items) => format!("{items}[]"),
                None => "array".to_owned(),
            }
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_two_lines() {
        let tool = Tool {
            name: "files__read".to_owned(),
            description: Some(format!("\nReads\u{1b} a file. {}\nMore.", "x".repeat(200))),
            input_schema: json!({"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}},
                "mode": {"enum": ["a", "b"]}, "id": {"type": ["string", "null"]}, "x": {}, "list": {"type": "array"},
            }}),
            ..Tool::default()
        };
        let bare = Tool { name: "bare".to_owned(), ..Tool::default() };
        let want = format!(
            "files__read(path: string, lines?: integer[], mode?: \"a\" | \"b\", id?: string | null, x?: any, list?: array)\n    \
             Reads\\u{{1b}} a file. {}…\nbare()\n",
            "x".repeat(85)
        );
        assert_eq!(text([tool, bare].iter()), want);
    }
}
