//! `marquetry search`

use std::{
    collections::HashMap,
    io::{self, Read as _},
    time::Instant,
};

use clap::Args;
use marquetry_knowledge::{Access, Knowledge};
use marquetry_rag::{
    Document, Hit, ModelType, RecordError, SearchRequest, StoreError, file_record_uri, highlights,
};
use serde_json::{Value, json};

use crate::{
    DatabaseArgs, LibraryCommandError, Settings,
    output::{print, print_json},
    terminal::{Highlighter, Style, clean},
};

/// Arguments of `marquetry search`.
#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    /// Question or words, without any syntax; - reads them from standard input.
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// Maximum number of passages to print.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Only this document: its am7:// URI, or a file by path or file: URI.
    #[arg(long, value_name = "URI|FILE")]
    scope: Option<String>,
    /// Only documents with this tag, by name or URI. Given several times: with all of the tags.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only records of this type, such as data.data. Given several times: of any of the types.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Minimum relevance of a passage, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    threshold: f64,
    /// Only the best passage of each document.
    #[arg(long)]
    distinct: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Finds passages by words and meaning, and prints them.
///
/// # Errors
///
/// Returns an error if the arguments are wrong, or the database does not exist or cannot be read.
pub async fn search(
    arguments: &SearchArgs,
    settings: Settings<'_>,
) -> Result<(), LibraryCommandError> {
    let question = question(&arguments.query)?;
    for kind in &arguments.types {
        ModelType::of(kind)?;
    }
    if !(0.0..=1.0).contains(&arguments.threshold) {
        let message = format!("--threshold: {} is not between 0 and 1", arguments.threshold);
        return Err(LibraryCommandError::usage(message));
    }
    if arguments.limit == 0 {
        let max = SearchRequest::MAX_LIMIT;
        let message = format!("--limit: 0 asks for no passage; expected 1 to {max}");
        return Err(LibraryCommandError::usage(message));
    }
    if arguments.limit > SearchRequest::MAX_LIMIT {
        let error = StoreError::LimitTooLarge { limit: arguments.limit };
        return Err(LibraryCommandError::usage(format!("--limit: {error}")));
    }
    arguments
        .database
        .read(settings, async |knowledge| {
            let started = Instant::now();
            let hits = find(arguments, &question, knowledge).await?;
            let mut documents = HashMap::new();
            for hit in &hits {
                let uri = &hit.chunk.document;
                if !documents.contains_key(uri)
                    && let Some(document) = knowledge.pipeline.store().document(uri).await?
                {
                    documents.insert(uri.clone(), document);
                }
            }
            let seconds = started.elapsed().as_secs_f64();
            if arguments.database.is_json() {
                let hits: Vec<Value> = hits
                    .iter()
                    .map(|hit| as_json(hit, documents.get(&hit.chunk.document), &question))
                    .collect();
                return print_json(&json!({ "query": question, "seconds": seconds, "hits": hits }));
            }
            print(&as_text(&hits, &documents, &question, seconds))
        })
        .await
}

/// Returns the question on the command line; `-` reads standard input.
fn question(words: &[String]) -> Result<String, LibraryCommandError> {
    /// Maximum number of bytes that are read: one byte over the limit shows that a question is too
    /// long.
    const MAX_READ: u64 = SearchRequest::MAX_TEXT_BYTES as u64 + 1;
    let question = if matches!(words, [word] if word == "-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_READ).read_to_end(&mut bytes).map_err(|error| {
            LibraryCommandError::new(format!("failed to read standard input: {error}"))
        })?;
        if bytes.len() > SearchRequest::MAX_TEXT_BYTES {
            // A text that ends within a character exceeds the limit in any case.
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            String::from_utf8(bytes).map_err(|_| {
                LibraryCommandError::usage("the question on standard input is not UTF-8 text")
            })?
        }
    } else {
        words.join(" ")
    };
    if question.len() > SearchRequest::MAX_TEXT_BYTES {
        let max = SearchRequest::MAX_TEXT_BYTES;
        return Err(LibraryCommandError::usage(format!(
            "the question has more than {max} bytes, the maximum"
        )));
    }
    if question.trim().is_empty() {
        return Err(LibraryCommandError::usage("the question is empty"));
    }
    Ok(question)
}

