//! The definitions of the two tools.

use std::sync::LazyLock;

use marquetry_protocol::types::Tool;
use serde_json::json;

/// Name of the tool that finds tools.
pub const SEARCH: &str = "search_tools";
/// Name of the tool that calls a tool.
pub const CALL: &str = "call_tool";

/// Hits of a search that does not name a number.
pub(crate) const DEFAULT_LIMIT: usize = 5;
/// Most hits of a search.
pub(crate) const MAX_LIMIT: usize = 20;

/// Returns the two tools.
pub(crate) fn definitions() -> &'static [Tool; 2] {
    static TOOLS: LazyLock<[Tool; 2]> = LazyLock::new(|| [search_tool(), call_tool()]);
    &TOOLS
}

fn search_tool() -> Tool {
    let annotations = json!({"readOnlyHint": true, "openWorldHint": false});
    Tool {
        name: SEARCH.to_owned(),
        title: Some("Search tools".to_owned()),
        description: Some(format!(
            "Finds tools by what they do. Most tools of this server are not listed: search here \
             before you say that something is not possible. Call a tool that was found with \
             {CALL}."
        )),
        input_schema: json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What the tool should do, with the name of the product if there \
                                    is one, such as: add a comment to a GitHub issue.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                    "description": "Largest number of tools.",
                },
                "detail": {
                    "type": "string",
                    "enum": ["names", "descriptions", "schemas"],
                    "default": "descriptions",
                    "description": "names; descriptions with arguments; or whole input schemas.",
                },
            },
            "required": ["query"],
        }),
        annotations: annotations.as_object().cloned().map(Into::into),
        ..Tool::default()
    }
}

fn call_tool() -> Tool {
    Tool {
        name: CALL.to_owned(),
        title: Some("Call a tool".to_owned()),
        description: Some(format!("Calls a tool that {SEARCH} has found, and returns its answer.")),
        input_schema: json!({
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": format!("Name of the tool, as {SEARCH} writes it."),
                },
                "arguments": {"type": "object", "description": "Arguments of the tool."},
            },
            "required": ["name"],
        }),
        ..Tool::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cost_little() {
        let text = serde_json::to_string(definitions()).unwrap();
        let tokens = marquetry_tokens::estimate(&text);
        println!("{tokens} tokens");
        assert!(tokens < 400, "{tokens}");
    }
}
