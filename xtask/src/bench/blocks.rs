//! `cargo xtask bench context-blocks`: the speed of finding blocks in text.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde::Deserialize;

use super::{example, report};
use crate::Failed;

/// Options of `bench context-blocks`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// One line of the example's output.
#[derive(Debug, Deserialize)]
struct Row {
    text: String,
    work: String,
    gigabytes_per_second: f64,
}

/// The work that every search has to do at least.
const FLOOR: &str = "memmem for `<mcp:`";

/// The search of the first design of the crate.
const SEED: &str = "seed's regular expressions";

/// A rate that a search must reach.
struct Aim {
    text: &'static str,
    work: &'static str,
    gigabytes_per_second: f64,
}

const AIMS: [Aim; 3] = [
    Aim { text: "prose, no blocks", work: "find", gigabytes_per_second: 10.0 },
    Aim { text: "HTML, no blocks", work: "find", gigabytes_per_second: 10.0 },
    Aim { text: "a block every 4 KB", work: "find", gigabytes_per_second: 2.0 },
];

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let output = example("marquetry-context-blocks", &[], "speed", &[])?;
    let rows: Vec<Row> = output
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| Failed::new(format!("the example speed: {error}")))?;
    let table = table(&rows)?;
    println!("{table}");
    if options.write {
        report::write("context-blocks", &table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[Row]) -> Result<String, Failed> {
    let mut out = format!("{} GB a second of CPU time.\n\n", report::where_and_when());
    out.push_str(
        "| text | work | GB/s | × memmem | × regular expressions |\n|---|---|--:|--:|--:|\n",
    );
    for row in rows {
        let Row { text, work, gigabytes_per_second } = row;
        let floor = ratio(row, FLOOR, rows);
        let seed = ratio(row, SEED, rows);
        writeln!(out, "| {text} | {work} | {gigabytes_per_second:.1} | {floor} | {seed} |")
            .map_err(|error| Failed::new(error.to_string()))?;
    }
    out.push_str("\nAims:\n");
    for Aim { text, work, gigabytes_per_second: aim } in AIMS {
        let outcome = match rate(rows, text, work) {
            Some(rate) if rate >= aim => format!("met ({rate:.1})"),
            Some(rate) => format!("**falls short** ({rate:.1})"),
            None => "not measured".to_owned(),
        };
        writeln!(out, "- {text}, {work}, at least {aim} GB/s: {outcome}.")
            .map_err(|error| Failed::new(error.to_string()))?;
    }
    Ok(out)
}

fn rate(rows: &[Row], text: &str, work: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row.text == text && row.work == work)?;
    Some(row.gigabytes_per_second)
}

/// Returns the rate of a row divided by that of other work on the same text; empty if the row
/// itself is of that work, or the work was not measured.
fn ratio(row: &Row, other: &str, rows: &[Row]) -> String {
    if row.work == other {
        return String::new();
    }
    let other_rate = rate(rows, &row.text, other);
    other_rate.map_or_else(String::new, |rate| format!("{:.2}", row.gigabytes_per_second / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_aims_are_reported() {
        let rows = [
            ("prose, no blocks", FLOOR, 40.0),
            ("prose, no blocks", SEED, 2.0),
            ("prose, no blocks", "find", 9.0),
            ("a block every 4 KB", "find", 2.5),
        ]
        .map(|(text, work, gigabytes_per_second)| Row {
            text: text.to_owned(),
            work: work.to_owned(),
            gigabytes_per_second,
        });
        let table = table(&rows).unwrap();
        for line in [
            "| prose, no blocks | find | 9.0 | 0.23 | 4.50 |",
            "- prose, no blocks, find, at least 10 GB/s: **falls short** (9.0).",
            "- HTML, no blocks, find, at least 10 GB/s: not measured.",
            "- a block every 4 KB, find, at least 2 GB/s: met (2.5).",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
    }
}
