//! The JSON Schemas of types.

use std::borrow::Cow;

use marquetry_protocol_wire::join_description_lines;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

/// Returns the JSON Schema (2020-12) of a type whose values are objects; [`None`] for other types.
pub(super) fn object_schema_of<T: JsonSchema>() -> Option<Value> {
    if takes_nothing::<T>() {
        return Some(json!({ "type": "object", "additionalProperties": false }));
    }
    let mut schema = schema_of::<T>();
    let members = schema.as_object_mut()?;
    match members.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
        // A choice between objects; clients expect the type at the top.
        None => _ = members.insert("type".to_owned(), json!("object")),
    }
    Some(schema)
}

/// Returns the JSON Schema (2020-12) of a type.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema =
        SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    // The title is the name of the Rust type, which means nothing to a model.
    schema.remove("title");
    let mut schema = schema.to_value();
    remove_integer_formats(&mut schema);
    join_description_lines(&mut schema);
    schema
}

/// Name of the member with a value that is not an object, for clients whose revision requires
/// objects.
const WRAPPER: &str = "result";

/// Returns the JSON Schema of a result type. If all values are objects, this is stated at the top,
/// where clients look.
pub(super) fn output_schema_of<T: JsonSchema>() -> Value {
    let mut schema = schema_of::<T>();
    if schema.get("type").is_none() && may_be_of_objects(&schema) {
        schema["type"] = json!("object");
    }
    schema
}

/// Returns whether a schema without a type is a choice between schemas of objects, or allows any
/// type.
fn may_be_of_objects(root: &Value) -> bool {
    let choice = ["oneOf", "anyOf"].iter().find_map(|name| root.get(name)?.as_array());
    choice.is_none_or(|branches| {
        branches.iter().all(|branch| {
            let reference = branch.get("$ref").and_then(Value::as_str);
            let target = reference.and_then(|it| root.pointer(it.strip_prefix('#')?));
            target.unwrap_or(branch).get("type") == Some(&json!("object"))
        })
    })
}

/// Returns the schema of `{"result": value}` for values of `schema`; [`None`] if those are objects
/// already.
pub(super) fn wrapped(schema: &Value) -> Option<Value> {
    if schema.get("type") == Some(&json!("object")) {
        return None;
    }
    let mut inner = schema.clone();
    move_root(&mut inner);
    let mut outer = json!({ "type": "object", "required": [WRAPPER] });
    if let Some(members) = inner.as_object_mut() {
        // References point to the root of the whole schema.
        for name in ["$schema", "$defs"] {
            if let Some(value) = members.remove(name) {
                outer[name] = value;
            }
        }
    }
    outer["properties"] = json!({ WRAPPER: inner });
    Some(outer)
}

/// Redirects references to the root of a schema to its place in [`wrapped`].
fn move_root(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(target) if name == "$ref" && target == "#" => {
                        *target = format!("#/properties/{WRAPPER}");
                    }
                    value => move_root(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(move_root),
        _ => {}
    }
}

/// Wraps a value as [`wrapped`] describes.
pub(super) fn wrap(value: Value) -> Value {
    json!({ WRAPPER: value })
}

pub(super) fn takes_nothing<T: JsonSchema>() -> bool {
    T::schema_name() == Cow::Borrowed("null")
}

/// Removes `uint32` and similar formats: they are Rust's, and other validators reject them.
fn remove_integer_formats(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with("uint") || format.starts_with("int"))
            {
                members.remove("format");
            }
            members.values_mut().for_each(remove_integer_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_integer_formats),
        _ => {}
    }
}
