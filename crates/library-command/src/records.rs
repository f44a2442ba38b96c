//! `marquetry records`

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use marquetry_knowledge::{Access, Knowledge};
use marquetry_printable::printable_line;
use marquetry_rag::{Filter, ModelType, Record, RecordFilter};
use serde_json::{Value, json};

use crate::{
    DatabaseArgs, LibraryCommandError, Settings,
    output::{print, print_json, write_to_stdout},
    terminal::{Highlighter, Style, clean, clean_lines},
};

/// Arguments of `marquetry records`.
#[derive(Args, Clone, Debug)]
pub struct RecordsArgs {
    #[command(subcommand)]
    command: RecordsCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum RecordsCommand {
    /// List records in the order of their URIs: groups come before documents.
    List(ListArgs),
    /// Show a record.
    Show(ShowArgs),
    /// Remove records and their passages.
    Delete(DeleteArgs),
    /// List the types that records may have.
    Types(TypesArgs),
}

#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// Only records of this type, such as data.note. Given several times: of any of the types.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only records directly in the group with this path, such as ~/Notes.
    #[arg(long, value_name = "PATH")]
    group: Option<String>,
    /// Only records with this tag, by name or URI. Given several times: with all of the tags.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only records with exactly this name.
    #[arg(long)]
    name: Option<String>,
    /// Maximum number of records to print.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Continue after this URI, the last of an earlier list.
    #[arg(long, value_name = "URI")]
    after: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args, Clone, Debug)]
struct ShowArgs {
    /// The record's am7:// URI.
    uri: String,
    /// Print only the content, byte for byte.
    #[arg(long)]
    content: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args, Clone, Debug)]
struct DeleteArgs {
    /// The records' am7:// URIs.
    #[arg(required = true, value_name = "URI")]
    uris: Vec<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args, Clone, Debug)]
