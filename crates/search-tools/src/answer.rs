//! The answers of the tool that searches.

use indexmap::IndexMap;
use marquetry_protocol::types::Tool;
use marquetry_tokens::estimate;
use serde::Deserialize;
use serde_json::{Value, json};

/// Tokens of an answer.
const MAX_TOKENS: u64 = 2_000;
/// Characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 400;
/// Characters of a name that tools of untrusted servers have.
const MAX_NAME_CHARS: usize = 128;
/// Characters of the arguments of a tool, in one line.
const MAX_ARGUMENTS_CHARS: usize = 600;
/// Characters of a query that an answer repeats.
const MAX_QUERY_CHARS: usize = 100;
/// Servers that an answer without hits names.
const MAX_SERVERS: usize = 20;
/// Tools of each of them.
const MAX_EXAMPLES: usize = 3;

/// How much of each tool an answer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    Names,
    #[default]
    Descriptions,
    Schemas,
}

/// Returns the tools, one a line. Those that do not fit as they are asked for are named alone.
pub(crate) fn with_hits<'a>(tools: impl Iterator<Item = &'a Tool>, detail: Detail) -> String {
    // A line break, and the note about shorter lines.
    const SPARE: u64 = 60;
    let tools: Vec<&Tool> = tools.collect();
    let names: Vec<String> =
        tools.iter().map(|tool| one_line(&tool.name, MAX_NAME_CHARS)).collect();
    let mut room = MAX_TOKENS - SPARE;
    // Each hit is named at least.
    room = room.saturating_sub(names.iter().map(|name| estimate(name) + 1).sum());
    let mut lines = Vec::new();
    let mut shortened = false;
    for (tool, name) in tools.into_iter().zip(names) {
        let line = match detail {
            Detail::Names => name.clone(),
            Detail::Descriptions => described(tool, &name),
            Detail::Schemas => with_schema(tool),
        };
        let more = estimate(&line).saturating_sub(estimate(&name));
        if more <= room {
            room -= more;
            lines.push(line);
        } else {
            shortened = true;
            lines.push(name);
        }
    }
    if shortened {
        lines
            .push("Some tools are named alone: search for one by its name to see more.".to_owned());
    }
    lines.join("\n")
}

/// Returns the answer to a query that found nothing, with the servers and the names of their tools.
pub(crate) fn without_hits<'a>(
    query: &str,
    tools: impl Iterator<Item = (String, &'a str)>,
) -> String {
    let mut servers: IndexMap<String, Vec<&str>> = IndexMap::new();
    for (server, tool) in tools {
        servers.entry(server).or_default().push(tool);
    }
    let query = one_line(query, MAX_QUERY_CHARS);
    if servers.is_empty() {
        return format!("No tool matches '{query}'. There are no tools to search.");
    }
    let mut text =
        format!("No tool matches '{query}'. Use other words. Servers and some of their tools:");
    for (server, tools) in servers.iter().take(MAX_SERVERS) {
        let examples = tools.iter().take(MAX_EXAMPLES);
        let examples: Vec<String> = examples.map(|name| one_line(name, MAX_NAME_CHARS)).collect();
        let server = one_line(server, MAX_NAME_CHARS);
        let more = if tools.len() > MAX_EXAMPLES { ", …" } else { "" };
        let line = format!("\n{server} ({}): {}{more}", tools.len(), examples.join(", "));
        if estimate(&text) + estimate(&line) > MAX_TOKENS - 1 {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Returns a tool with its arguments and the beginning of its description, in one line.
fn described(tool: &Tool, name: &str) -> String {
    let arguments = one_line(&arguments(&tool.input_schema), MAX_ARGUMENTS_CHARS);
    let description = tool.description.as_deref().unwrap_or_default();
    let description = one_line(description, MAX_DESCRIPTION_CHARS);
    let separator = if description.is_empty() { "" } else { ": " };
    format!("{name}({arguments}){separator}{description}")
}

/// Returns the names of the arguments with their types; `?` marks those that may be left out.
fn arguments(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let arguments = properties.iter().map(|(name, property)| {
        let is_required =
            required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)));
        let mark = if is_required { "" } else { "?" };
        match property.get("type").and_then(Value::as_str) {
            Some(kind) => format!("{name}{mark}: {kind}"),
            None => format!("{name}{mark}"),
        }
    });
    arguments.collect::<Vec<_>>().join(", ")
}

