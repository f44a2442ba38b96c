//! The results as Markdown, and the rows that miss their aims.

use std::fmt::Write as _;

use super::{Program, Search, SearchFigures, Size};
use crate::Failed;

/// The aims of the benchmark: number of chunks, figure, and its maximum in milliseconds.
const AIMS: [(usize, &str, f64); 3] = [
    (100_000, "hybrid search, p50", 2.0),
    (1_000_000, "hybrid search, p50", 20.0),
    (100_000, READY, 100.0),
];
const HYBRID: &str = "hybrid";
const READY: &str = "open and first search";

/// Returns all tables.
pub(super) fn speed(sizes: &[Size]) -> Result<String, Failed> {
    let mut out = String::new();
    write(&mut out, sizes).map_err(|error| Failed::new(error.to_string()))?;
    Ok(out)
}

fn write(out: &mut String, sizes: &[Size]) -> std::fmt::Result {
    out.push_str("Searching. \"×\" is how many times our figure another's is; \"× floor\" is p50 by the time of one pass over all vectors.\n\n");
    out.push_str(
        "| chunks | program | search | p50 ms | × | p99 ms | CPU ms | × | floor ms | × floor |\n",
    );
    out.push_str("|--:|---|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for size in sizes {
        for (index, program) in size.programs.iter().enumerate() {
            for search in &program.searched[0].searches {
                let name = &search.name;
                let floor = program.median(|searched| searched.floor_ms);
                let p50 = program.search_median(name, |search| search.p50_ms);
                let cpu = program.search_median(name, |search| search.cpu_ms);
                // The first program is ours, to which the others are compared.
                let ours = (index > 0).then(|| &size.programs[0]);
                let our_p50 = ours.and_then(|it| it.search_median(name, |search| search.p50_ms));
                let our_cpu = ours.and_then(|it| it.search_median(name, |search| search.cpu_ms));
                writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    size.chunks,
                    program.name,
                    name,
                    number(p50, 2),
                    ratio(p50, our_p50, 1),
                    number(program.search_median(name, |search| search.p99_ms), 2),
                    number(cpu, 2),
                    ratio(cpu, our_cpu, 1),
                    number(floor, 2),
                    ratio(p50, floor, 1),
                )?;
            }
        }
    }
    out.push_str(
        "\nWriting and opening. \"Ready\" is the time until the first search is answered.\n\n",
    );
    out.push_str("| chunks | program | chunks/s | a second of CPU | database MiB | open ms | CPU ms | ready ms | × | memory MiB | × |\n");
    out.push_str("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for size in sizes {
        for (index, program) in size.programs.iter().enumerate() {
            let written = &program.written;
            let ready = program.median(|searched| Some(searched.ready_ms));
            let memory = program.median(|searched| Some(searched.memory_bytes));
            let ours = (index > 0).then(|| &size.programs[0]);
            let our_ready = ours.and_then(|it| it.median(|searched| Some(searched.ready_ms)));
            let our_memory = ours.and_then(|it| it.median(|searched| Some(searched.memory_bytes)));
            writeln!(
                out,
                "| {} | {} | {:.0} | {:.0} | {} | {} | {} | {} | {} | {} | {} |",
                size.chunks,
                program.name,
                written.chunks as f64 / written.seconds,
                written.chunks as f64 / written.cpu_seconds,
                number(written.bytes.map(mebibytes), 0),
                number(program.median(|searched| Some(searched.open_ms)), 0),
                number(program.median(|searched| searched.open_cpu_ms), 0),
                number(ready, 0),
                ratio(ready, our_ready, 1),
                number(memory.map(mebibytes), 0),
                ratio(memory, our_memory, 1),
            )?;
        }
    }
    out.push_str("\nAims:\n");
    for (chunks, what, max) in AIMS {
        let Some(size) = sizes.iter().find(|size| size.chunks == chunks) else { continue };
        let ours = &size.programs[0];
        let (time, cpu) = match what {
            READY => (ours.median(|it| Some(it.ready_ms)), ours.median(|it| it.open_cpu_ms)),
            _ => (
                ours.search_median(HYBRID, |search| search.p50_ms),
                ours.search_median(HYBRID, |search| search.cpu_ms),
            ),
        };
        let judged = match time {
            Some(time) => {
                let word = if time <= max { "met" } else { "**falls short**" };
                let cpu = cpu.map_or_else(String::new, |cpu| format!(", with {cpu:.1} ms of CPU"));
                format!("{word} ({time:.1} ms{cpu})")
            }
            None => "not measured".to_owned(),
        };
        writeln!(out, "- {what} at {chunks} chunks, at most {max} ms: {judged}.")?;
    }
    Ok(())
}

impl Program {
    /// Returns the median over the rounds.
    fn median(&self, figure: impl Fn(&SearchFigures) -> Option<f64>) -> Option<f64> {
        let mut figures: Vec<f64> = self.searched.iter().filter_map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    }

    /// Returns the median of a figure of one search.
    fn search_median(&self, name: &str, figure: fn(&Search) -> f64) -> Option<f64> {
        self.median(|searched| searched.search(name).map(figure))
    }
}

impl SearchFigures {
    fn search(&self, name: &str) -> Option<&Search> {
        self.searches.iter().find(|search| search.name == name)
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn ratio(one: Option<f64>, other: Option<f64>, digits: usize) -> String {
    let ratio = one.zip(other).filter(|(_, other)| *other > 0.0).map(|(one, other)| one / other);
    number(ratio, digits)
}

fn mebibytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rag::WriteFigures;

    fn program(name: &'static str, p50s: &[f64]) -> Program {
        let searched = p50s.iter().map(|&p50_ms| SearchFigures {
            open_ms: 100.0 * p50_ms,
            open_cpu_ms: None,
            ready_ms: 100.0 * p50_ms,
            memory_bytes: f64::from(1 << 20),
            searches: vec![Search { name: HYBRID.to_owned(), p50_ms, p99_ms: 9.0, cpu_ms: 1.0 }],
            floor_ms: (name == "marquetry").then_some(0.5),
        });
        let written =
            WriteFigures { chunks: 100_000, seconds: 10.0, cpu_seconds: 5.0, bytes: None };
        Program { name, written, searched: searched.collect() }
    }

    #[test]
    fn missed_aims_are_named() {
        let programs = vec![program("marquetry", &[9.0, 1.5, 1.0]), program("other", &[6.0])];
        let table = speed(&[Size { chunks: 100_000, programs }]).unwrap();
        for line in [
            "| 100000 | marquetry | hybrid | 1.50 |  | 9.00 | 1.00 |  | 0.50 | 3.0 |",
            "| 100000 | other | hybrid | 6.00 | 4.0 | 9.00 | 1.00 | 1.0 |  |  |",
            "| 100000 | other | 10000 | 20000 |  | 600 |  | 600 | 4.0 | 1 | 1.0 |",
            "- hybrid search, p50 at 100000 chunks, at most 2 ms: met (1.5 ms, with 1.0 ms of CPU).",
            "- open and first search at 100000 chunks, at most 100 ms: **falls short** (150.0 ms).",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
        assert!(!table.contains("at 1000000 chunks"), "{table}");
    }
}
