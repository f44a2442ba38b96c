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

/// Returns the delimiter of a text that is known to be CSV: the detected one, or else the one that
/// is most frequent in the first line.
///
/// ```
/// use marquetry_artifacts::metadata::csv_delimiter;
///
/// assert_eq!(csv_delimiter("id;price\n1;2,50\n"), b';');
/// assert_eq!(csv_delimiter("id\n1\n"), b',');
/// ```
pub fn csv_delimiter(text: &str) -> u8 {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(found) = judge(&super::sample(text, super::TABLE_SAMPLE_BYTES)) {
        return found.delimiter;
    }
    let first = text.lines().next().unwrap_or_default();
    // Of equally frequent ones the last is taken.
    let all = *b"|\t;,";
    all.into_iter()
        .max_by_key(|delimiter| first.bytes().filter(|byte| byte == delimiter).count())
        .unwrap_or(b',')
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
            filled = vec![false; columns];
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
        prose_rows += u64::from(is_prose(&row));
        for (filled, cell) in filled.iter_mut().zip(&row) {
            *filled |= !cell.trim().is_empty();
        }
    }
    let used = filled.iter().filter(|&&filled| filled).count();
    let is_table = rows >= 2 && used >= 2 && prose_rows * 2 < rows;
    let confidence = match (is_ragged, rows >= 3 && columns >= 3) {
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

/// Returns whether a row is a sentence with commas, or `key: a, b` of another format.
fn is_prose(row: &csv::StringRecord) -> bool {
    let first = row.get(0).unwrap_or_default();
    let last = row.iter().next_back().unwrap_or_default().trim_end();
    let key =
        first.split_once(": ").is_some_and(|(key, rest)| !key.contains(' ') && !rest.is_empty());
    let stop = last.ends_with(['.', '!', '?', ':', ';', '{', '}']) && last.parse::<f64>().is_err();
    key || (stop && row.iter().any(|cell| cell.trim().contains(' '))) || last.ends_with([';', '{'])
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
pub(crate) struct Table {
    /// Number of rows with the header.
    pub(crate) rows: u64,
    /// Number of cells of the first row.
    pub(crate) columns: u64,
    /// The first cells of the first row.
    pub(crate) headers: Vec<String>,
}

impl Table {
    /// Counts the rows of the text, and reads at most `max_headers` cells of the first row.
    pub(crate) fn read(text: &str, delimiter: u8, max_headers: usize) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = reader(text.as_bytes(), delimiter);
        let mut row = csv::ByteRecord::new();
        let mut table = Self::default();
        while reader.read_byte_record(&mut row).map_err(|error| error.to_string())? {
            if table.rows == 0 {
                table.columns = row.len() as u64;
                let cells = row.iter().take(max_headers).map(String::from_utf8_lossy);
                table.headers =
                    cells.map(|cell| crate::structure::shortened(cell.trim(), 100)).collect();
            }
            table.rows += 1;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::sample;

    #[test]
    fn delimiters() {
        for (text, want) in [
            ("a,b\n1,2\n", Some(b',')),
            ("a;b\n1,5;2,5\n", Some(b';')),
            ("a\tb\n1,5\t2\n", Some(b'\t')),
            ("a|b|c\n1|2|3\n", Some(b'|')),
            ("a|b|c\n---|---|---\n1|2|3\n", None),
            ("\"x,y\",b\r\n\"1\n2\",3\r\n", Some(b',')),
            ("a,b\n1,2\n\n3,4\n", Some(b',')),
            ("a,b\n", None),
            ("a\nb\n", None),
            ("a,b\n1,2,3\n", None),
            ("id,name,end\n1,x,2020\n2,y\n", Some(b',')),
            ("id,name,end\n1,x,2020\n2\n", None),
            ("First, I ate,then slept\n1,x,2020\n2,y\n", None),
            ("a,\nb,\n", None),
            ("a = b;\nc = d;\n", None),
            ("let a = f(b, c);\nlet d = f(e, g);\n", None),
            ("However, it is fine.\nMoreover, it works.\n", None),
            ("name: a, b\nother: c, d\n", None),
        ] {
            assert_eq!(judge(&sample(text, 1000)).map(|found| found.delimiter), want, "{text}");
        }
    }

    #[test]
    fn a_cut_sample_forgives_its_last_row() {
        let text = "a,b,c\n1,2,3\n4,\"x\ny\",5\n";
        assert_eq!(judge(&sample(text, 20)).map(|found| found.delimiter), Some(b','));
        assert_eq!(judge(&sample("a,b\n1,2\n4", 100)), None);
    }

    #[test]
    fn tables() {
        let table = Table::read("\u{feff}a, b ,c\n1,2,3\n4,5\n", b',', 2).unwrap();
        assert_eq!(table, Table { rows: 3, columns: 3, headers: vec!["a".into(), "b".into()] });
        let wide = format!("{}\n", "x,".repeat(1_000_000));
        assert_eq!(Table::read(&wide, b',', 5).unwrap().columns, 1_000_001);
    }
}
