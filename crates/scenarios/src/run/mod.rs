//! Runs scenarios: each in every cell of its matrix, several cases at a time.

mod agent;
mod artifacts;
mod case;
mod driver;
mod failure;
mod progress;
mod report;
mod world;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};

pub use self::{
    agent::options as agent_options,
    case::{Case, Filter},
    report::{Format, Outcome},
};
use self::{
    failure::Failure,
    progress::Progress,
    report::{FinishedCase, Status},
};
use crate::{
    language::{self, Limits, LoadError, Rules},
    server::TestedServer,
};

/// Scenarios to run.
#[derive(Debug)]
pub struct Suite {
    cases: Vec<Case>,
    total: usize,
}

/// Options of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Number of cases at a time; the number of processors by default.
    pub jobs: usize,
    /// Maximum time of one case; a minute by default.
    pub time_limit: Duration,
    /// Prints a line for each case that has ended, and a bar on a terminal.
    pub prints: bool,
    /// Counts panics in this process, on all threads: any panic makes the run fail. For servers in
    /// this process. Off by default, because other tests of the process may panic on purpose.
    pub counts_panics: bool,
    /// Command that runs one case, when the case's name is added to it; for reports.
    pub rerun: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: thread::available_parallelism().map_or(1, usize::from),
            time_limit: Duration::from_mins(1),
            prints: false,
            counts_panics: false,
            rerun: "marquetry test --exact".to_owned(),
        }
    }
}

impl Suite {
    /// Reads the scenarios in these files and below these folders (all files there whose name ends
    /// with `.yaml`), for a server that offers `limits`. Messages and reports name files from
    /// `root`.
    ///
    /// # Errors
    ///
    /// Returns an error for each file that cannot be used.
    pub fn load(
        root: &Path,
        paths: &[PathBuf],
        rules: Rules,
        limits: &Limits,
    ) -> Result<Self, Vec<LoadError>> {
        let (loaded, errors) = language::load(root, paths, rules);
        if !errors.is_empty() {
            return Err(errors);
        }
        let cases: Vec<Case> = loaded
            .into_iter()
            .map(Arc::new)
            .flat_map(|loaded| {
                let cells = loaded.scenario.matrix.cells(limits);
                cells.map(move |cell| Case { loaded: loaded.clone(), cell })
            })
            .collect();
        let total = cases.len();
        Ok(Self { cases, total })
    }

    /// Keeps the cases that match the filter.
    #[must_use]
    pub fn filtered(mut self, filter: &Filter<'_>) -> Self {
        self.cases.retain(|case| filter.picks(case));
        self
    }

    /// Keeps one case of each scenario. Its cell varies from scenario to scenario, so that all
    /// cells of the matrix are still met.
    #[must_use]
    pub fn once_each(mut self) -> Self {
        self.cases = self
            .cases
            .chunk_by(|one, other| Arc::ptr_eq(&one.loaded, &other.loaded))
            .enumerate()
            .map(|(index, cases)| cases[index % cases.len()].clone())
            .collect();
        self
    }

    /// Returns the cases, in the order of their files.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Returns the number of cases before [`Self::filtered`].
    pub fn total(&self) -> usize {
        self.total
    }

    /// Lists the cases on standard output without running them.
    pub fn list(&self, format: Format) {
        report::list(&self.cases, format);
    }

    /// Runs the cases.
    ///
    /// # Errors
    ///
    /// Returns an error if no runtime can be started.
    pub fn run(self, server: &Arc<dyn TestedServer>, options: &Options) -> io::Result<Outcome> {
        let panics = if options.counts_panics { count_panics() } else { Arc::default() };
        let started = Instant::now();
        let filtered_out = self.total - self.cases.len();
        let finished = run_all(self.cases, server, options)?;
        Ok(Outcome {
            finished,
            filtered_out,
            panics: panics.load(Ordering::Relaxed),
            elapsed: started.elapsed(),
            rerun: options.rerun.clone(),
        })
    }
}

/// Runs the scenarios in a file or below a folder. For use in a `#[test]`.
///
/// # Panics
///
/// Panics with the report if a scenario fails, if a file cannot be used, or if there is no scenario
/// for this server.
#[track_caller]
pub fn assert_all_pass(path: impl AsRef<Path>, server: impl TestedServer + 'static) {
    let path = path.as_ref();
    let server: Arc<dyn TestedServer> = Arc::new(server);
    let suite = Suite::load(Path::new(""), &[path.to_owned()], Rules::default(), &server.limits())
        .unwrap_or_else(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("scenarios that cannot be used:\n{}", lines.join("\n"));
        });
    assert!(!suite.cases.is_empty(), "{}: no scenario for this server", path.display());
    let outcome = suite.run(&server, &Options::default()).expect("a runtime");
    assert!(outcome.is_success(), "{outcome}");
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Runs the cases, several at a time. The outcomes are in the order of the cases.
fn run_all(
    cases: Vec<Case>,
    server: &Arc<dyn TestedServer>,
    options: &Options,
) -> io::Result<Vec<FinishedCase>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let limit = options.time_limit;
    let finished = runtime.block_on(async {
        let progress = Progress::new(cases.len(), options.prints);
        let slots = Arc::new(Semaphore::new(options.jobs.max(1)));
        let mut running = JoinSet::new();
        for (index, case) in cases.into_iter().enumerate() {
            let slots = slots.clone();
            let server = server.clone();
            let progress = progress.clone();
            running.spawn(async move {
                let _slot = slots.acquire_owned().await;
                progress.start(&case);
                let started = Instant::now();
                let status = attempt(case.clone(), server, limit).await;
                let finished = FinishedCase { case, status, elapsed: started.elapsed() };
                progress.finish(&finished);
                (index, finished)
            });
        }
        let mut finished = running.join_all().await;
        finished.sort_by_key(|(index, _)| *index);
        progress.end();
        finished.into_iter().map(|(_, finished)| finished).collect()
    });
    // Work of a case that reached its time limit may never end.
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(finished)
}

/// Runs one case on its own task, so that a panic fails only this case.
async fn attempt(case: Case, server: Arc<dyn TestedServer>, limit: Duration) -> Status {
    match tokio::spawn(driver::run(case, server, limit)).await {
        Ok(status) => status,
        Err(error) => Status::Error(Failure::text(format!("the runner failed: {error}"))),
    }
}

/// Installs a hook that counts panics. A panic in a task of the server may otherwise go unnoticed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_is_run_once_and_cells_vary() {
        let cases: Vec<Case> =
            ["a", "b"].iter().flat_map(|id| case::tests::cases(id, "0/1")).collect();
        let total = cases.len();
        let once = Suite { cases, total }.once_each();
        let names: Vec<String> = once.cases().iter().map(ToString::to_string).collect();
        let [a, b] = &names[..] else { panic!("{names:?}") };
        assert!(a.starts_with("a/") && b.starts_with("b/") && a[1..] != b[1..], "{names:?}");
        assert_eq!(once.total(), total);
    }
}
