//! `search_artifact` and `query_artifact`

use std::num::NonZeroU64;

use marquetry_artifacts::{Record, Version, mime::is_text};
use marquetry_data_query::{
    JqError, Pattern, QueryLimits, SearchRequest, SqlError, Table, TableError, jq, search, sql,
};
use marquetry_protocol::types::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ArtifactTools, ReadError, kib, read::named};

/// Key in `_meta` of what was found.
const META_KEY: &str = "marquetry/found";

/// Largest artifact that is searched or queried, in bytes. It is held in memory.
const MAX_BYTES: u64 = 64 << 20;

/// Memory of a query for each byte of its artifact: the values of jq and the rows of SQL.
const QUERY_MEMORY_FACTOR: u64 = 4;

/// Memory that a query may take whatever the size of its artifact, in bytes.
const MIN_QUERY_BYTES: u64 = 8 << 20;

/// Arguments of `search_artifact`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Name or artifact:// URI.
    name: String,
    /// Regular expression, line by line, in any case unless it begins with (?-i).
    pattern: Option<String>,
    /// Instead: words that a line has, all of them.
    words: Option<Vec<String>>,
    /// Lines around each match; 2 by default.
    #[schemars(range(max = 50))]
    context: Option<u64>,
    /// 20 by default.
    #[schemars(range(min = 1, max = 1000))]
    max_matches: Option<u64>,
    /// The last matches, not the first.
    last: Option<bool>,
}

/// Arguments of `query_artifact`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryArguments {
    /// Name or artifact:// URI.
    name: String,
    /// For JSON and NDJSON.
    jq: Option<String>,
    /// Instead: a SELECT.
    sql: Option<String>,
    /// 100 by default.
    #[schemars(range(max = 1000))]
    max_rows: Option<NonZeroU64>,
}

pub(super) const SEARCH_DESCRIPTION: &str =
    "Finds lines of a text artifact, as grep -n shows them, and counts all.";

pub(super) const QUERY_DESCRIPTION: &str = "Queries an artifact: JSON with jq; CSV or JSON rows with SQL over the table data, whose columns are the header or the members.";

impl ArtifactTools {
    pub(super) async fn search(
        &self,
        arguments: SearchArguments,
    ) -> Result<CallToolResult, ReadError> {
        let pattern = match (arguments.pattern, arguments.words) {
            (Some(pattern), None) => Pattern::Regex(pattern),
            (None, Some(words)) => Pattern::Words(words),
            _ => return Err(ReadError::Arguments("give either pattern or words".to_owned())),
        };
        let mut request = SearchRequest::new(pattern);
        request.context = count(arguments.context, request.context, 50);
        request.max_matches = count(arguments.max_matches, request.max_matches, 1_000).max(1);
        request.from_end = arguments.last.unwrap_or(false);
        let limits = self.query_limits();
        let (record, found) = self
            .with_text(&arguments.name, 1, move |_, text| {
                search(text, &request, &limits)
                    .map_err(|error| ReadError::Arguments(error.to_string()))
            })
            .await?;
        let more = if found.shown < found.total {
            format!("; {} of these are shown. Narrow the pattern, or give max_matches", found.shown)
        } else {
            String::new()
        };
        let lines = found.text_lines;
        let note = format!("{}: {} of {lines} lines match{more}.", record.name, found.total);
        let report = json!({
            "name": record.name, "version": record.version, "total_matches": found.total,
            "shown_matches": found.shown, "total_lines": found.text_lines,
        });
        Ok(answer(found.to_string(), note, report))
    }

    pub(super) async fn query(
        &self,
        arguments: QueryArguments,
    ) -> Result<CallToolResult, ReadError> {
        let query = match (arguments.jq, arguments.sql) {
            (Some(program), None) => Query::Jq(program),
            (None, Some(statement)) => Query::Sql(statement),
            _ => return Err(ReadError::Arguments("give either jq or sql".to_owned())),
        };
        let mut limits = self.query_limits();
        limits.max_rows = count(arguments.max_rows.map(NonZeroU64::get), 100, 1_000);
        let factor = QUERY_MEMORY_FACTOR;
        let (record, found) = self
            .with_text(&arguments.name, factor, move |record, text| {
                query.run(record, text, &limits)
            })
            .await?;
        let unit = found.unit;
        let more = if found.has_more {
            "; there are more: narrow the query, or give max_rows"
        } else {
            ""
        };
        let mut note = format!("{}: {} {unit}{more}.", record.name, found.rows);
        if found.skipped > 0 {
            note.push_str(&format!(
                " {} rows of the data could not be read and are left out: {}.",
                found.skipped,
                found.problems.join("; ")
            ));
        }
        let report = json!({
            "name": record.name, "version": record.version, "rows": found.rows, "has_more": found.has_more,
            "skipped": found.skipped,
        });
        Ok(answer(found.text, note, report))
    }

