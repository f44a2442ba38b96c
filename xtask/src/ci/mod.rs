//! `cargo xtask ci`: every check of CI, on any machine.

mod build;
mod lanes;
mod line;
mod share;
mod steps;

use std::{
    env,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use clap::Args;

use self::{
    lanes::{Outcome, Plan, SEED, StepResult},
    steps::{STEPS, Step},
};
use crate::{Failed, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask ci                          run all steps, in two lanes side by side
  cargo xtask ci --list                   list the steps
  cargo xtask ci fmt clippy               run only these steps, one after the other
  cargo xtask ci --skip features          run all steps but this one
  CI=true cargo xtask ci                  fail if the external program of a step is missing

Steps that check the code run beside those that run programs. While a step runs, its output goes to target/ci/STEP.log;
it is shown when the step ends. Tests and programs that fail beside other steps run once more at the end, alone: if they
pass then, the step is FLAKY and does not fail the run; use --fail-fast to run nothing twice. A step whose external
program is not installed is skipped and reported; with CI=true it fails.";

/// Options of `ci`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The steps to run, one after the other; by default all, in two lanes.
    step: Vec<String>,
    /// Steps to leave out.
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Runs one step at a time, and shows its output while it runs.
    #[arg(long)]
    in_turn: bool,
    /// Starts no further step after the first failure.
    #[arg(long)]
    fail_fast: bool,
    /// Lists the steps and runs none.
    #[arg(long)]
    list: bool,
    /// Work that was done before the steps, and its time; both are shown in the table.
    #[arg(long, value_name = "NAME=SECONDS", hide = true, value_parser = parse_before)]
    before: Vec<(String, Duration)>,
}

fn parse_before(text: &str) -> Result<(String, Duration), String> {
    let (name, seconds) = text.split_once('=').ok_or("expected NAME=SECONDS")?;
    let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    Ok((name.to_owned(), Duration::from_secs(seconds)))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    for name in options.step.iter().chain(&options.skip) {
        if !STEPS.iter().any(|step| step.name == name) {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            return Err(Failed::new(format!(
                "no step `{name}`; the steps are {}",
                names.join(", ")
            )));
        }
    }
    let picked: Vec<&'static Step> = STEPS
        .iter()
        .filter(|step| options.step.is_empty() || step.is_among(&options.step))
        .filter(|step| !step.is_among(&options.skip))
        .collect();
    if options.list {
        for step in picked {
            println!("{:17} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }

    let strict = env::var("CI").is_ok_and(|value| value == "true");
    let seed = if strict && env::var_os(SEED).is_none() { seed_of_tree() } else { None };
    if let Some(seed) = &seed {
        println!("{SEED}={seed}");
    }
    let plan = Plan { strict, fail_fast: options.fail_fast, seed };
    let started = Instant::now();
    let ended = if options.in_turn || !options.step.is_empty() {
        plan.run_in_turn(&picked)
    } else {
        plan.run_in_lanes(&picked)
    };
    Ok(summary(&options.before, &ended, picked.len(), started.elapsed()))
}

/// Returns the seed of property tests, derived from the checked-out tree: the same tree gets the
/// same result everywhere, and each change is tested with different values. Outside CI every run
/// has a different seed.
fn seed_of_tree() -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "HEAD^{tree}"]).current_dir(root()).output().ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    Some(u64::from_str_radix(hash.get(..16)?, 16).ok()?.to_string())
}

/// Prints the table of steps with their times. `elapsed` is the wall-clock time of the run, in
/// which steps may have run side by side.
fn summary(
    before: &[(String, Duration)],
    ended: &[StepResult],
    picked: usize,
    elapsed: Duration,
) -> ExitCode {
    println!("\n{:18} {:8} {:>8} {:>8}", "step", "", "time", "CPU");
    for (name, elapsed) in before {
        println!("{name:18} {:8} {:7.1}s", "before", elapsed.as_secs_f64());
    }
    for StepResult { step, outcome, elapsed, counts, .. } in ended {
        let outcome = match outcome {
            Outcome::Passed => "ok",
            Outcome::Flaky => "FLAKY",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "SKIPPED",
        };
        println!(
            "{:18} {outcome:8} {:7.1}s {:7.1}s",
            step.name,
            elapsed.as_secs_f64(),
            counts.cpu.as_secs_f64()
        );
    }
    let all = before.iter().map(|(_, elapsed)| elapsed).sum::<Duration>() + elapsed;
    println!("{:18} {:8} {:7.1}s", "wall clock", "", all.as_secs_f64());
    let failed = count(ended, Outcome::Failed);
    let not_run = picked - ended.len();
    // The end of a log is what people see first.
    for done in ended.iter().filter(|it| it.outcome == Outcome::Failed) {
        for failure in &done.failures {
            println!("\n--- the end of the output of a failed command of {}", done.step.name);
            print!("{}", failure.last_lines);
        }
    }
    let skipped_tests: usize = ended.iter().map(|it| it.counts.skipped_tests).sum();
    println!(
        "\nci: {}. {} steps passed; {} passed only alone (see FLAKY above); {failed} failed; {not_run} not run; {} steps and {skipped_tests} tests skipped (see SKIPPED above)",
        if failed + not_run == 0 { "ok" } else { "FAILED" },
        count(ended, Outcome::Passed),
        count(ended, Outcome::Flaky),
        count(ended, Outcome::Skipped)
    );
    if failed + not_run == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn count(ended: &[StepResult], outcome: Outcome) -> usize {
    ended.iter().filter(|it| it.outcome == outcome).count()
}
