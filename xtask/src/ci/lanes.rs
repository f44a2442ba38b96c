//! Runs steps in two lanes at the same time.
//!
//! One lane checks the code in a build directory of its own, and uses one core for most of its
//! time. The other one runs programs, most of which wait more than they compute. When no check is
//! left, the first lane runs programs too.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    build::{Builder, WRAPPER, builds_lint},
    line::{CommandLine, CommandResult, Counts, is_installed},
    share::share,
    steps::{ExternalProgram, Step, Work, check_directory},
};
use crate::{Failed, root};

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// A command failed beside others, and succeeded when it ran again alone.
    Flaky,
    Failed,
    Skipped,
}

/// A finished step.
pub(super) struct StepResult {
    pub(super) step: &'static Step,
    pub(super) outcome: Outcome,
    pub(super) elapsed: Duration,
    pub(super) counts: Counts,
    pub(super) failures: Vec<Failure>,
}

impl StepResult {
    const fn failed(step: &'static Step) -> Self {
        let counts = Counts { cpu: Duration::ZERO, skipped_tests: 0 };
        let failures = Vec::new();
        Self { step, outcome: Outcome::Failed, elapsed: Duration::ZERO, counts, failures }
    }
}

/// A command that failed.
pub(super) struct Failure {
    line: CommandLine,
    /// It was killed at its time limit.
    is_late: bool,
    /// The end of its output.
    pub(super) last_lines: String,
}

/// Options of the run.
pub(super) struct Plan {
    /// Steps that lack their external program fail instead of being skipped.
    pub(super) strict: bool,
    /// No step begins after a failure.
    pub(super) fail_fast: bool,
    /// The seed of property tests.
    pub(super) seed: Option<String>,
}

/// The environment variable with proptest's seed.
pub(super) const SEED: &str = "PROPTEST_RNG_SEED";

/// Time limit of one command in unattended runs. The longest, `features`, takes over half of it.
const LIMIT: Duration = Duration::from_mins(30);

