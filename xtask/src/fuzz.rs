//! `cargo xtask fuzz`: each fuzz target for a while.

use std::{
    env, fs,
    process::{Command, ExitCode, Stdio},
};

use clap::Args;

use crate::{Failed, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask fuzz                       each target for 10 seconds
  cargo xtask fuzz --seconds 600 http    one target for ten minutes

Needs a nightly toolchain and cargo-fuzz (cargo install --locked cargo-fuzz). Without them the task is skipped, and says
so; with CI=true it fails. The corpus is replayed by the tests of the crates in any case.

What a target chokes on is written to fuzz/artifacts/TARGET: mend it, and put the input into fuzz/corpus/TARGET.";

/// Options of `fuzz`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The targets; all of them unless said.
    target: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Keeps new inputs in fuzz/corpus instead of a folder that is thrown away.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    if let Err(missing) = tools() {
        if env::var("CI").is_ok_and(|value| value == "true") {
            return Err(missing);
        }
        eprintln!("SKIPPED (1): {missing}");
        return Ok(ExitCode::SUCCESS);
    }
    let known = targets()?;
    if let Some(unknown) = options.target.iter().find(|target| !known.contains(target)) {
        return Err(Failed::new(format!("no target `{unknown}`; there are {}", known.join(", "))));
    }
    let mut ok = true;
    for target in known.iter().filter(|it| options.target.is_empty() || options.target.contains(it))
    {
        // libFuzzer writes into the first folder of inputs, and reads the others.
        let corpus = root().join("fuzz/corpus").join(target);
        let fresh = tempfile::tempdir()?;
        let mut folders = vec![fresh.path().to_owned(), corpus];
        if options.keep {
            folders.remove(0);
        }
        println!("\n{target}, {} s", options.seconds);
        let mut command = Command::new("cargo");
        // The outer cargo's choice of toolchain would win over ours.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
        let status = command
            // No code of ours is unsafe: what a sanitizer would find is not there, and it costs half of the speed.
            .args(["+nightly", "fuzz", "run", "--sanitizer=none", target])
            .args(folders)
            .args(["--", &format!("-max_total_time={}", options.seconds)])
            .args(["-max_len=4096", "-timeout=20", "-print_final_stats=1", "-verbosity=0"])
            .current_dir(root())
            .status()?;
        println!("{target}: {}", if status.success() { "ok" } else { "FAILED" });
        ok &= status.success();
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// # Errors
/// What is missing.
fn tools() -> Result<(), Failed> {
    let runs = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .env_remove("RUSTUP_TOOLCHAIN")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !runs("cargo", &["+nightly", "--version"]) {
        return Err(Failed::new(
            "fuzzing needs a nightly toolchain (rustup toolchain install nightly)",
        ));
    }
    if !runs("cargo-fuzz", &["--version"]) {
        return Err(Failed::new("fuzzing needs cargo-fuzz (cargo install --locked cargo-fuzz)"));
    }
    Ok(())
}

/// One file each.
fn targets() -> Result<Vec<String>, Failed> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/targets"))? {
        let path = entry?.path();
        targets.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort_unstable();
    Ok(targets)
}
