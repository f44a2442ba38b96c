//! `cargo xtask bench rag`: quality and speed of retrieval, beside other programs.

mod others;
mod table;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::{Deserialize, de::DeserializeOwned};

use self::others::{Peer, Python};
use super::{example, report};
use crate::Failed;

/// Options of `bench rag`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A collection in BEIR's layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`), such as
    /// Cranfield; without one, only speed is measured.
    #[arg(long, value_name = "FOLDER")]
    collection: Option<PathBuf>,
    /// A sentence transformer to measure on the collection, too; may be given several times.
    /// `crates/embed/tests/embedding/install` gets one into `target/models/all-MiniLM-L6-v2`.
    #[arg(long, value_name = "FOLDER", requires = "collection")]
    model: Vec<PathBuf>,
    /// Measures only quality on the collection, not speed on generated chunks.
    #[arg(long, requires = "collection", conflicts_with_all = ["chunks", "rounds", "quick", "write"])]
    quality: bool,
    /// Number of chunks to generate; may be given several times.
    #[arg(long, value_name = "COUNT", default_values_t = [10_000, 100_000, 1_000_000])]
    chunks: Vec<usize>,
    /// Rounds, in turns with the other programs; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measures one round with 10,000 chunks, to see that the benchmark works.
    #[arg(long, conflicts_with_all = ["chunks", "rounds"])]
    quick: bool,
    /// Measures only Marquetry.
    #[arg(long)]
    alone: bool,
    /// Writes the tables into docs/benchmarks.md. The tables for 1,000,000 chunks have their own
    /// place there, so that the parts can be measured in separate runs.
    #[arg(long)]
    write: bool,
}

/// Results for one number of chunks.
struct Size {
    chunks: usize,
    programs: Vec<Program>,
}

/// Results of one program.
struct Program {
    name: &'static str,
    written: WriteFigures,
    /// One result for each round.
    searched: Vec<SearchFigures>,
}

/// Figures of writing a database.
#[derive(Clone, Debug, Deserialize)]
struct WriteFigures {
    chunks: usize,
    seconds: f64,
    cpu_seconds: f64,
    /// Size of the database; [`None`] if the program stores nothing.
    bytes: Option<f64>,
}

/// Figures of searching a database.
#[derive(Clone, Debug, Deserialize)]
struct SearchFigures {
    open_ms: f64,
    open_cpu_ms: Option<f64>,
    /// Time until the first answer.
    ready_ms: f64,
    memory_bytes: f64,
    searches: Vec<Search>,
    /// Time of one pass over as many vectors.
    floor_ms: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Search {
    name: String,
    p50_ms: f64,
    p99_ms: f64,
    cpu_ms: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let folder = tempfile::tempdir()?;
    let mut out = String::new();
    let mut python = None;
    if !options.alone {
        match Python::install() {
            Ok(installed) => python = Some(installed),
            Err(error) => {
                let missing = format!("Missing: {}. {error}", others::names());
                eprintln!("{missing}");
                out.push_str(&format!("{missing}\n\n"));
            }
        }
    }
    if let Some(collection) = &options.collection {
        out.push_str(&quality(collection, &options.model, folder.path(), python.as_ref())?);
    }
    if options.quality {
        print!("{}\n\n{out}", report::where_and_when());
        return Ok(ExitCode::SUCCESS);
    }
    let (chunks, rounds) = if options.quick {
        (&[10_000][..], 1)
    } else {
        (&options.chunks[..], options.rounds.max(1))
    };
    let sizes = chunks
        .iter()
        .map(|&chunks| speed(chunks, rounds, &folder.path().join("speed"), python.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    out.push_str(&table::speed(&sizes)?);
    let report = format!(
        "{} {rounds} rounds in turns, the median counts.\n\n{out}",
        report::where_and_when()
    );
    print!("{report}");
    if options.write {
        report::write(if chunks == [1_000_000] { "rag-1000000" } else { "rag" }, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures quality on a collection.
fn quality(
    collection: &Path,
    models: &[PathBuf],
    folder: &Path,
    python: Option<&Python>,
) -> Result<String, Failed> {
    let name = collection.file_name().unwrap_or_default().to_string_lossy();
    eprintln!("{name}");
    let path = collection.display().to_string();
    let mut arguments = vec![path.clone()];
    for model in models {
        arguments.extend(["--model".to_owned(), std::path::absolute(model)?.display().to_string()]);
    }
    // The feature takes minutes to compile.
    let features: &[&str] =
        if models.is_empty() { &["libsql"] } else { &["libsql", "transformer"] };
    if let Some(python) = python {
        let exported = folder.join("collection");
        ours("cranfield", &[&path, "--export", &exported.display().to_string()])?;
        for other in Peer::ALL {
            let database = folder.join(other.script_name());
            python.index(other, &exported, &database)?;
            let results = python.search(other, &exported, &database, usize::MAX, 100)?;
            let file = folder.join(format!("{}.json", other.script_name()));
            std::fs::write(&file, results)?;
            arguments.push(format!("{}={}", other.name(), file.display()));
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let table = example("marquetry-rag", features, "cranfield", &arguments)?;
    Ok(format!("Quality on `{name}`:\n\n```text\n{table}```\n\n"))
}

/// Measures speed on generated chunks.
fn speed(
    chunks: usize,
    rounds: usize,
    folder: &Path,
    python: Option<&Python>,
) -> Result<Size, Failed> {
    eprintln!("{chunks} chunks: marquetry");
    std::fs::create_dir_all(folder)?;
    let count = chunks.to_string();
    let file = folder.join("marquetry.db").display().to_string();
    let written = read(&ours("search_speed", &["index", &file, &count])?)?;
    let mut programs = vec![Program { name: "marquetry", written, searched: Vec::new() }];
    let others: Vec<_> = Peer::ALL
        .into_iter()
        .filter(|other| python.is_some() && chunks <= other.max_chunks())
        .collect();
    let exported = folder.join("exported");
    if !others.is_empty() {
        ours("search_speed", &["export", &exported.display().to_string(), &count])?;
    }
    for round in 0..rounds {
        programs[0].searched.push(read(&ours("search_speed", &["search", &file])?)?);
        for (index, &other) in (1..).zip(&others) {
            let Some(python) = python else { continue };
            eprintln!("{chunks} chunks: {}, round {}", other.name(), round + 1);
            let database = folder.join(other.script_name());
            let indexed =
                if round == 0 { python.index(other, &exported, &database)? } else { None };
            let output = python.search(other, &exported, &database, other.queries(chunks), 10)?;
            if round == 0 {
                let written = read(indexed.as_deref().unwrap_or(&output))?;
                programs.push(Program { name: other.name(), written, searched: Vec::new() });
            }
            programs[index].searched.push(read(&output)?);
        }
    }
    std::fs::remove_dir_all(folder)?;
    Ok(Size { chunks, programs })
}

fn ours(name: &str, arguments: &[&str]) -> Result<String, Failed> {
    example("marquetry-rag", &["libsql"], name, arguments)
}

fn read<T: DeserializeOwned>(output: &str) -> Result<T, Failed> {
    serde_json::from_str(output).map_err(|error| Failed::new(format!("{error} in {output}")))
}
