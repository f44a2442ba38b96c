//! Tools of a list, in the form that every client accepts.
//!
//! Strict clients refuse a whole list for one odd member of one tool, and MCP allows fewer schemas than JSON Schema. The
//! strictest is the official TypeScript SDK (`ToolSchema` in its `types.ts`).

use marquetry_protocol_wire::types::{Icon, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Returns the tool without members that strict clients refuse. The tool works without them: a schema that allows more
/// is right for every call. Each repair is added to `repairs`, except for the forms in which libraries of some languages
/// write "no arguments".
///
/// # Errors
/// The problem, if the schema of the arguments cannot be one of an object.
pub(super) fn repaired(mut tool: Tool, repairs: &mut Vec<String>) -> Result<Tool, String> {
    tool.input_schema = input_schema(tool.input_schema, repairs)?.into();
    tool.output_schema = match tool.output_schema {
        // Of any type since 2026-07-28.
        Some(Value::Object(mut schema)) => {
            repair_members("outputSchema", &mut schema, repairs);
            Some(Value::Object(schema))
        }
        Some(_) => {
            repairs.push("outputSchema must be an object".to_owned());
            None
        }
        None => None,
    };
    if let Some(annotations) = &mut tool.annotations {
        repair_annotations(annotations, repairs);
    }
    repair_execution(&mut tool.extra, repairs);
    tool.icons.iter_mut().for_each(|icon| repair_icon(icon, repairs));
    Ok(tool)
}

fn input_schema(schema: Value, repairs: &mut Vec<String>) -> Result<JsonObject, String> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        schema if is_nothing(&schema) || schema == true => JsonObject::new(),
        _ => return Err("inputSchema must be an object".to_owned()),
    };
    match schema.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
        Some(kind) => return Err(format!("inputSchema.type must be \"object\", not {kind}")),
    }
    schema.insert("type".to_owned(), "object".into());
    repair_members("inputSchema", &mut schema, repairs);
    Ok(schema)
}

/// Removes the parts of `properties` and `required` that are invalid.
fn repair_members(of: &str, schema: &mut JsonObject, repairs: &mut Vec<String>) {
    match schema.get_mut("properties") {
        None => {}
        Some(Value::Object(properties)) => {
            for (name, property) in properties {
                let repaired = match &*property {
                    Value::Object(_) => continue,
                    Value::Bool(false) => json!({ "not": {} }),
                    Value::Bool(true) => json!({}),
                    odd => {
                        if !is_nothing(odd) {
                            repairs.push(format!("{of}.properties.{name} must be a schema"));
                        }
                        json!({})
                    }
                };
                *property = repaired;
            }
        }
        Some(odd) => {
            if !is_nothing(odd) {
                repairs.push(format!("{of}.properties must be an object"));
            }
            schema.shift_remove("properties");
        }
    }
    match schema.get_mut("required") {
        None => {}
        Some(Value::Array(names)) => {
            let before = names.len();
            names.retain(Value::is_string);
            if names.len() < before {
                repairs.push(format!("{of}.required must be an array of strings"));
            }
        }
        Some(odd) => {
            if !is_nothing(odd) {
                repairs.push(format!("{of}.required must be an array of strings"));
            }
            schema.shift_remove("required");
        }
    }
}

/// Whether a library may write this for nothing: `null`, or an empty list or map, which some languages do not tell apart.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn repair_annotations(annotations: &mut ToolAnnotations, repairs: &mut Vec<String>) {
    const HINTS: [&str; 5] =
        ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    // With the right types they are not among the extra members.
    for name in HINTS {
        match annotations.extra.shift_remove(name) {
            None | Some(Value::Null) => {}
            Some(_) => repairs.push(format!("annotations.{name} has the wrong type")),
        }
    }
}

/// Removes `execution` if it is invalid (2025-11-25).
fn repair_execution(members: &mut JsonObject, repairs: &mut Vec<String>) {
    const SUPPORT: [&str; 3] = ["required", "optional", "forbidden"];
    let is_valid = |execution: &Value| {
        let support = |execution: &JsonObject| match execution.get("taskSupport") {
            None => true,
            Some(support) => support.as_str().is_some_and(|support| SUPPORT.contains(&support)),
        };
        execution.as_object().is_some_and(support)
    };
    if members.get("execution").is_some_and(|execution| !is_valid(execution))
        && members.shift_remove("execution").is_some_and(|execution| !execution.is_null())
    {
        repairs.push("execution is invalid".to_owned());
    }
}

