//! The JSON Schemas of types.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

/// The JSON Schema (2020-12) of a type whose values are objects; none for other types.
pub(super) fn object_schema_of<T: JsonSchema>() -> Option<Value> {
    if takes_nothing::<T>() {
        return Some(json!({ "type": "object", "additionalProperties": false }));
    }
    let mut schema =
        SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    // A title is the type's name, which means nothing to a model.
    schema.remove("title");
    let mut schema = schema.to_value();
    remove_integer_formats(&mut schema);
    let members = schema.as_object_mut()?;
    match members.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
        // A choice between objects; clients want it said.
        None => _ = members.insert("type".to_owned(), json!("object")),
    }
    Some(schema)
}

pub(super) fn takes_nothing<T: JsonSchema>() -> bool {
    T::schema_name() == Cow::Borrowed("null")
}

/// `uint32` and the like are formats of this language, which validators elsewhere complain of.
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
