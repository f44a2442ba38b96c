//! Input schemas that a client takes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::profile::ClientProfile;

/// Keywords that combine schemas; at the root, some clients refuse them.
const COMBINATORS: [&str; 10] = [
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
];
/// Keywords without which a schema accepts the same arguments.
const REMARKS: [&str; 5] = ["description", "title", "examples", "example", "$comment"];
/// Keywords whose values are arguments, not schemas.
const ARGUMENTS: [&str; 4] = ["enum", "const", "default", "examples"];
/// Objects and arrays within each other that are rewritten; deeper ones stay.
const MAX_DEPTH: usize = 64;
/// Longest sentence about one part, in bytes.
const MAX_REMOVED_BYTES: usize = 300;

/// An input schema in the form that a client takes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimplifiedSchema {
    /// The schema.
    pub schema: Value,
    /// What was removed, as a sentence for the tool's description.
    pub removed: String,
}

/// Returns an input schema in the form that a client takes; `None` if it takes the schema as it is.
///
/// Properties of the branches of a combinator become properties of the root, so that the model
/// still knows them. The simplified schema accepts more; the tool checks its arguments as before.
///
/// ```
/// use marquetry_client_profiles::{ClientProfile, simplified_schema};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"id": {"type": ["string", "null"]}},
///     "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
/// });
/// let cline = ClientProfile::of("Cline");
/// let simplified = simplified_schema(&schema, &cline).unwrap();
/// assert_eq!(simplified.schema, json!({"type": "object", "properties": {"id": {"type": "string"}}}));
/// assert!(simplified.removed.contains(r#""oneOf":[{"required":["id"]},{"required":["name"]}]"#));
/// assert_eq!(simplified_schema(&json!({"type": "object"}), &cline), None);
/// ```
#[must_use]
pub fn simplified_schema(schema: &Value, profile: &ClientProfile) -> Option<SimplifiedSchema> {
    let mut removed = Removed::default();
    let mut simplified = schema.clone();
    if profile.plain_schemas {
        simplified = plain_root(simplified, &mut removed);
        single_types(&mut simplified, &mut removed, 0);
    }
    if let Some(max_bytes) = profile.max_schema_bytes {
        simplified = within(simplified, max_bytes, &mut removed);
    }
    (simplified != *schema)
        .then(|| SimplifiedSchema { removed: removed.sentence(), schema: simplified })
}

/// What a schema has lost.
#[derive(Default)]
struct Removed {
    /// Members of the root.
    root: Map<String, Value>,
    has_lists_of_types: bool,
    parts: BTreeSet<&'static str>,
}

impl Removed {
    fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if !self.root.is_empty() {
            let root = Value::Object(self.root.clone()).to_string();
            let end = root.floor_char_boundary(MAX_REMOVED_BYTES);
            let more = if end < root.len() { "…" } else { "" };
            parts.push(format!("{}{more}", &root[..end]));
        }
        if self.has_lists_of_types {
            parts.push("further types of some values".to_owned());
        }
        parts.extend(self.parts.iter().map(|&part| part.to_owned()));
        if parts.is_empty() {
            return "The schema of the arguments is simplified for this client.".to_owned();
        }
        format!("For this client, the schema of the arguments is without: {}.", parts.join(", "))
    }
}

