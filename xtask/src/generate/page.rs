//! Pages of the book that are made of a JSON Schema: a table for each type.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const GENERATED: &str = "<!-- Generated: cargo xtask generate -->";

/// Returns the page of test cases. The operators of matchers are not in the schema.
pub(super) fn cases(schema: &Value, matchers: &str) -> String {
    let mut page = format!(
        "# Test cases\n\n{GENERATED}\n\n\
         A case file is YAML or JSON. [Test with a model](../guide/test-with-a-model.md) explains how to write and run one. \
         `marquetry test --schema cases` prints the JSON Schema, of which the tables below are made.\n\n\
         ## Case file\n\n"
    );
    add_type(&mut page, schema);
    for (name, definition) in definitions(schema) {
        if name == "Matcher" {
            write!(page, "## `Matcher`\n\n{matchers}\n\n").expect("a string takes all text");
        } else {
            add_definition(&mut page, name, definition);
        }
    }
    finished(&page)
}

/// Returns the page of the scenario language: its description, then the keys of each type.
pub(super) fn scenarios(schema: &Value, language: &str) -> String {
    let mut page = format!(
        "# Scenario language\n\n{GENERATED}\n\n\
         [Test with scenarios](../guide/scenarios.md) explains how to run scenarios. `marquetry test --schema scenarios` prints the JSON \
         Schema, of which the tables [at the end](#all-keys) are made.\n\n\
         {language}\n\n## All keys\n\nThe keys of a scenario:\n\n"
    );
    add_type(&mut page, schema);
    for (name, definition) in definitions(schema) {
        add_definition(&mut page, name, definition);
    }
    finished(&page)
}

/// Returns the description of the language from the README of its crate: one chapter, up to the
/// next chapter or the end.
pub(super) fn language(readme: &str) -> String {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in readme.lines().skip_while(|line| *line != "# The language").skip(1) {
        is_code ^= line.starts_with("```");
        // In code, `# ` begins a comment.
        if line.starts_with("# ") && !is_code {
            break;
        }
        lines.push(line);
    }
    lines.join("\n").trim().to_owned()
}

/// Returns the text about matchers in the documentation of their module, without its example.
pub(super) fn table_of_matchers(source: &str) -> String {
    let lines: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim_start)
        .take_while(|line| !line.starts_with("```"))
        .collect();
    lines.join("\n").trim().to_owned()
}

fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["$defs"].as_object().into_iter().flatten()
}

fn add_definition(page: &mut String, name: &str, definition: &Value) {
    write!(page, "## `{name}`\n\n").expect("a string takes all text");
    if let Some(description) = definition["description"].as_str() {
        *page += &format!("{}\n\n", without_examples(description));
    }
    add_type(page, definition);
}

/// Adds the table of an object's keys, of an enum's values, or of each alternative.
fn add_type(page: &mut String, schema: &Value) {
    if let Some(properties) = schema["properties"].as_object() {
        add_keys(page, properties, &schema["required"]);
        return;
    }
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array());
    let Some(alternatives) = alternatives else {
        *page += &format!("Type: {}.\n\n", type_of(schema));
        return;
    };
    if alternatives.iter().all(|it| it["const"].is_string()) {
        *page += "| value | meaning |\n|---|---|\n";
        for alternative in alternatives {
            *page += &format!("| `{}` | {} |\n", text(&alternative["const"]), meaning(alternative));
        }
        *page += "\n";
        return;
    }
    *page += &format!("Type: {}.\n\n", type_of(schema));
    for alternative in alternatives {
        let Some(properties) = alternative["properties"].as_object() else { continue };
        let kind = properties.values().find_map(|it| it["const"].as_str());
        match kind {
            Some(kind) => *page += &format!("Keys of the kind `{kind}`:\n\n"),
            None => *page += "Keys of the object:\n\n",
        }
        add_keys(page, properties, &alternative["required"]);
    }
}

fn add_keys(page: &mut String, properties: &Map<String, Value>, required: &Value) {
    *page += "| key | type | default | meaning |\n|---|---|---|---|\n";
    for (key, schema) in properties {
        let is_required = required.as_array().is_some_and(|it| it.iter().any(|name| name == key));
        let default = match &schema["default"] {
            _ if is_required => "required".to_owned(),
            Value::Null => String::new(),
            Value::Object(members) if !members.is_empty() => "see its table".to_owned(),
            default => format!("`{default}`"),
        };
        *page += &format!("| `{key}` | {} | {default} | {} |\n", type_of(schema), meaning(schema));
    }
    *page += "\n";
}

