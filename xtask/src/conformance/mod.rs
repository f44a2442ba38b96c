//! `cargo xtask conformance`: the official conformance suite against our own server and our own
//! client.

mod outcome;
mod program;
mod suite;

use std::{env, fs, path::Path, process::ExitCode, slice, sync::Mutex, thread};

use clap::{Args, ValueEnum};

use self::{
    outcome::Outcome,
    program::Server,
    suite::{PlannedScenario, Subject, Suite},
};
use crate::{Failed, build_shared, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask conformance                              run all scenarios, for server and client
  cargo xtask conformance --revision 2026-07-28        run the scenarios of one revision
  cargo xtask conformance --side client --scenario sse-retry

The first run installs the suite with npm into target/conformance. If npm fails, the task is skipped with a message; with
CI=true it fails. Every failed check counts, including those that the suite does not score.";

/// Options of `conformance`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs the scenarios of this revision; may be given several times. All revisions by default.
    #[arg(long, value_name = "REVISION")]
    revision: Vec<String>,
    /// Tests only the server or only the client.
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
                return Err(Failed::new(format!(
                    "unknown revision {unknown}; the suite has {known}"
                )));
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

/// Runs each scenario in its own process, with one worker for each core. Each worker has its own
/// server, so that a server never has two scenarios at the same time.
fn run_each(
    suite: &Suite,
    side: Side,
    revision: &str,
    plan: &[PlannedScenario],
    program: &Path,
    results: &Path,
) -> Result<Vec<Outcome>, Failed> {
    let next = Mutex::new(plan.iter());
    let workers = thread::available_parallelism().map_or(1, usize::from).min(plan.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| run_worker(suite, side, revision, &next, program, results)))
            .collect();
        let mut outcomes = Vec::new();
        for worker in workers {
            outcomes.extend(worker.join().map_err(|_| Failed::new("a worker panicked"))??);
        }
        Ok(outcomes)
    })
}

/// Runs one waiting scenario after the other until none is left.
fn run_worker(
    suite: &Suite,
    side: Side,
    revision: &str,
    waiting: &Mutex<slice::Iter<'_, PlannedScenario>>,
    program: &Path,
    results: &Path,
) -> Result<Vec<Outcome>, Failed> {
    let subject = match side {
        Side::Server => Subject::Server(Server::start(program)?),
        Side::Client => Subject::Client(program.display().to_string()),
    };
    let mut outcomes = Vec::new();
    loop {
        let planned = waiting.lock().expect("no worker panics while it takes").next();
        let Some(planned) = planned else { return Ok(outcomes) };
        outcomes.push(suite.run(&subject, planned, revision, results)?);
    }
}
