//! `cargo xtask bench gateway`: what a call costs on its way through a gateway to a server on
//! pipes.

mod load;
mod server;
mod system_calls;
mod table;

use std::{process::ExitCode, time::Duration};

use clap::Args;

use self::{
    load::Session,
    server::{Kind, Programs, RunningServer},
    system_calls::SystemCalls,
};
use super::{measurement::Measurement, progress_bar, report};
use crate::Failed;

/// Lengths of the answers' texts, in bytes.
const SIZES: [usize; 5] = [16, 1 << 10, 30_000, 64 << 10, 1 << 20];
/// Numbers of calls in flight.
const IN_FLIGHT: [usize; 3] = [1, 8, 32];

/// Options of `bench gateway`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Measures one round of a second each.
    #[arg(long)]
    quick: bool,
    /// Number of rounds. Each server has its turn in each round; its median counts.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    rounds: usize,
    /// Seconds of load in a turn.
    #[arg(long, default_value_t = 1, conflicts_with = "quick")]
    seconds: u64,
    /// Measures answers of this length only, in bytes.
    #[arg(long, value_name = "BYTES", conflicts_with = "write")]
    bytes: Option<usize>,
    /// Leaves out the servers that npm and PyPI provide.
    #[arg(long, conflicts_with = "write")]
    without_peers: bool,
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// A length of the answer, and a number of calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    bytes: usize,
    in_flight: usize,
}

/// The turns of one server at one row.
#[derive(Debug)]
struct Turns {
    row: Row,
    server: Kind,
    measurements: Vec<Measurement>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let rounds = if options.quick { 1 } else { options.rounds };
    let seconds = if options.quick { 1 } else { options.seconds };
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| !options.without_peers || !kind.is_peer()).collect();
    let mut turns = Vec::new();
    for bytes in SIZES.into_iter().filter(|size| options.bytes.is_none_or(|only| only == *size)) {
        for in_flight in IN_FLIGHT {
            let row = Row { bytes, in_flight };
            for server in &kinds {
                turns.push(Turns { row, server: *server, measurements: Vec::new() });
            }
        }
    }

    let bar = progress_bar(turns.len() * rounds + kinds.len());
    bar.set_message("building");
    let programs = Programs::build(!options.without_peers)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut servers = Vec::new();
    for kind in kinds {
        bar.set_message(format!("starting {}", kind.name()));
        let running = RunningServer::start(kind, &programs)?;
        let session = runtime
            .block_on(Session::open(&running))
            .map_err(|error| Failed::new(format!("{}: {error}", kind.name())))?;
        servers.push((running, session));
    }
    for _ in 0..rounds {
        for turns in &mut turns {
            let name = turns.server.name();
            bar.set_message(format!("{name}, {} B", turns.row.bytes));
            let Some((running, session)) =
                servers.iter().find(|(running, _)| running.kind == turns.server)
            else {
                return Err(Failed::new(format!("{name} does not run")));
            };
            let measurement = runtime
                .block_on(session.measure(running, turns.row, Duration::from_secs(seconds)))
                .map_err(|error| Failed::new(format!("{name}, {:?}: {error}", turns.row)))?;
            turns.measurements.push(measurement);
            bar.inc(1);
        }
    }
    let mut system_calls = Vec::new();
    for (running, session) in &servers {
        bar.set_message(format!("system calls of {}", running.kind.name()));
        system_calls.push((running.kind, SystemCalls::count(running, session)?));
        bar.inc(1);
    }
    bar.finish_and_clear();

    let report = table::report(&turns, &system_calls, rounds, seconds)?;
    println!("{report}");
    if options.write {
        report::write("gateway", &report)?;
    }
    Ok(ExitCode::SUCCESS)
}