/// Returns the schema with a plain object at the root.
fn plain_root(schema: Value, removed: &mut Removed) -> Value {
    let Value::Object(mut root) = resolved(schema) else {
        removed.root.insert("schema".to_owned(), json!("not an object"));
        return json!({"type": "object"});
    };
    if let Some(reference) = root.remove("$ref") {
        removed.root.insert("$ref".to_owned(), reference);
    }
    let mut properties = root.remove("properties").and_then(into_object);
    let mut required = Vec::new();
    for combinator in COMBINATORS {
        let Some(value) = root.remove(combinator) else { continue };
        let branches: Vec<&Value> = match (&value, combinator) {
            // Properties that are forbidden, and conditions on others, are none to offer.
            (_, "not" | "if" | "dependentRequired" | "dependencies") => Vec::new(),
            (Value::Array(branches), _) => branches.iter().collect(),
            (Value::Object(branches), "dependentSchemas") => branches.values().collect(),
            (one, _) => vec![one],
        };
        for branch in branches {
            for (name, property) in
                branch.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                let all = properties.get_or_insert_default();
                all.entry(name.clone()).or_insert_with(|| property.clone());
            }
            if combinator == "allOf" {
                required.extend(strings(branch.get("required")));
            }
        }
        removed.root.insert(combinator.to_owned(), value);
    }
    if root.get("type") != Some(&json!("object")) {
        root.insert("type".to_owned(), json!("object"));
    }
    if let Some(properties) = properties {
        root.insert("properties".to_owned(), Value::Object(properties));
    }
    if !required.is_empty() {
        let mut all = strings(root.get("required"));
        required.sort();
        required.dedup();
        required.retain(|name| !all.contains(name));
        all.append(&mut required);
        root.insert("required".to_owned(), json!(all));
    }
    Value::Object(root)
}

/// Returns a schema whose root is a reference to a definition of its own as that definition.
fn resolved(schema: Value) -> Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
    let Some(Value::Object(target)) = target.and_then(|target| schema.pointer(target)).cloned()
    else {
        return schema;
    };
    let Value::Object(mut root) = schema else { return Value::Object(target) };
    root.remove("$ref");
    for (key, value) in target {
        root.insert(key, value);
    }
    Value::Object(root)
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Replaces lists of types: by the first one that is not null.
fn single_types(schema: &mut Value, removed: &mut Removed, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Array(all) => {
            for one in all {
                single_types(one, removed, depth + 1);
            }
        }
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get("type") {
                let mut others = types.iter().filter(|it| it.is_string() && *it != "null");
                let one = others.next().cloned().unwrap_or_else(|| json!("null"));
                removed.has_lists_of_types = true;
                object.insert("type".to_owned(), one);
            }
            for (key, value) in object.iter_mut() {
                if !ARGUMENTS.contains(&key.as_str()) {
                    single_types(value, removed, depth + 1);
                }
            }
        }
        _ => {}
    }
}

/// Returns the schema with at most `max_bytes` bytes: without remarks, then without the structure
/// of nested values, then without properties.
fn within(schema: Value, max_bytes: u64, removed: &mut Removed) -> Value {
    if fits(&schema, max_bytes) {
        return schema;
    }
    let mut shorter = schema;
    remove_remarks(&mut shorter, 0);
    removed.parts.insert("its remarks");
    if fits(&shorter, max_bytes) {
        return shorter;
    }
    removed.parts.insert("the structure of nested values");
    let mut flat = json!({"type": "object"});
    let properties = shorter.get("properties").and_then(Value::as_object);
    let types: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let kind = property.get("type").map(|kind| json!({"type": kind}));
            (name.clone(), kind.unwrap_or_else(|| json!({})))
        })
        .collect();
    flat["properties"] = Value::Object(types);
    if let Some(required) = shorter.get("required") {
        flat["required"] = required.clone();
    }
    if fits(&flat, max_bytes) {
        return flat;
    }
    removed.parts.insert("all properties");
    json!({"type": "object"})
}

fn fits(schema: &Value, max_bytes: u64) -> bool {
    schema.to_string().len() as u64 <= max_bytes
}

