//! Tables from CSV, JSON and NDJSON.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Maximum number of columns; the engine allows 2,000.
const MAX_COLUMNS: usize = 1_000;
/// Problems that are listed; further ones are counted.
const MAX_PROBLEMS: usize = 5;

/// Rows with named columns.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Names of the columns, each once.
    pub columns: Vec<String>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Rows that could not be read, a sentence each.
    pub problems: Vec<String>,
    /// Number of rows that could not be read.
    pub skipped: u64,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

/// Why data has no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are more columns than can be queried.
    #[error("the data has {0} columns, more than the {MAX_COLUMNS} that can be queried")]
    TooManyColumns(usize),
    /// The JSON is neither an array nor an object with one.
    #[error("the JSON has no rows: it is neither an array nor an object with an array")]
    NoRows,
    /// The text is not JSON.
    #[error("the text is not JSON: {0}")]
    Json(String),
    /// There is neither a row nor a column.
    #[error("the data is empty")]
    Empty,
}

impl Table {
    /// Reads CSV whose first line has the names of the columns. Columns in which every value is a
    /// number become numbers; a value such as `007` is text.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no line, or if there are too many columns.
    pub fn from_csv(text: &str, delimiter: u8) -> Result<Self, TableError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(|_| TableError::Empty)?.clone();
        if header.is_empty() {
            return Err(TableError::Empty);
        }
        let mut table = Self { columns: names(&header)?, ..Self::default() };
        let count = table.columns.len();
        for (index, record) in reader.records().enumerate() {
            match record {
                Ok(record) if record.len() == count => {
                    table.rows.push(record.iter().map(|it| Cell::Text(it.to_owned())).collect());
                }
                Ok(record) => {
                    let cells = record.len();
                    table.skip(format!("row {} has {cells} cells, not {count}", index + 1));
                }
                Err(error) => table.skip(format!("row {}: {error}", index + 1)),
            }
        }
        for column in 0..count {
            table.type_column(column);
        }
        Ok(table)
    }

    /// Reads a JSON array, an object whose longest array has the rows, or NDJSON. Members of the
    /// rows are columns; nested values are JSON text, for the function `json_extract`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, has no rows, or too many columns.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Self::from_value(value),
            Err(error) => Self::from_ndjson(text).ok_or(TableError::Json(error.to_string()))?,
        }
    }

    fn from_value(value: Value) -> Result<Self, TableError> {
        let rows = match value {
            Value::Array(rows) => rows,
            Value::Object(members) => {
                let arrays = members.into_iter().filter_map(|(_, value)| match value {
                    Value::Array(rows) => Some(rows),
                    _ => None,
                });
                arrays.max_by_key(Vec::len).ok_or(TableError::NoRows)?
            }
            _ => return Err(TableError::NoRows),
        };
        Self::from_rows(rows.into_iter())
    }

    /// Reads a value from each line; none if not even the first line is JSON.
    fn from_ndjson(text: &str) -> Option<Result<Self, TableError>> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
        serde_json::from_str::<Value>(lines.peek()?).ok()?;
        let mut broken = Self::default();
        let mut rows = Vec::new();
        for (index, line) in lines.enumerate() {
            match serde_json::from_str(line) {
                Ok(row) => rows.push(row),
                Err(error) => broken.skip(format!("line {} is not JSON: {error}", index + 1)),
            }
        }
        Some(Self::from_rows(rows.into_iter()).map(|table| Self {
            problems: broken.problems,
            skipped: broken.skipped,
            ..table
        }))
    }

    fn from_rows(rows: impl Iterator<Item = Value>) -> Result<Self, TableError> {
        let mut table = Self::default();
        let mut indices = HashMap::new();
        for row in rows {
            let members = match row {
                Value::Object(members) => members,
                // The elements of a list of numbers or texts are the column `value`.
                value => Map::from_iter([("value".to_owned(), value)]),
            };
            let mut cells = vec![Cell::Null; table.columns.len()];
            for (name, value) in members {
                let index = *indices.entry(name.to_lowercase()).or_insert_with(|| {
                    table.columns.push(name);
                    table.columns.len() - 1
                });
                if cells.len() <= index {
                    cells.resize(index + 1, Cell::Null);
                }
                cells[index] = Cell::of(value);
            }
            if table.columns.len() > MAX_COLUMNS {
                return Err(TableError::TooManyColumns(table.columns.len()));
            }
            table.rows.push(cells);
        }
        if table.columns.is_empty() {
            return Err(TableError::Empty);
        }
        for row in &mut table.rows {
            row.resize(table.columns.len(), Cell::Null);
        }
        Ok(table)
    }

    fn skip(&mut self, problem: String) {
        self.skipped += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Makes numbers of a column if each of its values is one. Empty values become null then.
    fn type_column(&mut self, column: usize) {
        let mut has_number = false;
        let mut cells = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let Cell::Text(text) = &row[column] else { return };
            let number = match text.as_str() {
                "" => Some(Cell::Null),
                text => number(text),
            };
            let Some(number) = number else { return };
            has_number |= number != Cell::Null;
            cells.push(number);
        }
        if has_number {
            for (row, cell) in self.rows.iter_mut().zip(cells) {
                row[column] = cell;
            }
        }
    }
}

