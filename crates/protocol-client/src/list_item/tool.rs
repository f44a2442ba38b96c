//! Tools of a list.

use marquetry_protocol_wire::types::{JsonObject, Tool};
use serde_json::{Value, json};

use super::{Item, Members, members::is_empty};

impl Item for Tool {
    /// A schema that allows more than the server does is right for every call.
    fn repair(members: &mut Members<'_>) -> Result<(), String> {
        members.repair_common();
        let schema = members.members.entry("inputSchema").or_insert(Value::Null);
        *schema = input_schema(schema.take())?.into();
        // Schemas of output may be of any type since 2026-07-28.
        members.remove_unless(Value::is_object, "outputSchema", "an object");
        for name in ["inputSchema", "outputSchema"] {
            if let Some(mut schema) = members.object(name) {
                remove_nulls(schema.members);
                repair_schema(&mut schema);
            }
        }
        if let Some(mut annotations) = members.object("annotations") {
            annotations.strings(&["title"]);
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                annotations.remove_unless(Value::is_boolean, hint, "a boolean");
            }
        }
        members.remove_unless(is_execution, "execution", "valid");
        Ok(())
    }
}

/// Returns the schema of the arguments with the type `object`.
///
/// # Errors
/// Returns an error with the problem if the arguments cannot be an object.
fn input_schema(schema: Value) -> Result<JsonObject, String> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        schema if is_empty(&schema) || schema == true => JsonObject::new(),
        _ => return Err("inputSchema must be an object".to_owned()),
    };
    match schema.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
        Some(kind) => return Err(format!("inputSchema.type must be \"object\", not {kind}")),
    }
    schema.insert("type".to_owned(), "object".into());
    Ok(schema)
}

/// Removes the keywords that are `null` from a schema and its parts. No keyword may be, and the
/// official TypeScript client refuses the whole list. Only keywords whose values are schemas are
/// descended into: other values, such as those of `default` and `enum`, are data, in which `null`
/// is valid.
fn remove_nulls(schema: &mut JsonObject) {
    const SCHEMAS: [&str; 16] = [
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ];
    const BY_NAME: [&str; 5] =
        ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
    schema.retain(|keyword, value| !value.is_null() || matches!(&**keyword, "default" | "const"));
    for (keyword, value) in schema {
        let parts: &mut dyn Iterator<Item = &mut Value> = match value {
            Value::Object(schemas) if BY_NAME.contains(&&**keyword) => &mut schemas.values_mut(),
            Value::Array(schemas) if SCHEMAS.contains(&&**keyword) => &mut schemas.iter_mut(),
            value if SCHEMAS.contains(&&**keyword) => &mut std::iter::once(value),
            _ => continue,
        };
        parts.filter_map(Value::as_object_mut).for_each(remove_nulls);
    }
}

/// Removes the parts of `properties` and `required` that are invalid.
fn repair_schema(schema: &mut Members<'_>) {
    if schema.members.get("properties").is_some_and(|value| !value.is_object() && !is_empty(value))
    {
        // These say what holds for the properties that are not known any more: they would forbid or
        // require them.
        for name in ["required", "additionalProperties", "unevaluatedProperties"] {
            schema.members.shift_remove(name);
        }
    }
    if let Some(properties) = schema.object("properties") {
        repair_properties(properties);
    }
    schema.remove_unless(Value::is_array, "required", "an array of strings");
    if let Some(names) = schema.members.get_mut("required").and_then(Value::as_array_mut) {
        let before = names.len();
        names.retain(Value::is_string);
        if names.len() < before {
            schema.report("required", "an array of strings");
        }
    }
}

/// Writes each schema of a property as an object, which allows everything if the schema is invalid.
fn repair_properties(mut properties: Members<'_>) {
    let of_another_type = properties.members.iter().filter(|(_, schema)| !schema.is_object());
    let names: Vec<String> = of_another_type.map(|(name, _)| name.clone()).collect();
    for name in names {
        let allows = match properties.members.get(&name) {
            Some(Value::Bool(false)) => json!({ "not": {} }),
            _ => json!({}),
        };
        if let Some(invalid) = properties.members.insert(name.clone(), allows)
            && !invalid.is_boolean()
        {
            properties.report_unless_empty(&name, "a schema", &invalid);
        }
    }
}

