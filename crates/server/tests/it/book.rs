//! `docs/reference/tools.md` agrees with `tools/list`.
//!
//! `cargo xtask generate` writes it.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Running;

const HEAD: &str = "\
# Tools

<!-- Generated from tools/list: cargo xtask generate -->

Marquetry has these tools of its own, beside those of the upstreams. `[tools]` in the [settings](settings.md) switches groups of them on and off; `am7_embed` is off by default, and `am7_chat` is
listed when `[knowledge.chat]` names a model. Where PlantUML is installed, `renderPlantUML` and `checkPlantUML` [draw and check diagrams](../guide/diagrams.md).

An argument that is not required may be left out.
";

#[tokio::test]
async fn the_reference_of_tools_matches_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("knowledge.db");
    let toml = format!(
        "tools.embedding = true\n[knowledge]\ndatabase = {database:?}\n[knowledge.chat]\nprovider = 'ollama'\nmodel = 'any'\n"
    );
    let server = Running::start(&toml).await;
    let answer = server.http("POST", "/mcp/v1/tools/list", &[], b"{}").await;
    server.stop().await;

    let want = page(answer.json()["tools"].as_array().unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tools.md");
    if std::env::var_os("MARQUETRY_UPDATE").is_some() {
        std::fs::write(path, &want).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert_eq!(checked_in, want, "run cargo xtask generate");
}

fn page(tools: &[Value]) -> String {
    let mut page = HEAD.to_owned();
    for tool in tools {
        let text = |key: &str| tool[key].as_str().unwrap_or_else(|| panic!("no {key}: {tool}"));
        write!(page, "\n## `{}`\n\n{}\n", text("name"), text("description")).unwrap();
        let schema = &tool["inputSchema"];
        let Some(arguments) = schema["properties"].as_object().filter(|it| !it.is_empty()) else {
            continue;
        };
        page.push_str("\n| argument | type | required | meaning |\n|---|---|---|---|\n");
        let required: Vec<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, argument) in arguments {
            let is_required = if required.contains(&name.as_str()) { "yes" } else { "" };
            let mut meaning = argument["description"].as_str().unwrap_or_default().to_owned();
            if let Some(default) = argument.get("default") {
                write!(meaning, " Default: `{default}`.").unwrap();
            }
            let meaning = meaning.trim().replace('|', "\\|");
            writeln!(page, "| `{name}` | {} | {is_required} | {meaning} |", kind(argument))
                .unwrap();
        }
    }
    page
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(schema)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    schema.get("items").map_or_else(|| "any".to_owned(), kind)
}
