//! `cargo xtask schema`: the JSON Schema of the scenario language, and the pages of the book that
//! are made of schemas.

mod page;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::Value;

use crate::{Failed, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask schema           writes tests/scenarios/scenario.schema.json, docs/reference/cases.md and docs/reference/scenarios.md
  cargo xtask schema --check   fails when one of these files is not what would be written

The page of cases is made of crates/test-server/case-file.schema.json, which a test of that crate writes.";

const SCENARIO_SCHEMA: &str = "tests/scenarios/scenario.schema.json";
const CASE_SCHEMA: &str = "crates/test-server/case-file.schema.json";

/// Options of `schema`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Writes nothing, and fails if a file is not up to date.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    for (path, text) in files(&root())? {
        let shown = path.strip_prefix(root()).unwrap_or(&path).display();
        if !options.check {
            fs::write(&path, text)?;
            println!("wrote {shown}");
        } else if !fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Err(Failed::new(format!(
                "{shown} is not up to date; `cargo xtask schema` writes it"
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the files with their texts.
fn files(root: &Path) -> Result<Vec<(PathBuf, String)>, Failed> {
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path));
        text.map_err(|error| Failed::new(format!("{path}: {error}")))
    };
    let parse = |text: &str| {
        let value: Result<Value, _> = serde_json::from_str(text);
        value.map_err(|error| Failed::new(format!("a schema is not JSON: {error}")))
    };
    let scenarios = marquetry_scenarios::schema();
    let cases = parse(&read(CASE_SCHEMA)?)?;
    let matchers = page::table_of_matchers(&read("crates/judge/src/matcher.rs")?);
    let language = page::language(&read("crates/scenarios/README.md")?);
    let scenario_page = page::scenarios(&parse(&scenarios)?, &language);
    Ok(vec![
        (root.join("docs/reference/cases.md"), page::cases(&cases, &matchers)),
        (root.join("docs/reference/scenarios.md"), scenario_page),
        (root.join(SCENARIO_SCHEMA), scenarios),
    ])
}
