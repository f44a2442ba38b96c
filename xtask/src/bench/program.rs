//! The program that a benchmark measures.

use std::path::PathBuf;

use clap::Args;

use crate::{Failed, cargo_command, root};

/// Which program is measured.
#[derive(Args, Debug)]
pub(crate) struct Program {
    /// Measures the debug build that tests use, to check that the benchmark runs.
    #[arg(long)]
    quick: bool,
}

impl Program {
    /// Builds the program, and returns the folder that has it.
    pub(super) fn build(&self) -> Result<PathBuf, Failed> {
        let target = root().join("target");
        if self.quick {
            return Ok(target.join("debug"));
        }
        let built = cargo_command()
            .args(["build", "--release", "--package", "marquetry", "--bin", "marquetry"])
            .current_dir(root())
            .status()?;
        if built.success() {
            Ok(target.join("release"))
        } else {
            Err(Failed::new("the program failed to build"))
        }
    }
}