impl Plan {
    /// Runs the steps one after the other, and shows their output as it comes.
    pub(super) fn run_in_turn(&self, steps: &[&'static Step]) -> Vec<StepResult> {
        let builder = Builder::default();
        let mut ended = Vec::new();
        for step in steps {
            println!("\n=== {}: {}", step.name, step.about);
            let done = self.run_step(step, &builder, false, &mut io::stdout());
            let is_failure = done.outcome == Outcome::Failed;
            ended.push(done);
            if is_failure && self.fail_fast {
                break;
            }
        }
        ended
    }

    /// Runs the steps in lanes, and shows the output of a step after its end.
    pub(super) fn run_in_lanes(&self, steps: &[&'static Step]) -> Vec<StepResult> {
        let (checks, others): (VecDeque<_>, VecDeque<_>) =
            steps.iter().copied().partition(|step| step.work.is_check());
        let lanes = Lanes {
            plan: self,
            builder: Builder::default(),
            others: Mutex::new(others),
            stops: AtomicBool::new(false),
            ended: Mutex::new(Vec::new()),
        };
        thread::scope(|scope| {
            scope.spawn(|| lanes.run(checks));
            scope.spawn(|| lanes.run(VecDeque::new()));
        });
        let mut ended = lanes.ended.into_inner().expect("no holder panics");
        ended.sort_by_key(|it| steps.iter().position(|step| step.name == it.step.name));
        if !self.fail_fast {
            ended.iter_mut().for_each(run_again);
        }
        ended
    }

    fn run_to_log(&self, step: &'static Step, builder: &Builder) -> StepResult {
        let path = log(step);
        let file =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(&path));
        match file {
            Ok(mut file) => self.run_step(step, builder, true, &mut file),
            Err(error) => {
                println!("FAILED: {}: {error}", path.display());
                StepResult::failed(step)
            }
        }
    }

    fn run_step(
        &self,
        step: &'static Step,
        builder: &Builder,
        is_in_lane: bool,
        to: &mut (impl Write + Send),
    ) -> StepResult {
        if matches!(step.work, Work::Programs(_) | Work::Tests(_)) {
            // The time of the build does not count for this step. A failed build is reported below.
            _ = builder.get(to);
        }
        let started = Instant::now();
        let mut done = StepResult::failed(step);
        match self.try_step(step, builder, is_in_lane, to, &mut done) {
            Ok(outcome) => done.outcome = outcome,
            Err(failed) => {
                _ = writeln!(to, "FAILED: {failed}");
                // Other commands of the step did not run, so that a second run proves nothing.
                done.failures.clear();
            }
        }
        done.elapsed = started.elapsed();
        done
    }

    fn try_step(
        &self,
        step: &Step,
        builder: &Builder,
        is_in_lane: bool,
        to: &mut (impl Write + Send),
        done: &mut StepResult,
    ) -> Result<Outcome, Failed> {
        if let Some(ExternalProgram { name, install }) = step.needs
            && !is_installed(name)
        {
            writeln!(to, "SKIPPED: `{name}` is not installed ({install})")?;
            return Ok(if self.strict { Outcome::Failed } else { Outcome::Skipped });
        }
        let lines = match step.work {
            Work::Build => {
                builder.get(to)?;
                return Ok(Outcome::Passed);
            }
            Work::Lint(_) if builds_lint() => {
                let built = builder.get(to)?;
                for warning in built.warnings() {
                    writeln!(to, "{warning}")?;
                }
                writeln!(to, "the build had {} warnings", built.warnings().len())?;
                let is_clean = built.warnings().is_empty();
                return Ok(if is_clean { Outcome::Passed } else { Outcome::Failed });
            }
            Work::Check(lines) | Work::Lint(lines) => {
                if is_in_lane
                    && let Err(error) =
                        share(builder.get(to)?.folder(), &check_directory().join("debug"))
                {
                    writeln!(to, "nothing is reused from the build: {error}")?;
                }
                lines()?
            }
            Work::Quick(lines) | Work::Compile(lines) => lines()?,
            Work::Programs(lines) | Work::Tests(lines) => lines(&builder.get(to)?)?,
        };
        let lines = lines.into_iter().map(|mut line| {
            if let Some(seed) = &self.seed {
                line = line.with_env(SEED, seed);
            }
            if step.work.is_check() {
                // These run clippy themselves.
                line = line.without_env(WRAPPER);
            }
            if step.work.is_check() && is_in_lane {
                line = line.with_env("CARGO_TARGET_DIR", check_directory());
            }
            line.limit = self.strict.then_some(LIMIT);
            line
        });
        let mut ended = Vec::new();
        if matches!(step.work, Work::Tests(_)) {
            ended = two_at_a_time(lines.collect(), to)?;
        } else {
            for line in lines {
                ended.push(run_and_show(line, to)?);
            }
        }
        for (line, ran) in ended {
            done.counts += ran.counts;
            if !ran.is_success {
                // Failures are repeated at the end, where a reader looks first.
                writeln!(to, "FAILED: {line}")?;
                let CommandResult { is_late, last_lines, .. } = ran;
                done.failures.push(Failure { line, is_late, last_lines });
            }
        }
        Ok(if done.failures.is_empty() { Outcome::Passed } else { Outcome::Failed })
    }
}

/// Runs the failed commands of programs and tests once more, when nothing runs beside them: some
/// wait for a time that another program may use up. If all of them succeed now, the step is flaky.
/// A command that hung does not run again, because it would hang for as long.
fn run_again(done: &mut StepResult) {
    let runs_programs = matches!(done.step.work, Work::Programs(_) | Work::Tests(_));
    let has_hung = done.failures.iter().any(|failure| failure.is_late);
    if done.failures.is_empty() || has_hung || !runs_programs {
        return;
    }
    println!("\n=== {} again, with nothing beside it", done.step.name);
    let mut is_flaky = true;
    for failure in &mut done.failures {
        match run_and_show(failure.line.clone(), &mut io::stdout()) {
            Ok((line, ran)) if ran.is_success => println!("FLAKY: {line}"),
            Ok((line, ran)) => {
                println!("FAILED: {line}");
                failure.last_lines = ran.last_lines;
                is_flaky = false;
            }
            Err(error) => {
                println!("FAILED: {}: {error}", failure.line);
                is_flaky = false;
            }
        }
    }
    if is_flaky {
        done.outcome = Outcome::Flaky;
    }
}

/// Runs a command and shows it with its output.
fn run_and_show(
    line: CommandLine,
    to: &mut (impl Write + Send),
) -> io::Result<(CommandLine, CommandResult)> {
    writeln!(to, "$ {line}")?;
    to.flush()?;
    let ran = line.run(to)?;
    Ok((line, ran))
}

/// The state that two lanes share.
struct Lanes<'a> {
    plan: &'a Plan,
    builder: Builder,
    /// Steps that either lane may run.
    others: Mutex<VecDeque<&'static Step>>,
    /// Set after a failure that ends the run.
    stops: AtomicBool,
    ended: Mutex<Vec<StepResult>>,
}

