//! `cargo xtask bench`: our speed and memory, beside those of other programs and of a minimal
//! server.

mod blocks;
mod console;
mod echo;
mod http;
mod judge;
mod measured;
mod peer;
mod program;
mod protocol;
mod rag;
mod report;
mod row;
mod sessions;
mod start;
mod stdio;

use std::{
    io::IsTerminal as _,
    process::{ExitCode, Stdio},
    time::Duration,
};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{Failed, cargo_command, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask bench protocol           server CPU per request, requests per second, times and memory
  cargo xtask bench protocol --quick   one short round: whether it runs, not what it says
  cargo xtask bench protocol --write   puts the table into docs/benchmarks.md
  cargo xtask bench sessions           what 10,000 idle sessions cost in memory
  cargo xtask bench start              cold start to ready, idle memory, size of tools/list
  cargo xtask bench rag --collection FOLDER  what searches find, and how fast they are, beside others
  cargo xtask bench rag --quick        10,000 chunks alone
  cargo xtask bench context-blocks     how fast text is searched for blocks
  cargo xtask bench console            size of the console's page, and how fast it is in Chromium
  cargo xtask bench judge              own cost of a test with a model, and speed beside promptfoo

Linux alone: CPU time and memory are read from /proc. HTTP is driven by `wrk` (apt-get install wrk).";

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Calls of an echo tool: ours, rmcp's, and the floor of bare hyper.
    Protocol(protocol::Options),
    /// Memory of an idle session: ours and rmcp's.
    Sessions(sessions::Options),
    /// Cold start to ready, idle memory, and size of tools/list of the built server.
    Start(start::Options),
    /// Retrieval: quality on a collection, speed of writing, opening and searching a database.
    Rag(rag::Options),
    /// Context blocks: finding, filtering and neutralising them.
    ContextBlocks(blocks::Options),
    /// The console: size of its page, first paint, long lists and texts.
    Console(program::Program),
    /// Tests with a model: own cost of a trial, and speed beside promptfoo.
    Judge(program::Program),
}

pub(crate) fn run(bench: &Bench) -> Result<ExitCode, Failed> {
    match bench {
        Bench::Protocol(options) => protocol::run(options),
        Bench::Sessions(options) => sessions::run(options),
        Bench::Start(options) => start::run(options),
        Bench::Rag(options) => rag::run(options),
        Bench::ContextBlocks(options) => blocks::run(options),
        Bench::Console(options) => console::run(options),
        Bench::Judge(options) => judge::run(options),
    }
}

/// Returns the output of an example of a crate.
fn example(
    package: &str,
    features: &[&str],
    name: &str,
    arguments: &[&str],
) -> Result<String, Failed> {
    let output = cargo_command()
        .args(["run", "--quiet", "--release", "--package", package, "--features"])
        .args([&features.join(","), "--example", name, "--"])
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(Failed::new(format!("the example {name} failed: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn progress_bar(turns: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(turns as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}, {eta} to go; {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
