//! Shortens the schemas of the built-in tools: clients send every listed byte to the model in each
//! conversation.

use serde_json::{Map, Value};

use marquetry_protocol::types::Tool;

/// Returns a tool for `tools/list`: the input schema in fewer bytes and no output schema. Calls are
/// checked against the whole schema.
pub(super) fn short(tool: &Tool) -> Tool {
    let mut input_schema = tool.input_schema.clone();
    if let Some(members) = input_schema.as_object_mut() {
        // The description repeats that of the tool, and MCP defines the dialect.
        members.remove("description");
        members.remove("$schema");
        // Unknown arguments are refused anyway.
        members.remove("additionalProperties");
    }
    shorten(&mut input_schema);
    // The member names of the answers explain themselves.
    Tool { input_schema, output_schema: None, ..tool.clone() }
}

fn shorten(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            shorten_members(members);
            members.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

fn shorten_members(members: &mut Map<String, Value>) {
    // A nullable argument is optional; `required` says so already.
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(is_not_null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(is_not_null);
    }
    if members.get("default").is_some_and(is_implied_default) {
        members.remove("default");
    }
    // A format of Rust.
    if members.get("format").is_some_and(|format| format == "double") {
        members.remove("format");
    }
    // Duplicates are accepted and count once.
    if members.get("uniqueItems").is_some_and(Value::is_boolean) {
        members.remove("uniqueItems");
    }
    let is_number = members.get("type").is_some_and(|kind| kind == "integer");
    // A model counts from 0 or 1 as the description says; less is refused anyway.
    if is_number && members.get("minimum").and_then(Value::as_u64).is_some_and(|least| least <= 1) {
        members.remove("minimum");
    }
    if members.get("additionalProperties") == Some(&Value::Bool(true)) {
        members.remove("additionalProperties");
    }
}

/// Returns whether an entry of `type` or `enum` is neither the type nor the value null.
fn is_not_null(value: &Value) -> bool {
    value.as_str() != Some("null") && !value.is_null()
}

/// Returns whether a model assumes this default for an argument that it leaves out.
fn is_implied_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listed_schema_keeps_its_meaning_in_fewer_bytes() {
        let input_schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "description": "What it takes.",
            "type": "object",
            "properties": {
                "a": {"description": "A.", "type": ["string", "null"], "default": null},
                "kind": {"type": ["string", "null"], "enum": ["X", "Y", null]},
                "tags": {"type": "array", "items": {"type": "string"}, "default": [], "uniqueItems": true},
                "limit": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                "threshold": {"type": ["number", "null"], "format": "double", "maximum": 1.0},
                "size": {"type": "integer", "minimum": 1, "default": 5},
                "any": {"type": "object", "additionalProperties": true},
            },
            "required": ["tags"],
            "additionalProperties": false,
        });
        let tool = Tool {
            name: "t".to_owned(),
            input_schema,
            output_schema: Some(json!({"type": "object"})),
            ..Tool::default()
        };
        let listed = short(&tool);
        assert_eq!(listed.output_schema, None);
        assert_eq!(
            listed.input_schema,
            json!({
                "type": "object",
                "properties": {
                    "a": {"description": "A.", "type": "string"},
                    "kind": {"type": "string", "enum": ["X", "Y"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "limit": {"type": "integer", "maximum": 9},
                    "threshold": {"type": "number", "maximum": 1.0},
                    "size": {"type": "integer", "default": 5},
                    "any": {"type": "object"},
                },
                "required": ["tags"],
            })
        );
    }
}