/// Returns a tool as JSON in one line, which no text in it can leave.
fn with_schema(tool: &Tool) -> String {
    let shown = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    });
    shown.to_string()
}

/// Returns the beginning of a text in one line, so that no tool can add a line for another one.
fn one_line(text: &str, max_chars: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tool(name: &str, description: &str, schema: Value) -> Tool {
        Tool {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            input_schema: schema,
            ..Tool::default()
        }
    }

    fn read() -> Tool {
        let properties =
            json!({"path": {"type": "string"}, "head": {"type": "integer"}, "any": {}});
        let schema = json!({"type": "object", "properties": properties, "required": ["path"]});
        tool("read", "Reads a file.\nforged: line", schema)
    }

    #[test]
    fn details_differ() {
        let read = read();
        for (detail, want) in [
            (Detail::Names, "read"),
            (
                Detail::Descriptions,
                "read(path: string, head?: integer, any?): Reads a file. forged: line",
            ),
            (
                Detail::Schemas,
                r#"{"name":"read","description":"Reads a file.\nforged: line","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"integer"},"any":{}},"required":["path"]}}"#,
            ),
        ] {
            assert_eq!(with_hits(std::iter::once(&read), detail), want);
        }
    }

    #[test]
    fn large_schemas_are_left_out() {
        let large = tool("large", "", json!({"title": "word ".repeat(5_000)}));
        let read = read();
        let text = with_hits([&large, &read].into_iter(), Detail::Schemas);
        assert!(text.starts_with("large\n{\"name\":\"read\""), "{text}");
        assert!(text.ends_with("search for one by its name to see more."), "{text}");
    }

    #[test]
    fn a_query_without_hits_is_answered_with_servers() {
        let tools = [("a", "one"), ("a", "two"), ("b", "three"), ("a", "four"), ("a", "five")];
        let text =
            without_hits("x\ny", tools.into_iter().map(|(server, tool)| (server.to_owned(), tool)));
        assert_eq!(
            text,
            "No tool matches 'x y'. Use other words. Servers and some of their tools:\n\
             a (4): one, two, four, …\nb (1): three"
        );
        let text = without_hits("x", std::iter::empty());
        assert_eq!(text, "No tool matches 'x'. There are no tools to search.");
    }

    proptest! {
        // Each case is slow without optimisation.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn answers_are_bounded(
            tools in prop::collection::vec((".{0,300}", ".{0,3000}", "[a-z{}\"]{0,3000}"), 0..20),
            detail in prop::sample::select(vec![
                Detail::Names, Detail::Descriptions, Detail::Schemas,
            ]),
            query in ".{0,2000}",
        ) {
            let tools: Vec<Tool> = tools
                .iter()
                .map(|(name, description, schema)| tool(name, description, json!({"x": schema})))
                .collect();
            let text = with_hits(tools.iter(), detail);
            // Twenty names of 128 characters of any script alone may have more.
            let names: u64 =
                tools.iter().map(|tool| estimate(&one_line(&tool.name, MAX_NAME_CHARS)) + 1).sum();
            prop_assert!(estimate(&text) <= MAX_TOKENS.max(names + 60), "{}", estimate(&text));
            let servers = tools.iter().map(|tool| (tool.name.clone(), tool.name.as_str()));
            let text = without_hits(&query, servers);
            prop_assert!(estimate(&text) <= MAX_TOKENS);
        }
    }
}
