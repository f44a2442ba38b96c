//! The tables, as Markdown.

use std::{env, fmt::Write as _, fs, process::Command, time::Duration};

use super::{
    http::Answer,
    measurement::Measurement,
    peer::Peer,
    row::{Row, Turns},
};
use crate::{Failed, root};

/// The aim of a row: a ratio to the figure of another program.
struct Aim {
    what: &'static str,
    applies: fn(Row) -> bool,
    other: Peer,
    figure: fn(&Measurement) -> f64,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const AIMS: &[Aim] = &[
    Aim {
        what: "CPU per request",
        applies: |_| true,
        other: Peer::Rmcp,
        figure: cpu_per_request,
        bound: Bound::AtMost(0.5),
    },
    Aim {
        what: "CPU per request, 64 KiB",
        applies: |row| row.bytes() >= 1 << 10,
        other: Peer::Rmcp,
        figure: cpu_per_request,
        bound: Bound::AtMost(0.7),
    },
    Aim {
        what: "CPU per JSON answer over HTTP",
        applies: |row| matches!(row, Row::Http(row) if row.answer == Answer::Json),
        other: Peer::Floor,
        figure: cpu_per_request,
        bound: Bound::AtMost(1.5),
    },
    Aim {
        what: "calls per second over stdio",
        applies: |row| matches!(row, Row::Stdio(_)),
        other: Peer::Rmcp,
        figure: per_second,
        bound: Bound::AtLeast(2.0),
    },
];

/// Returns the report: environment, table, and the rows that miss their aims.
pub(super) fn report(turns: &[Turns], rounds: usize, seconds: u64) -> Result<String, Failed> {
    let mut out =
        format!("{} {rounds} rounds of {seconds} s, the median counts.\n", where_and_when());
    out.push_str("\n| call | server | CPU µs/request | × rmcp | × floor | requests/s | × rmcp | p50 ms | p99 ms | memory MiB |\n");
    out.push_str("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for Turns { row, peer, .. } in turns {
        let cell = Cell { turns, row: *row, peer: *peer };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.description(),
            peer.name(),
            cell.figure(cpu_per_request, 1),
            cell.ratio(cpu_per_request, Peer::Rmcp),
            cell.ratio(cpu_per_request, Peer::Floor),
            cell.figure(per_second, 0),
            cell.ratio(per_second, Peer::Rmcp),
            cell.figure(|it| millis(it.p50), 2),
            cell.figure(|it| millis(it.p99), 2),
            cell.figure(|it| it.resident as f64 / f64::from(1 << 20), 1),
        )
        .map_err(|error| Failed::new(error.to_string()))?;
    }
    out.push_str("\nAims:\n");
    for aim in AIMS {
        let line = aim.verdict(turns);
        writeln!(out, "- {line}").map_err(|error| Failed::new(error.to_string()))?;
    }
    Ok(out)
}

/// The figures of one peer at one row, as text for the table.
struct Cell<'a> {
    turns: &'a [Turns],
    row: Row,
    peer: Peer,
}

impl Cell<'_> {
    fn figure(&self, figure: fn(&Measurement) -> f64, digits: usize) -> String {
        let median = median(self.turns, self.row, self.peer, figure);
        median.map_or_else(String::new, |median| format!("{median:.digits$}"))
    }

    /// Returns our figure divided by that of `other`; empty in the lines of other peers.
    fn ratio(&self, figure: fn(&Measurement) -> f64, other: Peer) -> String {
        if self.peer != Peer::Marquetry {
            return String::new();
        }
        let ratio = ratio(self.turns, self.row, other, figure);
        ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
    }
}

/// Returns the running command, the date, the commit and the machine, as the start of a paragraph.
pub(super) fn where_and_when() -> String {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = averages.split(' ').next().unwrap_or_default();
    let date = output_or_unknown("date", &["-u", "+%F"]);
    let commit = output_or_unknown("git", &["rev-parse", "--short", "HEAD"]);
    format!(
        "`cargo xtask {}` on {date}, at {commit}: {cores} cores of {model}, Linux {}, load {load} at the end;",
        arguments.join(" "),
        kernel.trim()
    )
}

fn output_or_unknown(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).current_dir(root()).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

