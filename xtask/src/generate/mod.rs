//! `cargo xtask generate`: the files of the repository that are made from the code.

mod page;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::Value;

use crate::{Failed, cargo_command, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask generate           write docs/reference, marquetry.example.toml, schemas and shared test cases
  cargo xtask generate --check   fail if one of these files is out of date";

const SCENARIO_SCHEMA: &str = "tests/scenarios/scenario.schema.json";
/// Made by a test of the crate; the page of cases is made from it.
const CASE_SCHEMA: &str = "crates/judge/case-file.schema.json";

/// Tests that compare a generated file with the code, and write it if `MARQUETRY_UPDATE` is set.
const TESTS: &[&str] = &[
    // marquetry.example.toml and docs/reference/settings.md
    "the_example_file_is_complete_and_has_the_defaults",
    "the_reference_has_every_setting",
    // docs/reference/commands.md
    "the_reference_of_commands_is_the_help",
    // docs/reference/tools.md
    "the_reference_of_tools_matches_the_list",
    // CASE_SCHEMA
    "the_schema_is_up_to_date",
    // tests/context-blocks
    "results_of_the_cases_are_up_to_date",
    "results_of_generated_texts_are_up_to_date",
];

/// Options of `generate`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Writes nothing, and fails if a file is out of date.
    #[arg(long)]
    check: bool,
    /// Leaves out the files that tests of the crates write and compare. `ci` runs these tests
    /// anyway.
    #[arg(long, hide = true)]
    without_tests: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    if !options.without_tests {
        run_tests(options.check)?;
    }
    for (path, text) in files(&root())? {
        let shown = path.strip_prefix(root()).unwrap_or(&path).display();
        if !options.check {
            fs::write(&path, text)?;
            println!("wrote {shown}");
        } else if !fs::read_to_string(&path).is_ok_and(|found| found == text) {
            let message = format!("{shown} is out of date; `cargo xtask generate` writes it");
            return Err(Failed::new(message));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_tests(is_check: bool) -> Result<(), Failed> {
    let mut command = cargo_command();
    command
        .args(["test", "--workspace", "--all-features", "--quiet"])
        .args(["--lib", "--test", "it", "--test", "agreement", "--"])
        .args(TESTS)
        .current_dir(root());
    if !is_check {
        command.env("MARQUETRY_UPDATE", "1");
    }
    if command.status()?.success() {
        return Ok(());
    }
    Err(Failed::new("a generated file is out of date, or its test failed"))
}

/// Returns the files with their texts.
fn files(root: &Path) -> Result<Vec<(PathBuf, String)>, Failed> {
    let scenarios = marquetry_scenarios::schema();
    let cases = parse(&read(root, CASE_SCHEMA)?)?;
    let matchers = page::table_of_matchers(&read(root, "crates/judge/src/matcher.rs")?);
    let language = page::language(&read(root, "crates/scenarios/README.md")?);
    let scenario_page = page::scenarios(&parse(&scenarios)?, &language);
    Ok(vec![
        (root.join("docs/reference/cases.md"), page::cases(&cases, &matchers)),
        (root.join("docs/reference/scenarios.md"), scenario_page),
        (root.join(SCENARIO_SCHEMA), scenarios),
    ])
}

fn read(root: &Path, path: &str) -> Result<String, Failed> {
    fs::read_to_string(root.join(path)).map_err(|error| Failed::new(format!("{path}: {error}")))
}

fn parse(schema: &str) -> Result<Value, Failed> {
    serde_json::from_str(schema)
        .map_err(|error| Failed::new(format!("a schema is not JSON: {error}")))
}