struct TypesArgs {
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Lists, shows or removes records.
///
/// # Errors
///
/// Returns an error if the arguments are wrong, or the database does not exist or cannot be read.
pub async fn records(
    arguments: &RecordsArgs,
    settings: Settings<'_>,
) -> Result<(), LibraryCommandError> {
    match &arguments.command {
        RecordsCommand::List(arguments) => {
            for kind in &arguments.types {
                ModelType::of(kind)?;
            }
            arguments
                .database
                .read_records(settings, async |knowledge| list(arguments, knowledge).await)
                .await
        }
        RecordsCommand::Show(arguments) => {
            arguments
                .database
                .read(settings, async |knowledge| show(arguments, knowledge).await)
                .await
        }
        RecordsCommand::Delete(arguments) => {
            arguments
                .database
                .modify(settings, async |knowledge| delete(arguments, knowledge).await)
                .await
        }
        RecordsCommand::Types(arguments) => types(arguments),
    }
}

async fn list(arguments: &ListArgs, knowledge: &Knowledge) -> Result<(), LibraryCommandError> {
    let caller = knowledge.local().await?;
    let mut filter = RecordFilter::default();
    filter.types.clone_from(&arguments.types);
    filter.group.clone_from(&arguments.group);
    filter.tags.clone_from(&arguments.tag);
    filter.name.clone_from(&arguments.name);
    filter.after.clone_from(&arguments.after);
    let mut records = Vec::new();
    let mut next = None;
    while records.len() < arguments.limit {
        filter.limit = Some(arguments.limit - records.len());
        let page = knowledge.records.list(&caller, &filter).await?;
        records.extend(page.records);
        next = page.next;
        if next.is_none() {
            break;
        }
        filter.after.clone_from(&next);
    }
    if arguments.database.is_json() {
        let records: Vec<Value> = records.iter().map(|record| record.to_fields().into()).collect();
        return print_json(&json!({ "records": records, "next": next }));
    }
    let highlighter = Highlighter::of_stdout();
    let mut text = String::new();
    for record in &records {
        let group = record.group.as_deref().unwrap_or("-");
        let name = highlighter.show(Style::Title, &record.name);
        text.push_str(&format!("{}  {name}\n", record.uri().unwrap_or_default()));
        let facts = format!("{} · {} · {group}", record.kind, time(record.modified));
        text.push_str(&format!("  {}\n", highlighter.show(Style::Faint, &facts)));
    }
    text.push_str(&match (records.len(), next) {
        (0, _) => "no records\n".to_owned(),
        (1, None) => "1 record\n".to_owned(),
        (1, Some(next)) => format!("1 record, and more: --after {}\n", clean(&next)),
        (count, None) => format!("{count} records\n"),
        (count, Some(next)) => format!("{count} records, and more: --after {}\n", clean(&next)),
    });
    print(&text)
}

async fn show(arguments: &ShowArgs, knowledge: &Knowledge) -> Result<(), LibraryCommandError> {
    let caller = knowledge.local().await?;
    let record = knowledge.records.get(&caller, &arguments.uri).await?;
    let uri = record.uri().unwrap_or_default();
    if arguments.content {
        let content = knowledge.records.content(&caller, &uri).await?;
        let content =
            content.ok_or_else(|| LibraryCommandError::new(format!("{uri} has no content")))?;
        if io::stdout().is_terminal() {
            return print(&clean_lines(&String::from_utf8_lossy(&content)));
        }
        return write_to_stdout(&content);
    }
    let chunks = knowledge.pipeline.store().count(&Filter::scope(&uri)).await?;
    if arguments.database.is_json() {
        let mut fields = record.to_fields();
        fields.insert("chunks".to_owned(), chunks.into());
        return print_json(&fields.into());
    }
    print(&described(&record, chunks))
}

fn described(record: &Record, chunks: u64) -> String {
    let highlighter = Highlighter::of_stdout();
    let mut text = format!("{}\n", highlighter.show(Style::Title, &record.name));
    for (name, value) in fields(record, chunks) {
        let name = clean(name);
        let gap = " ".repeat(16_usize.saturating_sub(name.chars().count()).max(1));
        text.push_str(&format!(
            "  {}{gap}{}\n",
            highlighter.show(Style::Faint, &name),
            clean(&value)
        ));
    }
    text
}

/// Returns the names and values that describe a record, in the order in which they are printed.
fn fields(record: &Record, chunks: u64) -> Vec<(&str, String)> {
    let mut fields = vec![("uri", record.uri().unwrap_or_default()), ("type", record.kind.clone())];
    for (name, value) in
        [("group", &record.group), ("owner", &record.owner), ("mediaType", &record.media_type)]
    {
        fields.extend(value.clone().map(|value| (name, value)));
    }
    for (name, uris) in
        [("tag", &record.tags), ("reader", &record.readers), ("writer", &record.writers)]
    {
        fields.extend(uris.iter().map(|uri| (name, uri.clone())));
    }
    fields.push(("created", time(record.created)));
    fields.push(("modified", time(record.modified)));
    fields.push(("revision", record.revision.to_string()));
    fields.push(("chunks", chunks.to_string()));
    for (name, value) in &record.attributes {
        let value = match value {
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        fields.push((name, value));
    }
    fields
}

async fn delete(arguments: &DeleteArgs, knowledge: &Knowledge) -> Result<(), LibraryCommandError> {
    let caller = knowledge.local().await?;
    let mut removed = Vec::new();
    let mut failed: Option<LibraryCommandError> = None;
    let access = Access::new(knowledge.clone(), caller);
    for uri in &arguments.uris {
        match access.delete(uri, None).await {
            Ok((record, chunks)) => {
                let uri = record.uri().unwrap_or_default();
                if !arguments.database.is_json() {
                    let s = if chunks == 1 { "" } else { "s" };
                    print(&format!(
                        "removed {uri} ({}), {chunks} chunk{s}\n",
                        clean(&record.name)
                    ))?;
                }
                removed.push(json!({ "uri": uri, "chunks": chunks }));
            }
            Err(error) => {
                // The last failure is the error of the command; those before it are printed.
                if let Some(before) = failed.replace(LibraryCommandError::from(error)) {
                    eprintln!("error: {}", printable_line(&before.message));
                }
            }
        }
    }
    if arguments.database.is_json() {
        print_json(&json!({ "removed": removed }))?;
    }
    failed.map_or(Ok(()), Err)
}

fn types(arguments: &TypesArgs) -> Result<(), LibraryCommandError> {
    if arguments.json {
        let types = ModelType::ALL.iter().map(|model| {
            let attributes = model.attributes.iter().map(|attribute| {
                json!({ "name": attribute.name, "type": attribute.kind.json_type(), "description": attribute.description, "required": attribute.required })
            });
            json!({ "name": model.name, "description": model.description, "attributes": attributes.collect::<Vec<_>>() })
        });
        return print_json(&types.collect());
    }
    let width = ModelType::ALL.iter().map(|model| model.name.len()).max().unwrap_or(0);
    let lines = ModelType::ALL
        .iter()
        .map(|model| format!("{:width$}  {}\n", model.name, model.description));
    print(&lines.collect::<String>())
}

/// Formats a time in milliseconds since 1970 for people.
fn time(milliseconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
    // RFC 3339 ends with the year 9999.
    const LAST: u64 = 253_402_300_799_999;
    match time.filter(|_| milliseconds <= LAST) {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string(),
        None => milliseconds.to_string(),
    }
}
