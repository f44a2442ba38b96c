//! `cargo xtask conformance`: the official conformance suite against our own server and our own
//! client.

mod outcome;
mod program;
mod suite;

use std::{env, fs, path::Path, process::ExitCode, sync::Mutex, thread};

use clap::{Args, ValueEnum};

use self::{
    outcome::Outcome,
    program::Server,
    suite::{Planned, Suite},
};
use crate::{Failed, build_shared, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask conformance                              everything that the suite has, for both sides
  cargo xtask conformance --revision 2026-07-28        what it has for one revision
  cargo xtask conformance --side client --scenario sse-retry

The suite comes from npm into target/conformance, once. If npm cannot install it, the task is skipped with a message; with
CI=true it fails. Every failed check counts, also those that the suite does not score.";

/// Options of `conformance`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs the scenarios of this revision; may be given several times. By default, each revision
    /// of the suite.
    #[arg(long, value_name = "REVISION")]
    revision: Vec<String>,
    /// Tests only this side.
    #[arg(long)]
    side: Option<Side>,
    /// Runs the scenarios whose name contains this text; may be given several times.
    #[arg(long, value_name = "PART")]
    scenario: Vec<String>,
}

/// The tested side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Server,
    Client,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Returns the tested example.
    fn example(self) -> &'static str {
        match self {
            Self::Server => "conformance_server",
            Self::Client => "conformance_client",
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let revisions: Vec<&str> = match &options.revision[..] {
        [] => suite::REVISIONS.to_vec(),
        chosen => {
            let unknown = chosen.iter().find(|it| !suite::REVISIONS.contains(&it.as_str()));
            if let Some(unknown) = unknown {
                let known = suite::REVISIONS.join(", ");
                return Err(Failed::new(format!("--revision {unknown}: the suite has {known}")));
            }
            chosen.iter().map(String::as_str).collect()
        }
    };
    let directory = root().join("target/conformance");
    let suite = match Suite::install(&directory) {
        Ok(suite) => suite,
        Err(failed) if env::var("CI").is_ok_and(|value| value == "true") => return Err(failed),
        Err(failed) => {
            eprintln!("SKIPPED (1): the conformance suite could not be installed: {failed}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let results = directory.join("results");
    _ = fs::remove_dir_all(&results);
    let mut ok = true;
    let mut ran = 0;
    for side in [Side::Server, Side::Client] {
        if options.side.is_some_and(|chosen| chosen != side) {
            continue;
        }
        let program = build_shared("--example", side.example())?;
        for revision in &revisions {
            let mut plan = suite.plan(side, revision)?;
            plan.retain(|planned| {
                let parts = &options.scenario;
                parts.is_empty() || parts.iter().any(|part| planned.name.contains(part))
            });
            let mut outcomes = Vec::new();
            if side == Side::Server && options.scenario.is_empty() {
                let mut server = Server::start(&program)?;
                outcomes = suite.run_server_scenarios(&server.url, &plan, revision, &results)?;
                if !server.is_running() {
                    println!("FAILED: the server ended during the scenarios of {revision}");
                    ok = false;
                }
                plan.retain(|planned| outcomes.iter().all(|it| it.name != planned.name));
            }
            outcomes.extend(run_each(&suite, side, revision, &plan, &program, &results)?);
            outcomes.sort_by(|a, b| a.name.cmp(&b.name));
            ran += outcomes.len();
            ok &= outcome::report(side.as_str(), revision, &outcomes);
        }
    }
    if ran == 0 {
        return Err(Failed::new("no scenario matches `--scenario` and `--revision`"));
    }
    println!("\nlogs are in {}", results.display());
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs each scenario in a process of its own, one at a time for each core. Each core has its own
/// server, so that scenarios do not run on one at the same time.
fn run_each(
    suite: &Suite,
    side: Side,
    revision: &str,
    plan: &[Planned],
    program: &Path,
    results: &Path,
) -> Result<Vec<Outcome>, Failed> {
    let next = Mutex::new(plan.iter());
    let outcomes = Mutex::new(Vec::with_capacity(plan.len()));
    let work = || -> Result<(), Failed> {
        let mut server = None;
        loop {
            let Some(planned) = next.lock().expect("no worker panics while it takes").next() else {
                return Ok(());
            };
            let subject = match side {
                Side::Client => ["--command".to_owned(), program.display().to_string()],
                Side::Server => {
                    if server.is_none() {
                        server = Some(Server::start(program)?);
                    }
                    let url = server.as_ref().map(|server: &Server| server.url.clone());
                    ["--url".to_owned(), url.unwrap_or_default()]
                }
            };
            let outcome = suite.run(side, &subject, planned, revision, results)?;
            outcomes.lock().expect("no worker panics while it adds").push(outcome);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(plan.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| Failed::new("a worker panicked")).flatten()
        })
    })?;
    outcomes.into_inner().map_err(|_| Failed::new("a worker panicked"))
}
