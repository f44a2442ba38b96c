//! Indexes files and folders, and answers a question with passages.
//!
//! `cargo run -p marquetry-rag --example library -- "QUESTION" PATH…`

use std::{error::Error, process::ExitCode};

use marquetry_rag::{Library, SearchRequest};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(question), paths) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        eprintln!("usage: library QUESTION PATH…");
        return Ok(ExitCode::from(2));
    };
    let library = Library::open("kb.db").await?;
    let report = library.index(&paths).await?;
    for refused in &report.failures {
        eprintln!("{}: {}", refused.path.display(), refused.problem);
    }

    let hits = library.search(SearchRequest::from(question.as_str()).limit(5).distinct()).await?;
    for hit in &hits {
        let title = hit.title.as_deref().unwrap_or(&hit.chunk.document);
        println!("{:.2}  {title}: {}\n", hit.relevance, hit.chunk.content.trim());
    }

    // The same passages, as blocks for the prompt of a model.
    let documents = hits.iter().map(|hit| hit.chunk.document.as_str());
    println!("{}", library.cite(&question, documents).await?.text());
    library.checkpoint().await?;
    Ok(ExitCode::SUCCESS)
}
