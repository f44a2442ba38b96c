//! Tests with a model: the harness's own cost, and its speed beside promptfoo.

use std::process::{Command, ExitCode};

use super::program::Program;
use crate::{Failed, root};

/// Runs the benchmark. Fails if a trial costs over 5 ms, or if promptfoo takes less than 5 times as
/// long.
pub(crate) fn run(program: &Program) -> Result<ExitCode, Failed> {
    let built = program.build()?;
    let peer = root().join("bench/peers/promptfoo");
    if !peer.join("node_modules").exists() {
        let installed = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&peer)
            .status();
        // Without promptfoo only our own cost is measured, and the report says that the comparison
        // was skipped.
        if !installed.is_ok_and(|status| status.success()) {
            println!("promptfoo could not be installed");
        }
    }
    let status = Command::new("node")
        .arg("bench-judge.mjs")
        .current_dir(root().join("tests/judge"))
        .env("MARQUETRY_BUILT", built)
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
