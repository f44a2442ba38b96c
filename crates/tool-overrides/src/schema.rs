//! Hidden arguments and default values in an input schema.

use serde_json::{Map, Value};

/// Deepest nesting of applicators. Schemas come from elsewhere.
const MAX_LEVELS: usize = 16;

/// Removes the properties with hidden names from a schema.
pub(crate) fn hide(schema: &mut Value, is_hidden: &dyn Fn(&str) -> bool) {
    hide_within(schema, is_hidden, MAX_LEVELS);
}

fn hide_within(schema: &mut Value, is_hidden: &dyn Fn(&str) -> bool, levels: usize) {
    let Some(members) = schema.as_object_mut().filter(|_| levels > 0) else { return };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.retain(|name, _| !is_hidden(name));
    }
    remove_required(members, "required", is_hidden);
    if let Some(Value::Object(dependent)) = members.get_mut("dependentRequired") {
        dependent.retain(|name, _| !is_hidden(name));
        for names in dependent.values_mut().filter_map(Value::as_array_mut) {
            names.retain(|name| !name.as_str().is_some_and(is_hidden));
        }
    }
    // These schemas apply to the arguments, too.
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schemas = members.get_mut(keyword).and_then(Value::as_array_mut);
        for schema in schemas.into_iter().flatten() {
            hide_within(schema, is_hidden, levels - 1);
        }
    }
    for keyword in ["if", "then", "else", "not"] {
        if let Some(schema) = members.get_mut(keyword) {
            hide_within(schema, is_hidden, levels - 1);
        }
    }
    if let Some(Value::Object(dependent)) = members.get_mut("dependentSchemas") {
        dependent.retain(|name, _| !is_hidden(name));
        for schema in dependent.values_mut() {
            hide_within(schema, is_hidden, levels - 1);
        }
    }
}

/// Adds default values to the properties of a schema, which are not required any more.
pub(crate) fn set_defaults(schema: &mut Value, defaults: &Map<String, Value>) {
    let Some(members) = schema.as_object_mut().filter(|_| !defaults.is_empty()) else { return };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for (name, default) in defaults {
            // A property may be `true`, a schema without a place for a default.
            if let Some(Value::Object(property)) = properties.get_mut(name) {
                property.insert("default".to_owned(), default.clone());
            }
        }
    }
    remove_required(members, "required", &|name| defaults.contains_key(name));
}

/// Removes names from a list of required ones, and the list if nothing is left.
fn remove_required(
    members: &mut Map<String, Value>,
    keyword: &str,
    is_removed: &dyn Fn(&str) -> bool,
) {
    let Some(Value::Array(required)) = members.get_mut(keyword) else { return };
    let before = required.len();
    required.retain(|name| !name.as_str().is_some_and(is_removed));
    // Draft 4 forbids an empty list.
    if required.is_empty() && before > 0 {
        members.shift_remove(keyword);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_names_leave_the_schemas_that_apply_to_the_same_arguments() {
        let mut schema = json!({
            "properties": {"a": {}, "b": {"properties": {"a": {}}, "required": ["a"]}},
            "anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}],
            "then": {"properties": {"a": {}}},
            "dependentRequired": {"a": ["b"], "b": ["a"]},
            "dependentSchemas": {"a": {}, "b": {"required": ["a"]}},
        });
        hide(&mut schema, &|name| name == "a");
        assert_eq!(
            schema,
            json!({
                "properties": {"b": {"properties": {"a": {}}, "required": ["a"]}},
                "anyOf": [{}, {"required": ["b"]}],
                "then": {"properties": {}},
                "dependentRequired": {"b": []},
                "dependentSchemas": {"b": {}},
            })
        );
    }

    #[test]
    fn deep_and_odd_schemas_are_left() {
        let mut deep = json!({"required": ["a"]});
        for _ in 0..100 {
            deep = json!({"allOf": [deep]});
        }
        hide(&mut deep, &|_| true);
        for odd in [json!(true), json!(null), json!({"properties": [], "required": "a"})] {
            let mut schema = odd.clone();
            hide(&mut schema, &|_| true);
            set_defaults(&mut schema, &json!({"a": 1}).as_object().cloned().unwrap());
            assert_eq!(schema, odd);
        }
    }
}
