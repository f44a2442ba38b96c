//! The budgets of the console's page, measured in Chromium.

use std::process::{Command, ExitCode};

use super::program::Program;
use crate::{Failed, root};

pub(crate) fn run(program: &Program) -> Result<ExitCode, Failed> {
    let built = program.build()?;
    let folder = root().join("tests/browser");
    crate::browser::install()?;
    let status = Command::new("node")
        .arg("bench-console.mjs")
        .current_dir(folder)
        .env("MARQUETRY_BIN", built.join("marquetry"))
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