/// Returns the type of a value in words, with links to the tables of named types.
fn type_of(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(constant) = schema.get("const") {
        return format!("`{}`", text(constant));
    }
    if let Some(values) = schema["enum"].as_array() {
        return or(values.iter().map(|value| format!("`{}`", text(value))));
    }
    if let Some(alternatives) = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array()) {
        return or(alternatives.iter().map(type_of).filter(|it| it != "null"));
    }
    match &schema["type"] {
        Value::String(name) => type_named(name, schema),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            or(names.map(|name| type_named(name, schema)))
        }
        _ => "any".to_owned(),
    }
}

fn type_named(name: &str, schema: &Value) -> String {
    match name {
        "array" if schema["items"].is_object() => format!("list of {}", type_of(&schema["items"])),
        "array" => "list".to_owned(),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", type_of(&schema["additionalProperties"]))
        }
        "object" => "object".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

fn or(alternatives: impl Iterator<Item = String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for alternative in alternatives {
        if !different.contains(&alternative) {
            different.push(alternative);
        }
    }
    different.join(" or ")
}

/// Returns a value as a user writes it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the description of a value as one line of a table.
fn meaning(schema: &Value) -> String {
    let description = schema["description"].as_str().unwrap_or_default();
    without_examples(description).replace('\n', " ").replace('|', "\\|")
}

/// Removes examples in Rust, which are for users of the crate.
fn without_examples(description: &str) -> String {
    let prose: Vec<&str> = description.split("```").step_by(2).map(str::trim).collect();
    prose.join(" ").trim().to_owned()
}

/// Returns the page with exactly one newline at its end.
fn finished(page: &str) -> String {
    format!("{}\n", page.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, want: &str) {
        let mut page = String::new();
        add_type(&mut page, &schema);
        assert_eq!(page.trim_end(), want);
    }

    #[test]
    fn keys_have_type_default_and_meaning() {
        check(
            json!({
                "properties": {
                    "id": {"type": "string", "description": "Its\nname: a|b."},
                    "n": {"type": ["integer", "null"], "default": 3},
                    "all": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
                    "limits": {"$ref": "#/$defs/Limits", "default": {"a": 1}},
                },
                "required": ["id"],
            }),
            "\
| key | type | default | meaning |
|---|---|---|---|
| `id` | string | required | Its name: a\\|b. |
| `n` | integer | `3` |  |
| `all` | list of [Step](#step) |  |  |
| `limits` | [Limits](#limits) | see its table |  |",
        );
    }

    #[test]
    fn values_of_an_enum_are_a_table() {
        check(
            json!({"oneOf": [{"const": "exact", "description": "No others."}, {"const": "any"}]}),
            "| value | meaning |\n|---|---|\n| `exact` | No others. |\n| `any` |  |",
        );
    }

    #[test]
    fn alternatives_are_named_and_their_objects_have_tables() {
        check(
            json!({"anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"type": {"const": "stdio"}, "env": {"type": "object", "additionalProperties": {"type": "string"}}}},
                {"type": "null"},
            ]}),
            "\
Type: string or object.

Keys of the kind `stdio`:

| key | type | default | meaning |
|---|---|---|---|
| `type` | `stdio` |  |  |
| `env` | map to string |  |  |",
        );
    }

    #[test]
    fn examples_in_rust_are_left_out() {
        assert_eq!(without_examples("A case.\n\n```\nlet a;\n```"), "A case.");
        let source = "//! Matchers.\n//!\n//! | a |\n//!\n//! ```\n//! use b;\n//! ```\n\nuse c;\n";
        assert_eq!(table_of_matchers(source), "Matchers.\n\n| a |");
    }

    #[test]
    fn the_language_is_one_chapter_of_the_readme() {
        let readme = "# a\nb\n# The language\n\n```yaml\n# c\n```\n## d\n# e\n";
        assert_eq!(language(readme), "```yaml\n# c\n```\n## d");
    }
}
