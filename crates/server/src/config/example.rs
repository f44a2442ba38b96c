//! `marquetry.example.toml` is made from the types: their doc comments, defaults and examples.
//!
//! `MARQUETRY_UPDATE=1 cargo test -p marquetry example` rewrites it.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Config;

const HEAD: &str = "\
# Every setting of Marquetry with its default.
#
# marquetry serve --config marquetry.toml
# marquetry check --config marquetry.toml         says whether a file is right, and what it would start.
#
# Without --config the first of these is read: $MARQUETRY_CONFIG, $XDG_CONFIG_HOME/marquetry/marquetry.toml (or
# ~/.config/marquetry/marquetry.toml), /etc/marquetry/marquetry.toml. A file that others may write is refused.
#
# A setting without a default, and every upstream, stands here as a comment.
# This file is made from the program's own types: `MARQUETRY_UPDATE=1 cargo test -p marquetry example`.
";

fn example() -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let defaults = serde_json::to_value(Config::default()).unwrap();
    let mut page = Page { schema: &schema, text: HEAD.to_owned() };
    for (name, section) in page.properties(&schema) {
        if name != "mcp_servers" {
            page.section(&name, &section, &defaults[&name]);
        }
    }
    page.upstreams();
    page.text
}

struct Page<'s> {
    schema: &'s Value,
    text: String,
}

impl Page<'_> {
    fn section(&mut self, path: &str, schema: &Value, defaults: &Value) {
        self.text.push('\n');
        self.comment(schema);
        writeln!(self.text, "[{path}]").unwrap();
        let mut tables = Vec::new();
        for (name, key) in self.properties(schema) {
            match &defaults[&name] {
                Value::Object(inner) => tables.push((name, key, inner.clone())),
                Value::Null => {
                    self.comment(&key);
                    writeln!(self.text, "# {name} = {}", literal(&key["examples"][0])).unwrap();
                }
                default => {
                    self.comment(&key);
                    writeln!(self.text, "{name} = {}", literal(default)).unwrap();
                }
            }
        }
        for (name, key, inner) in tables {
            self.section(&format!("{path}.{name}"), &key, &Value::Object(inner));
        }
    }

    fn upstreams(&mut self) {
        let property = self.schema["properties"]["mcp_servers"].clone();
        let table = self.resolve(&property["additionalProperties"]);
        self.text.push('\n');
        self.comment(&property);
        self.text.push_str("#\n# [mcp_servers.NAME]\n");
        for (name, key) in self.properties(&table) {
            for line in key["description"].as_str().unwrap().lines() {
                writeln!(self.text, "# # {line}").unwrap();
            }
            writeln!(self.text, "# {name} = {}", literal(&key["examples"][0])).unwrap();
        }
    }

    fn comment(&mut self, schema: &Value) {
        let text = schema["description"].as_str().unwrap_or_else(|| panic!("no text: {schema}"));
        for line in text.lines() {
            writeln!(self.text, "# {line}").unwrap();
        }
    }

    fn properties(&self, schema: &Value) -> Map<String, Value> {
        let schema = self.resolve(schema);
        schema["properties"].as_object().unwrap_or_else(|| panic!("no keys: {schema}")).clone()
    }

    fn resolve(&self, schema: &Value) -> Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.schema.pointer(&reference[1..]).unwrap().clone(),
            None => schema.clone(),
        }
    }
}

/// A JSON value as TOML on one line.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => panic!("a key without a default needs an example"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key} = {}", literal(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

#[test]
fn the_example_file_is_complete_and_has_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../marquetry.example.toml");
    let want = example();
    if std::env::var_os("MARQUETRY_UPDATE").is_some() {
        std::fs::write(path, &want).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert_eq!(checked_in, want, "run MARQUETRY_UPDATE=1 cargo test -p marquetry example");
    assert_eq!(Config::from_toml(&checked_in, path).unwrap(), Config::default());
}

#[test]
fn what_stands_there_as_a_comment_is_right_too() {
    let mut text = String::new();
    for line in example().lines() {
        let key = line.strip_prefix("# ").filter(|l| l.starts_with('[') || l.contains(" = "));
        // Two ways to reach one upstream stand in the file; one is enough for a program.
        let http = ["url", "headers", "type", "auth"]
            .iter()
            .any(|k| line.starts_with(&format!("# {k} =")));
        if let Some(key) = key.filter(|l| !l.starts_with('#') && !http) {
            writeln!(text, "{key}").unwrap();
        } else if line.starts_with('[') {
            writeln!(text, "{line}").unwrap();
        }
    }
    let config = Config::from_toml_with(&text, "example", &|_| Some(String::new())).unwrap();
    assert_eq!(config.testing.seed, Some(7));
    assert_eq!(config.mcp_servers.len(), 1);
}