async fn find(
    arguments: &SearchArgs,
    question: &str,
    knowledge: &Knowledge,
) -> Result<Vec<Hit>, LibraryCommandError> {
    let caller = knowledge.local().await?;
    let mut request = SearchRequest::new(question, None);
    request.limit = arguments.limit;
    request.threshold = arguments.threshold;
    request.distinct = arguments.distinct;
    request.filter.types.clone_from(&arguments.types);
    request.filter.readers =
        Some(knowledge.records.principals(&caller).await?.into_iter().collect());
    for tag in &arguments.tag {
        match knowledge.records.tag(&caller, tag).await {
            Ok(tag) => request.filter.tags.extend(tag.uri()),
            Err(RecordError::UnknownTag(name)) => {
                return Err(LibraryCommandError::new(format!("no tag {name:?}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(scope) = &arguments.scope {
        let uri = if scope.starts_with("am7://") {
            scope.clone()
        } else {
            file_record_uri(&caller, scope.as_ref())
                .map_err(|error| LibraryCommandError::usage(format!("--scope: {error}")))?
        };
        if knowledge.pipeline.store().document(&uri).await?.is_none() {
            let message = format!("--scope: {} is not an indexed document", clean(scope));
            return Err(LibraryCommandError::new(message));
        }
        request.filter.scope = Some(uri);
    }
    let access = Access::new(knowledge.clone(), caller);
    Ok(access.hits(&request).await?)
}

/// Returns the source of a document, which its indexer has stored.
fn source(document: Option<&Document>) -> Option<&str> {
    document?.metadata.get("source")?.as_str()
}

fn as_text(
    hits: &[Hit],
    documents: &HashMap<String, Document>,
    question: &str,
    seconds: f64,
) -> String {
    let highlighter = Highlighter::of_stdout();
    let mut text = String::new();
    for (number, hit) in (1..).zip(hits) {
        let chunk = &hit.chunk;
        let document = documents.get(&chunk.document);
        let title = hit.title.as_deref().unwrap_or(&chunk.document);
        text.push_str(&format!("{number}. {}", highlighter.show(Style::Title, title)));
        if let Some(page) = hit.page {
            text.push_str(&format!(", page {page}"));
        }
        if let Some(chapter) = chunk.chapter.as_ref().filter(|chapter| chapter.title != title) {
            text.push_str(&format!(", {}", clean(&chapter.title)));
        }
        let found = highlights(&chunk.content, question);
        text.push_str(&format!("\n   {}\n", highlighter.snippet(&chunk.content, &found)));
        let name = source(document).map_or_else(|| chunk.document.clone(), shown);
        let facts = format!(
            "{name} · chunk {} of {} · score {:.3} · words {} · meaning {} · relevance {:.2}",
            chunk.index + 1,
            chunk.count,
            hit.score,
            rank(hit.keyword_rank),
            rank(hit.semantic_rank),
            // Print 0 instead of -0.
            hit.relevance.max(0.0) + 0.0,
        );
        text.push_str(&format!("   {}\n", highlighter.show(Style::Faint, &facts)));
        text.push_str(&format!("   {}\n\n", highlighter.show(Style::Faint, &chunk.document)));
    }
    let count = match hits.len() {
        0 => "nothing was found".to_owned(),
        1 => "1 passage".to_owned(),
        many => format!("{many} passages"),
    };
    text.push_str(&format!("{count} in {:.1} ms\n", seconds * 1_000.0));
    text
}

/// Formats the rank of a passage in one of the two searches; "-" if that search did not find it.
fn rank(rank: Option<u32>) -> String {
    rank.map_or("-".to_owned(), |rank| format!("#{rank}"))
}

/// Returns a file URI as people write paths, if it is text.
fn shown(uri: &str) -> String {
    let path = uri
        .strip_prefix("file://")
        .and_then(|path| percent_encoding::percent_decode_str(path).decode_utf8().ok());
    path.map_or_else(|| uri.to_owned(), std::borrow::Cow::into_owned)
}

fn as_json(hit: &Hit, document: Option<&Document>, question: &str) -> Value {
    let chunk = &hit.chunk;
    let found: Vec<[usize; 2]> = highlights(&chunk.content, question)
        .into_iter()
        .map(|span| [span.start, span.end])
        .collect();
    json!({
        "uri": chunk.document,
        "type": hit.kind,
        "title": hit.title,
        "source": source(document),
        "mediaType": document.and_then(|document| document.media_type.as_ref()),
        "chunk": { "id": chunk.id, "index": chunk.index, "count": chunk.count },
        "page": hit.page,
        "chapter": chunk.chapter,
        "span": { "start": chunk.span.start, "end": chunk.span.end },
        "content": chunk.content,
        "highlights": found,
        "score": hit.score,
        "relevance": hit.relevance,
        "similarity": hit.similarity,
        "semanticRank": hit.semantic_rank,
        "keywordRank": hit.keyword_rank,
    })
}
