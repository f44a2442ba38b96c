//! Generates `marquetry.example.toml` and `docs/reference/settings.md` from the types: their doc
//! comments, defaults and examples.
//!
//! `cargo xtask generate` writes them.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::Config;

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
# This file is made from the program's own types: `cargo xtask generate`.
";

const SETTINGS: &str = "\
# Settings

<!-- Generated from the program's types: cargo xtask generate -->

Settings are TOML. The program reads the first of these files that exists:

1. the file that `--config` names,
2. the file that the environment variable `MARQUETRY_CONFIG` names,
3. `$XDG_CONFIG_HOME/marquetry/marquetry.toml`, or `~/.config/marquetry/marquetry.toml`,
4. `/etc/marquetry/marquetry.toml`.

No file is required: every setting has a default. `marquetry check` reads the file and reports errors with their line and column; it
starts nothing. It stops at the first mistake in the TOML, such as an unknown name or a wrong type; of the settings that are read but cannot
work, it reports all. Of `[auth]`, `[knowledge.embedding]` and `[knowledge.chat]`, whose settings depend on each other, it reports the first. The file `marquetry.example.toml` of the repository holds the same settings, ready to copy.

A setting without a default is shown with an example.
";

/// Sections with a table for each name.
const NAMED: [&str; 3] = ["clients", "profiles", "mcp_servers"];

/// Settings that are lists of tables with keys of their own.
const LISTED: [&str; 1] = ["policy.rules"];

fn example() -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let mut page = Page { schema: &schema, text: HEAD.to_owned() };
    page.each_section(Page::section);
    for section in NAMED {
        page.named_section(section);
    }
    page.text
}

/// Returns the page of the book.
fn settings() -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let mut page = Page { schema: &schema, text: SETTINGS.to_owned() };
    page.each_section(Page::tables);
    for section in NAMED {
        page.named_table(section);
    }
    page.text
}

struct Page<'s> {
    schema: &'s Value,
    text: String,
}

impl Page<'_> {
    /// Calls `write` with the name, schema and defaults of each section but that of the upstreams.
    fn each_section(&mut self, write: fn(&mut Self, &str, &Value, &Value)) {
        let defaults = serde_json::to_value(Config::default()).unwrap();
        for (name, section) in self.properties(self.schema) {
            if !NAMED.contains(&name.as_str()) {
                write(self, &name, &section, &defaults[&name]);
            }
        }
    }

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
        for (name, key) in self.listed(path, schema) {
            writeln!(self.text, "#\n# [[{path}.{name}]]").unwrap();
            self.commented_keys(&self.resolve(&key["items"]));
        }
        for (name, key, inner) in tables {
            self.section(&format!("{path}.{name}"), &key, &Value::Object(inner));
        }
    }

    fn named_section(&mut self, section: &str) {
        let property = self.schema["properties"][section].clone();
        let table = self.resolve(&self.resolve(&property)["additionalProperties"]);
        self.text.push('\n');
        self.comment(&property);
        writeln!(self.text, "#\n# [{section}.NAME]").unwrap();
        self.commented_keys(&table);
    }

    /// Writes the keys of a table as comments.
    fn commented_keys(&mut self, table: &Value) {
        for (name, key) in self.properties(table) {
            for line in key["description"].as_str().unwrap().lines() {
                writeln!(self.text, "# # {line}").unwrap();
            }
            writeln!(self.text, "# {name} = {}", literal(&key["examples"][0])).unwrap();
        }
    }

    fn tables(&mut self, path: &str, schema: &Value, defaults: &Value) {
        write!(self.text, "\n## `[{path}]`\n\n{}\n\n", sentence(schema)).unwrap();
        self.text.push_str("| setting | default | meaning |\n|---|---|---|\n");
        let mut inner = Vec::new();
        for (name, key) in self.properties(schema) {
            let default = match &defaults[&name] {
                Value::Object(_) => {
                    inner.push((name, key));
                    continue;
                }
                Value::Null => format!("none; example: {}", code(&literal(&key["examples"][0]))),
                default => code(&literal(default)),
            };
            writeln!(self.text, "| `{name}` | {default} | {} |", cell(&sentence(&key))).unwrap();
        }
        for (name, key) in self.listed(path, schema) {
            let table = self.resolve(&key["items"]);
            write!(self.text, "\n## `[[{path}.{name}]]`\n\n{}\n\n", sentence(&table)).unwrap();
            self.keys(&table);
        }
        for (name, key) in inner {
            self.tables(&format!("{path}.{name}"), &key, &defaults[&name]);
        }
    }

    fn named_table(&mut self, section: &str) {
        let property = self.schema["properties"][section].clone();
        let table = self.resolve(&self.resolve(&property)["additionalProperties"]);
        write!(self.text, "\n## `[{section}.NAME]`\n\n{}\n\n", sentence(&property)).unwrap();
        self.keys(&table);
    }

    /// Writes a table of the keys with their examples.
    fn keys(&mut self, table: &Value) {
        self.text.push_str("| setting | example | meaning |\n|---|---|---|\n");
        for (name, key) in self.properties(table) {
            let example = code(&literal(&key["examples"][0]));
            writeln!(self.text, "| `{name}` | {example} | {} |", cell(&sentence(&key))).unwrap();
        }
    }

    /// Returns the settings of a section that are lists of tables.
    fn listed(&self, path: &str, section: &Value) -> Vec<(String, Value)> {
        let keys = self.properties(section).into_iter();
        keys.filter(|(name, _)| LISTED.contains(&format!("{path}.{name}").as_str())).collect()
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

/// Returns the description of a setting, on one line.
fn sentence(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_else(|| panic!("no text: {schema}"));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// Returns a JSON value as TOML, on one line.
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

/// Compares a generated file of the repository, or writes it with `MARQUETRY_UPDATE` set.
fn check_file(path: &str, want: &str) {
    if std::env::var_os("MARQUETRY_UPDATE").is_some() {
        std::fs::write(path, want).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert_eq!(checked_in, want, "run cargo xtask generate");
}

#[test]
fn the_example_file_is_complete_and_has_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../marquetry.example.toml");
    let want = example();
    check_file(path, &want);
    assert_eq!(Config::from_toml(&want, path).unwrap(), Config::default());
}

#[test]
fn the_reference_has_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
    check_file(path, &settings());
}

fn is_table(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']')
}

/// Returns whether a line is a setting, and not a sentence about one.
fn is_setting(line: &str) -> bool {
    let key = line.split_once(" = ").map_or("", |(key, _)| key);
    !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

#[test]
fn settings_in_comments_are_valid() {
    let mut text = String::new();
    for line in example().lines() {
        let key = line.strip_prefix("# ").filter(|l| is_table(l) || is_setting(l));
        // The file shows two ways to reach one upstream; this removes one.
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
