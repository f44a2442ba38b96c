//! `cargo xtask bench artifacts`: the time of capturing an answer, by its size and kind.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde::Deserialize;

use super::{example, report};
use crate::Failed;

/// Options of `bench artifacts`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// One line of the example's output.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Row(Row),
    Memory { peak_resident_kib: u64 },
}

#[derive(Debug, Deserialize)]
struct Row {
    store: String,
    answer: String,
    bytes: u64,
    is_saved: bool,
    micros: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let output = example("marquetry-artifacts", &["directory"], "capture_speed", &[])?;
    let lines: Vec<Line> = output
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| Failed::new(format!("the example capture_speed: {error}")))?;
    let table = table(&lines)?;
    println!("{table}");
    if options.write {
        report::write("artifacts", &table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(lines: &[Line]) -> Result<String, Failed> {
    let mut out = format!("{} wall time on one thread.\n\n", report::where_and_when());
    out.push_str("| store | answer | bytes | saved | µs/capture | MB/s |\n");
    out.push_str("|---|---|--:|---|--:|--:|\n");
    for line in lines {
        match line {
            Line::Row(Row { store, answer, bytes, is_saved, micros }) => {
                let saved = if *is_saved { "yes" } else { "no" };
                let rate = *bytes as f64 / micros;
                writeln!(
                    out,
                    "| {store} | {answer} | {bytes} | {saved} | {micros:.0} | {rate:.0} |"
                )
            }
            Line::Memory { peak_resident_kib } => {
                let mebibytes = peak_resident_kib >> 10;
                writeln!(
                    out,
                    "\nPeak memory with three full stores of 16 MiB each: {mebibytes} MiB."
                )
            }
        }
        .map_err(|error| Failed::new(error.to_string()))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_row_and_the_memory() {
        let lines = [
            r#"{"store":"memory","answer":"log","bytes":30000,"is_saved":true,"micros":150.4}"#,
            r#"{"peak_resident_kib":40960}"#,
        ]
        .map(|line| serde_json::from_str(line).unwrap());
        let table = table(&lines).unwrap();
        assert!(table.contains("| memory | log | 30000 | yes | 150 | 199 |"), "{table}");
        assert!(table.contains("16 MiB each: 40 MiB."), "{table}");
    }
}
