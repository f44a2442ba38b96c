//! `cargo xtask bench`: how fast we are, beside others and the least that it can cost.

mod http;
mod peer;
mod process;
mod protocol;
mod report;
mod stdio;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Failed;

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask bench protocol           server CPU per request, requests per second, times and memory
  cargo xtask bench protocol --quick   one short round: whether it runs, not what it says
  cargo xtask bench protocol --write   puts the table into docs/benchmarks.md

Linux alone: CPU time and memory are read from /proc. HTTP is driven by `wrk` (apt-get install wrk).";

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Calls of an echo tool: ours, rmcp's, and the floor of bare hyper.
    Protocol(protocol::Options),
}

pub(crate) fn run(bench: &Bench) -> Result<ExitCode, Failed> {
    match bench {
        Bench::Protocol(options) => protocol::run(options),
    }
}
