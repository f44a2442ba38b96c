//! `cargo xtask kills`: sends SIGKILL to clients, servers and upstreams at seeded moments. No
//! process may remain, and no request may wait for ever.

mod ancestry;
mod caller;
mod event_log;
mod plan;
mod trial;
mod world;

use std::{
    path::PathBuf,
    process::{ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use tokio::{process::Command, sync::Semaphore, task::JoinSet, time::timeout};

pub(crate) use self::{
    caller::Caller,
    trial::{TrialOptions, run as run_trial},
};
use self::{
    plan::{Plan, Victim},
    trial::PENDING,
};
use crate::{Failed, root, scenarios::build_binary};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask kills                       200 kills, and six with a real server as the upstream
  cargo xtask kills --seed 7              repeat the kills of this seed
  cargo xtask kills --seed 7 --only 31    repeat one of them
  cargo xtask kills --kills 2000          2,000 kills";

/// Path of the official server that `tests/interop/install` installs.
const REAL: &str =
    "tests/interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// Time limit of one trial; its inner limits are much shorter.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(90);

/// Options of `kills`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Seed of the victims and moments; by default from the clock, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of kills.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Runs only the trial with this number.
    #[arg(long, value_name = "NUMBER")]
    only: Option<u32>,
    /// Trials at a time; a trial waits more than it computes.
    #[arg(long, value_name = "N", default_value_t = 6)]
    jobs: usize,
    /// Tests this built server, instead of a debug build.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Starts a detached process in each trial, so that each trial must fail.
    #[arg(long, hide = true)]
    sabotage: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let server = match &options.binary {
        Some(path) => path.canonicalize()?,
        None => build_binary()?,
    };
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    let real = root().join(REAL);
    let plans: Vec<Plan> = plan::plans(seed, options.kills, real.exists().then_some(&*real))
        .into_iter()
        .filter(|plan| options.only.is_none_or(|only| plan.number == only))
        .collect();
    println!("{} kills with --seed {seed}", plans.len());
    if !real.exists() && options.only.is_none() {
        if std::env::var("CI").is_ok_and(|ci| ci == "true") {
            return Err(Failed::new("no real server; run tests/interop/install"));
        }
        eprintln!("SKIPPED (1): kills of a real server; run tests/interop/install");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let settings = TrialSettings { server, sabotage: options.sabotage, seed };
    runtime.block_on(run_all(plans, options.jobs.max(1), settings))
}

/// Returns a seed of five digits, which tell runs apart and are short to type.
fn seed_from_clock() -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    clock.as_nanos() as u64 % 100_000
}

/// Settings of all trials.
#[derive(Clone)]
struct TrialSettings {
    server: PathBuf,
    sabotage: bool,
    seed: u64,
}

/// Number of trials of a kind after which at least one must have met a call.
const ENOUGH: usize = 20;

async fn run_all(
    plans: Vec<Plan>,
    jobs: usize,
    settings: TrialSettings,
) -> Result<ExitCode, Failed> {
    let seed = settings.seed;
    let started = Instant::now();
    let permits = Arc::new(Semaphore::new(jobs));
    let mut trials = JoinSet::new();
    for plan in plans {
        let permits = permits.clone();
        let settings = settings.clone();
        trials.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let outcome = run_one(&plan, &settings).await;
            (plan, outcome)
        });
    }
    let mut outcomes = Vec::new();
    let mut failures = 0;
    while let Some(done) = trials.join_next().await {
        let (plan, outcome) = done.map_err(|error| Failed::new(error.to_string()))?;
        if let Err(problem) = &outcome {
            failures += 1;
            let number = plan.number;
            println!(
                "FAILED {plan}\n  {}\n  rerun: cargo xtask kills --seed {seed} --only {number}",
                problem.trim().replace('\n', "\n  ")
            );
        }
        outcomes.push((plan, outcome));
    }
    let mut idle = Vec::new();
    println!("\n{:18} {:>6} {:>20} {:>7}", "killed", "trials", "with a call in flight", "failed");
    for victim in Victim::ALL {
        let ours: Vec<&Outcome> = outcomes
            .iter()
            .filter(|(plan, _)| plan.victim == victim)
            .map(|(_, outcome)| outcome)
            .collect();
        let in_flight = ours.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
        let failed = ours.iter().filter(|outcome| outcome.is_err()).count();
        println!("{:18} {:6} {in_flight:20} {failed:7}", victim.to_string(), ours.len());
        // Without a call in flight, the trials have shown nothing about calls.
        if ours.len() >= ENOUGH && in_flight == 0 {
            idle.push(victim.to_string());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "\nkills: {} trials, {failures} failed, {seconds:.0} s, --seed {seed}",
        outcomes.len()
    );
    if !idle.is_empty() {
        println!("FAILED: no call was in flight when these were killed: {}", idle.join(", "));
    }
    let is_success = failures == 0 && !outcomes.is_empty() && idle.is_empty();
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a call was in flight at the kill, or an error.
type Outcome = Result<bool, String>;

/// Runs one trial in its own process, which adopts orphaned descendants.
async fn run_one(plan: &Plan, settings: &TrialSettings) -> Outcome {
    let spec = serde_json::to_string(plan).map_err(|error| error.to_string())?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.arg("kill-trial").arg("--binary").arg(&settings.server).arg(spec);
    if settings.sabotage {
        command.arg("--sabotage");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = timeout(TRIAL_TIMEOUT, command.output())
        .await
        .map_err(|_| format!("the trial did not end within {} s", TRIAL_TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(said.contains(PENDING));
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}