fn remove_remarks(schema: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Array(all) => {
            for one in all {
                remove_remarks(one, depth + 1);
            }
        }
        Value::Object(object) => {
            // A property may have the name of a remark; its schema is then no text.
            object.retain(|key, value| !REMARKS.contains(&key.as_str()) || value.is_object());
            for (key, value) in object.iter_mut() {
                if !ARGUMENTS.contains(&key.as_str()) {
                    remove_remarks(value, depth + 1);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain() -> ClientProfile {
        ClientProfile { plain_schemas: true, ..ClientProfile::default() }
    }

    #[track_caller]
    fn check(schema: Value, want: Value) -> String {
        let simplified = simplified_schema(&schema, &plain()).expect("it changes");
        assert_eq!(simplified.schema, want);
        simplified.removed
    }

    #[test]
    fn other_clients_get_the_same_schema() {
        let schema = json!({"anyOf": [{"type": "object"}], "type": ["object", "null"]});
        assert_eq!(simplified_schema(&schema, &ClientProfile::default()), None);
    }

    #[test]
    fn properties_of_branches_are_offered() {
        let removed = check(
            json!({
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "anyOf": [
                    {"properties": {"b": {"type": "number"}}, "required": ["b"]},
                    {"properties": {"c": {"type": "number"}}, "required": ["c"]},
                ],
                "allOf": [{"required": ["d"], "properties": {"d": {}}}],
                "not": {"properties": {"e": {}}, "required": ["e"]},
            }),
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "number"}, "d": {},
                },
                "required": ["a", "d"],
            }),
        );
        assert!(removed.starts_with("For this client, the schema of the arguments is without: {"));
        assert!(removed.contains(r#""required":["b"]"#), "{removed}");
    }

    #[test]
    fn a_reference_at_the_root_is_followed() {
        check(
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"x": {}}}}}),
            json!({
                "$defs": {"A": {"type": "object", "properties": {"x": {}}}},
                "type": "object",
                "properties": {"x": {}},
            }),
        );
    }

    #[test]
    fn lists_of_types_become_one_type() {
        let removed = check(
            json!({"type": "object", "properties": {
                "type": {"type": ["null", "integer"]},
                "deep": {"type": "array", "items": {"type": ["string", "number"]}},
                "choice": {"enum": [{"type": ["a"]}]},
            }}),
            json!({"type": "object", "properties": {
                "type": {"type": "integer"},
                "deep": {"type": "array", "items": {"type": "string"}},
                "choice": {"enum": [{"type": ["a"]}]},
            }}),
        );
        assert!(removed.contains("further types of some values"), "{removed}");
    }

    #[test]
    fn arguments_that_look_like_remarks_stay() {
        let profile = ClientProfile { max_schema_bytes: Some(140), ..ClientProfile::default() };
        let default = json!({"title": "a title", "description": "a text"});
        let schema = json!({
            "type": "object", "description": "y".repeat(90), "properties": {"x": {"default": default}},
        });
        let simplified = simplified_schema(&schema, &profile).unwrap();
        assert_eq!(simplified.schema["properties"]["x"]["default"], default);
    }

    #[test]
    fn a_schema_over_the_limit_loses_remarks_first() {
        let profile = ClientProfile { max_schema_bytes: Some(100), ..ClientProfile::default() };
        let nested = json!({"type": "object", "properties": {"x": {"type": "string", "description": "y".repeat(90)}}});
        let simplified = simplified_schema(&nested, &profile).unwrap();
        assert_eq!(simplified.schema["properties"]["x"], json!({"type": "string"}));
        assert!(simplified.removed.contains("its remarks"));
        let wide: Map<_, _> = (0..50).map(|id| (format!("p{id}"), json!({}))).collect();
        let simplified =
            simplified_schema(&json!({"type": "object", "properties": wide}), &profile);
        assert_eq!(simplified.unwrap().schema, json!({"type": "object"}));
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,8}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("type".to_owned()),
            Just("properties".to_owned()),
            Just("anyOf".to_owned()),
            Just("$ref".to_owned()),
            Just("required".to_owned()),
            "[a-z]{1,4}",
        ];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_schema_becomes_a_plain_object(schema in any_schema(), max in 20_u64..500) {
            let profile = ClientProfile { max_schema_bytes: Some(max), ..plain() };
            let shown = simplified_schema(&schema, &profile).map_or(schema, |it| it.schema);
            prop_assert_eq!(&shown["type"], "object");
            prop_assert!(shown.to_string().len() as u64 <= max);
            for combinator in COMBINATORS {
                prop_assert!(shown.get(combinator).is_none());
            }
            prop_assert_eq!(simplified_schema(&shown, &profile), None);
        }
    }
}