impl Aim {
    fn verdict(&self, turns: &[Turns]) -> String {
        let other = self.other.name();
        let (bound, word) = match self.bound {
            Bound::AtMost(bound) => (bound, "at most"),
            Bound::AtLeast(bound) => (bound, "at least"),
        };
        let mut rows = 0;
        let mut short = Vec::new();
        for Turns { row, peer, .. } in turns {
            if *peer != Peer::Marquetry || !(self.applies)(*row) {
                continue;
            }
            let Some(ratio) = ratio(turns, *row, self.other, self.figure) else { continue };
            rows += 1;
            let met = match self.bound {
                Bound::AtMost(bound) => ratio <= bound,
                Bound::AtLeast(bound) => ratio >= bound,
            };
            if !met {
                short.push(format!("{} ({ratio:.2})", row.description()));
            }
        }
        let what = self.what;
        match (rows, short.is_empty()) {
            (0, _) => format!("{what}, {word} {bound} × {other}: not measured."),
            (_, true) => format!("{what}, {word} {bound} × {other}: met on all {rows} rows."),
            _ => format!(
                "{what}, {word} {bound} × {other}: **falls short** on {} of {rows} rows: {}.",
                short.len(),
                short.join("; ")
            ),
        }
    }
}

pub(super) fn cpu_per_request(measurement: &Measurement) -> f64 {
    measurement.cpu.as_secs_f64() * 1e6 / measurement.requests.max(1) as f64
}

pub(super) fn per_second(measurement: &Measurement) -> f64 {
    measurement.requests as f64 / measurement.time.as_secs_f64()
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(turns: &[Turns], row: Row, peer: Peer, figure: fn(&Measurement) -> f64) -> Option<f64> {
    let ours = turns.iter().find(|turns| turns.row == row && turns.peer == peer)?;
    median_of(&ours.measurements, figure)
}

/// Returns the median of a figure, if there are measurements.
pub(super) fn median_of(
    measurements: &[Measurement],
    figure: fn(&Measurement) -> f64,
) -> Option<f64> {
    let mut figures: Vec<f64> = measurements.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// Returns our figure divided by that of `other`.
fn ratio(turns: &[Turns], row: Row, other: Peer, figure: fn(&Measurement) -> f64) -> Option<f64> {
    let ours = median(turns, row, Peer::Marquetry, figure)?;
    let theirs = median(turns, row, other, figure)?;
    (theirs > 0.0).then_some(ours / theirs)
}

/// Writes a report between its marks in docs/benchmarks.md.
pub(super) fn write(mark: &str, report: &str) -> Result<(), Failed> {
    let path = root().join("docs/benchmarks.md");
    let document = fs::read_to_string(&path)?;
    fs::write(path, between_marks(&document, mark, report)?)?;
    Ok(())
}

fn between_marks(document: &str, mark: &str, report: &str) -> Result<String, Failed> {
    let begin = format!("<!-- {mark}: begin -->");
    let end = format!("<!-- {mark}: end -->");
    let Some((before, (_, after))) = document
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?)))
    else {
        return Err(Failed::new(format!("docs/benchmarks.md has no marks '{mark}'")));
    };
    Ok(format!("{before}{begin}\n{}\n{end}{after}", report.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{http, stdio};

    const HTTP: Row =
        Row::Http(http::Row { revision: "2026-07-28", answer: Answer::Json, bytes: 16 });
    const STDIO: Row = Row::Stdio(stdio::Row { revision: "2026-07-28", in_flight: 1, bytes: 16 });

    #[test]
    fn missed_aims_are_named() {
        let turns = [
            // The median counts.
            turns(HTTP, Peer::Marquetry, &[90, 40, 30]),
            turns(HTTP, Peer::Rmcp, &[100]),
            turns(HTTP, Peer::Floor, &[20]),
            turns(STDIO, Peer::Marquetry, &[10]),
            turns(STDIO, Peer::Rmcp, &[10]),
        ];
        let judged: Vec<String> = AIMS.iter().map(|aim| aim.verdict(&turns)).collect();
        let ends = [
            "1 of 2 rows: stdio 2026-07-28 serial 16 B (1.00).",
            "64 KiB, at most 0.7 × rmcp 3.9.0: not measured.",
            "1 of 1 rows: HTTP 2026-07-28 JSON 16 B (2.00).",
            "1 of 1 rows: stdio 2026-07-28 serial 16 B (1.00).",
        ];
        for (judged, end) in judged.iter().zip(ends) {
            assert!(judged.ends_with(end), "{judged}");
        }
    }

    #[test]
    fn a_report_takes_the_place_of_the_last_one() {
        let document = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let written = between_marks(document, "x", "new\n").unwrap();
        assert_eq!(written, "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n");
        assert!(between_marks(document, "y", "new").is_err());
    }

    fn turns(row: Row, peer: Peer, cpu_micros: &[u64]) -> Turns {
        let measurements = cpu_micros.iter().map(|cpu| Measurement {
            requests: 1,
            time: Duration::from_secs(1),
            cpu: Duration::from_micros(*cpu),
            p50: Duration::ZERO,
            p99: Duration::ZERO,
            resident: 0,
        });
        Turns { row, peer, measurements: measurements.collect() }
    }
}
