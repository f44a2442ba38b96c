//! `read_artifact` of pages and lines of a document, and of the facts about an artifact.

use marquetry_artifacts::{ArtifactName, Record, Version, mime::is_spreadsheet};
use marquetry_data_query::Table;
use marquetry_extract::{Extracted, Stop};
use marquetry_protocol::types::{CallToolResult, Content};
use marquetry_text_format::shortened;
use serde_json::{Value, json};

use super::{
    ArtifactTools, ToolError,
    content::{self, MAX_DOCUMENT_BYTES, MAX_NAME_BYTES, is_extracted},
    find::with_sentences,
    limits::TextLimit,
    list::details,
    read::{answer, introduced, line_from_end},
    view,
};

impl ArtifactTools {
    /// Reads a page of a document, or lines of its text.
    pub(super) async fn read_document(
        &self,
        record: &Record,
        page: Option<u64>,
        (start_line, line_count): (Option<i64>, Option<u64>),
        limit: TextLimit,
    ) -> Result<CallToolResult, ToolError> {
        let extracted = self.extracted(record).await?;
        let (text, place) = match page {
            Some(number) => (page_of(&extracted, record, number)?, format!("Page {number}.")),
            None => (extracted.content.as_str(), "The text of the document.".to_owned()),
        };
        let total = text.lines().count() as u64;
        let first = match start_line.unwrap_or(1) {
            start @ ..0 => line_from_end(start, total),
            start => start.unsigned_abs(),
        };
        let start = match first {
            1 => 0,
            _ => text
                .match_indices('\n')
                .nth(usize::try_from(first - 2).unwrap_or(usize::MAX))
                .map_or(text.len(), |(end, _)| end + 1),
        };
        let limit = limit.in_bytes_of(&text[start..]);
        let lines = view::lines(text.as_bytes(), first, line_count.unwrap_or(u64::MAX), limit)
            .map_err(|error| ToolError::Arguments(error.to_string()))?;
        let more = match lines.next_line {
            Some(next) => format!(" Go on with start_line={next}."),
            None => String::new(),
        };
        let cut =
            if lines.is_cut { " The last line is cut short; give a larger max_bytes." } else { "" };
        let note = format!(
            "{} {place} Lines {} to {} of {}; {} pages in all.{cut}{more}",
            introduced(record),
            lines.first_line,
            lines.last_line,
            lines.total_lines,
            extracted.page_count.unwrap_or(1),
        );
        let problems: Vec<_> = extracted.problems.iter().take(5).map(ToString::to_string).collect();
        let report = json!({
            "name": record.name, "version": record.version, "size_bytes": record.size_bytes, "page": page,
            "pages": extracted.page_count, "start_line": lines.first_line, "end_line": lines.last_line,
            "total_lines": lines.total_lines, "is_cut": lines.is_cut, "next_start_line": lines.next_line,
        });
        Ok(answer(Content::text(lines.text), with_sentences(note, &problems), report))
    }

    /// Describes an artifact: its type and sizes, what can be counted in it, its schema, warnings.
    pub(super) async fn info(
        &self,
        name: &ArtifactName,
        version: Version,
        limit: TextLimit,
    ) -> Result<CallToolResult, ToolError> {
        let record = self.store.record(&self.scope, name, version).await?;
        let mut info = json!({
            "name": record.name, "version": record.version, "mime_type": record.mime_type,
            "size_bytes": record.size_bytes, "description": record.metadata.description,
            "warnings": record.metadata.warnings,
        });
        if is_spreadsheet(&record.mime_type) {
            match self.sheets(&record, limit).await {
                Ok(sheets) => info["sheets"] = sheets,
                Err(error) => info["problems"] = json!([error.to_string()]),
            }
        } else if is_extracted(&record) {
            match self.extracted(&record).await {
                Ok(extracted) => {
                    info["pages"] = json!(extracted.page_count);
                    info["lines"] = json!(extracted.content.lines().count());
                    let title = extracted.title.as_deref().map(|it| shortened(it, 200));
                    info["title"] = json!(title);
                    let problems = extracted.problems.iter().take(5).map(ToString::to_string);
                    info["problems"] = problems.collect();
                }
                Err(error) => info["problems"] = json!([error.to_string()]),
            }
        } else if let Ok(line) = self.find_line(&record, 1).await {
            info["lines"] = json!(line.total);
        }
        info["details"] = details(&record);
        // Without its parts that have no value.
        if let Some(members) = info.as_object_mut() {
            members
                .retain(|_, value| !value.is_null() && *value != json!([]) && *value != json!(""));
        }
        leave_out_details(&mut info, limit);
        Ok(CallToolResult::text(info.to_string()))
    }