impl Cell {
    fn of(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is_true) => Self::Integer(i64::from(is_true)),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Self::Integer(integer),
                (None, Some(real)) => Self::Real(real),
                (None, None) => Self::Text(number.to_string()),
            },
            Value::String(text) => Self::Text(text),
            nested => Self::Text(nested.to_string()),
        }
    }
}

/// Returns the number that a text is, if it is written as numbers are: no sign `+`, no leading
/// zero, no space. Identifiers such as `007` stay texts.
fn number(text: &str) -> Option<Cell> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if has_leading_zero || !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(Cell::Integer(integer));
    }
    // More digits than a float has would be lost.
    let significant = digits.bytes().filter(u8::is_ascii_digit).count();
    let real = text.parse::<f64>().ok().filter(|real| real.is_finite() && significant <= 17)?;
    Some(Cell::Real(real))
}

/// Returns names for columns: those of the header, made unique without regard to case.
fn names(header: &csv::StringRecord) -> Result<Vec<String>, TableError> {
    if header.len() > MAX_COLUMNS {
        return Err(TableError::TooManyColumns(header.len()));
    }
    let mut seen = std::collections::HashSet::new();
    let named = header.iter().enumerate().map(|(index, name)| {
        let name = match name.trim() {
            "" => format!("column{}", index + 1),
            name => name.to_owned(),
        };
        let mut unique = name.clone();
        let mut count = 1;
        while !seen.insert(unique.to_lowercase()) {
            count += 1;
            unique = format!("{name}_{count}");
        }
        unique
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_of_numbers_are_numbers() {
        let table = Table::from_csv("id,zip,n\n1,007,2.5\n2,123,\n", b',').unwrap();
        assert_eq!(table.columns, ["id", "zip", "n"]);
        assert_eq!(
            table.rows,
            [
                [Cell::Integer(1), Cell::Text("007".into()), Cell::Real(2.5)],
                [Cell::Integer(2), Cell::Text("123".into()), Cell::Null],
            ]
        );
    }

    #[test]
    fn rows_of_another_length_are_reported() {
        let table = Table::from_csv("a;b\n1;2\n3\n", b';').unwrap();
        assert_eq!((table.rows.len(), table.skipped), (1, 1));
        assert_eq!(table.problems, ["row 2 has 1 cells, not 2"]);
    }

    #[test]
    fn names_of_columns_are_unique() {
        let table = Table::from_csv("a,A,,a\n1,2,3,4\n", b',').unwrap();
        assert_eq!(table.columns, ["a", "A_2", "column3", "a_3"]);
    }

    #[test]
    fn json_rows_may_be_nested_and_have_different_members() {
        let text = r#"{"total": 2, "users": [{"id": 1, "tags": ["x"]}, {"name": "Ann", "ID": 2}]}"#;
        let table = Table::from_json(text).unwrap();
        assert_eq!(table.columns, ["id", "tags", "name"]);
        assert_eq!(table.rows[1], [Cell::Integer(2), Cell::Null, Cell::Text("Ann".to_owned())]);
        assert_eq!(table.rows[0][1], Cell::Text(r#"["x"]"#.to_owned()));
        assert_eq!(Table::from_json("[1, 2]").unwrap().columns, ["value"]);
    }

    #[test]
    fn a_broken_line_of_ndjson_is_reported() {
        let table = Table::from_json("{\"a\":1}\n{\"a\":\n{\"a\":3}\n").unwrap();
        assert_eq!((table.rows.len(), table.skipped), (2, 1));
        assert!(table.problems[0].starts_with("line 2 is not JSON"), "{:?}", table.problems);
    }

    #[test]
    fn errors_say_why() {
        #[track_caller]
        fn check(table: Result<Table, TableError>, want: &str) {
            assert_eq!(table.unwrap_err().to_string(), want);
        }
        check(Table::from_csv("", b','), "the data is empty");
        let wide = vec!["a"; 100_000].join(",");
        check(
            Table::from_csv(&wide, b','),
            "the data has 100000 columns, more than the 1000 that can be queried",
        );
        check(Table::from_json("[]"), "the data is empty");
        let no_rows = "the JSON has no rows: it is neither an array nor an object with an array";
        check(Table::from_json("7"), no_rows);
        assert!(Table::from_json("{oops").unwrap_err().to_string().starts_with("the text is not"));
        let deep = "[".repeat(20_000);
        assert!(Table::from_json(&deep).is_err());
    }

    proptest! {
        #[test]
        fn every_row_has_a_cell_for_each_column(text in "[a-c0-9,;\"\n{}:\\[\\]]{0,200}") {
            let tables = [Table::from_csv(&text, b','), Table::from_json(&text)];
            for table in tables.into_iter().flatten() {
                prop_assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            }
        }
    }
}
