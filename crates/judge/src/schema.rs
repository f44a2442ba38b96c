//! JSON Schemas of cases and of case files.

use marquetry_protocol::join_description_lines;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Returns the JSON Schema (2020-12) of a type.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let mut schema = root.to_value();
    join_description_lines(&mut schema);
    schema
}
