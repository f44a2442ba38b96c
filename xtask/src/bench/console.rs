//! The budgets of the console's page, measured in Chromium.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Failed, cargo_command, root};

/// What is measured with.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Measure the program of the build for tests, which exists already.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let profile = if options.quick { "debug" } else { "release" };
    if !options.quick {
        let built = cargo_command()
            .args(["build", "--release", "--package", "marquetry", "--bin", "marquetry"])
            .current_dir(root())
            .status()?;
        if !built.success() {
            return Err(Failed::new("the program does not build"));
        }
    }
    let folder = root().join("tests/browser");
    crate::browser::install()?;
    let status = Command::new("node")
        .arg("bench-console.mjs")
        .current_dir(folder)
        .env("MARQUETRY_BIN", root().join("target").join(profile).join("marquetry"))
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
