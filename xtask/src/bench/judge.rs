//! Tests with a model: the harness's own cost, and its speed beside promptfoo.

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

/// Fails if a trial costs over 5 ms, or if promptfoo takes less than 5 times as long.
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
    let peer = root().join("bench/peers/promptfoo");
    if !peer.join("node_modules").exists() {
        let installed = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&peer)
            .status();
        // Without it our own cost is measured, and the comparison says that it is skipped.
        if !installed.is_ok_and(|status| status.success()) {
            println!("promptfoo could not be installed");
        }
    }
    let status = Command::new("node")
        .arg("bench-judge.mjs")
        .current_dir(root().join("tests/judge"))
        .env("MARQUETRY_BUILT", root().join("target").join(profile))
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
