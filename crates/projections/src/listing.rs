//! The argument `_select` in the list of tools.

use marquetry_protocol::types::Tool;
use serde_json::{Map, Value, json};

use super::{SELECT, has_own};

/// What the description of a tool says of the argument.
const ANNOUNCEMENT: &str = "With _select, a jq program, it returns only what you select.";

/// Adds the argument to a tool, unless the tool has one of this name. The output schema goes: a
/// selection is text alone, and clients refuse an answer with a schema but without structured
/// content.
pub fn announce(tool: &mut Tool) {
    if has_own(tool) {
        return;
    }
    let Some(schema) = tool.input_schema.as_object_mut() else { return };
    let properties =
        schema.entry("properties").or_insert_with(|| Value::Object(Map::new())).as_object_mut();
    let Some(properties) = properties else { return };
    let property = json!({
        "type": "string",
        "description": "jq program over the JSON answer, such as .items[] | {id, price}",
    });
    properties.insert(SELECT.to_owned(), property);
    schema.entry("type").or_insert_with(|| json!("object"));
    tool.output_schema = None;
    let description = tool.description.take().unwrap_or_default();
    tool.description = Some(format!("{description}\n{ANNOUNCEMENT}").trim_start().to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(input_schema: Value) -> Tool {
        let mut tool = Tool {
            name: "t".to_owned(),
            description: Some("Lists prices.".to_owned()),
            output_schema: Some(json!({"type": "object"})),
            input_schema,
            ..Tool::default()
        };
        announce(&mut tool);
        tool
    }

    #[test]
    fn the_argument_is_allowed_by_the_schema() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false}),
            json!({}),
        ] {
            let tool = announced(schema);
            assert!(jsonschema::is_valid(&tool.input_schema, &json!({"_select": "."})));
            assert!(!jsonschema::is_valid(&tool.input_schema, &json!({"_select": 1})));
            assert_eq!(tool.output_schema, None);
            let description = tool.description.unwrap();
            assert!(description.starts_with("Lists prices.\nWith _select"), "{description}");
        }
    }

    #[test]
    fn a_tool_keeps_its_own_parameter() {
        let own = json!({"type": "object", "properties": {"_select": {"type": "integer"}}});
        let tool = announced(own.clone());
        assert_eq!(tool.input_schema, own);
        assert!(tool.output_schema.is_some());
        assert_eq!(tool.description.as_deref(), Some("Lists prices."));
    }
}
