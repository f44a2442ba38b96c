//! CSV: one line for each row, whose cells have the names of their columns.

use csv_core::{ReadFieldResult, ReaderBuilder};

use crate::{ExtractError, Extracted, Extractor, Source, decode::decode, rows::Rows};

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
        let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
        let mut rows = Rows::default();
        let mut rest = text.as_bytes();
        let mut piece = [0; PIECE];
        let mut cell = Vec::new();
        let mut column = 0;
        loop {
            // Cells are read one by one: a row of a million empty cells needs no memory.
            let (result, read, written) = reader.read_field(rest, &mut piece);
            rest = &rest[read..];
            cell.extend_from_slice(&piece[..written]);
            match result {
                // At the end of the text, an empty rest ends the last cell.
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::Field { record_end } => {
                    // Cells are valid UTF-8, because they end at ASCII characters.
                    rows.push_cell(column, &String::from_utf8_lossy(&cell));
                    cell.clear();
                    column += 1;
                    if record_end || column.is_multiple_of(PIECE) {
                        source.check(rows.len())?;
                    }
                    if record_end {
                        rows.end_row();
                        column = 0;
                    }
                }
                ReadFieldResult::End => break,
            }
        }
        source.check(rows.len())?;
        Ok(Extracted { content: rows.finish(), wrapped: false, ..extracted })
    }
}

/// Number of bytes of a cell that are copied at once, and of cells between two checks of the time
/// limit.
const PIECE: usize = 1 << 10;

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
