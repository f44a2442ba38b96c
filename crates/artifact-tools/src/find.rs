//! `search_artifact` and `query_artifact`

use std::{
    fmt,
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
};

use marquetry_artifacts::{Artifact, Record, Version};
use marquetry_data_query::{
    Cancel, JqError, Pattern, QueryLimits, SearchRequest, SqlError, Table, jq_holding, search, sql,
};
use marquetry_extract::Stop;
use marquetry_protocol::types::{CallToolResult, Content};
use marquetry_text_format::shortened;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    ArtifactTools, ToolError,
    content::{self, MAX_DOCUMENT_BYTES, MAX_NAME_BYTES, is_extracted},
    limits::TextLimit,
    read::named,
};

/// Key in `_meta` of what was found.
const META_KEY: &str = "marquetry/found";

/// Longest answer of a call that names no limit, in bytes. Some clients cut an answer of 8,000
/// characters.
const DEFAULT_BYTES: NonZeroUsize = NonZeroUsize::new(6 << 10).expect("6 KiB are more than zero");

/// Largest artifact that is searched or queried, in bytes. It is held in memory.
const MAX_BYTES: u64 = 64 << 20;

/// Memory of a query for each byte of its artifact: the values of jq and the rows of SQL.
const QUERY_MEMORY_FACTOR: u64 = 8;

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
    /// Lines around each match; 1 by default.
    #[schemars(range(max = 50))]
    context: Option<u64>,
    /// 10 by default.
    #[schemars(range(min = 1, max = 1000))]
    max_matches: Option<u64>,
    /// The last matches, not the first.
    last: Option<bool>,
    /// The most to return.
    #[schemars(range(min = 1))]
    max_bytes: Option<u64>,
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
    /// The most to return.
    #[schemars(range(min = 1))]
    max_bytes: Option<u64>,
}

pub(super) const SEARCH_DESCRIPTION: &str =
    "Finds lines of a text or a document, as grep -n shows them, and counts all.";

pub(super) const QUERY_DESCRIPTION: &str = "Queries an artifact: JSON with jq; CSV, JSON rows or a workbook with SQL over the table data (each sheet is a table), whose columns are the header or the members.";

