//! Tasks for developers of Marquetry: `cargo xtask --help`.

mod bench;
mod browser;
mod ci;
mod conformance;
mod coverage;
mod features;
mod generate;
mod house;
#[cfg(target_os = "linux")]
mod kills;
mod proc_stat;
mod scenarios;
mod seeds;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::{Parser, Subcommand};
use serde::Deserialize;

/// Tasks for developers of Marquetry.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    max_term_width = 100,
    after_help = "\
Before a commit: cargo xtask ci
Examples of a task: cargo xtask TASK --help"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the scenarios of tests/scenarios against a real server.
    #[command(after_help = "\
Examples:
  cargo xtask test-scenarios                        run all scenarios
  cargo xtask test-scenarios 000/2.1                run those of section 2.1 of seed 000
  cargo xtask test-scenarios gateway/ http/         match a part of the file or of id/transport/revision/store
  cargo xtask test-scenarios --list --format json   list the cases for programs
  cargo xtask test-scenarios --format junit --report scenarios.xml
  cargo xtask test-scenarios --binary               test the built program as a child process
  cargo xtask test-scenarios --postgres knowledge/  store knowledge in PostgreSQL")]
    TestScenarios(scenarios::Options),
    /// Run every check of CI: format, lints, tests, documentation, scenarios, licences, spelling.
    #[command(after_help = ci::EXAMPLES)]
    Ci(ci::Options),
    /// Check sizes, dependencies and module cycles of the crates against ARCHITECTURE.md.
    #[command(after_help = house::EXAMPLES)]
    House,
    /// Lint each crate by itself, with each of its features alone.
    #[command(after_help = features::EXAMPLES)]
    Features(features::Options),
    /// Run the official conformance suite against the server and the client of crates/protocol.
    #[command(after_help = conformance::EXAMPLES)]
    Conformance(conformance::Options),
    /// Test the console and Views in Chromium, and check the budgets of the page.
    #[command(after_help = browser::EXAMPLES)]
    Browser(browser::Options),
    /// Kill clients, servers and upstreams at seeded moments, and check that no process remains.
    #[cfg(target_os = "linux")]
    #[command(after_help = kills::EXAMPLES)]
    Kills(kills::Options),
    /// Measure speed and memory, and compare them with other programs.
    #[command(after_help = bench::EXAMPLES)]
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Write the generated files: references, schemas, the example configuration.
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::Options),
    /// Measure the line coverage of each crate.
    #[command(after_help = coverage::EXAMPLES)]
    Coverage(coverage::Options),
    /// List the ids of the seeds with their tests, and fail if an id has none.
    #[command(after_help = seeds::EXAMPLES)]
    Seeds(seeds::Options),
    /// Serve the upstream of a scenario on standard input and output.
    #[command(hide = true)]
    Upstream { spec: PathBuf },
    /// Run one trial of `kills`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    KillTrial(kills::TrialOptions),
    /// Run the client of a trial.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    KillCaller { caller: String },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::TestScenarios(options) => scenarios::run(&options),
        Task::Ci(options) => ci::run(&options),
        Task::House => house::run(),
        Task::Features(options) => features::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Browser(options) => browser::run(&options),
        Task::Bench { bench } => bench::run(&bench),
        Task::Generate(options) => generate::run(&options),
        Task::Coverage(options) => coverage::run(&options),
        Task::Seeds(options) => seeds::run(&options),
        Task::Upstream { spec } => serve_upstream(&spec),
        #[cfg(target_os = "linux")]
        Task::Kills(options) => kills::run(&options),
        #[cfg(target_os = "linux")]
        Task::KillTrial(options) => on_one_thread(kills::run_trial(&options)),
        #[cfg(target_os = "linux")]
        Task::KillCaller { caller } => match serde_json::from_str::<kills::Caller>(&caller) {
            Ok(caller) => on_one_thread(caller.run()),
            Err(error) => Err(Failed::new(error.to_string())),
        },
    };
    outcome.unwrap_or_else(|failed| {
        eprintln!("error: {failed}");
        ExitCode::FAILURE
    })
}

fn serve_upstream(spec: &Path) -> Result<ExitCode, Failed> {
    on_one_thread(async { Ok(marquetry_scenarios::serve_upstream(spec).await?) })
}

fn on_one_thread(work: impl Future<Output = Result<(), Failed>>) -> Result<ExitCode, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // The thread that reads standard input may wait for a line that never comes.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Why a task failed.
#[derive(Debug)]
pub(crate) struct Failed(String);

impl Failed {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Returns the workspace's root.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_owned)
}

/// Returns the cargo that runs this task.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns a command of the cargo that runs this task, without the variables that cargo has set for
/// this task.
pub(crate) fn cargo_command() -> Command {
    let mut command = Command::new(cargo());
    forget_package(&mut command);
    command
}

/// Removes the variables that describe the package of this task (`CARGO_PKG_NAME`,
/// `CARGO_MANIFEST_DIR` and the like). The build script of ring runs again when they change, and
/// everything that depends on ring would be built again.
pub(crate) fn forget_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let describes_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if describes_package {
            command.env_remove(name);
        }
    }
}

/// A package of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// Each feature with the features that it enables.
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// A dependency of a package.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` for dev-dependencies, `build` for build-dependencies.
    pub(crate) kind: Option<String>,
}

/// Returns all packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>, Failed> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = cargo_command()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).map_err(|error| {
        Failed::new(format!("failed to parse the output of cargo metadata: {error}"))
    })?;
    Ok(metadata.packages)
}

/// The environment variable with the folder of the built programs. If it is set, nothing is built.
pub(crate) const BUILT: &str = "MARQUETRY_BUILT";

/// Builds a program or an example of the workspace for debugging, and returns its path. The build
/// selects all features of the whole workspace, as that of the tests does, so that nothing is built
/// twice.
pub(crate) fn build_shared(kind: &str, name: &str) -> Result<PathBuf, Failed> {
    if let Some(built) = env::var_os(BUILT) {
        let mut path = PathBuf::from(built);
        if kind == "--example" {
            path.push("examples");
        }
        path.push(format!("{name}{}", env::consts::EXE_SUFFIX));
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Failed::new(format!("{BUILT} is set, but {} does not exist", path.display())))
        };
    }
    let output = cargo_command()
        .args(["build", "--quiet", "--workspace", "--all-features", "--message-format=json"])
        .args([kind, name])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    executable(&output.stdout, |target| target == name)
        .ok_or_else(|| Failed::new(format!("`{name}` failed to build")))
}

/// Returns the path of a program that cargo has built, from its messages as JSON.
pub(crate) fn executable(messages: &[u8], is_meant: impl Fn(&str) -> bool) -> Option<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"].as_str().is_some_and(&is_meant))
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}