fn repair_icon(icon: &mut Icon, repairs: &mut Vec<String>) {
    let is_odd = |theme: &mut String| !["light", "dark"].contains(&theme.as_str());
    if icon.theme.take_if(is_odd).is_some() {
        repairs.push("the theme of an icon must be \"light\" or \"dark\"".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the form of a tool with these members, and the number of repairs for the log.
    #[track_caller]
    fn check(members: Value, want: Value, repairs: usize) {
        let named = |members: &Value| {
            let mut tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
            for (name, value) in members.as_object().unwrap() {
                tool[name] = value.clone();
            }
            tool
        };
        let mut found = Vec::new();
        let tool: Tool = serde_json::from_value(named(&members)).unwrap();
        let tool = repaired(tool, &mut found).unwrap();
        assert_eq!(serde_json::to_value(tool).unwrap(), named(&want), "{members}");
        assert_eq!(found.len(), repairs, "{members}: {found:?}");
    }

    #[test]
    fn no_arguments_are_written_in_one_form() {
        let want = json!({ "inputSchema": { "type": "object" } });
        for schema in [
            json!(null),
            json!([]),
            json!(true),
            json!({}),
            json!({ "type": null }),
            json!({ "type": ["object"] }),
            json!({ "type": ["null", "object"], "required": null, "properties": [] }),
            json!({ "type": "object", "required": {}, "properties": null }),
        ] {
            check(json!({ "inputSchema": schema }), want.clone(), 0);
        }
    }

    #[test]
    fn booleans_become_schemas_that_every_client_reads() {
        let schema = |properties: Value| {
            let schema = json!({ "type": "object", "properties": properties });
            json!({ "inputSchema": schema, "outputSchema": schema })
        };
        check(
            schema(json!({ "a": true, "b": false, "c": [], "d": { "items": true } })),
            schema(json!({ "a": {}, "b": { "not": {} }, "c": {}, "d": { "items": true } })),
            0,
        );
    }

    #[test]
    fn odd_members_of_schemas_are_removed() {
        for (odd, want) in [
            (json!({ "properties": "x" }), json!({})),
            (json!({ "properties": { "a": "x" } }), json!({ "properties": { "a": {} } })),
            (json!({ "required": "a" }), json!({})),
            (json!({ "required": true }), json!({})),
            (json!({ "required": [1, "a"] }), json!({ "required": ["a"] })),
        ] {
            check(json!({ "outputSchema": odd }), json!({ "outputSchema": want }), 1);
            let input = |mut schema: Value| {
                schema["type"] = "object".into();
                json!({ "inputSchema": schema })
            };
            check(input(odd), input(want), 1);
        }
        for odd in [json!("x"), json!([]), json!(true)] {
            check(json!({ "outputSchema": odd }), json!({}), 1);
        }
        check(
            json!({ "outputSchema": { "type": "array" } }),
            json!({ "outputSchema": { "type": "array" } }),
            0,
        );
    }

    #[test]
    fn odd_members_that_strict_clients_check_are_removed() {
        check(
            json!({ "annotations": { "title": null, "readOnlyHint": true, "openWorldHint": "no", "x": 1 } }),
            json!({ "annotations": { "readOnlyHint": true, "x": 1 } }),
            1,
        );
        check(json!({ "execution": null }), json!({}), 0);
        check(json!({ "execution": { "taskSupport": "never" } }), json!({}), 1);
        for valid in [json!({ "taskSupport": "optional" }), json!({ "x": 1 })] {
            let execution = json!({ "execution": valid });
            check(execution.clone(), execution, 0);
        }
        check(
            json!({ "icons": [{ "src": "https://a.example/i.png", "theme": "auto" }] }),
            json!({ "icons": [{ "src": "https://a.example/i.png" }] }),
            1,
        );
    }

    #[test]
    fn a_tool_without_an_object_of_arguments_is_refused() {
        for schema in [
            json!("x"),
            json!([1]),
            json!(false),
            json!({ "type": "string" }),
            json!({ "type": ["string", "null"] }),
            json!({ "type": 1 }),
        ] {
            let tool = Tool { input_schema: schema.clone(), ..Tool::default() };
            assert!(repaired(tool, &mut Vec::new()).is_err(), "{schema}");
        }
    }
}
