//! The text and the tables of an artifact.

use std::{borrow::Cow, time::Duration};

use marquetry_artifacts::{
    Record,
    mime::{is_document, is_spreadsheet, is_text},
};
use marquetry_data_query::{Table, TableError};
use marquetry_extract::{Extracted, Hint, Limits, Sheet, Stop, extract, sheets};
use marquetry_text_format::{csv_delimiter, shortened};

use super::ToolError;

/// Longest text of a document, and largest size of its parts after unpacking, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// Time to read a document.
const MAX_DOCUMENT_TIME: Duration = Duration::from_secs(20);
/// Longest name of a sheet or a column that an answer has whole, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Problems of a document that a note lists.
const MAX_PROBLEMS: usize = 5;

/// The text of an artifact, as it is or as it was extracted.
pub(crate) struct Text<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Facts about the extraction, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// Returns whether the lines of an artifact are those of its extracted text.
pub(crate) fn is_extracted(record: &Record) -> bool {
    is_document(&record.mime_type)
}

/// Returns the text of an artifact: that of a document, or the bytes in their encoding.
pub(crate) fn text<'a>(
    record: &Record,
    bytes: &'a [u8],
    stop: &Stop,
) -> Result<Text<'a>, ToolError> {
    if is_extracted(record) {
        let extracted = document(record, bytes, stop)?;
        let mut notes = problems(&extracted);
        notes.insert(0, "Lines are those of the text of the document".to_owned());
        return Ok(Text { text: extracted.content.into(), notes });
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(Text { text: text.into(), notes: Vec::new() });
    }
    if !is_text(&record.mime_type) {
        return Err(ToolError::Arguments(format!(
            "{} ({}) is not text; it cannot be searched",
            record.name, record.mime_type
        )));
    }
    // Another encoding, or some bytes that are wrong.
    let hint = hint("text/plain", stop);
    let extracted =
        extract(bytes, &hint).map_err(|error| unreadable(record, &error.to_string()))?;
    let mut notes = problems(&extracted);
    let encoding = extracted.encoding.as_deref().unwrap_or("an unknown encoding");
    notes.insert(0, format!("The text is not valid UTF-8 and was read as {encoding}"));
    Ok(Text { text: extracted.content.into(), notes })
}

/// Returns the text of a document with its pages.
pub(crate) fn document(record: &Record, bytes: &[u8], stop: &Stop) -> Result<Extracted, ToolError> {
    let hint = Hint { file_name: Some(record.name.as_str()), ..hint(&record.mime_type, stop) };
    let mut extracted =
        extract(bytes, &hint).map_err(|error| unreadable(record, &error.to_string()))?;
    // Empty lines at the end are nothing to a reader who counts from there.
    extracted.content.truncate(extracted.content.trim_end().len());
    Ok(extracted)
}

/// Returns the tables of an artifact: the sheets of a workbook, the rows of JSON, or CSV.
pub(crate) fn tables(record: &Record, bytes: &[u8], stop: &Stop) -> Result<Vec<Table>, ToolError> {
    if is_spreadsheet(&record.mime_type) {
        let sheets = sheets(bytes, &hint(&record.mime_type, stop))
            .map_err(|error| unreadable(record, &error.to_string()))?;
        let tables = sheets.iter().map(table_of_sheet).collect::<Result<Vec<_>, _>>();
        let tables = tables.map_err(|error| no_table(record, &error))?;
        if tables.is_empty() {
            return Err(no_table(record, &TableError::Empty));
        }
        return Ok(tables);
    }
    let Text { text, notes } = text(record, bytes, stop)?;
    let is_json = record.mime_type.contains("json") || text.trim_start().starts_with(['[', '{']);
    let table = if is_json {
        Table::from_json(&text)
    } else {
        let detected = record.metadata.parsed_data_summary.as_ref();
        let detected = detected.and_then(|summary| u8::try_from(summary.delimiter?).ok());
        Table::from_csv(&text, detected.unwrap_or_else(|| csv_delimiter(&text)))
    };
    let mut table = table.map_err(|error| no_table(record, &error))?;
    table.notes.extend(notes);
    Ok(vec![table])
}

/// Returns a sheet as a table. Rows of one cell above the others are its title.
fn table_of_sheet(sheet: &Sheet) -> Result<Table, TableError> {
    let header = sheet.rows.iter().position(|row| row.len() > 1).unwrap_or(0);
    let rows = sheet.rows[header..]
        .iter()
        .map(|row| row.iter().map(|(column, text)| (*column, text.as_str())));
    let mut table = Table::from_rows(&sheet.name, rows)?;
    if header > 0 {
        let name = shortened(&sheet.name, MAX_NAME_BYTES);
        table.notes.push(format!("{header} rows above the header of {name:?} are left out"));
    }
    Ok(table)
}

fn hint<'a>(media_type: &'a str, stop: &'a Stop) -> Hint<'a> {
    let mut limits = Limits::default();
    limits.max_content_bytes = MAX_DOCUMENT_BYTES;
    limits.max_unpacked_bytes = MAX_DOCUMENT_BYTES;
    limits.max_time = MAX_DOCUMENT_TIME;
    Hint { media_type: Some(media_type), limits, stop: Some(stop), ..Hint::default() }
}

fn problems(extracted: &Extracted) -> Vec<String> {
    extracted.problems.iter().take(MAX_PROBLEMS).map(ToString::to_string).collect()
}

fn unreadable(record: &Record, problem: &str) -> ToolError {
    let kind = &record.mime_type;
    ToolError::Arguments(format!("{} ({kind}) cannot be read: {problem}", record.name))
}

fn no_table(record: &Record, error: &TableError) -> ToolError {
    ToolError::Arguments(format!("{} has no table: {error}", record.name))
}