    fn query_limits(&self) -> QueryLimits {
        let mut limits = QueryLimits::default();
        limits.max_output_bytes = self.limits.default_bytes.get();
        limits
    }

    /// Reads a text artifact and works on it on Tokio's blocking pool. Artifacts in memory share the
    /// budget of whole reads, each with `factor` times its size.
    async fn with_text<T: Send + 'static>(
        &self,
        name: &str,
        factor: u64,
        work: impl FnOnce(&Record, &str) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<(Record, T), ReadError> {
        let (name, version) = named(name, None)?;
        let record = self.store.record(&self.scope, &name, version).await?;
        if record.size_bytes > MAX_BYTES {
            let size = record.size_bytes;
            return Err(ReadError::Arguments(format!(
                "{name} has {size} bytes, more than the {MAX_BYTES} that can be searched; read parts of it with {}",
                super::READ
            )));
        }
        let max_permits = kib(self.limits.max_resource_reads_bytes.get() as u64);
        // A query of a small artifact can make large values, too.
        let least = if factor == 1 { 0 } else { MIN_QUERY_BYTES };
        let permits = kib((record.size_bytes * factor).max(least)).min(max_permits);
        let reserved = self.whole_reads.clone().acquire_many_owned(permits).await;
        let artifact = self.store.get(&self.scope, &name, Version::Number(record.version)).await?;
        let done = tokio::task::spawn_blocking(move || {
            let _reserved = reserved;
            let text = std::str::from_utf8(&artifact.content)
                .map_err(|_| ReadError::Arguments(not_text(&record)))?;
            let found = work(&record, text)?;
            Ok((record, found))
        });
        done.await.map_err(|_| ReadError::Arguments("the query ended unexpectedly".to_owned()))?
    }
}

/// Returns an argument within its range.
fn count(asked: Option<u64>, default: usize, max: usize) -> usize {
    asked.map_or(default, |asked| usize::try_from(asked).unwrap_or(max).min(max))
}

fn not_text(record: &Record) -> String {
    let kind = if is_text(&record.mime_type) { "not valid UTF-8" } else { "not text" };
    format!("{} ({}) is {kind}; it cannot be searched", record.name, record.mime_type)
}

fn answer(found: String, note: String, report: Value) -> CallToolResult {
    let meta = json!({ META_KEY: report });
    let mut content = vec![Content::text(note)];
    if !found.is_empty() {
        content.push(Content::text(found));
    }
    CallToolResult { content, meta: meta.as_object().cloned(), ..CallToolResult::default() }
}

/// A query of one artifact.
enum Query {
    Jq(String),
    Sql(String),
}

/// The result of a query.
struct Found {
    text: String,
    rows: usize,
    unit: &'static str,
    has_more: bool,
    skipped: u64,
    problems: Vec<String>,
}

impl Query {
    fn run(&self, record: &Record, text: &str, limits: &QueryLimits) -> Result<Found, ReadError> {
        match self {
            Self::Jq(program) => {
                let output = jq(text, program, limits).map_err(|error| {
                    let advice = match &error {
                        JqError::Input(_) => format!("{} is not JSON; {error}", record.name),
                        _ => error.to_string(),
                    };
                    ReadError::Arguments(advice)
                })?;
                Ok(Found {
                    text: output.text,
                    rows: output.values,
                    unit: "values",
                    has_more: output.has_more,
                    skipped: 0,
                    problems: Vec::new(),
                })
            }
            Self::Sql(statement) => {
                let table = table(record, text).map_err(|error| {
                    ReadError::Arguments(format!("{} has no table: {error}", record.name))
                })?;
                // The engine works on this thread, which may block.
                let output = tokio::runtime::Handle::current()
                    .block_on(sql(&table, statement, limits))
                    .map_err(|error| ReadError::Arguments(with_columns(&error, &table)))?;
                Ok(Found {
                    text: output.csv,
                    rows: output.rows,
                    unit: "rows",
                    has_more: output.has_more,
                    skipped: table.skipped,
                    problems: table.problems,
                })
            }
        }
    }
}

/// Returns an error of the engine with the names of the columns, which it may have missed.
fn with_columns(error: &SqlError, table: &Table) -> String {
    const MAX_NAMED: usize = 30;
    let names: Vec<_> =
        table.columns.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
    let more = if table.columns.len() > MAX_NAMED { ", …" } else { "" };
    format!("{error}. The table data has the columns {}{more}", names.join(", "))
}