impl Lanes<'_> {
    /// Runs a lane: first its own steps, then those that are left of the others.
    fn run(&self, mut own: VecDeque<&'static Step>) {
        while let Some(step) = own.pop_front().or_else(|| self.next_other()) {
            if self.stops.load(Ordering::Relaxed) {
                return;
            }
            println!("... {} begins; its output goes to {}", step.name, log(step).display());
            let done = self.plan.run_to_log(step, &self.builder);
            let mut ended = self.ended.lock().expect("no holder panics");
            if done.outcome == Outcome::Failed && self.plan.fail_fast {
                self.stops.store(true, Ordering::Relaxed);
            }
            // The lock is held, so that the outputs of two steps do not mix.
            show(&done);
            ended.push(done);
        }
    }

    fn next_other(&self) -> Option<&'static Step> {
        self.others.lock().expect("no holder panics").pop_front()
    }
}

/// Runs commands two at a time, and shows the output of each after its end.
fn two_at_a_time(
    lines: VecDeque<CommandLine>,
    to: &mut (impl Write + Send),
) -> Result<Vec<(CommandLine, CommandResult)>, Failed> {
    let waiting = Mutex::new(lines);
    let to = Mutex::new(to);
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let other = scope.spawn(|| run_waiting(&waiting, &to, &ended));
        run_waiting(&waiting, &to, &ended)?;
        other.join().expect("the thread does not panic")
    })?;
    Ok(ended.into_inner().expect("no holder panics"))
}

/// Runs one waiting command after the other until none is left.
fn run_waiting(
    waiting: &Mutex<VecDeque<CommandLine>>,
    to: &Mutex<impl Write>,
    ended: &Mutex<Vec<(CommandLine, CommandResult)>>,
) -> io::Result<()> {
    loop {
        let Some(line) = waiting.lock().expect("no holder panics").pop_front() else {
            return Ok(());
        };
        let mut output = Vec::new();
        let ran = run_and_show(line, &mut output)?;
        let mut to = to.lock().expect("no holder panics");
        to.write_all(&output)?;
        to.flush()?;
        ended.lock().expect("no holder panics").push(ran);
    }
}

/// Returns the file for the output of a step in a lane.
fn log(step: &Step) -> PathBuf {
    root().join("target/ci").join(format!("{}.log", step.name))
}

