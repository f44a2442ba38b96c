//! The cells of a table, in little memory: a fixed size for each, and one text for all.

/// A value of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CellValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// A part of the text.
    Text {
        start: u32,
        length: u32,
    },
}

/// Rows of cells. A row may end before the last column; the rest of it is null.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    /// The end of each row in `cells`.
    ends: Vec<usize>,
    text: String,
}

impl Cells {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the length of the text of all cells.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Sets a cell of the row that has not ended. Returns false if it was set before. A text
    /// beyond 4 GiB of all cells is not set.
    pub(crate) fn set(&mut self, column: usize, value: CellValue<'_>) -> bool {
        let at = self.row_start(self.ends.len()) + column;
        let cell = match value {
            CellValue::Null => Cell::Null,
            CellValue::Integer(integer) => Cell::Integer(integer),
            CellValue::Real(real) => Cell::Real(real),
            CellValue::Text(text) => {
                let end = u32::try_from(self.text.len() + text.len());
                let (Ok(start), Ok(_)) = (u32::try_from(self.text.len()), end) else {
                    return false;
                };
                self.text.push_str(text);
                Cell::Text { start, length: text.len() as u32 }
            }
        };
        if at >= self.cells.len() {
            self.cells.resize(at + 1, Cell::Null);
        }
        let is_new = self.cells[at] == Cell::Null;
        self.cells[at] = cell;
        is_new
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        self.ends.push(self.cells.len());
    }

    /// Removes the cells of the row that has not ended.
    pub(crate) fn drop_row(&mut self) {
        self.cells.truncate(self.row_start(self.ends.len()));
    }

    /// Returns a cell.
    pub(crate) fn get(&self, row: usize, column: usize) -> CellValue<'_> {
        let at = self.row_start(row) + column;
        if at >= self.ends[row] {
            return CellValue::Null;
        }
        match self.cells[at] {
            Cell::Null => CellValue::Null,
            Cell::Integer(integer) => CellValue::Integer(integer),
            Cell::Real(real) => CellValue::Real(real),
            Cell::Text { start, length } => {
                let start = start as usize;
                CellValue::Text(&self.text[start..start + length as usize])
            }
        }
    }

    /// Replaces a cell by null or a number; a row that ends before the column stays as it is.
    pub(crate) fn replace(&mut self, row: usize, column: usize, value: CellValue<'_>) {
        let at = self.row_start(row) + column;
        if at < self.ends[row] {
            self.cells[at] = match value {
                CellValue::Integer(integer) => Cell::Integer(integer),
                CellValue::Real(real) => Cell::Real(real),
                CellValue::Null | CellValue::Text(_) => Cell::Null,
            };
        }
    }

    fn row_start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}