/// Reads a table: JSON if it looks like JSON, else CSV.
fn table(record: &Record, text: &str) -> Result<Table, TableError> {
    let is_json = record.mime_type.contains("json") || text.trim_start().starts_with(['[', '{']);
    if is_json { Table::from_json(text) } else { Table::from_csv(text, delimiter(text)) }
}

/// Returns the delimiter of CSV: the one that is most frequent in the first line.
fn delimiter(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    let frequency = |delimiter: u8| first.bytes().filter(|byte| *byte == delimiter).count();
    // Of equal ones the last is taken.
    let all = *b"|\t;,";
    all.into_iter().max_by_key(|delimiter| frequency(*delimiter)).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use marquetry_artifacts::{
        ArtifactName, ArtifactStore as _, MemoryLimits, MemoryStore, NewArtifact, Scope,
    };

    use super::*;

    async fn artifacts(mime_type: &str, content: &str) -> ArtifactTools {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let name = ArtifactName::parse("a").unwrap();
        let content = content.to_owned().into_bytes().into();
        let artifact = NewArtifact::new(name, mime_type, SystemTime::UNIX_EPOCH, content);
        store.put(&Scope::local(), artifact).await.unwrap();
        ArtifactTools::new(store)
    }

    fn texts(result: &CallToolResult) -> Vec<&str> {
        result.content.iter().map(|item| item.as_text().unwrap()).collect()
    }

    async fn search(artifacts: &ArtifactTools, arguments: Value) -> Result<Vec<String>, String> {
        let arguments = serde_json::from_value(arguments).unwrap();
        let found = artifacts.search(arguments).await.map_err(|error| error.to_string())?;
        Ok(texts(&found).into_iter().map(str::to_owned).collect())
    }

    async fn query(artifacts: &ArtifactTools, arguments: Value) -> Result<Vec<String>, String> {
        let arguments = serde_json::from_value(arguments).unwrap();
        let found = artifacts.query(arguments).await.map_err(|error| error.to_string())?;
        Ok(texts(&found).into_iter().map(str::to_owned).collect())
    }

    #[tokio::test]
    async fn lines_are_found() {
        let log = artifacts("text/plain", "start\nERROR disk full\nERROR again\nstop\n").await;
        let found = search(&log, json!({"name": "a", "pattern": "^error", "max_matches": 1})).await;
        let note =
            "a: 2 of 4 lines match; 1 of these are shown. Narrow the pattern, or give max_matches.";
        assert_eq!(found.unwrap(), [note, "1-start\n2:ERROR disk full\n"]);
        let none = search(&log, json!({"name": "a", "words": ["warning"]})).await.unwrap();
        assert_eq!(none, ["a: 0 of 4 lines match."]);
        let error = search(&log, json!({"name": "a"})).await.unwrap_err();
        assert_eq!(error, "give either pattern or words");
    }

    #[tokio::test]
    async fn json_and_tables_are_queried() {
        let json = artifacts("application/json", r#"[{"id": 1, "n": 2}, {"id": 2, "n": 5}]"#).await;
        let found = query(&json, json!({"name": "a", "jq": ".[] | select(.id == 2).n"})).await;
        assert_eq!(found.unwrap(), ["a: 1 values.", "5\n"]);
        let found = query(&json, json!({"name": "a", "sql": "SELECT sum(n) FROM data"})).await;
        assert_eq!(found.unwrap(), ["a: 1 rows.", "sum(n)\n7\n"]);

        let csv = artifacts("text/csv", "id;n\n1;2\n2;x;y\n3;4\n").await;
        let found = query(&csv, json!({"name": "a", "sql": "SELECT n FROM data", "max_rows": 1}));
        let note = "a: 1 rows; there are more: narrow the query, or give max_rows. 1 rows of the data could not be read and are left out: row 2 has 3 cells, not 2.";
        assert_eq!(found.await.unwrap(), [note, "n\n2\n"]);
        let error =
            query(&csv, json!({"name": "a", "sql": "SELECT m FROM data"})).await.unwrap_err();
        assert!(error.ends_with(r#"The table data has the columns "id", "n""#), "{error}");
        let error = query(&csv, json!({"name": "a", "jq": "."})).await.unwrap_err();
        assert!(error.starts_with("a is not JSON"), "{error}");
    }

    #[tokio::test]
    async fn binary_artifacts_are_refused() {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let name = ArtifactName::parse("a").unwrap();
        let content = b"\xff\xfe".to_vec().into();
        let artifact = NewArtifact::new(name, "image/png", SystemTime::UNIX_EPOCH, content);
        store.put(&Scope::local(), artifact).await.unwrap();
        let error = search(&ArtifactTools::new(store), json!({"name": "a", "pattern": "x"})).await;
        assert_eq!(error.unwrap_err(), "a (image/png) is not text; it cannot be searched");
    }
}
