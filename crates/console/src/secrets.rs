//! Members that the schema of a tool marks as secret.

use std::collections::BTreeSet;

use marquetry_redact::json_without_secrets;
use serde_json::Value;

/// Placeholder for a secret. The console's page knows it, too (`page/json.js`).
const HIDDEN: &str = "(hidden)";

/// Returns recorded JSON without its secrets; `secret_names` are those that the schema of the tool
/// marks.
pub(crate) fn without_secrets(json: &str, secret_names: &[String]) -> String {
    json_without_secrets(json, secret_names, HIDDEN)
}

/// Returns the names of members that a schema marks as secret: `format: password` or `writeOnly:
/// true`.
#[must_use]
pub fn secret_names(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    collect(schema, schema, &mut names, 0);
    names
}

const MAX_DEPTH: usize = 32;

/// Maximum number of schemas that are inspected for one member.
const MAX_LOOKS: usize = 1_000;

/// Returns whether a member with this schema holds secrets. If the schema is too large to inspect,
/// the member counts as secret.
fn is_marked(schema: &Value, root: &Value) -> bool {
    let mut open = vec![schema];
    // References may lead to themselves.
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        let Some(schema) = next.as_object().filter(|_| seen.insert(std::ptr::from_ref(next)))
        else {
            continue;
        };
        if seen.len() > MAX_LOOKS {
            return true;
        }
        let format = schema.get("format").and_then(Value::as_str);
        let is_write_only = schema.get("writeOnly").and_then(Value::as_bool);
        if format == Some("password") || is_write_only == Some(true) {
            return true;
        }
        let lists = ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter();
        open.extend(lists.filter_map(|name| schema.get(name)?.as_array()).flatten());
        // A list or a map of secrets is secret as a whole.
        open.extend(["items", "additionalProperties"].into_iter().filter_map(|it| schema.get(it)));
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        open.extend(patterns.into_iter().flat_map(|patterns| patterns.values()));
        let to = schema.get("$ref").and_then(Value::as_str);
        open.extend(to.and_then(|to| root.pointer(to.strip_prefix('#')?)));
    }
    false
}

fn collect(schema: &Value, root: &Value, names: &mut Vec<String>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                for (name, property) in properties {
                    if is_marked(property, root) {
                        names.push(name.clone());
                    }
                }
            }
            members.values().for_each(|member| collect(member, root, names, depth + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, root, names, depth + 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_hidden_by_the_schema() {
        let schema = json!({"properties": {
            "pin": {"type": "integer", "writeOnly": true},
            "login": {"type": "object", "properties": {"word": {"type": "string", "format": "password"}}},
        }});
        let names = secret_names(&schema);
        assert_eq!(names, ["pin", "word"]);
        let shown = without_secrets(
            &json!({"pin": 1234, "login": {"word": "xyzzy", "name": "anna"}}).to_string(),
            &names,
        );
        assert!(
            !shown.contains("1234") && !shown.contains("xyzzy") && shown.contains("anna"),
            "{shown}"
        );
    }

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let own = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "items": {"$ref": "#"}});
        let mut schema = own.clone();
        schema["properties"] = json!({"a": own});
        assert!(secret_names(&schema).is_empty());
        let many: Vec<_> = (0..2_000).map(|_| json!({"type": "string"})).collect();
        let schema = json!({"properties": {"a": {"anyOf": many}}});
        assert_eq!(secret_names(&schema), ["a"], "too much to look through");
    }

    #[test]
    fn lists_and_maps_of_secrets_are_marked() {
        let password = json!({"type": "string", "format": "password"});
        let schema = json!({"properties": {
            "pins": {"type": "array", "items": password},
            "by_host": {"type": "object", "additionalProperties": password},
            "plain": {"type": "array", "items": {"type": "string"}},
        }});
        assert_eq!(secret_names(&schema), ["pins", "by_host"]);
    }

    #[test]
    fn alternatives_and_references_are_looked_through() {
        let schema = json!({
            "$defs": {"word": {"type": "string", "format": "password"}, "loop": {"$ref": "#/$defs/loop"}},
            "properties": {
                "a": {"anyOf": [{"type": "string", "writeOnly": true}, {"type": "null"}]},
                "b": {"$ref": "#/$defs/word"},
                "c": {"allOf": [{"$ref": "#/$defs/word"}]},
                "d": {"$ref": "#/$defs/loop"},
            },
        });
        assert_eq!(secret_names(&schema), ["a", "b", "c"]);
    }
}
