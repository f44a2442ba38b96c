//! Collects the sheets of both formats, as text or as rows of cells.

use std::{collections::BTreeMap, ops::Range};

use crate::{ExtractError, Extracted, Heading, Problem, Source, rows::Rows};

/// A visible sheet of a workbook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sheet {
    /// Name of the sheet.
    pub name: String,
    /// The visible rows with a cell, each as its visible cells with their columns, from 0.
    pub rows: Vec<Vec<(usize, String)>>,
}

/// Maximum columns of a sheet in Excel and LibreOffice; cells further to the right are skipped.
pub(super) const MAX_COLUMNS: usize = 16_384;

/// Memory of a cell that is collected, beside its text.
const CELL_BYTES: usize = size_of::<(usize, String)>();

/// Collects sheets as text or as rows.
pub(super) struct Sheets<'a> {
    source: Source<'a>,
    /// The sheets as rows, unless their text is collected.
    tables: Option<Vec<Sheet>>,
    table_bytes: usize,
    text: String,
    headings: Vec<Heading>,
    /// Number of hidden rows, cells and sheets with text.
    hidden: usize,
    name: String,
    rows: Rows,
    /// What the open sheet has beside its cells: comments, text boxes, charts.
    beside: String,
    row: Vec<(usize, String)>,
    row_bytes: usize,
    hidden_columns: HiddenColumns,
}

impl<'a> Sheets<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self {
            source,
            tables: None,
            table_bytes: 0,
            text: String::new(),
            headings: Vec::new(),
            hidden: 0,
            name: String::new(),
            rows: Rows::default(),
            beside: String::new(),
            row: Vec::new(),
            row_bytes: 0,
            hidden_columns: HiddenColumns::default(),
        }
    }

    /// Collects rows instead of text.
    pub(super) fn of_rows(source: Source<'a>) -> Self {
        Self { tables: Some(Vec::new()), ..Self::new(source) }
    }

    /// Returns whether rows are collected, in which numbers count more than their display.
    pub(super) fn has_values(&self) -> bool {
        self.tables.is_some()
    }

    /// Returns the sheets that were collected as rows, without empty ones.
    pub(super) fn into_rows(self) -> Vec<Sheet> {
        let mut sheets = self.tables.unwrap_or_default();
        sheets.retain(|sheet| !sheet.rows.is_empty());
        sheets
    }

    /// Begins a sheet.
    pub(super) fn start(&mut self, name: &str) {
        self.finish_sheet();
        self.name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.hidden_columns = HiddenColumns::default();
        if let Some(tables) = &mut self.tables {
            tables.push(Sheet { name: self.name.clone(), rows: Vec::new() });
        }
    }

    /// Adds text that stands beside the cells of the open sheet, if text is collected.
    pub(super) fn add_beside(&mut self, text: &str) -> Result<(), ExtractError> {
        let text = text.trim();
        if text.is_empty() || self.has_values() {
            return Ok(());
        }
        self.check(text.len())?;
        self.beside.push_str(text);
        self.beside.push('\n');
        Ok(())
    }

    /// Counts a hidden part with text.
    pub(super) fn count_hidden(&mut self) {
        self.hidden += 1;
    }

    /// Hides a range of columns, both ends counted from 0. Both formats declare hidden columns
    /// before the first cell of a sheet; later declarations are ignored.
    pub(super) fn hide_columns(&mut self, first: usize, last: usize) {
        self.hidden_columns.hide(first, last);
    }

    /// Adds a cell to the current row. The limit of the text also applies to the row, because many
    /// cells may share one text.
    pub(super) fn cell(&mut self, column: usize, text: &str) -> Result<(), ExtractError> {
        let text = text.trim();
        // A row that repeats columns still has at most as many cells as columns.
        if text.is_empty() || column >= MAX_COLUMNS || self.row.len() == MAX_COLUMNS {
            return Ok(());
        }
        if self.hidden_columns.has(column) {
            self.hidden += 1;
            return Ok(());
        }
        self.check(text.len())?;
        self.row_bytes += text.len();
        self.row.push((column, text.to_owned()));
        Ok(())
    }

    /// Checks that this many further bytes of text are within the limits.
    pub(super) fn check(&self, further: usize) -> Result<(), ExtractError> {
        let collected = self.text.len() + self.rows.len() + self.beside.len();
        let bytes = collected + self.table_bytes + self.row_bytes;
        self.source.check(bytes + further)
    }

    /// Ends a row, which may represent several equal rows.
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
        if let Some(tables) = &mut self.tables {
            let row_bytes: usize = row.iter().map(|(_, text)| CELL_BYTES + text.len()).sum();
            for _ in 0..repeated {
                self.table_bytes += row_bytes;
                self.source.check(self.table_bytes)?;
                if let Some(sheet) = tables.last_mut() {
                    sheet.rows.push(row.clone());
                }
            }
            return Ok(());
        }
        for _ in 0..repeated {
            self.rows.push(row.iter().map(|(column, text)| (*column, text.as_str())));
            self.source.check(self.text.len() + self.rows.len())?;
        }
        Ok(())
    }

    /// Returns the document without empty sheets.
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
        let beside = std::mem::take(&mut self.beside);
        if rows.is_empty() && beside.is_empty() {
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
        if !rows.is_empty() && !rows.ends_with('\n') {
            self.text.push('\n');
        }
        if !rows.is_empty() && !beside.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&beside);
    }
}

/// The hidden columns. The cost of a range does not depend on its length.
#[derive(Default)]
struct HiddenColumns {
    /// Change of the number of hidden ranges from one column to the next.
    changes: BTreeMap<usize, i64>,
    /// The merged ranges, in order and disjoint; computed on first use.
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
            let mut hidden = Vec::new();
            let mut ranges = 0;
            let mut start = 0;
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
