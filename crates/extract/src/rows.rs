//! Converts tables to text: one line for each row, whose cells have the names of their columns.

/// Rows of a table as lines of text: `name: Ada; born: 1815`.
#[derive(Default)]
pub(crate) struct Rows {
    /// Names of the columns, in order; empty if there are none.
    names: Option<Vec<(usize, String)>>,
    /// Whether a row came after the names.
    has_rows: bool,
    text: String,
}

impl Rows {
    /// Returns the length of the text so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a row of cells with their columns. The first row with more than one cell names the
    /// columns, if it looks like names.
    pub(crate) fn push<'a>(&mut self, cells: impl Iterator<Item = (usize, &'a str)>) {
        let cells: Vec<(usize, String)> = cells
            .map(|(column, cell)| (column, cell.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect();
        if cells.iter().all(|(_, cell)| cell.is_empty()) {
            return;
        }
        // A single cell may be the title of a table.
        if self.names.is_none() && cells.len() > 1 {
            if looks_like_names(&cells) {
                self.names = Some(cells);
                return;
            }
            self.names = Some(Vec::new());
        }
        self.has_rows |= self.names.is_some();
        let names = self.names.as_deref().unwrap_or_default();
        let start = self.text.len();
        for (column, cell) in cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            if self.text.len() > start {
                self.text.push_str("; ");
            }
            if let Ok(index) = names.binary_search_by_key(column, |(column, _)| *column) {
                self.text.push_str(&names[index].1);
                self.text.push_str(": ");
            }
            self.text.push_str(cell);
        }
        self.text.push('\n');
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
