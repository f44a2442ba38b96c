//! `renderPlantUML` and `checkPlantUML`, with the PlantUML of this machine.

use std::{io::Write as _, path::PathBuf};

use marquetry::{App, Config};
use serde_json::json;

use crate::support::{Running, call};

/// PlantUML on the `PATH`; without one the test says so and is skipped, or fails when the
/// environment has `CI=true`.
fn plantuml() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("plantuml"));
    let found = programs.find(|program| program.is_file());
    if found.is_none() {
        let missing = "plantuml not found: apt-get install plantuml graphviz";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        let _ = std::io::stderr().write_all(format!("SKIPPED (1): {missing}\n").as_bytes());
    }
    found
}

#[tokio::test]
async fn diagrams_are_checked_and_drawn_on_this_machine() {
    let Some(program) = plantuml() else { return };
    let server = Running::start(&format!("[plantuml]\nengine = {program:?}\n")).await;
    let agent = server.agent().await;
    let checked = |code: &str| call(&agent, "checkPlantUML", json!({ "plantumlCode": code }));
    let answer = checked("A -> B\nfoo bar baz !!").await.unwrap();
    let error = &answer["structuredContent"]["error"];
    assert_eq!((&error["line"], &error["text"]), (&json!(2), &json!("foo bar baz !!")), "{answer}");
    let answer = checked("A -> B").await.unwrap();
    assert_eq!(answer["structuredContent"], json!({ "valid": true }));
    let drawn = |code: &str| call(&agent, "renderPlantUML", json!({ "plantumlCode": code }));
    let answer = drawn("A -> B").await.unwrap();
    let svg = answer["structuredContent"]["svg"].as_str().unwrap();
    assert!(svg.contains("<svg") && svg.ends_with("</svg>"), "{svg}");
    let answer = drawn("A -> B\n!include /etc/passwd").await.unwrap();
    assert_eq!(
        (&answer["isError"], &answer["structuredContent"]["error"]["line"]),
        (&json!(true), &json!(2))
    );
    server.stop().await;
}

#[tokio::test]
async fn an_engine_that_is_missing_is_named_at_the_start() {
    let config =
        Config::from_toml("[plantuml]\nengine = '/nowhere/plantuml.jar'", "test.toml").unwrap();
    let error = App::builder(config).start().await.err().unwrap().to_string();
    let want = r#"test.toml:2:10: plantuml.engine: "/nowhere/plantuml.jar" is not a file; "#;
    assert!(error.starts_with(want), "{error}");
}
