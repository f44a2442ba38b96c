//! `cargo xtask test-scenarios`: runs every scenario in every cell of its matrix, against a real
//! server over a real transport.

mod agent;
mod artifacts;
mod binary;
mod case;
mod damage;
mod driver;
mod failure;
mod hosted;
pub(crate) mod http;
mod progress;
mod report;
mod store;
mod world;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use tokio::{sync::Semaphore, task::JoinSet};

pub(crate) use self::{
    agent::options as agent_options,
    binary::{build as build_binary, listening_address},
};
use self::{
    case::{Case, Filter},
    failure::Failure,
    progress::Progress,
    report::{Finished, Status},
    store::Sabotage,
    world::{ServerKind, Setting},
};
use crate::{Failed, root, scenario};

/// Options of `test-scenarios`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs the cases whose name (id/transport/revision/store) or file contains one of these, or
    /// whose seed is one of these (000 is all of seed 000, 000/2.1 all of its section 2.1).
    filter: Vec<String>,
    /// FILTER is a whole name or seed.
    #[arg(long)]
    exact: bool,
    /// Of these cases, runs those whose transport/revision/store contains this.
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
    /// Lists the cases and runs none.
    #[arg(long)]
    list: bool,
    /// How the outcome is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Cases at a time; the number of processors unless said.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Writes the outcome into FILE in the chosen format, and as text to standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Runs the built server as a child process: PATH, or a fresh debug build without it.
    #[arg(long, value_name = "PATH", require_equals = true)]
    binary: Option<Option<PathBuf>>,
    /// Keeps knowledge in a PostgreSQL of the run's own instead of a file.
    #[arg(long)]
    postgres: bool,
    /// Puts a defect into the server's store, or into what the server says and hears over HTTP: scenarios
    /// that it touches must fail, and those that do not prove too little.
    #[arg(long, value_enum, hide = true, conflicts_with = "binary")]
    sabotage: Option<Sabotage>,
    /// The longest that one case may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
}

/// How outcomes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; ends with cargo's `test result:` line.
    #[default]
    Text,
    /// A JSON array with one object a case.
    Json,
    /// JUnit's XML.
    Junit,
}

/// Runs the scenarios. Fails when one of them does, or none was to be run.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let (loaded, errors) = scenario::load_all(&root());
    if !errors.is_empty() {
        for error in &errors {
            eprintln!("{error}\n");
        }
        return Err(Failed::new(format!("{} of the scenario files cannot be used", errors.len())));
    }
    let total: usize = loaded.iter().map(|one| one.scenario.matrix.cells().count()).sum();
    let filter =
        Filter { words: &options.filter, exact: options.exact, cell: options.cell.as_deref() };
    let cases: Vec<Case> = loaded
        .into_iter()
        .map(Arc::new)
        .flat_map(|loaded| {
            let cells: Vec<_> = loaded.scenario.matrix.cells().collect();
            cells.into_iter().map(move |cell| Case { loaded: loaded.clone(), cell })
        })
        .filter(|case| filter.picks(case))
        .collect();
    if cases.is_empty() {
        return Err(Failed::new(format!(
            "no case matches `{}`; `--list` shows all {total}",
            options.filter.join(" ")
        )));
    }
    if options.list {
        report::list(&cases, options.format);
        return Ok(ExitCode::SUCCESS);
    }

    let server = match &options.binary {
        None => ServerKind::InProcess(options.sabotage),
        Some(None) => ServerKind::Binary(binary::build()?),
        Some(Some(path)) => ServerKind::Binary(path.clone()),
    };
    let setting = Setting { server, postgres: options.postgres };
    let panics = count_panics();
    let started = Instant::now();
    let filtered_out = total - cases.len();
    let finished = run_all(cases, &setting, options)?;
    let outcome = report::Outcome {
        finished,
        filtered_out,
        panics: panics.load(Ordering::Relaxed),
        elapsed: started.elapsed(),
    };
    outcome.write(options.format, options.report.as_deref())?;
    Ok(if outcome.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the cases side by side; the outcomes come in the order of the cases.
fn run_all(
    cases: Vec<Case>,
    setting: &Setting,
    options: &Options,
) -> Result<Vec<Finished>, Failed> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(processors).max(1);
    let limit = Duration::from_secs(options.time_limit);
    let prints = options.format == Format::Text || options.report.is_some();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let finished = runtime.block_on(async {
        let progress = Progress::new(cases.len(), prints);
        let slots = Arc::new(Semaphore::new(jobs));
        let mut running = JoinSet::new();
        for (index, case) in cases.into_iter().enumerate() {
            let (slots, setting, progress) = (slots.clone(), setting.clone(), progress.clone());
            running.spawn(async move {
                let _slot = slots.acquire_owned().await;
                progress.start(&case);
                let started = Instant::now();
                let status = attempt(case.clone(), setting, limit).await;
                let finished = Finished { case, status, elapsed: started.elapsed() };
                progress.finish(&finished);
                (index, finished)
            });
        }
        let mut finished = running.join_all().await;
        finished.sort_by_key(|(index, _)| *index);
        progress.end();
        finished.into_iter().map(|(_, finished)| finished).collect()
    });
    // A case that ran into its limit may have left something behind that never ends.
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(finished)
}

/// One case, on a task of its own, so that a panic in it is its own failure.
async fn attempt(case: Case, setting: Setting, limit: Duration) -> Status {
    match tokio::spawn(driver::run(case, setting, limit)).await {
        Ok(status) => status,
        Err(error) => Status::Failed(Failure::text(format!("the runner failed: {error}"))),
    }
}

/// A panic inside the server kills one task and may go unnoticed, so every one of them is counted.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        counted.fetch_add(1, Ordering::Relaxed);
        print(info);
    }));
    count
}
