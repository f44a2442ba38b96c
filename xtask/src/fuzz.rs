//! `cargo xtask fuzz`: runs each fuzz target for some time.

use std::{
    fs,
    process::{Command, ExitCode, Stdio},
};

use clap::Args;

use crate::{Failed, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask fuzz                       each target for 10 seconds
  cargo xtask fuzz --seconds 600 http    one target for ten minutes

Needs a nightly toolchain and cargo-fuzz (cargo install --locked cargo-fuzz). `ci` does not run it: the tests of the crates
replay the corpus, and try inputs that differ from it by a little.

What a target chokes on is written to fuzz/artifacts/TARGET: mend it, and put the input into fuzz/corpus/TARGET.";

/// Options of `fuzz`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The targets; all by default.
    target: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Keeps new inputs in fuzz/corpus; without this they are deleted.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    check_tools()?;
    let known = targets()?;
    if let Some(unknown) = options.target.iter().find(|target| !known.contains(target)) {
        return Err(Failed::new(format!(
            "no target `{unknown}`; the targets are {}",
            known.join(", ")
        )));
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
            // Our code has no `unsafe`, so a sanitizer would find nothing, and it halves the speed.
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
/// If a tool is not installed.
fn check_tools() -> Result<(), Failed> {
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

/// Returns the targets; each has one file.
fn targets() -> Result<Vec<String>, Failed> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/targets"))? {
        let path = entry?.path();
        targets.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort_unstable();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only nightly compilers build the targets; this test checks with the stable one that the
    /// called functions exist.
    #[test]
    fn each_target_calls_a_function_of_a_crate() {
        let call = regex::Regex::new(r"marquetry_(\w+)::fuzz::(\w+)\(data\)").unwrap();
        for target in targets().unwrap() {
            let text =
                fs::read_to_string(root().join(format!("fuzz/targets/{target}.rs"))).unwrap();
            let call = call.captures(&text).unwrap_or_else(|| panic!("{target} calls nothing"));
            let file = format!("crates/{}/src/fuzz.rs", call[1].replace('_', "-"));
            let functions = fs::read_to_string(root().join(&file)).unwrap();
            let function = format!("pub fn {}(", &call[2]);
            assert!(functions.contains(&function), "{file} has no `{function}`");
            assert!(
                functions.contains(&format!("(\"{target}\", ")),
                "{file} does not replay {target}"
            );
            let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("path = \"targets/{target}.rs\"")), "{target}");
        }
    }
}
