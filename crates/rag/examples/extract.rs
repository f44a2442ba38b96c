//! Prints the text that is extracted from documents.
//!
//! `cargo run -p marquetry-rag --example extract -- FILE…`

use std::{error::Error, fs, path::Path, process::ExitCode, time::Instant};

use marquetry_rag::{
    ChunkOptions, ExtractLimits, Extracted, Hint, chunk_extracted, count_words, extract,
};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("extract: which files?");
        return ExitCode::from(2);
    }
    let mut failed = false;
    for file in &files {
        let started = Instant::now();
        match read(file) {
            Ok(extracted) => {
                println!("{file}: {:?}", started.elapsed());
                describe(&extracted);
            }
            Err(error) => {
                failed = true;
                println!("{file}: {error}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read(file: &str) -> Result<Extracted, Box<dyn Error>> {
    // Before it is in memory: a file may have any size.
    ExtractLimits::default().check_bytes(fs::metadata(file)?.len())?;
    let name = Path::new(file).file_name().and_then(|name| name.to_str());
    let hint = Hint { file_name: name, source_uri: Some(file), ..Hint::default() };
    Ok(extract(&fs::read(file)?, &hint)?)
}

fn describe(extracted: &Extracted) {
    let line = |name: &str, value: &dyn std::fmt::Display| println!("  {name:<12}{value}");
    line("type", &extracted.mime_type);
    line("characters", &extracted.character_count);
    for (name, value) in [("title", &extracted.title), ("encoding", &extracted.encoding)] {
        if let Some(value) = value {
            line(name, value);
        }
    }
    if let Some(pages) = extracted.page_count {
        line("pages", &format!("{pages}, {} with a place", extracted.pages.len()));
    }
    for (name, value) in &extracted.metadata {
        line(name, value);
    }
    for heading in &extracted.headings {
        line("heading", &format!("{}{}", "  ".repeat(heading.level.into()), heading.title));
    }
    for problem in &extracted.problems {
        line("problem", problem);
    }
    let chunks = chunk_extracted(extracted, &ChunkOptions::default(), count_words);
    for chunk in chunks.into_iter().flatten().take(3) {
        let start: String = chunk.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let start: String = start.chars().take(100).collect();
        let page = chunk.page.map(|page| format!(", page {page}")).unwrap_or_default();
        line("chunk", &format!("{:?}{page}: {start}", chunk.span));
    }
}
