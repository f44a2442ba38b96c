//! CSV: one line for each row, whose cells have the names of their columns.

use crate::{ExtractError, Extracted, Extractor, Problem, Source, decode::decode, rows::Rows};

/// Reads CSV with commas, semicolons, tabs or bars between cells. If the first row looks like
/// names, it names the columns.
pub(crate) struct Csv;

impl Extractor for Csv {
    fn media_types(&self) -> &[&str] {
        &["text/csv", "application/csv", "text/tab-separated-values"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("csv", "text/csv"), ("tsv", "text/tab-separated-values")]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut extracted = decode(source.bytes, source.charset).document()?;
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
                Ok(record) => rows.push(record.iter().enumerate()),
                Err(error) => {
                    let reason = format!("row {}: {error}", number + 1);
                    extracted.problems.push(Problem::Other { reason });
                    if error.is_io_error() {
                        break;
                    }
                }
            }
            source.check(rows.len())?;
        }
        Ok(Extracted { content: rows.finish(), wrapped: false, ..extracted })
    }
}

/// Returns the delimiter that is most frequent in the first line outside of quotes.
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
    // If several are equally frequent, the first one.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| *delimiter)
}