/// Shows the output of a finished step.
fn show(ended: &StepResult) {
    let StepResult { step, elapsed, .. } = ended;
    println!("\n=== {} ({:.1} s): {}", step.name, elapsed.as_secs_f64(), step.about);
    let mut out = io::stdout();
    let copied = File::open(log(step)).and_then(|mut file| io::copy(&mut file, &mut out));
    if let Err(error) = copied.and_then(|_| out.flush()) {
        println!("failed to show its output: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::steps, *};

    const PLAN: Plan = Plan { strict: false, fail_fast: false, seed: None };

    const fn step(name: &'static str, work: Work) -> Step {
        Step { name, about: "", needs: None, work }
    }

    fn shell(script: &str) -> CommandLine {
        let mut line = CommandLine::new("sh", "-c");
        line.args.push(script.to_owned());
        line
    }

    fn run(plan: &Plan, step: &'static Step) -> (Outcome, String, usize) {
        let mut said = Vec::new();
        let ended = plan.run_step(step, &Builder::default(), false, &mut said);
        (ended.outcome, String::from_utf8(said).unwrap(), ended.counts.skipped_tests)
    }

    #[test]
    fn a_missing_program_skips_and_under_ci_fails() {
        static STEP: Step = Step {
            needs: Some(ExternalProgram { name: "no-such-program-here", install: "not at all" }),
            ..step("x", Work::Quick(|| Err(Failed::new("must not run"))))
        };
        assert_eq!(run(&PLAN, &STEP).0, Outcome::Skipped);
        assert_eq!(run(&Plan { strict: true, ..PLAN }, &STEP).0, Outcome::Failed);
    }

    #[test]
    fn all_commands_run_and_one_failure_fails_the_step() {
        static STEP: Step =
            step("x", Work::Quick(|| Ok(vec![shell("exit 1"), shell("echo 'SKIPPED (1): y'")])));
        let (outcome, said, skipped) = run(&PLAN, &STEP);
        assert_eq!((outcome, skipped), (Outcome::Failed, 1));
        assert!(said.ends_with("SKIPPED (1): y\nFAILED: sh -c exit 1\n"), "{said}");
    }

    /// Runs failed commands again, and returns the outcome with the ends of their outputs.
    fn again(scripts: &[&str], is_late: bool) -> (Outcome, Vec<String>) {
        static STEP: Step =
            step("test-again", Work::Programs(|_| Err(Failed::new("must not be planned again"))));
        let mut done = StepResult::failed(&STEP);
        for script in scripts {
            let last_lines = "first".to_owned();
            done.failures.push(Failure { line: shell(script), is_late, last_lines });
        }
        run_again(&mut done);
        (done.outcome, done.failures.into_iter().map(|it| it.last_lines).collect())
    }

    #[test]
    fn commands_that_succeed_alone_are_flaky() {
        assert_eq!(again(&["true"], false).0, Outcome::Flaky);
        assert_eq!(again(&["true"], true).0, Outcome::Failed);
        let last_lines = vec!["first".to_owned(), "again\n".to_owned()];
        assert_eq!(again(&["true", "echo again; exit 1"], false), (Outcome::Failed, last_lines));
    }

    #[test]
    fn a_step_that_cannot_be_planned_fails() {
        static STEP: Step = step("x", Work::Quick(|| Err(Failed::new("no plan"))));
        assert_eq!(run(&PLAN, &STEP).0, Outcome::Failed);
    }

    #[test]
    fn two_commands_run_at_a_time_and_each_failure_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        // The first two wait for each other's file.
        let [first, second] = [("a", "b"), ("b", "a")].map(|(mine, other)| {
            let script = format!(
                "touch {mine}; for i in $(seq 100); do if [ -e {other} ]; then exit 0; fi; sleep 0.05; done; exit 1"
            );
            CommandLine { folder: folder.path().to_owned(), ..shell(&script) }
        });
        let lines = [first, second, shell("echo 'SKIPPED: c'; exit 2")];
        let mut said = Vec::new();
        let ended = two_at_a_time(lines.into(), &mut said).unwrap();
        let failed: Vec<_> = ended
            .iter()
            .filter(|(_, ran)| !ran.is_success)
            .map(|(line, ran)| (line.args[1].clone(), ran.counts.skipped_tests))
            .collect();
        assert_eq!((ended.len(), failed), (3, vec![("echo 'SKIPPED: c'; exit 2".to_owned(), 1)]));
        assert!(String::from_utf8(said).unwrap().contains("exit 2\nSKIPPED: c\n"));
    }

    /// Creates a file, then waits at most five seconds for that of another step: two such steps
    /// pass only if they run at the same time.
    fn meets(me: &str, other: &str) -> CommandLine {
        const MEET: &str = "d=${TMPDIR:-/tmp}/xtask-lanes-$PPID; mkdir -p $d; touch $d/ME; \
            for i in $(seq 100); do if [ -e $d/OTHER ]; then rm $d/OTHER; rmdir $d 2>/dev/null; exit 0; fi; sleep 0.05; done; exit 1";
        shell(&MEET.replace("ME", me).replace("OTHER", other))
    }

    #[test]
    fn lanes_run_beside_each_other_and_report_in_order() {
        // The lane of checks has no check, and takes over one of these.
        static FIRST: Step =
            step("test-lane-first", Work::Quick(|| Ok(vec![meets("first", "second")])));
        static SECOND: Step =
            step("test-lane-second", Work::Quick(|| Ok(vec![meets("second", "first")])));
        let ended = PLAN.run_in_lanes(&[&FIRST, &SECOND]);
        let outcomes: Vec<_> = ended.iter().map(|it| (it.step.name, it.outcome)).collect();
        assert_eq!(
            outcomes,
            [("test-lane-first", Outcome::Passed), ("test-lane-second", Outcome::Passed)]
        );
        for step in [&FIRST, &SECOND] {
            fs::remove_file(log(step)).unwrap();
        }
    }

    #[test]
    fn quick_steps_do_not_wait_for_a_build() {
        for step in steps::STEPS {
            if let Work::Quick(lines) = step.work {
                for line in lines().unwrap() {
                    let said = line.to_string();
                    let builds = ["build", "test", "check", "clippy", "doc", "hack"];
                    assert!(
                        !builds.iter().any(|it| said.starts_with(&format!("cargo {it}"))),
                        "{said}"
                    );
                }
            }
        }
    }
}
