//! `cargo xtask conformance`: the official conformance suite against our own server.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use clap::Args;

use crate::{Failed, cargo, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask conformance                             every revision that the suite has requirements for
  cargo xtask conformance --requirements 2026-07-28   one of them

The suite comes from npm into target/conformance, once. Where that cannot be, the task is skipped, and says so; with
CI=true it fails.";

/// The suite, and the Node.js that it needs: an older one lacks what it calls.
const PACKAGES: [&str; 2] = ["node@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

/// Options of `conformance`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The revision whose requirements are to be met; may be given several times.
    #[arg(long, value_name = "REVISION", default_values = ["2025-11-25", "2026-07-28"])]
    requirements: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let directory = root().join("target/conformance");
    if let Err(failed) = install(&directory) {
        if env::var("CI").is_ok_and(|value| value == "true") {
            return Err(failed);
        }
        eprintln!("SKIPPED (1): the conformance suite could not be installed: {failed}");
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::start()?;
    let mut ok = true;
    for requirements in &options.requirements {
        let status = Command::new(directory.join("node_modules/.bin/node"))
            .arg(directory.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
            .args(["server", "--url", &server.url, "--requirements", requirements, "--output-dir"])
            .arg(directory.join("results"))
            .current_dir(&directory)
            .status()?;
        // The suite answers for what is scored; extensions are reported beside it.
        println!("\nserver, {requirements}: {}\n", if status.success() { "ok" } else { "FAILED" });
        ok &= status.success();
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn install(directory: &Path) -> Result<(), Failed> {
    let wanted = PACKAGES.join("\n");
    let stamp = directory.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let status = Command::new("npm")
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--loglevel=error",
            "--prefix",
        ])
        .arg(directory)
        .args(PACKAGES)
        .status()?;
    if !status.success() {
        return Err(Failed::new("npm could not install it"));
    }
    fs::write(stamp, wanted)?;
    Ok(())
}

/// The server with the suite's fixtures, ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Self, Failed> {
        let example = ["--package", "marquetry-protocol", "--example", "conformance_server"];
        let output = Command::new(cargo())
            .args(["build", "--quiet", "--message-format=json"])
            .args(example)
            .current_dir(root())
            .stderr(Stdio::inherit())
            .output()?;
        let program = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .ok_or_else(|| Failed::new("the example conformance_server does not build"))?;
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
