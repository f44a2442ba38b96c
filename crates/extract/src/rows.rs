//! Tables as text: each row on a line, its cells with the names of their columns.

/// Rows of a table as lines of text: `name: Ada; born: 1815`.
#[derive(Default)]
pub(crate) struct Rows {
    /// The names of the columns, in their order; empty if there are none.
    names: Option<Vec<(usize, String)>>,
    /// Whether a row has followed the names.
    has_rows: bool,
    text: String,
}

impl Rows {
    /// Length of the text so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a row of cells with their columns; the first one that has more than one cell gives the names of the columns,
    /// if it looks like names.
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
            if let Ok(place) = names.binary_search_by_key(column, |(column, _)| *column) {
                self.text.push_str(&names[place].1);
                self.text.push_str(": ");
            }
            self.text.push_str(cell);
        }
        self.text.push('\n');
    }

    /// The text, and after it the names, if no row has followed them.
    pub(crate) fn finish(self) -> String {
        let mut text = self.text;
        if !self.has_rows {
            let names: Vec<_> = self.names.into_iter().flatten().map(|(_, name)| name).collect();
            text.push_str(&names.join("; "));
        }
        text
    }
}

/// Whether cells in ascending columns are names of them: short, different, and no numbers.
fn looks_like_names(cells: &[(usize, String)]) -> bool {
    let is_name = |cell: &str| {
        !cell.is_empty() && cell.len() <= 80 && cell.parse::<f64>().is_err() && !cell.ends_with('.')
    };
    let mut sorted: Vec<_> = cells.iter().map(|(_, cell)| cell).collect();
    sorted.sort();
    sorted.dedup();
    cells.is_sorted_by(|left, right| left.0 < right.0)
        && sorted.len() == cells.len()
        && cells.iter().all(|(_, cell)| is_name(cell))
}
