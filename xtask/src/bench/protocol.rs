//! `cargo xtask bench protocol`: calls of an echo tool, over every transport, with and without a
//! session.

use std::{process::ExitCode, time::Duration};

use clap::Args;

use super::{
    http,
    peer::{Peer, Program},
    progress_bar, report,
    row::{Row, Turns},
    stdio,
};
use crate::Failed;

/// Options of `bench protocol`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Measures one round of a second each.
    #[arg(long)]
    quick: bool,
    /// Number of rounds. Each peer has its turn in each round; its median counts.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    rounds: usize,
    /// Seconds of load in a turn.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    seconds: u64,
    /// Measures only the rows whose description contains this text, for example `HTTP 2025`.
    #[arg(long, value_name = "TEXT", conflicts_with = "write")]
    only: Option<String>,
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let (rounds, seconds) = if options.quick { (1, 1) } else { (options.rounds, options.seconds) };
    let only = options.only.as_deref().unwrap_or_default();
    let mut turns: Vec<Turns> = Row::all()
        .into_iter()
        .filter(|row| row.description().contains(only))
        .flat_map(|row| Peer::ALL.map(|peer| Turns { row, peer, measurements: Vec::new() }))
        .filter(|turns| turns.row.exists_for(turns.peer))
        .collect();

    let bar = progress_bar(turns.len() * rounds);
    let mut programs = Vec::new();
    for peer in Peer::ALL {
        bar.set_message(format!("building {}", peer.name()));
        programs.push(Program::build(peer)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for _ in 0..rounds {
        for turns in &mut turns {
            let what = format!("{}, {}", turns.row.description(), turns.peer.name());
            bar.set_message(what.clone());
            let time = Duration::from_secs(seconds);
            let program = programs
                .iter()
                .find(|program| program.peer == turns.peer)
                .ok_or_else(|| Failed::new("a peer without a program"))?;
            let result = match turns.row {
                Row::Http(row) => runtime.block_on(http::measure(program, row, time)),
                Row::Stdio(row) => stdio::measure(program, row, time),
            };
            let measurement = result.map_err(|error| Failed::new(format!("{what}: {error}")))?;
            turns.measurements.push(measurement);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();

    let report = report::report(&turns, rounds, seconds)?;
    println!("{report}");
    if options.write {
        report::write("protocol", &report)?;
    }
    Ok(ExitCode::SUCCESS)
}
