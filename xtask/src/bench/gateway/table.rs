//! The table of the benchmark, as Markdown, and the aims.

use std::fmt::Write as _;

use super::{Row, SystemCalls, Turns, server::Kind};
use crate::{
    Failed,
    bench::{
        measurement::Measurement,
        report::{cpu_per_request, median_of, millis, per_second, where_and_when},
    },
};

/// Longest text that is neither saved nor cut by default.
const UNTOUCHED: usize = 1 << 10;

/// Returns the environment, the tables and what misses the aims.
pub(super) fn report(
    turns: &[Turns],
    system_calls: &[(Kind, SystemCalls)],
    rounds: usize,
    seconds: u64,
) -> Result<String, Failed> {
    let mut out =
        format!("{} {rounds} rounds of {seconds} s, the median counts.\n\n", where_and_when());
    write_rows(&mut out, turns)
        .and_then(|()| write_system_calls(&mut out, system_calls))
        .and_then(|()| write_aims(&mut out, turns, system_calls))
        .map_err(|error| Failed::new(error.to_string()))?;
    Ok(out)
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
            figure(measurements, cpu_per_request, 1),
            floor.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            figure(measurements, per_second, 0),
            figure(measurements, |it| millis(it.p50), 2),
            figure(measurements, |it| millis(it.p99), 2),
            figure(measurements, |it| it.resident as f64 / f64::from(1 << 20), 0),
        )?;
    }
    Ok(())
}

fn figure(measurements: &[Measurement], of: fn(&Measurement) -> f64, digits: usize) -> String {
    median_of(measurements, of).map_or_else(String::new, |median| format!("{median:.digits$}"))
}

fn write_system_calls(out: &mut String, counted: &[(Kind, SystemCalls)]) -> std::fmt::Result {
    out.push_str(
        "\nSystem calls for each call, with one call at a time and an answer of 16 B:\n\n",
    );
    out.push_str("| server | all | futex | epoll_wait | write |\n|---|--:|--:|--:|--:|\n");
    for (server, calls) in counted {
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
    let aims = [
        ("the hop, × floor", Kind::WithoutCapture, Kind::Floor, 1.6, rows(turns, |_| true)),
        (
            "an answer that fits, × floor",
            Kind::Marquetry,
            Kind::Floor,
            1.6,
            rows(turns, |row| row.bytes <= UNTOUCHED),
        ),
        (
            "an answer that is saved, × the hop",
            Kind::Marquetry,
            Kind::WithoutCapture,
            1.5,
            rows(turns, |row| row.bytes > UNTOUCHED),
        ),
        (
            "the console's record, × the hop without it",
            Kind::WithoutCapture,
            Kind::WithoutConsole,
            1.05,
            rows(turns, |_| true),
        ),
    ];
    for (what, ours, other, bound, rows) in aims {
        let ratios = rows
            .into_iter()
            .filter_map(|row| Some((row, ratio(turns, row, ours, other)?)))
            .collect::<Vec<_>>();
        writeln!(out, "- CPU of {what}, at most {bound}: {}", verdict(&ratios, bound))?;
    }
    let ratios = rows(turns, |row| row.bytes <= UNTOUCHED)
        .into_iter()
        .filter_map(|row| Some((row, ratio_to_best_peer(turns, row)?)))
        .collect::<Vec<_>>();
    writeln!(
        out,
        "- CPU of an answer that fits, × the best peer, at most 0.05: {}",
        verdict(&ratios, 0.05)
    )?;
    let ours = system_calls.iter().find(|(kind, _)| *kind == Kind::Marquetry);
    if let Some((_, SystemCalls { all, futex, .. })) = ours {
        let met = if *all <= 6.05 && *futex < 0.05 { "met" } else { "**falls short**" };
        writeln!(out, "- At most 6 system calls and no futex: {met} ({all:.1}, {futex:.2}).")?;
    }
    Ok(())
}

/// Returns the measured rows of some kind.
fn rows(turns: &[Turns], is_meant: fn(Row) -> bool) -> Vec<Row> {
    let floor = turns.iter().filter(|turns| turns.server == Kind::Floor);
    floor.map(|turns| turns.row).filter(|row| is_meant(*row)).collect()
}

/// Names the rows whose ratio is larger than `bound`.
fn verdict(ratios: &[(Row, f64)], bound: f64) -> String {
    let short: Vec<_> = ratios
        .iter()
        .filter(|(_, ratio)| *ratio > bound)
        .map(|(row, ratio)| format!("{} × {} ({ratio:.2})", size(row.bytes), row.in_flight))
        .collect();
    match (ratios, &short[..]) {
        ([], _) => "not measured.".to_owned(),
        (_, []) => "met.".to_owned(),
        _ => format!("**falls short** at {}.", short.join("; ")),
    }
}

/// Returns the CPU time of a call at `server` divided by that at `other`.
fn ratio(turns: &[Turns], row: Row, server: Kind, other: Kind) -> Option<f64> {
    Some(cpu(turns, row, server)? / cpu(turns, row, other)?)
}

fn ratio_to_best_peer(turns: &[Turns], row: Row) -> Option<f64> {
    let peers = Kind::ALL.into_iter().filter(|kind| kind.is_peer());
    let best = peers.filter_map(|kind| cpu(turns, row, kind)).min_by(f64::total_cmp)?;
    Some(cpu(turns, row, Kind::Marquetry)? / best)
}

fn cpu(turns: &[Turns], row: Row, server: Kind) -> Option<f64> {
    let turns = turns.iter().find(|turns| turns.row == row && turns.server == server)?;
    median_of(&turns.measurements, cpu_per_request).filter(|cpu| *cpu > 0.0)
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        30_000 => "30 KB".to_owned(),
        0x10_0000.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
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
