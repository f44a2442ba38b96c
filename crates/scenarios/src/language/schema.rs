//! The JSON Schema of the language, for editors.

use marquetry_protocol::join_description_lines;
use schemars::Schema;

use super::Scenario;

/// Returns the JSON Schema of the scenario language. Editors complete scenarios with it.
///
/// # Panics
///
/// Never: a schema is plain JSON.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    join_description_lines(&mut schema);
    // A `Schema` is written with its title and description first.
    let schema = Schema::try_from(schema).expect("a schema is an object");
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The README describes every key of the language, and no other keys.
    #[test]
    fn the_readme_names_every_key_and_matcher() {
        fn keys(schema: &Value, found: &mut BTreeSet<String>) {
            match schema {
                Value::Object(members) => {
                    if let Some(Value::Object(properties)) = members.get("properties") {
                        found.extend(properties.keys().cloned());
                    }
                    members.values().for_each(|value| keys(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| keys(value, found)),
                _ => {}
            }
        }
        let mut known = BTreeSet::new();
        keys(&serde_json::from_str(&schema()).unwrap(), &mut known);
        let readme = include_str!("../../README.md");
        let words: BTreeSet<&str> =
            readme.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$')).collect();
        let missing: Vec<&String> =
            known.iter().filter(|key| !words.contains(key.as_str())).collect();
        assert!(missing.is_empty(), "not in the README: {missing:?}");
        // `$schema` is in a comment for editors.
        let matchers = words
            .iter()
            .filter(|word| word.len() > 1 && word.starts_with('$') && **word != "$schema");
        let unknown: Vec<_> = matchers.filter(|word| !known.contains(**word)).collect();
        assert!(unknown.is_empty(), "in the README, and not in the language: {unknown:?}");
    }
}
