//! Detects and reads CSV: rows with the same number of cells.

use super::Sample;

/// Maximum cells of a first row that counts as a header.
const MAX_COLUMNS: usize = 10_000;
/// Longest cell of a header, in bytes.
const MAX_HEADER_BYTES: usize = 200;

/// A detected table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DetectedTable {
    pub(super) delimiter: u8,
    /// Confidence in per cent.
    pub(super) confidence: u8,
}

/// Finds the delimiter with the most columns. Among equals, the comma wins.
pub(super) fn judge(sample: &Sample<'_>) -> Option<DetectedTable> {
    let first = sample.lines.lines().find(|line| !line.trim().is_empty())?;
    let mut best: Option<(usize, DetectedTable)> = None;
    for delimiter in *b",;\t|" {
        if !first.as_bytes().contains(&delimiter) && !first.contains('"') {
            continue;
        }
        if let Some((columns, confidence)) = columns(sample, delimiter)
            && best.as_ref().is_none_or(|(most, _)| columns > *most)
        {
            best = Some((columns, DetectedTable { delimiter, confidence }));
        }
    }
    best.map(|(_, found)| found)
}

/// Returns the number of columns, if all rows have it and nothing speaks for other text.
///
/// Below a row of plain names, rows may have fewer cells, since empty cells at the end are often
/// left out.
fn columns(sample: &Sample<'_>, delimiter: u8) -> Option<(usize, u8)> {
    let mut reader = reader(sample.lines.as_bytes(), delimiter);
    let mut row = csv::StringRecord::new();
    let mut columns = 0;
    let mut rows = 0_u64;
    let mut filled = Vec::new();
    let mut prose_rows = 0;
    let mut has_names = false;
    let mut has_identifiers = false;
    let mut log_rows = 0;
    let mut is_ragged = false;
    let mut is_cut = false;
    while reader.read_record(&mut row).ok()? {
        if is_cut {
            return None;
        }
        if rows == 0 {
            columns = row.len();
            if !(2..=MAX_COLUMNS).contains(&columns) || !row.iter().all(is_header) {
                return None;
            }
            // Lines that end with a bar are drawn by hand or by a dump.
            if delimiter == b'|' && row.iter().any(|cell| cell.trim().is_empty()) {
                return None;
            }
            filled = vec![false; columns];
            has_identifiers = row.iter().all(|cell| is_name(cell) && !cell.contains(' '));
            has_names = columns >= 3 && row.iter().all(is_name);
        } else if row.len() != columns {
            if has_names && (2..columns).contains(&row.len()) {
                is_ragged = true;
            } else if sample.is_whole {
                return None;
            } else {
                // The sample may end inside of a quoted cell, which makes this the last row.
                is_cut = true;
                continue;
            }
        }
        if delimiter == b'|' && is_markdown_rule(&row) {
            return None;
        }
        rows += 1;
        // Below a row of identifiers, a cell may be a sentence.
        prose_rows += u64::from(is_code(&row) || (!has_identifiers && is_prose(&row)));
        log_rows += u64::from(delimiter == b',' && has_fraction_of_second(&row));
        for (filled, cell) in filled.iter_mut().zip(&row) {
            *filled |= !cell.trim().is_empty();
        }
    }
    let used = filled.iter().filter(|&&filled| filled).count();
    let is_table = rows >= 2 && used >= 2 && prose_rows * 2 < rows && log_rows < rows;
    let confidence = match (is_ragged, has_names && rows >= 3) {
        (true, _) => 60,
        (false, true) => 95,
        (false, false) => 75,
    };
    is_table.then_some((columns, confidence))
}

/// Returns whether a cell names a column: one to three words of letters, digits and few marks.
fn is_name(cell: &str) -> bool {
    (1..=40).contains(&cell.len())
        && !cell.starts_with(' ')
        && cell.split(' ').count() <= 3
        && cell.chars().all(|char| char.is_alphanumeric() || "_-./%# ".contains(char))
        && cell.contains(char::is_alphabetic)
}

/// Returns whether a first row may have the cell: it is short, and closes its brackets and
/// quotation marks.
fn is_header(cell: &str) -> bool {
    const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
    cell.len() <= MAX_HEADER_BYTES
        && BRACKETS
            .iter()
            .all(|&(open, close)| cell.matches(open).count() == cell.matches(close).count())
}

/// Returns whether a row is a sentence with commas.
fn is_prose(row: &csv::StringRecord) -> bool {
    let last = last_cell(row);
    let stop = last.ends_with(['.', '!', '?', ':', ';', '{', '}']) && last.parse::<f64>().is_err();
    stop && row.iter().any(|cell| cell.trim().contains(' '))
}

/// Returns whether a row is `key: a, b` of another format, or a line of a program.
fn is_code(row: &csv::StringRecord) -> bool {
    let key = row.get(0).unwrap_or_default().split_once(": ");
    key.is_some_and(|(key, rest)| !key.contains(' ') && !rest.is_empty())
        || last_cell(row).ends_with([';', '{'])
}

/// Returns whether the comma of a row is the one of `19:00:01,123 INFO`, as logs of Python and Java
/// write the time.
fn has_fraction_of_second(row: &csv::StringRecord) -> bool {
    let second = row.get(0).unwrap_or_default();
    let fraction = row.get(1).unwrap_or_default().as_bytes();
    second.len() >= 8
        && second.as_bytes()[second.len() - 3] == b':'
        && fraction.len() > 3
        && fraction[..3].iter().all(u8::is_ascii_digit)
        && !fraction[3].is_ascii_digit()
}

fn last_cell(row: &csv::StringRecord) -> &str {
    row.iter().next_back().unwrap_or_default().trim_end()
}

/// Returns whether a row is `| --- | :-: |`, the second line of a Markdown table.
fn is_markdown_rule(row: &csv::StringRecord) -> bool {
    row.iter().any(|cell| cell.contains("--"))
        && row.iter().all(|cell| cell.bytes().all(|byte| b" -:".contains(&byte)))
}

fn reader(bytes: &[u8], delimiter: u8) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes)
}

/// Facts about a whole table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Number of rows below the first, which has the names of the columns.
    pub rows: u64,
    /// Number of cells of the first row.
    pub columns: u64,
    /// The first cells of the first row.
    pub headers: Vec<String>,
}

impl Table {
    /// Counts the rows of the text, and reads at most `max_headers` cells of the first row.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not CSV.
    pub fn read(text: &str, delimiter: u8, max_headers: usize) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = reader(text.as_bytes(), delimiter);
        let mut row = csv::ByteRecord::new();
        let mut table = Self::default();
        let mut is_header = true;
        while reader.read_byte_record(&mut row).map_err(|error| error.to_string())? {
            if is_header {
                is_header = false;
                table.columns = row.len() as u64;
                let cells = row.iter().take(max_headers).map(String::from_utf8_lossy);
                table.headers = cells.map(|cell| crate::shortened(cell.trim(), 100)).collect();
            } else {
                table.rows += 1;
            }
        }
        Ok(table)
    }
}
