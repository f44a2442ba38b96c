//! The benchmark's report as Markdown: tables of figures and system calls, and the aims.

use std::fmt::Write as _;

use super::{Row, SystemCalls, Turns, server::Kind};
use crate::{
    Failed,
    bench::{
        measurement::Measurement,
        report::{cpu_per_request, median_of, millis, per_second, where_and_when},
    },
};

/// Largest measured text that the default settings neither save nor cut.
const MAX_UNCUT_BYTES: usize = 1 << 10;

/// An aim: a bound on the CPU time of a call at one server relative to another.
struct Aim {
    what: &'static str,
    server: Kind,
    other: Kind,
    max_ratio: f64,
    applies: fn(Row) -> bool,
}

const AIMS: &[Aim] = &[
    Aim {
        what: "the hop, × floor",
        server: Kind::WithoutCapture,
        other: Kind::Floor,
        max_ratio: 1.6,
        applies: |_| true,
    },
    Aim {
        what: "an answer that fits, × floor",
        server: Kind::Marquetry,
        other: Kind::Floor,
        max_ratio: 1.6,
        applies: is_uncut,
    },
    Aim {
        what: "an answer that is saved, × the hop",
        server: Kind::Marquetry,
        other: Kind::WithoutCapture,
        max_ratio: 1.5,
        applies: |row| !is_uncut(row),
    },
    Aim {
        what: "the console's record, × the hop without it",
        server: Kind::WithoutCapture,
        other: Kind::WithoutConsole,
        max_ratio: 1.05,
        applies: |_| true,
    },
];

fn is_uncut(row: Row) -> bool {
    row.bytes <= MAX_UNCUT_BYTES
}

/// Returns the report: environment, tables, and the rows that miss their aims.
pub(super) fn report(
    turns: &[Turns],
    system_calls: &[(Kind, SystemCalls)],
    rounds: usize,
    seconds: u64,
) -> Result<String, Failed> {
    let mut out =
        format!("{} {rounds} rounds of {seconds} s, the median counts.\n\n", where_and_when());
    write_tables(&mut out, turns, system_calls).map_err(|error| Failed::new(error.to_string()))?;
    Ok(out)
}

fn write_tables(
    out: &mut String,
    turns: &[Turns],
    system_calls: &[(Kind, SystemCalls)],
) -> std::fmt::Result {
    write_rows(out, turns)?;
    write_system_calls(out, system_calls)?;
    write_aims(out, turns, system_calls)
}

fn write_rows(out: &mut String, turns: &[Turns]) -> std::fmt::Result {
    out.push_str("| answer | in flight | server | CPU µs/call | × floor | calls/s | p50 ms | p99 ms | memory MiB |\n");
    out.push_str("|--:|--:|---|--:|--:|--:|--:|--:|--:|\n");
    for Turns { row, server, measurements } in turns {
        let floor = ratio(turns, *row, *server, Kind::Floor);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            size(row.bytes),
            row.in_flight,
            server.name(),
            median_cell(measurements, cpu_per_request, 1),
            floor.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            median_cell(measurements, per_second, 0),
            median_cell(measurements, |it| millis(it.p50), 2),
            median_cell(measurements, |it| millis(it.p99), 2),
            median_cell(measurements, |it| it.resident as f64 / f64::from(1 << 20), 0),
        )?;
    }
    Ok(())
}

fn median_cell(
    measurements: &[Measurement],
    figure: fn(&Measurement) -> f64,
    digits: usize,
) -> String {
    median_of(measurements, figure).map_or_else(String::new, |median| format!("{median:.digits$}"))
}

fn write_system_calls(out: &mut String, system_calls: &[(Kind, SystemCalls)]) -> std::fmt::Result {
    out.push_str(
        "\nSystem calls for each call, with one call at a time and an answer of 16 B:\n\n",
    );
    out.push_str("| server | all | futex | epoll_wait | write |\n|---|--:|--:|--:|--:|\n");
    for (server, calls) in system_calls {
        let SystemCalls { all, futex, epoll_wait, write } = calls;
        let name = server.name();
        writeln!(out, "| {name} | {all:.1} | {futex:.2} | {epoll_wait:.2} | {write:.2} |")?;
    }
    Ok(())
}

