//! Converts tables to text: one line for each row, whose cells have the names of their columns.

/// Most cells of a row of names: the columns of a sheet of Excel. The cells of such a row are held
/// in memory, each in more bytes than it has in a file.
const MAX_NAMES: usize = 1 << 14;

/// Rows of a table as lines of text: `name: Ada; born: 1815`.
#[derive(Default)]
pub(crate) struct Rows {
    /// Names of the columns, in order; empty if there are none.
    names: Option<Vec<(usize, String)>>,
    /// Whether a row came after the names.
    has_rows: bool,
    text: String,
    /// The cells of the open row, as long as it may name the columns.
    open: Vec<(usize, String)>,
    /// Where the open row begins in the text.
    start: usize,
}

impl Rows {
    /// Returns the length of the text so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a row of cells with their columns. The first row with more than one cell names the
    /// columns, if it looks like names.
    #[cfg(feature = "spreadsheet")]
    pub(crate) fn push<'a>(&mut self, cells: impl Iterator<Item = (usize, &'a str)>) {
        for (column, cell) in cells {
            self.push_cell(column, cell);
        }
        self.end_row();
    }

    /// Adds a cell to the open row.
    pub(crate) fn push_cell(&mut self, column: usize, cell: &str) {
        if self.names.is_some() {
            return self.write(column, cell);
        }
        let mut text = String::new();
        push_words(&mut text, cell);
        self.open.push((column, text));
        if self.open.len() > MAX_NAMES {
            self.names = Some(Vec::new());
            self.write_open();
        }
    }

    /// Ends the open row. Empty rows are left out.
    pub(crate) fn end_row(&mut self) {
        if self.names.is_none() && self.open.iter().any(|(_, cell)| !cell.is_empty()) {
            // A single cell may be the title of a table.
            if self.open.len() > 1 {
                if looks_like_names(&self.open) {
                    self.names = Some(std::mem::take(&mut self.open));
                    return;
                }
                self.names = Some(Vec::new());
            }
            self.write_open();
        }
        self.open.clear();
        if self.text.len() > self.start {
            self.has_rows |= self.names.is_some();
            self.text.push('\n');
            self.start = self.text.len();
        }
    }

    fn write_open(&mut self) {
        for (column, cell) in std::mem::take(&mut self.open) {
            self.write(column, &cell);
        }
    }

    fn write(&mut self, column: usize, cell: &str) {
        if cell.trim().is_empty() {
            return;
        }
        if self.text.len() > self.start {
            self.text.push_str("; ");
        }
        let names = self.names.as_deref().unwrap_or_default();
        if let Ok(index) = names.binary_search_by_key(&column, |(column, _)| *column) {
            self.text.push_str(&names[index].1);
            self.text.push_str(": ");
        }
        push_words(&mut self.text, cell);
    }

    /// Returns the text. If no row came after the names, the names are part of it.
    pub(crate) fn finish(self) -> String {
        let mut text = self.text;
        if !self.has_rows {
            let names: Vec<_> = self.names.into_iter().flatten().map(|(_, name)| name).collect();
            text.push_str(&names.join("; "));
        }
        text
    }
}

/// Adds the words of a cell with single spaces between them.
fn push_words(text: &mut String, cell: &str) {
    for (index, word) in cell.split_whitespace().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(word);
    }
}

/// Returns whether cells look like names of columns: short, different, and not numbers.
fn looks_like_names(cells: &[(usize, String)]) -> bool {
    let mut sorted: Vec<_> = cells.iter().map(|(_, cell)| cell).collect();
    sorted.sort();
    sorted.dedup();
    cells.is_sorted_by(|left, right| left.0 < right.0)
        && sorted.len() == cells.len()
        && cells.iter().all(|(_, cell)| looks_like_a_name(cell))
}

fn looks_like_a_name(cell: &str) -> bool {
    !cell.is_empty() && cell.len() <= 80 && cell.parse::<f64>().is_err() && !cell.ends_with('.')
}
