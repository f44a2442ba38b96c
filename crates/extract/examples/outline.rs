//! Prints the outline of a document: its pages and headings, and what could not be read.
//!
//! `cargo run -p marquetry-extract --example outline -- FILE`; without a file, it reads the README
//! of this crate.

use std::{error::Error, fs, path::PathBuf};

use marquetry_extract::{Hint, Limits, extract};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")),
        PathBuf::from,
    );
    // Checked before the file is read, because it may have any size.
    Limits::default().check_bytes(fs::metadata(&file)?.len())?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let extracted = extract(&fs::read(&file)?, &Hint::file(name))?;

    let title = extracted.title.as_deref().unwrap_or(name);
    println!("{title} ({}, {} characters)", extracted.mime_type, extracted.character_count);
    for heading in &extracted.headings {
        let page = extracted.pages.iter().find(|page| page.span.contains(&heading.span.start));
        let place = page.map_or_else(
            || format!("at byte {}", heading.span.start),
            |page| format!("on page {}", page.number),
        );
        println!("{}{} {place}", "  ".repeat(heading.level.into()), heading.title);
    }
    for problem in &extracted.problems {
        println!("problem: {problem}");
    }
    Ok(())
}
