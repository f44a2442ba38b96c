//! `cargo xtask bench rag`: what is found, and how fast.

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use clap::Args;

use super::report;
use crate::{Failed, root};

/// Options of `bench rag`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A collection in BEIR's layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`), such as Cranfield; without one, only
    /// speed is measured.
    #[arg(long, value_name = "FOLDER")]
    collection: Option<PathBuf>,
    /// How many chunks to generate; may be given several times.
    #[arg(long, value_name = "COUNT", default_values_t = [10_000, 100_000, 1_000_000])]
    chunks: Vec<usize>,
    /// Puts the tables into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let mut out = String::new();
    if let Some(collection) = &options.collection {
        let table = example("cranfield", &[&collection.display().to_string()])?;
        let name = collection.file_name().unwrap_or_default().to_string_lossy();
        out.push_str(&format!("Quality on `{name}`:\n\n```text\n{table}```\n\n"));
    }
    let folder = tempfile::tempdir()?;
    for chunks in &options.chunks {
        eprintln!("{chunks} chunks");
        let file = folder.path().join(format!("{chunks}.db")).display().to_string();
        let written = example("search_speed", &["index", &file, &chunks.to_string()])?;
        let searched = example("search_speed", &["search", &file])?;
        out.push_str(&format!("Speed at {chunks} chunks:\n\n```text\n{written}{searched}```\n\n"));
        std::fs::remove_file(&file)?;
    }
    let out =
        format!("{} what the examples of crates/rag print.\n\n{out}", report::where_and_when());
    print!("{out}");
    if options.write {
        report::write("rag", &out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What an example of crates/rag prints.
fn example(name: &str, arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--release", "--package", "marquetry-rag", "--features", "libsql"])
        .args(["--example", name, "--"])
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(Failed::new(format!("the example {name} failed: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