    /// Returns the names, columns and numbers of rows of the sheets of a workbook, with as many
    /// columns as fit.
    async fn sheets(&self, record: &Record, limit: TextLimit) -> Result<Value, ToolError> {
        let tables = self.read_on_pool(record, content::tables).await?;
        let fitting = [50, 20, 5].map(|max_columns| described(&tables, max_columns));
        let fitting = fitting.into_iter().find(|sheets| limit.fits(&sheets.to_string()));
        Ok(fitting.unwrap_or_else(|| described(&tables, 0)))
    }

    async fn extracted(&self, record: &Record) -> Result<Extracted, ToolError> {
        if !is_extracted(record) {
            return Err(ToolError::Arguments(format!(
                "{} ({}) is not a document with pages",
                record.name, record.mime_type
            )));
        }
        self.read_on_pool(record, content::document).await
    }

    /// Reads a document on Tokio's blocking pool, within the budget of whole reads. The work ends
    /// when this future is dropped.
    async fn read_on_pool<T: Send + 'static>(
        &self,
        record: &Record,
        read: impl FnOnce(&Record, &[u8], &Stop) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let (bytes, reserved) = self.reserved_content(record, 1, MAX_DOCUMENT_BYTES).await?;
        let stop = Stop::never();
        let _stopped = stop.on_drop();
        let record = record.clone();
        let work_stop = stop.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _reserved = reserved;
            read(&record, &bytes, &work_stop)
        });
        done.await.map_err(|_| ToolError::Arguments("the read ended unexpectedly".to_owned()))?
    }
}

/// Describes the sheets of a workbook, each with at most `max_columns` columns.
fn described(tables: &[Table], max_columns: usize) -> Value {
    const MAX_SHEETS: usize = 50;
    let sheets = tables.iter().take(MAX_SHEETS).map(|table| {
        let columns = table.columns.iter().take(max_columns);
        let columns: Vec<_> = columns.map(|name| shortened(name, MAX_NAME_BYTES)).collect();
        let not_listed = table.columns.len() - columns.len();
        let name = shortened(&table.name, MAX_NAME_BYTES);
        let mut sheet = json!({"name": name, "rows": table.row_count(), "columns": columns});
        if not_listed > 0 {
            sheet["columns_not_listed"] = json!(not_listed);
        }
        sheet
    });
    sheets.collect()
}

/// Leaves out the largest details of a description until it fits, and names them.
fn leave_out_details(info: &mut Value, limit: TextLimit) {
    let mut left_out = Vec::new();
    while !limit.fits(&info.to_string()) {
        let Some(details) = info["details"].as_object_mut() else { return };
        let largest = details.iter().max_by_key(|(_, value)| value.to_string().len());
        let Some(name) = largest.map(|(name, _)| name.clone()) else { return };
        details.remove(&name);
        left_out.push(name);
        info["details_left_out"] = json!(left_out);
    }
}

/// Returns the text of a page.
fn page_of<'a>(
    extracted: &'a Extracted,
    record: &Record,
    number: u64,
) -> Result<&'a str, ToolError> {
    let found = extracted.pages.iter().find(|page| u64::from(page.number) == number);
    let text = found.and_then(|page| {
        let end = page.span.end.min(extracted.content.len());
        extracted.content.get(page.span.start.min(end)..end)
    });
    text.ok_or_else(|| {
        let name = &record.name;
        ToolError::Arguments(match extracted.page_count {
            Some(count) => format!("{name} has no page {number}: give a page from 1 to {count}"),
            None => format!("{name} has no pages; give lines"),
        })
    })
}
