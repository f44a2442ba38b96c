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

const FLOOR: &str = "memmem for `<mcp:`";
const SEED: &str = "seed's regular expressions";

/// Text, operation, and the lowest rate in GB/s: specs/context-blocks.md.
const AIMS: [(&str, &str, f64); 3] = [
    ("prose, no blocks", "find", 10.0),
    ("HTML, no blocks", "find", 10.0),
    ("a block every 4 KB", "find", 2.0),
];

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let said = example("marquetry-context-blocks", &[], "speed", &[])?;
    let rows: Vec<Row> = said
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
    let rate = |text: &str, work: &str| {
        let row = rows.iter().find(|row| row.text == text && row.work == work);
        row.map(|row| row.gigabytes_per_second)
    };
    let mut out = format!("{} GB a second of CPU time.\n\n", report::where_and_when());
    out.push_str(
        "| text | work | GB/s | × memmem | × regular expressions |\n|---|---|--:|--:|--:|\n",
    );
    let failed = |error: std::fmt::Error| Failed::new(error.to_string());
    for Row { text, work, gigabytes_per_second } in rows {
        let ratio = |other: &str| {
            let ratio = rate(text, other).filter(|_| other != work);
            ratio.map_or_else(String::new, |other| format!("{:.2}", gigabytes_per_second / other))
        };
        let (floor, seed) = (ratio(FLOOR), ratio(SEED));
        writeln!(out, "| {text} | {work} | {gigabytes_per_second:.1} | {floor} | {seed} |")
            .map_err(failed)?;
    }
    out.push_str("\nAims:\n");
    for (text, work, aim) in AIMS {
        let judged = match rate(text, work) {
            Some(rate) if rate >= aim => format!("met ({rate:.1})"),
            Some(rate) => format!("**falls short** ({rate:.1})"),
            None => "not measured".to_owned(),
        };
        writeln!(out, "- {text}, {work}, at least {aim} GB/s: {judged}.").map_err(failed)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_short_is_named() {
        let row = |text: &str, work: &str, gigabytes_per_second| Row {
            text: text.to_owned(),
            work: work.to_owned(),
            gigabytes_per_second,
        };
        let rows = [
            row("prose, no blocks", FLOOR, 40.0),
            row("prose, no blocks", SEED, 2.0),
            row("prose, no blocks", "find", 9.0),
            row("a block every 4 KB", "find", 2.5),
        ];
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