impl ArtifactTools {
    pub(super) async fn search(
        &self,
        arguments: SearchArguments,
    ) -> Result<CallToolResult, ToolError> {
        let pattern = match (arguments.pattern, arguments.words) {
            (Some(pattern), None) => Pattern::Regex(pattern),
            (None, Some(words)) => Pattern::Words(words),
            _ => return Err(ToolError::Arguments("give either pattern or words".to_owned())),
        };
        let mut request = SearchRequest::new(pattern);
        request.context = count(arguments.context, request.context, 50);
        request.max_matches = count(arguments.max_matches, request.max_matches, 1_000).max(1);
        request.from_end = arguments.last.unwrap_or(false);
        let (limit, limits) = self.output_limits(arguments.max_bytes);
        let cancel = limits.cancel.clone();
        let (record, (found, notes)) = self
            .with_content(&arguments.name, 1, &cancel, move |input| {
                let text = content::text(&input.record, &input.bytes, &input.stop)?;
                let found = within(limit, &limits, |limits| {
                    search(&text.text, &request, limits)
                        .map_err(|error| ToolError::Arguments(error.to_string()))
                })?;
                Ok((found, text.notes))
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
        Ok(answer(found.to_string(), with_sentences(note, &notes), report))
    }

    pub(super) async fn query(
        &self,
        arguments: QueryArguments,
    ) -> Result<CallToolResult, ToolError> {
        let query = match (arguments.jq, arguments.sql) {
            (Some(program), None) => Query::Jq(program),
            (None, Some(statement)) => Query::Sql(statement),
            _ => return Err(ToolError::Arguments("give either jq or sql".to_owned())),
        };
        let (limit, mut limits) = self.output_limits(arguments.max_bytes);
        limits.max_rows = count(arguments.max_rows.map(NonZeroU64::get), 100, 1_000);
        let cancel = limits.cancel.clone();
        let (record, found) = self
            .with_content(&arguments.name, QUERY_MEMORY_FACTOR, &cancel, move |input| {
                within(limit, &limits, |limits| query.run(&input, limits))
            })
            .await?;
        let plural = if found.rows == 1 { "" } else { "s" };
        let more = if found.has_more {
            "; there are more: narrow the query, or give max_rows or max_bytes"
        } else {
            ""
        };
        let note = format!("{}: {} {}{plural}{more}.", record.name, found.rows, found.unit);
        let mut sentences = Vec::new();
        if found.skipped > 0 {
            sentences.push(format!(
                "{} parts of the data could not be read and are left out: {}",
                found.skipped,
                found.problems.join("; ")
            ));
        }
        sentences.extend(found.notes);
        let report = json!({
            "name": record.name, "version": record.version, "rows": found.rows,
            "has_more": found.has_more, "skipped": found.skipped,
        });
        Ok(answer(found.text, with_sentences(note, &sentences), report))
    }

    /// Returns how much a search or query shows, and its limits.
    fn output_limits(&self, max_bytes: Option<u64>) -> (TextLimit, QueryLimits) {
        let default = self.limits.default_bytes.min(DEFAULT_BYTES);
        let limit = TextLimit::new(max_bytes, default, self.limits.max_bytes);
        let mut limits = QueryLimits::default();
        limits.max_output_bytes = limit.bytes();
        (limit, limits)
    }

    /// Reads an artifact and works on it on Tokio's blocking pool. Artifacts in memory share the
    /// budget of whole reads, each with `factor` times its size. Work is cancelled when this future
    /// is dropped.
    async fn with_content<T: Send + 'static>(
        &self,
        name: &str,
        factor: u64,
        cancel: &Cancel,
        work: impl FnOnce(Input) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<(Record, T), ToolError> {
        let (name, version) = named(name, None)?;
        let record = self.store.record(&self.scope, &name, version).await?;
        let least = match (factor, is_extracted(&record)) {
            (_, true) => MAX_DOCUMENT_BYTES,
            (1, false) => 0,
            // A query of a small artifact can make large values, too.
            (_, false) => MIN_QUERY_BYTES,
        };
        let (content, reserved) = self.reserved_content(&record, factor, least).await?;
        let stop = Stop::never();
        let _stopped = stop.on_drop();
        let _cancelled = cancel.on_drop();
        let input = Input {
            record: record.clone(),
            bytes: content,
            stop: stop.clone(),
            reserved: Arc::new(reserved),
        };
        let working = tokio::task::spawn_blocking(move || work(input));
        // The work keeps its reservation until it ends.
        let Ok(done) = tokio::time::timeout(self.limits.max_work, working).await else {
            return Err(ToolError::Arguments(format!(
                "the call was given up after {} ms; a function of SQL, such as instr with a long text, cannot be stopped",
                self.limits.max_work.as_millis()
            )));
        };
        match done {
            Ok(done) => Ok((record, done?)),
            Err(_) => Err(ToolError::Arguments("the query ended unexpectedly".to_owned())),
        }
    }

    /// Reads a whole artifact, with a reservation of `factor` times its size, or of `least` bytes.
    pub(super) async fn reserved_content(
        &self,
        record: &Record,
        factor: u64,
        least: u64,
    ) -> Result<(bytes::Bytes, OwnedSemaphorePermit), ToolError> {
        let Record { name, size_bytes, .. } = record;
        if *size_bytes > MAX_BYTES {
            return Err(ToolError::Arguments(format!(
                "{name} has {size_bytes} bytes, more than the {MAX_BYTES} that can be searched; read parts of it with {}",
                super::READ
            )));
        }
        let reserved = self.reserve((size_bytes * factor).max(least)).await?;
        let version = Version::Number(record.version);
        let Artifact { content, .. } = self.store.get(&self.scope, name, version).await?;
        Ok((content, reserved))
    }
}

/// An artifact in memory.
struct Input {
    record: Record,
    bytes: bytes::Bytes,
    /// Ends the reading of a document.
    stop: Stop,
    /// Memory of the artifact and of what is made of it.
    reserved: Arc<OwnedSemaphorePermit>,
}

/// Runs a search or query; if its output has too many tokens, runs it again for as many bytes as
/// have fewer, so that its counts are those of the shorter output.
fn within<T: ToString>(
    limit: TextLimit,
    limits: &QueryLimits,
    mut run: impl FnMut(&QueryLimits) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let found = run(limits)?;
    let text = found.to_string();
    if limit.fits(&text) {
        return Ok(found);
    }
    let mut fewer = limits.clone();
    fewer.max_output_bytes = limit.in_bytes_of(&text);
    run(&fewer)
}

/// Returns an argument within its range.
fn count(asked: Option<u64>, default: usize, max: usize) -> usize {
    asked.map_or(default, |asked| usize::try_from(asked).unwrap_or(max).min(max))
}

/// Adds sentences to a note.
pub(super) fn with_sentences(note: String, sentences: &[String]) -> String {
    sentences.iter().fold(note, |note, sentence| format!("{note} {sentence}."))
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
    notes: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Query {
    fn run(&self, input: &Input, limits: &QueryLimits) -> Result<Found, ToolError> {
        let Input { record, bytes, stop, reserved } = input;
        match self {
            Self::Jq(program) => {
                let text = content::text(record, bytes, stop)?;
                let output = jq_holding(&text.text, program, limits, reserved.clone());
                let output = output.map_err(|error| {
                    ToolError::Arguments(match &error {
                        JqError::Input(_) => format!("{} is not JSON; {error}", record.name),
                        _ => error.to_string(),
                    })
                })?;
                Ok(Found {
                    text: output.text,
                    rows: output.values,
                    unit: "value",
                    has_more: output.has_more,
                    skipped: output.skipped,
                    problems: output.problems,
                    notes: text.notes,
                })
            }
            Self::Sql(statement) => {
                let tables = content::tables(record, bytes, stop)?;
                // The engine works on this thread, which may block.
                let output = tokio::runtime::Handle::current()
                    .block_on(sql(&tables, statement, limits))
                    .map_err(|error| ToolError::Arguments(with_columns(&error, &tables)))?;
                Ok(Found {
                    text: output.csv,
                    rows: output.rows,
                    unit: "row",
                    has_more: output.has_more,
                    skipped: tables.iter().map(|table| table.skipped).sum(),
                    problems: tables.iter().flat_map(|table| table.problems.clone()).collect(),
                    notes: tables.into_iter().flat_map(|table| table.notes).collect(),
                })
            }
        }
    }
}

/// Returns an error of the engine with the names of tables and columns, which the statement may
/// have missed.
fn with_columns(error: &SqlError, tables: &[Table]) -> String {
    const MAX_NAMED: usize = 30;
    const MAX_TABLES: usize = 5;
    const MAX_BYTES: usize = 4_000;
    if !matches!(error, SqlError::Engine(_)) {
        return error.to_string();
    }
    let described = tables.iter().take(MAX_TABLES).map(|table| {
        let names = table.columns.iter().take(MAX_NAMED).map(|name| quoted(name));
        let more = if table.columns.len() > MAX_NAMED { ", …" } else { "" };
        let names = names.collect::<Vec<_>>().join(", ");
        format!("The table {} has the columns {names}{more}", quoted(&table.name))
    });
    let more = if tables.len() > MAX_TABLES { ". There are more tables" } else { "" };
    let described = described.collect::<Vec<_>>().join(". ");
    match described.floor_char_boundary(MAX_BYTES) {
        end if end < described.len() => format!("{error}. {}…", &described[..end]),
        _ => format!("{error}. {described}{more}"),
    }
}

/// Returns a name of a table or a column in quotes. It comes from the data and may be long.
fn quoted(name: &str) -> String {
    format!("{:?}", shortened(name, MAX_NAME_BYTES))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use marquetry_artifacts::{
        ArtifactName, ArtifactStore as _, MemoryLimits, MemoryStore, NewArtifact, Scope,
    };

    use super::*;

    async fn artifacts(mime_type: &str, content: impl Into<Vec<u8>>) -> ArtifactTools {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let name = ArtifactName::parse("a").unwrap();
        let content = content.into().into();
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

    /// Returns the description of the artifact `a`, read with further arguments.
    async fn info(artifacts: &ArtifactTools, arguments: Value) -> Value {
        let mut all = json!({"name": "a", "info": true});
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let arguments = serde_json::from_value(all).unwrap();
        let described = artifacts.read(&arguments).await.unwrap();
        serde_json::from_str(texts(&described)[0]).unwrap()
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
        assert_eq!(found.unwrap(), ["a: 1 value.", "5\n"]);
        let found = query(&json, json!({"name": "a", "sql": "SELECT sum(n) FROM data"})).await;
        assert_eq!(found.unwrap(), ["a: 1 row.", "sum(n)\n7\n"]);

        let csv = artifacts("text/csv", "id;n\n1;2\n2;x;y\n3;4\n").await;
        let found = query(&csv, json!({"name": "a", "sql": "SELECT n FROM data", "max_rows": 1}));
        let note = "a: 1 row; there are more: narrow the query, or give max_rows or max_bytes. 1 parts of the data could not be read and are left out: row 2 has 3 cells, not 2.";
        assert_eq!(found.await.unwrap(), [note, "n\n2\n"]);
        // The delimiter is the one that makes a table, not the most frequent one.
        let prices = artifacts("text/csv", "\"a,b,c,d\";n\n\"x\";1,5\n\"y\";2,5\n").await;
        let found = query(&prices, json!({"name": "a", "sql": "SELECT n FROM data LIMIT 1"}));
        assert_eq!(found.await.unwrap()[1], "n\n\"1,5\"\n");
        let error =
            query(&csv, json!({"name": "a", "sql": "SELECT m FROM data"})).await.unwrap_err();
        assert!(error.ends_with(r#"The table "data" has the columns "id", "n""#), "{error}");
        let error = query(&csv, json!({"name": "a", "jq": "."})).await.unwrap_err();
        assert!(error.starts_with("a is not JSON"), "{error}");
    }

    /// Notes and errors name columns, and count for no limit of the output.
    #[tokio::test]
    async fn long_names_do_not_make_long_answers() {
        let names: Vec<_> = (0..50).map(|n| format!("{n}{}", "h".repeat(100_000))).collect();
        let numbers = "1,".repeat(49) + "1\n";
        let csv = format!("{}\n{}{}x\n", names.join(","), numbers.repeat(20), "z,".repeat(49));
        let csv = artifacts("text/csv", csv).await;
        let found = query(&csv, json!({"name": "a", "sql": "SELECT * FROM data"})).await.unwrap();
        assert!(found.concat().len() < 10_000, "{}", found.concat().len());
        let error = query(&csv, json!({"name": "a", "sql": "SELECT m FROM data"})).await;
        assert!(error.unwrap_err().len() < 5_000);
        let error = query(&csv, json!({"name": "x".repeat(100_000), "jq": "."})).await.unwrap_err();
        assert!(error.contains("… (100000 bytes) is not an artifact's name"), "{}", &error[..400]);
    }

    /// Returns an archive of these parts.
    fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
        use std::io::Write as _;
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, content) in parts {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn cell(text: &str) -> String {
        format!("<c t='str'><v>{text}</v></c>")
    }

    fn workbook() -> Vec<u8> {
        let sales = format!(
            "<worksheet><sheetData><row>{}</row><row>{}{}</row><row>{}<c><v>2.5</v></c></row><row>{}<c><v>4</v></c></row></sheetData></worksheet>",
            cell("Sales of 2026"),
            cell("region"),
            cell("amount"),
            cell("north"),
            cell("south")
        );
        let staff = format!(
            "<worksheet><sheetData><row>{}{}</row><row>{}{}</row></sheetData></worksheet>",
            cell("name"),
            cell("region"),
            cell("Ann"),
            cell("south")
        );
        archive(&[
            (
                "xl/workbook.xml",
                "<workbook xmlns:r='r'><sheets><sheet name='Sales 2026' r:id='a'/><sheet name='Staff' r:id='b'/></sheets></workbook>",
            ),
            (
                "xl/_rels/workbook.xml.rels",
                "<Relationships><Relationship Id='a' Type='x/worksheet' Target='worksheets/a.xml'/><Relationship Id='b' Type='x/worksheet' Target='worksheets/b.xml'/></Relationships>",
            ),
            ("xl/worksheets/a.xml", &sales),
            ("xl/worksheets/b.xml", &staff),
        ])
    }

    const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

    #[tokio::test]
    async fn sheets_of_workbooks_are_tables() {
        let book = artifacts(XLSX, workbook()).await;
        let statement = "SELECT sum(amount) FROM data";
        let found = query(&book, json!({"name": "a", "sql": statement})).await.unwrap();
        let note = "a: 1 row. 1 rows above the header of \"Sales 2026\" are left out.";
        assert_eq!(found, [note, "sum(amount)\n6.5\n"]);
        let statement = "SELECT name, amount FROM Staff JOIN \"Sales 2026\" USING (region)";
        let found = query(&book, json!({"name": "a", "sql": statement})).await.unwrap();
        assert_eq!(found[1], "name,amount\nAnn,4\n");
        let error = query(&book, json!({"name": "a", "sql": "SELECT x FROM Staff"})).await;
        let want = r#"no such column: x. The table "Sales 2026" has the columns "region", "amount". The table "Staff" has the columns "name", "region""#;
        assert_eq!(error.unwrap_err(), want);
        let broken = artifacts(XLSX, b"PK\x03\x04 no workbook".to_vec()).await;
        let error = query(&broken, json!({"name": "a", "sql": "SELECT 1"})).await.unwrap_err();
        assert!(error.contains("cannot be read"), "{error}");
    }

    #[tokio::test]
    async fn documents_are_searched_in_their_text() {
        let body = "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>First paragraph</w:t></w:r></w:p><w:p><w:r><w:t>The needle is here</w:t></w:r></w:p></w:body></w:document>";
        let document = archive(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", body)]);
        let document = artifacts(DOCX, document).await;
        let needle = json!({"name": "a", "pattern": "needle", "context": 0});
        let found = search(&document, needle).await.unwrap();
        assert!(found[0].contains("1 of 3 lines match"), "{found:?}");
        assert_eq!(found[1], "3:The needle is here\n");
        let read = serde_json::from_value(json!({"name": "a", "start_line": -1})).unwrap();
        let read = document.read(&read).await.unwrap();
        assert_eq!(texts(&read)[0], "The needle is here");
        let read = serde_json::from_value(json!({"name": "a", "page": 1})).unwrap();
        let error = document.read(&read).await.unwrap_err().to_string();
        assert_eq!(error, "a has no pages; give lines");
        let book = artifacts(XLSX, workbook()).await;
        let found = search(&book, json!({"name": "a", "pattern": "north"})).await.unwrap();
        assert!(found[1].contains("region: north; amount: 2.5"), "{found:?}");
    }

    /// Returns a PDF with a line of text on each page.
    fn pdf(pages: &[&str]) -> Vec<u8> {
        let kids: String = (0..pages.len()).map(|page| format!("{} 0 R ", 4 + 2 * page)).collect();
        let mut objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", pages.len()),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        ];
        for (index, text) in pages.iter().enumerate() {
            let content = 5 + 2 * index;
            objects.push(format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R /Resources << /Font << /F 3 0 R >> >> >>"));
            let stream = format!("BT /F 12 Tf 72 770 Td ({text}) Tj ET");
            objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
        }
        let mut file = "%PDF-1.7\n".to_owned();
        let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
        for (number, object) in (1..).zip(&objects) {
            table += &format!("{:010} 00000 n \n", file.len());
            file += &format!("{number} 0 obj\n{object}\nendobj\n");
        }
        let start = file.len();
        let size = objects.len() + 1;
        file +=
            &format!("{table}trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF");
        file.into_bytes()
    }

    #[tokio::test]
    async fn pages_of_a_pdf_are_read() {
        let document = artifacts("application/pdf", pdf(&["The first page", "A needle"])).await;
        let found = search(&document, json!({"name": "a", "pattern": "needle"})).await.unwrap();
        assert!(found[1].contains(":A needle"), "{found:?}");
        let page = serde_json::from_value(json!({"name": "a", "page": 2})).unwrap();
        let read = document.read(&page).await.unwrap();
        assert_eq!(texts(&read)[0].trim(), "A needle");
        assert!(texts(&read)[1].contains("Page 2. Lines 1 to 1 of 1; 2 pages in all."), "{read:?}");
        let none = serde_json::from_value(json!({"name": "a", "page": 3})).unwrap();
        let error = document.read(&none).await.unwrap_err().to_string();
        assert_eq!(error, "a has no page 3: give a page from 1 to 2");
        let text = artifacts("text/plain", "one").await;
        let error = text.read(&page).await.unwrap_err().to_string();
        assert_eq!(error, "a (text/plain) is not a document with pages");
        let broken = artifacts("application/pdf", "%PDF-1.7 broken").await;
        let error = search(&broken, json!({"name": "a", "pattern": "x"})).await.unwrap_err();
        assert!(error.starts_with("a (application/pdf) cannot be read: "), "{error}");
    }

    #[tokio::test]
    async fn info_describes_an_artifact() {
        let found = info(&artifacts("text/plain", "one\ntwo\n").await, json!({})).await;
        assert_eq!((&found["lines"], &found["size_bytes"]), (&json!(2), &json!(8)));
        let found = info(&artifacts(XLSX, workbook()).await, json!({})).await;
        let sheets = json!([{"name": "Sales 2026", "rows": 2, "columns": ["region", "amount"]},
            {"name": "Staff", "rows": 1, "columns": ["name", "region"]}]);
        assert_eq!(found["sheets"], sheets);
        let found = info(&artifacts(XLSX, b"PK\x03\x04 broken".to_vec()).await, json!({})).await;
        assert_eq!((&found["size_bytes"], &found["mime_type"]), (&json!(11), &json!(XLSX)));
        assert!(found["problems"][0].as_str().unwrap().contains("cannot be read"), "{found}");
        let found = info(&artifacts("application/pdf", "%PDF-1.7 broken").await, json!({})).await;
        assert!(found["problems"][0].as_str().unwrap().contains("cannot be read"), "{found}");
        let found = info(&artifacts("image/png", vec![0xff; 10]).await, json!({})).await;
        assert_eq!((&found["lines"], &found["mime_type"]), (&Value::Null, &json!("image/png")));
    }

    #[tokio::test]
    async fn long_names_in_a_workbook_are_cut() {
        let long = "name ".repeat(20_000);
        let sheet = format!(
            "<worksheet><sheetData><row>{}{}</row><row>{}{}</row></sheetData></worksheet>",
            cell(&long),
            cell(&format!("other {long}")),
            cell("a"),
            cell("b")
        );
        let book = archive(&[
            (
                "xl/workbook.xml",
                "<workbook xmlns:r='r'><sheets><sheet name='Staff' r:id='a'/></sheets></workbook>",
            ),
            (
                "xl/_rels/workbook.xml.rels",
                "<Relationships><Relationship Id='a' Type='x/worksheet' Target='worksheets/a.xml'/></Relationships>",
            ),
            ("xl/worksheets/a.xml", &sheet),
        ]);
        let book = artifacts(XLSX, book).await;
        let info = serde_json::from_value(json!({"name": "a", "info": true})).unwrap();
        let info = book.read(&info).await.unwrap();
        assert!(texts(&info)[0].len() < 1_000, "{}", texts(&info)[0].len());
        let error = query(&book, json!({"name": "a", "sql": "SELECT x FROM data"})).await;
        assert!(error.unwrap_err().len() < 1_000);
        let rows: String = (0..20).map(|row| format!("{row},b\n")).collect();
        let csv = artifacts("text/csv", format!("{long},b\n{rows}x,b\n")).await;
        let found = query(&csv, json!({"name": "a", "sql": "SELECT 1 FROM data LIMIT 1"})).await;
        assert!(found.unwrap()[0].len() < 1_000);
    }

    #[tokio::test]
    async fn a_long_schema_is_left_out_of_a_description() {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let name = ArtifactName::parse("a").unwrap();
        let mut new = NewArtifact::new(name, "x/y", SystemTime::UNIX_EPOCH, "x".into());
        new.metadata.meta = Some(json!({"k": "some words ".repeat(2_000)}));
        store.put(&Scope::local(), new).await.unwrap();
        let artifacts = ArtifactTools::new(store);
        let found = info(&artifacts, json!({})).await;
        assert!(found.to_string().len() < 1_000, "{found}");
        assert_eq!(found["details_left_out"].as_array().unwrap().len(), 1, "{found}");
        let all = info(&artifacts, json!({"max_bytes": 50_000})).await;
        assert!(all.to_string().len() > 20_000, "{all}");
    }

    #[tokio::test]
    async fn text_in_another_encoding_is_decoded_and_says_so() {
        let latin = b"gr\xfc\xdfe\nerror: stra\xdfe\n".to_vec();
        let latin = artifacts("text/plain", latin).await;
        let found = search(&latin, json!({"name": "a", "pattern": "error", "context": 0})).await;
        let found = found.unwrap();
        assert!(found[0].contains("not valid UTF-8 and was read as windows-1252"), "{found:?}");
        assert_eq!(found[1], "2:error: straße\n");
    }

    #[tokio::test]
    async fn a_dropped_call_ends_its_query_and_frees_its_memory() {
        let json = artifacts("application/json", "[1]").await;
        let free = json.whole_reads.available_permits();
        let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";
        for arguments in [
            json!({"name": "a", "jq": "last(range(0; 1e18))"}),
            json!({"name": "a", "sql": endless}),
        ] {
            let arguments = serde_json::from_value(arguments).unwrap();
            let before = std::time::Instant::now();
            let soon = std::time::Duration::from_millis(100);
            assert!(tokio::time::timeout(soon, json.query(arguments)).await.is_err());
            while json.whole_reads.available_permits() < free {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            // The time limit of a query is two seconds.
            assert!(before.elapsed() < std::time::Duration::from_millis(1_500));
        }
    }

    #[tokio::test]
    async fn a_query_does_not_wait_for_others_without_end() {
        let max_wait = std::time::Duration::from_millis(30);
        let limits = crate::ReadLimits { max_wait, ..crate::ReadLimits::default() };
        let json = artifacts("application/json", "[1]").await.with_limits(limits);
        let all = u32::try_from(json.whole_reads.available_permits()).unwrap();
        let others = json.whole_reads.clone().acquire_many_owned(all).await.unwrap();
        let error = query(&json, json!({"name": "a", "jq": "."})).await.unwrap_err();
        let want = "other reads and queries have used the 67108864 bytes of limits.max_resource_reads_bytes for 30 ms; try again";
        assert_eq!(error, want);
        let error = json.resource("artifact://a", None).await.unwrap().unwrap_err();
        assert_eq!(error.message, want);
        drop(others);
        assert!(query(&json, json!({"name": "a", "jq": "."})).await.is_ok());
    }

    #[tokio::test]
    async fn a_call_ends_before_work_that_cannot_be_stopped() {
        let max_work = std::time::Duration::from_millis(30);
        let limits = crate::ReadLimits { max_work, ..crate::ReadLimits::default() };
        let json = artifacts("application/json", "[1]").await.with_limits(limits);
        let free = json.whole_reads.available_permits();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let cancel = Cancel::default();
        let call = json.with_content("a", 1, &cancel, move |input| {
            _ = ended.recv();
            drop(input);
            Ok(())
        });
        let error = call.await.unwrap_err();
        assert!(error.to_string().starts_with("the call was given up after 30 ms"), "{error}");
        assert!(json.whole_reads.available_permits() < free);
        drop(end);
        while json.whole_reads.available_permits() < free {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn answers_have_a_limit_of_their_own() {
        let lines: String = (0..5_000).map(|n| format!("line {n} of a log\n")).collect();
        let log = artifacts("text/plain", lines).await;
        let all = json!({"name": "a", "pattern": "log", "max_matches": 1_000});
        let found = search(&log, all.clone()).await.unwrap();
        assert!(found[1].len() <= DEFAULT_BYTES.get(), "{}", found[1].len());
        assert!(found[0].starts_with("a: 5000 of 5000 lines match; "), "{}", found[0]);
        let mut more = all;
        more["max_bytes"] = json!(20_000);
        let found = search(&log, more).await.unwrap();
        assert!((15_000..20_000).contains(&found[1].len()), "{}", found[1].len());
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
