//! `cargo xtask schema`: the JSON Schema of the scenario language.

use std::{fs, process::ExitCode};

use clap::Args;

use crate::{Failed, root};

const FILE: &str = "tests/scenarios/scenario.schema.json";

/// Options of `schema`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Writes nothing, and fails if the file is not up to date.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let path = root().join(FILE);
    let schema = marquetry_scenarios::schema();
    if !options.check {
        fs::write(&path, schema)?;
        println!("wrote {FILE}");
        return Ok(ExitCode::SUCCESS);
    }
    if fs::read_to_string(&path).is_ok_and(|found| found == schema) {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failed::new(format!("{FILE} is not up to date; `cargo xtask schema` writes it")))
}
