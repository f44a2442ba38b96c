//! Schemas of listed tools. MCP allows fewer of them than JSON Schema, and strict clients refuse a whole list for one
//! invalid schema.

use marquetry_protocol_wire::types::{JsonObject, Tool};
use serde_json::Value;

/// Returns the tool with schemas that every revision allows. What libraries of some languages write for "no arguments"
/// is rewritten: a missing `type`, `null` instead of a list, an empty list instead of an object.
///
/// # Errors
/// The problem with a schema.
pub(super) fn with_valid_schemas(mut tool: Tool) -> Result<Tool, String> {
    let input = tidied("inputSchema", &mut tool.input_schema)?;
    let kind = input.entry("type").or_insert_with(|| "object".into());
    if kind != "object" {
        return Err(format!("inputSchema.type must be \"object\", not {kind}"));
    }
    if let Some(output) = &mut tool.output_schema {
        // Of any type since 2026-07-28.
        tidied("outputSchema", output)?;
    }
    Ok(tool)
}

fn tidied<'a>(member: &str, schema: &'a mut Value) -> Result<&'a mut JsonObject, String> {
    let Value::Object(schema) = schema else {
        return Err(format!("{member} must be an object"));
    };
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if schema.get("properties").is_some_and(is_empty) {
        schema.shift_remove("properties");
    }
    if schema.get("required").is_some_and(Value::is_null) {
        schema.shift_remove("required");
    }
    // Many clients expect objects here, though JSON Schema allows booleans.
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            match property {
                Value::Bool(true) => *property = serde_json::json!({}),
                Value::Bool(false) => *property = serde_json::json!({ "not": {} }),
                _ => {}
            }
        }
    }
    match schema.get("properties") {
        None => {}
        Some(Value::Object(properties)) if properties.values().all(Value::is_object) => {}
        Some(_) => return Err(format!("{member}.properties must be an object of schemas")),
    }
    match schema.get("required") {
        None => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(_) => return Err(format!("{member}.required must be an array of strings")),
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn booleans_become_schemas_that_every_client_reads() {
        let schema = json!({ "type": "object", "properties": { "a": true, "b": false } });
        let tool = Tool { name: "t".to_owned(), input_schema: schema, ..Tool::default() };
        let tool = with_valid_schemas(tool).unwrap();
        assert_eq!(tool.input_schema["properties"], json!({ "a": {}, "b": { "not": {} } }));
    }
}