/// Whether the value is a valid `execution` (2025-11-25).
fn is_execution(value: &Value) -> bool {
    const SUPPORT: [&str; 3] = ["required", "optional", "forbidden"];
    let Some(execution) = value.as_object() else { return false };
    execution
        .get("taskSupport")
        .is_none_or(|support| support.as_str().is_some_and(|it| SUPPORT.contains(&it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list_item::{parse, test_support};

    #[track_caller]
    fn check(members: Value, want: Value, repairs: usize) {
        let tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
        test_support::check::<Tool>(&tool, &members, &want, repairs);
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
        let tool: Tool = parse(&mut json!({ "name": "t" }), &mut Vec::new()).unwrap();
        assert_eq!(tool.input_schema, json!({ "type": "object" }));
    }

    #[test]
    fn booleans_become_schemas_that_every_client_reads() {
        let booleans = json!({ "a": true, "b": false, "c": [], "d": { "items": true } });
        let schemas = json!({ "a": {}, "b": { "not": {} }, "c": {}, "d": { "items": true } });
        check(
            both_schemas(&json!({ "type": "object", "properties": booleans })),
            both_schemas(&json!({ "type": "object", "properties": schemas })),
            0,
        );
    }

    #[test]
    fn keywords_that_are_null_are_removed() {
        check(
            both_schemas(&json!({
                "type": "object",
                "title": null,
                "properties": {
                    "default": { "type": "string", "minLength": null, "default": null },
                    "a": { "items": { "enum": [null, 1], "format": null }, "examples": [{ "x": null }] },
                    "b": { "anyOf": [{ "const": null }, { "$ref": "#/$defs/c", "title": null }] },
                    "c": { "x-example": { "a": null }, "not": { "format": null } },
                },
                "$defs": { "c": { "enum": null } },
            })),
            both_schemas(&json!({
                "type": "object",
                "properties": {
                    "default": { "type": "string", "default": null },
                    "a": { "items": { "enum": [null, 1] }, "examples": [{ "x": null }] },
                    "b": { "anyOf": [{ "const": null }, { "$ref": "#/$defs/c" }] },
                    "c": { "x-example": { "a": null }, "not": {} },
                },
                "$defs": { "c": {} },
            })),
            0,
        );
    }

    #[test]
    fn invalid_members_of_schemas_are_removed() {
        for (invalid, want) in [
            (json!({ "properties": "x" }), json!({})),
            (json!({ "properties": { "a": "x" } }), json!({ "properties": { "a": {} } })),
            (json!({ "required": "a" }), json!({})),
            (json!({ "required": true }), json!({})),
            (json!({ "required": [1, "a"] }), json!({ "required": ["a"] })),
        ] {
            check_schema(invalid, want, 1);
        }
        for invalid in [json!("x"), json!(true)] {
            check(json!({ "outputSchema": invalid }), json!({}), 1);
        }
        check(json!({ "outputSchema": [] }), json!({}), 0);
        check(
            json!({ "outputSchema": { "type": "array" } }),
            json!({ "outputSchema": { "type": "array" } }),
            0,
        );
    }

    #[test]
    fn a_schema_that_loses_its_properties_forbids_and_requires_none() {
        for closed in ["additionalProperties", "unevaluatedProperties"] {
            let schema =
                json!({ "properties": [{ "name": "a" }], "required": ["a"], closed: false });
            check_schema(schema, json!({}), 1);
            let without_arguments = json!({ "properties": [], closed: false });
            check_schema(without_arguments, json!({ closed: false }), 0);
        }
    }

    /// Checks the repair of a schema of arguments and of output.
    #[track_caller]
    fn check_schema(schema: Value, want: Value, repairs: usize) {
        check(json!({ "outputSchema": schema }), json!({ "outputSchema": want }), repairs);
        check(input_schema(schema), input_schema(want), repairs);
    }

    fn input_schema(mut schema: Value) -> Value {
        schema["type"] = "object".into();
        json!({ "inputSchema": schema })
    }

    fn both_schemas(schema: &Value) -> Value {
        json!({ "inputSchema": schema, "outputSchema": schema })
    }

    #[test]
    fn invalid_annotations_are_removed() {
        check(
            json!({ "annotations": { "title": null, "readOnlyHint": true, "openWorldHint": "no", "x": 1 } }),
            json!({ "annotations": { "readOnlyHint": true, "x": 1 } }),
            1,
        );
        check(json!({ "annotations": [] }), json!({}), 0);
        check(json!({ "annotations": "x" }), json!({}), 1);
    }

    #[test]
    fn invalid_texts_metadata_and_execution_are_removed() {
        check(json!({ "title": 5 }), json!({}), 1);
        check(json!({ "description": { "en": "d" } }), json!({}), 1);
        check(json!({ "_meta": [] }), json!({}), 0);
        check(json!({ "_meta": "x" }), json!({}), 1);
        check(json!({ "execution": null }), json!({}), 0);
        check(json!({ "execution": { "taskSupport": "never" } }), json!({}), 1);
        for valid in [json!({ "taskSupport": "optional" }), json!({ "x": 1 })] {
            let execution = json!({ "execution": valid });
            check(execution.clone(), execution, 0);
        }
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
            let mut tool = json!({ "name": "t", "inputSchema": schema });
            assert!(parse::<Tool>(&mut tool, &mut Vec::new()).is_err(), "{schema}");
        }
    }
}