fn write_aims(
    out: &mut String,
    turns: &[Turns],
    system_calls: &[(Kind, SystemCalls)],
) -> std::fmt::Result {
    out.push_str("\nAims:\n");
    for Aim { what, server, other, max_ratio, applies } in AIMS {
        let ratios: Vec<_> = rows(turns, *applies)
            .into_iter()
            .filter_map(|row| Some((row, ratio(turns, row, *server, *other)?)))
            .collect();
        writeln!(out, "- CPU of {what}, at most {max_ratio}: {}", verdict(&ratios, *max_ratio))?;
    }
    let ratios: Vec<_> = rows(turns, is_uncut)
        .into_iter()
        .filter_map(|row| Some((row, ratio_to_best_peer(turns, row)?)))
        .collect();
    writeln!(
        out,
        "- CPU of an answer that fits, × the best peer, at most 0.05: {}",
        verdict(&ratios, 0.05)
    )?;
    let ours = system_calls.iter().find(|(kind, _)| *kind == Kind::Marquetry);
    if let Some((_, SystemCalls { all, futex, .. })) = ours {
        // strace also counts the few system calls that belong to no call of a tool.
        let verdict = if *all <= 6.05 && *futex < 0.05 { "met" } else { "**falls short**" };
        writeln!(out, "- At most 6 system calls and no futex: {verdict} ({all:.1}, {futex:.2}).")?;
    }
    Ok(())
}

/// Returns the measured rows to which an aim applies.
fn rows(turns: &[Turns], applies: fn(Row) -> bool) -> Vec<Row> {
    // Every run measures the floor, so its turns have each row once.
    let floor = turns.iter().filter(|turns| turns.server == Kind::Floor);
    floor.map(|turns| turns.row).filter(|row| applies(*row)).collect()
}

/// Says whether an aim is met, and otherwise names the rows whose ratio exceeds `max_ratio`.
fn verdict(ratios: &[(Row, f64)], max_ratio: f64) -> String {
    if ratios.is_empty() {
        return "not measured.".to_owned();
    }
    let missed: Vec<_> = ratios
        .iter()
        .filter(|(_, ratio)| *ratio > max_ratio)
        .map(|(row, ratio)| format!("{} × {} ({ratio:.2})", size(row.bytes), row.in_flight))
        .collect();
    if missed.is_empty() {
        "met.".to_owned()
    } else {
        format!("**falls short** at {}.", missed.join("; "))
    }
}

/// Returns the CPU time of a call at `server` divided by the time at `other`.
fn ratio(turns: &[Turns], row: Row, server: Kind, other: Kind) -> Option<f64> {
    Some(median_cpu(turns, row, server)? / median_cpu(turns, row, other)?)
}

fn ratio_to_best_peer(turns: &[Turns], row: Row) -> Option<f64> {
    let peers = Kind::ALL.into_iter().filter(|kind| kind.is_peer());
    let best = peers.filter_map(|kind| median_cpu(turns, row, kind)).min_by(f64::total_cmp)?;
    Some(median_cpu(turns, row, Kind::Marquetry)? / best)
}

/// Returns the median CPU time of a call in µs, or [`None`] if it was not measured.
fn median_cpu(turns: &[Turns], row: Row, server: Kind) -> Option<f64> {
    let turns = turns.iter().find(|turns| turns.row == row && turns.server == server)?;
    median_of(&turns.measurements, cpu_per_request).filter(|cpu| *cpu > 0.0)
}

fn size(bytes: usize) -> String {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    match bytes {
        0..KIB => format!("{bytes} B"),
        MIB.. => format!("{} MiB", bytes / MIB),
        // One of the measured sizes is a round decimal number.
        _ if bytes.is_multiple_of(1_000) => format!("{} KB", bytes / 1_000),
        _ => format!("{} KiB", bytes / KIB),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn missed_aims_are_named() {
        let row = Row { bytes: 16, in_flight: 1 };
        let turns = [(Kind::Marquetry, 30), (Kind::WithoutCapture, 20), (Kind::Floor, 15)]
            .map(|(server, cpu)| Turns { row, server, measurements: vec![measurement(cpu)] });
        let calls = SystemCalls { all: 7.5, futex: 0.0, epoll_wait: 2.0, write: 2.0 };
        let report = report(&turns, &[(Kind::Marquetry, calls)], 1, 1).unwrap();
        assert!(report.contains("| 16 B | 1 | marquetry | 30.0 | 2.00 |"), "{report}");
        assert!(report.contains("the hop, × floor, at most 1.6: met."), "{report}");
        assert!(report.contains("fits, × floor, at most 1.6: **falls short** at 16 B × 1 (2.00)."));
        assert!(report.contains("no futex: **falls short** (7.5, 0.00)."), "{report}");
        assert!(report.contains("the best peer, at most 0.05: not measured."), "{report}");
    }

    fn measurement(cpu_micros: u64) -> Measurement {
        Measurement {
            requests: 1,
            time: Duration::from_secs(1),
            cpu: Duration::from_micros(cpu_micros),
            p50: Duration::ZERO,
            p99: Duration::ZERO,
            resident: 0,
        }
    }
}
