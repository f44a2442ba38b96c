//! CSV: each row on a line, its cells with the names of their columns.

use std::fmt::Write as _;

use super::{ExtractError, Extracted, Extractor, Problem, Source, decode::decode};

/// Comma, semicolon, tab or bar between cells; a first row that looks like names gives the names.
pub(super) struct Csv;

impl Extractor for Csv {
    fn media_types(&self) -> &[&str] {
        &["text/csv", "application/csv", "text/tab-separated-values"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("csv", "text/csv"), ("tsv", "text/tab-separated-values")]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut extracted = decode(source.bytes, source.charset).document();
        let text = std::mem::take(&mut extracted.content);
        let is_tabs = source.media_type == "text/tab-separated-values";
        let delimiter = if is_tabs { b'\t' } else { delimiter(&text) };
        let mut reader = ::csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut rows = Rows::default();
        for (number, record) in reader.records().enumerate() {
            match record {
                Ok(record) => rows.push(record.iter()),
                Err(error) => {
                    let reason = format!("row {}: {error}", number + 1);
                    extracted.problems.push(Problem::Other { reason });
                    if error.is_io_error() {
                        break;
                    }
                }
            }
            source.limits.check_content(rows.text.len())?;
        }
        Ok(Extracted { content: rows.finish(), wrapped: false, ..extracted })
    }
}

/// The delimiter that the first line has most often outside of quotes.
fn delimiter(text: &str) -> u8 {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut in_quotes = false;
    for byte in line.bytes() {
        in_quotes ^= byte == b'"';
        if let Some(count) = counts.iter_mut().find(|(delimiter, _)| *delimiter == byte)
            && !in_quotes
        {
            count.1 += 1;
        }
    }
    // The first of equals.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| *delimiter)
}

/// Rows of a table as lines of text: `name: Ada; born: 1815`.
#[derive(Default)]
pub(super) struct Rows {
    names: Option<Vec<String>>,
    text: String,
}

impl Rows {
    /// Adds a row; the first one gives the names of the columns, if it looks like names.
    pub(super) fn push<'a>(&mut self, cells: impl Iterator<Item = &'a str>) {
        let cells: Vec<String> =
            cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        if cells.iter().all(String::is_empty) {
            return;
        }
        if self.names.is_none() {
            if looks_like_names(&cells) {
                self.names = Some(cells);
                return;
            }
            self.names = Some(Vec::new());
        }
        let names = self.names.as_deref().unwrap_or_default();
        let start = self.text.len();
        for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            if self.text.len() > start {
                self.text.push_str("; ");
            }
            match names.get(column) {
                Some(name) => {
                    let _ = write!(self.text, "{name}: {cell}");
                }
                None => self.text.push_str(cell),
            }
        }
        self.text.push('\n');
    }

    /// The text; the names alone, if there is no other row.
    pub(super) fn finish(self) -> String {
        match self.names {
            Some(names) if self.text.is_empty() => names.join("; "),
            _ => self.text,
        }
    }
}

fn looks_like_names(cells: &[String]) -> bool {
    let is_name = |cell: &String| {
        !cell.is_empty() && cell.len() <= 80 && cell.parse::<f64>().is_err() && !cell.ends_with('.')
    };
    let mut sorted: Vec<_> = cells.iter().collect();
    sorted.sort();
    sorted.dedup();
    cells.len() > 1 && sorted.len() == cells.len() && cells.iter().all(is_name)
}
