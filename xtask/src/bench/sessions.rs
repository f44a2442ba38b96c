//! `cargo xtask bench sessions`: memory of an idle session.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;

use super::{
    http,
    peer::{Peer, Program},
    progress_bar, report,
};
use crate::{Failed, proc_stat};

/// The aim: the maximum for an idle session, in KiB.
const AIM: f64 = 8.0;

/// Options of `bench sessions`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Number of sessions.
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Opens 500 sessions.
    #[arg(long, conflicts_with = "sessions")]
    quick: bool,
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// Memory of the sessions of one peer.
struct Cost {
    peer: Peer,
    before: u64,
    after: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let sessions = if options.quick { 500 } else { options.sessions };
    let bar = progress_bar(2 * sessions);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut costs = Vec::new();
    for peer in [Peer::Marquetry, Peer::Rmcp] {
        bar.set_message(format!("building {}", peer.name()));
        let program = Program::build(peer)?;
        bar.set_message(peer.name());
        let cost = runtime.block_on(async {
            let (running, url) = program.start_http(http::sessions_mode(peer))?;
            // The first sessions also pay for threads, buffers and lazy initialization.
            for _ in 0..100 {
                http::open_session(&url, peer).await?;
            }
            let before = proc_stat::resident(running.pid())?;
            for _ in 0..sessions {
                http::open_session(&url, peer).await?;
                bar.inc(1);
            }
            Ok::<_, Failed>(Cost { peer, before, after: proc_stat::resident(running.pid())? })
        })?;
        costs.push(cost);
    }
    bar.finish_and_clear();
    let report = table(&costs, sessions)?;
    println!("{report}");
    if options.write {
        report::write("sessions", &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(costs: &[Cost], sessions: usize) -> Result<String, Failed> {
    let mut out = format!("{} {sessions} sessions.\n\n", report::where_and_when());
    out.push_str("| server | before MiB | after MiB | KiB a session |\n|---|--:|--:|--:|\n");
    let mut ours = 0.0;
    for Cost { peer, before, after } in costs {
        let each = after.saturating_sub(*before) as f64 / sessions as f64 / 1_024.0;
        let before = mebibytes(*before);
        let after = mebibytes(*after);
        writeln!(out, "| {} | {before:.1} | {after:.1} | {each:.1} |", peer.name())
            .map_err(|error| Failed::new(error.to_string()))?;
        if *peer == Peer::Marquetry {
            ours = each;
        }
    }
    let judged = if ours <= AIM { "met" } else { "**falls short**" };
    writeln!(out, "\nAim: at most {AIM} KiB for a session: {judged} ({ours:.1}).")
        .map_err(|error| Failed::new(error.to_string()))?;
    Ok(out)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
