//! `cargo xtask bench`: our speed and memory, beside those of other programs and of a minimal
//! server.

mod artifacts;
mod blocks;
mod console;
mod echo;
mod gateway;
mod http;
mod judge;
mod measurement;
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
  cargo xtask bench protocol           CPU per request, requests per second, latency and memory
  cargo xtask bench protocol --quick   check that the benchmark runs, with one short round
  cargo xtask bench protocol --write   put the table into docs/benchmarks.md
  cargo xtask bench gateway            CPU, latency and system calls of a call to a server behind us
  cargo xtask bench artifacts          time of capturing an answer
  cargo xtask bench sessions           memory of 10,000 idle sessions
  cargo xtask bench start              cold start, idle memory, size of tools/list
  cargo xtask bench rag --collection FOLDER  quality and speed of searches, compared with other programs
  cargo xtask bench rag --quick        check that the benchmark runs, with 10,000 chunks
  cargo xtask bench context-blocks     speed of finding blocks in text
  cargo xtask bench console            size of the console's page, and its speed in Chromium
  cargo xtask bench judge              overhead of a test with a model, compared with promptfoo

Linux only: CPU time and memory are read from /proc. HTTP needs `wrk`, and `gateway` needs
`strace` (apt-get install wrk strace).";

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure calls of an echo tool: Marquetry, rmcp, and bare hyper as the floor.
    Protocol(protocol::Options),
    /// Measure calls through a gateway: Marquetry, a floor that only forwards, and other programs.
    Gateway(gateway::Options),
    /// Measure the capture of answers, by store, size and kind.
    Artifacts(artifacts::Options),
    /// Measure the memory of an idle session: Marquetry and rmcp.
    Sessions(sessions::Options),
    /// Measure the server's cold start, idle memory, and size of tools/list.
    Start(start::Options),
    /// Measure retrieval: quality on a collection, and speed of writing, opening and searching.
    Rag(rag::Options),
    /// Measure finding, filtering and neutralising context blocks.
    ContextBlocks(blocks::Options),
    /// Measure the console: size of its page, first paint, long lists and texts.
    Console(program::Program),
    /// Measure tests with a model: overhead of a trial, and speed compared with promptfoo.
    Judge(program::Program),
}

pub(crate) fn run(bench: &Bench) -> Result<ExitCode, Failed> {
    match bench {
        Bench::Protocol(options) => protocol::run(options),
        Bench::Gateway(options) => gateway::run(options),
        Bench::Artifacts(options) => artifacts::run(options),
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
