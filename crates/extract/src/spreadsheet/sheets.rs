//! What is gathered of the sheets of either format.

use std::{collections::BTreeMap, ops::Range};

use crate::{ExtractError, Extracted, Heading, Problem, Source, rows::Rows};

/// Columns that a sheet may have in Excel and in LibreOffice; what stands further to the right is passed over.
pub(super) const MAX_COLUMNS: usize = 16_384;

/// Sheets as text.
pub(super) struct Sheets<'a> {
    source: Source<'a>,
    text: String,
    headings: Vec<Heading>,
    /// Rows, cells and sheets that have something in them which is not shown.
    hidden: usize,
    name: String,
    rows: Rows,
    row: Vec<(usize, String)>,
    row_bytes: usize,
    hidden_columns: HiddenColumns,
}

impl<'a> Sheets<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self {
            source,
            text: String::new(),
            headings: Vec::new(),
            hidden: 0,
            name: String::new(),
            rows: Rows::default(),
            row: Vec::new(),
            row_bytes: 0,
            hidden_columns: HiddenColumns::default(),
        }
    }

    /// Begins a sheet.
    pub(super) fn start(&mut self, name: &str) {
        self.finish_sheet();
        self.name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.hidden_columns = HiddenColumns::default();
    }

    /// Something is there that is not shown.
    pub(super) fn count_hidden(&mut self) {
        self.hidden += 1;
    }

    /// Columns from one to another, both counted from 0, are not shown. Either format says so before the first cell of a
    /// sheet, and what comes after it is passed over.
    pub(super) fn hide_columns(&mut self, first: usize, last: usize) {
        self.hidden_columns.hide(first, last);
    }

    /// Adds a cell to the row that is being read. The limit holds for the row as well: one text may stand in many cells.
    pub(super) fn cell(&mut self, column: usize, text: &str) -> Result<(), ExtractError> {
        let text = text.trim();
        // A row that names columns more than once has no more cells than columns either.
        if text.is_empty() || column >= MAX_COLUMNS || self.row.len() == MAX_COLUMNS {
            return Ok(());
        }
        if self.hidden_columns.has(column) {
            self.hidden += 1;
            return Ok(());
        }
        self.row_bytes += text.len();
        self.source.check(self.text.len() + self.rows.len() + self.row_bytes)?;
        self.row.push((column, text.to_owned()));
        Ok(())
    }

    /// Ends a row, which may stand for several that are the same.
    pub(super) fn end_row(&mut self, is_hidden: bool, repeated: usize) -> Result<(), ExtractError> {
        let row = std::mem::take(&mut self.row);
        self.row_bytes = 0;
        if row.is_empty() {
            return Ok(());
        }
        if is_hidden {
            self.hidden += 1;
            return Ok(());
        }
        for _ in 0..repeated {
            self.rows.push(row.iter().map(|(column, text)| (*column, text.as_str())));
            self.source.check(self.text.len() + self.rows.len())?;
        }
        Ok(())
    }

    /// The document; sheets without anything in them are left out.
    pub(super) fn finish(mut self) -> Extracted {
        self.finish_sheet();
        let mut extracted = Extracted { headings: self.headings, ..Extracted::new(self.text) };
        if self.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden });
        }
        extracted
    }

    fn finish_sheet(&mut self) {
        self.row.clear();
        self.row_bytes = 0;
        let rows = std::mem::take(&mut self.rows).finish();
        if rows.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        if !self.name.is_empty() {
            let span = self.text.len()..self.text.len() + self.name.len();
            self.text.push_str(&self.name);
            self.text.push_str("\n\n");
            let title = std::mem::take(&mut self.name);
            self.headings.push(Heading { level: 1, title, span });
        }
        self.text.push_str(&rows);
        if !rows.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// Which columns are not shown. However many ranges a sheet names, each costs the same.
#[derive(Default)]
struct HiddenColumns {
    /// By how many ranges a column is in more than the one before it.
    changes: BTreeMap<usize, i64>,
    /// What comes of them, once it was asked for: in order, apart from each other.
    hidden: Option<Vec<Range<usize>>>,
}

impl HiddenColumns {
    fn hide(&mut self, first: usize, last: usize) {
        if first >= MAX_COLUMNS || last < first || self.hidden.is_some() {
            return;
        }
        *self.changes.entry(first).or_default() += 1;
        *self.changes.entry(last.min(MAX_COLUMNS - 1) + 1).or_default() -= 1;
    }

    fn has(&mut self, column: usize) -> bool {
        let hidden = self.hidden.get_or_insert_with(|| {
            let (mut hidden, mut ranges, mut start) = (Vec::new(), 0, 0);
            for (&column, change) in &self.changes {
                if ranges == 0 {
                    start = column;
                }
                ranges += change;
                if ranges == 0 {
                    hidden.push(start..column);
                }
            }
            hidden
        });
        let next = hidden.partition_point(|range| range.end <= column);
        hidden.get(next).is_some_and(|range| range.contains(&column))
    }
}
