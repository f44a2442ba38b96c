//! Tables from CSV, JSON, NDJSON and spreadsheets.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    MAX_PROBLEMS,
    cells::{CellValue, Cells},
    json::{is_ndjson, without_mark},
};

/// Maximum number of columns; the engine allows 2,000.
const MAX_COLUMNS: usize = 1_000;
/// Maximum number of cells. Each takes 16 bytes beside its text, and some more in the engine.
const MAX_CELLS: usize = 8_000_000;
/// Longest text of all cells, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 30;
/// Numbers in a column after which a text among them is reported.
const MANY_NUMBERS: usize = 10;
/// Longest name of a column or table, in bytes. Names stand in notes and errors.
const MAX_NAME_BYTES: usize = 200;
/// Beginning of a cell that a note quotes, in characters.
const QUOTED_CHARACTERS: usize = 20;
/// Beginning of a name that a note quotes, in characters.
const QUOTED_NAME_CHARACTERS: usize = 60;

/// Rows with named columns.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Name of the table in statements. The first table is also `data`.
    pub name: String,
    /// Names of the columns, each once.
    pub columns: Vec<String>,
    /// Rows that could not be read, a sentence each; the first five.
    pub problems: Vec<String>,
    /// Number of rows that could not be read.
    pub skipped: u64,
    /// Facts about the values that a statement has to respect, a sentence each; at most five.
    pub notes: Vec<String>,
    pub(crate) cells: Cells,
}

/// Why data has no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are more columns than can be queried.
    #[error("the data has {0} columns, more than the {MAX_COLUMNS} that can be queried")]
    TooManyColumns(usize),
    /// There are more cells than can be queried.
    #[error("the data has more than the {MAX_CELLS} cells that can be queried")]
    TooManyCells,
    /// The data is too long.
    #[error("the data has more than the {MAX_TEXT_BYTES} bytes that can be queried")]
    TooLong,
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
    /// Reads CSV whose first line has the names of the columns; a first line of numbers is a row.
    /// Columns in which every value is a number become numbers; a value such as `007` is text. The
    /// missing cells of a short row are null.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no line, or if there are too many columns or cells.
    pub fn from_csv(text: &str, delimiter: u8) -> Result<Self, TableError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TableError::TooLong);
        }
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .from_reader(without_mark(text).as_bytes());
        let mut record = csv::StringRecord::new();
        // The text is UTF-8, and reading from memory does not fail.
        let mut next = |record: &mut csv::StringRecord| reader.read_record(record).unwrap_or(false);
        if !next(&mut record) {
            return Err(TableError::Empty);
        }
        let mut table = Self::headed(record.iter())?;
        let mut row = 0_u64;
        let mut short = 0_u64;
        while next(&mut record) {
            row += 1;
            let cells = record.len();
            if cells > table.columns.len() {
                let columns = table.columns.len();
                table.skip(format!("row {row} has {cells} cells, not {columns}"));
                continue;
            }
            short += u64::from(cells < table.columns.len());
            for (column, cell) in record.iter().enumerate() {
                table.cells.set(column, CellValue::Text(cell));
            }
            table.end_row()?;
        }
        if short > 0 {
            table.note(format!("{short} rows have fewer cells than the header; the rest is null"));
        }
        table.type_columns();
        Ok(table)
    }

    /// Reads rows of cells, each with its column from 0, as spreadsheets have them. The first row
    /// has the names of the columns, as in CSV.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no row, or if there are too many columns or cells.
    pub fn from_rows<'a, R>(
        name: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Self, TableError>
    where
        R: IntoIterator<Item = (usize, &'a str)>,
    {
        let mut rows = rows.into_iter();
        let mut header = Vec::new();
        for (column, cell) in rows.next().ok_or(TableError::Empty)? {
            // A far cell would make a long list of names.
            if column >= MAX_COLUMNS {
                return Err(TableError::TooManyColumns(column + 1));
            }
            header.resize(header.len().max(column + 1), "");
            header[column] = cell;
        }
        if header.is_empty() {
            return Err(TableError::Empty);
        }
        let name = short_name(&name.into()).into_owned();
        let mut table = Self { name, ..Self::headed(header.into_iter())? };
        for row in rows {
            for (column, cell) in row {
                if column >= MAX_COLUMNS {
                    return Err(TableError::TooManyColumns(column + 1));
                }
                while table.columns.len() <= column {
                    let name = unique(format!("column{}", table.columns.len() + 1), &table.columns);
                    table.columns.push(name);
                }
                table.cells.set(column, CellValue::Text(cell));
            }
            table.end_row()?;
        }
        table.type_columns();
        Ok(table)
    }

    /// Reads a JSON array, an object whose longest array has the rows, or NDJSON. Members of the
    /// rows are columns; nested values are JSON text, for the function `json_extract`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, has no rows, or too many columns or cells.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TableError::TooLong);
        }
        let text = without_mark(text);
        let mut rows = JsonRows::default();
        if is_ndjson(text) {
            for (index, line) in text.lines().enumerate() {
                if line.trim().is_empty() {
                    continue;
                }
                match serde_json::from_str(line) {
                    Ok(row) => rows.push(row, format_args!("line {}", index + 1))?,
                    Err(error) => {
                        rows.table.skip(format!("line {} is not JSON: {error}", index + 1));
                    }
                }
            }
            return rows.finish();
        }
        // Raw values are checked without recursion, so nesting does not matter.
        let whole: &RawValue = parsed(text)?;
        let array = match whole.get().as_bytes().first() {
            Some(b'[') => whole,
            Some(b'{') => {
                let members: Members<'_> = parsed(whole.get())?;
                let arrays = members.0.into_iter().map(|(_, value)| value);
                let arrays = arrays.filter(|value| value.get().starts_with('['));
                arrays.max_by_key(|array| array.get().len()).ok_or(TableError::NoRows)?
            }
            _ => return Err(TableError::NoRows),
        };
        let elements: Vec<&RawValue> = parsed(array.get())?;
        for (index, row) in elements.into_iter().enumerate() {
            rows.push(row, format_args!("row {}", index + 1))?;
        }
        rows.finish()
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.cells.rows()
    }

    /// Creates a table with the names of a header. A header of numbers is a row.
    fn headed<'a>(header: impl Iterator<Item = &'a str> + Clone) -> Result<Self, TableError> {
        let count = header.clone().count();
        if count > MAX_COLUMNS {
            return Err(TableError::TooManyColumns(count));
        }
        let mut table = Self { name: "data".to_owned(), ..Self::default() };
        let is_row = header.clone().all(|cell| number(cell.trim()).is_some());
        let mut columns: Vec<String> = Vec::with_capacity(count);
        let mut seen = HashSet::new();
        for (index, cell) in header.clone().enumerate() {
            let name = match cell.trim() {
                "" => format!("column{}", index + 1),
                _ if is_row => format!("column{}", index + 1),
                name => short_name(name).into_owned(),
            };
            let mut spelling = name.clone();
            let mut number = 1;
            while !seen.insert(spelling.to_lowercase()) {
                number += 1;
                spelling = format!("{name}_{number}");
            }
            columns.push(spelling);
        }
        table.columns = columns;
        if is_row && count > 0 {
            table.note("the first row has numbers, so the columns have no names".to_owned());
            for (column, cell) in header.enumerate() {
                table.cells.set(column, CellValue::Text(cell));
            }
            table.end_row()?;
        }
        Ok(table)
    }

    fn end_row(&mut self) -> Result<(), TableError> {
        self.cells.end_row();
        if self.cells.len() > MAX_CELLS {
            return Err(TableError::TooManyCells);
        }
        if self.cells.text_bytes() > MAX_TEXT_BYTES {
            return Err(TableError::TooLong);
        }
        Ok(())
    }

    fn skip(&mut self, problem: String) {
        self.skipped += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_PROBLEMS {
            self.notes.push(note);
        }
    }

    /// Makes numbers of the columns in which each value is one. Empty values become null there.
    fn type_columns(&mut self) {
        for column in 0..self.columns.len() {
            match self.first_text(column) {
                // A column without values stays as it is.
                (0, None) => {}
                (_, None) => {
                    for row in 0..self.cells.rows() {
                        if let CellValue::Text(text) = self.cells.get(row, column) {
                            let value = number(text.trim()).unwrap_or(CellValue::Null);
                            self.cells.replace(row, column, value);
                        }
                    }
                }
                (numbers, Some((row, text))) if numbers >= MANY_NUMBERS => {
                    let name = quoted(&self.columns[column]);
                    self.note(format!(
                        "column {name:?} is text, because row {} has {text:?}; compare CAST({name:?} AS REAL)",
                        row + 1
                    ));
                }
                _ => {}
            }
        }
    }

    /// Returns the first value of a column that is not a number, with its row, and the number of
    /// numbers before it.
    fn first_text(&self, column: usize) -> (usize, Option<(usize, String)>) {
        let mut numbers = 0;
        for row in 0..self.cells.rows() {
            let CellValue::Text(text) = self.cells.get(row, column) else { continue };
            match text.trim() {
                "" => {}
                text if number(text).is_some() => numbers += 1,
                text => {
                    let text = text.chars().take(QUOTED_CHARACTERS).collect();
                    return (numbers, Some((row, text)));
                }
            }
        }
        (numbers, None)
    }
}

/// Collects the rows of JSON.
#[derive(Default)]
struct JsonRows {
    table: Table,
    /// Columns by the names of their members in lower case.
    indices: HashMap<String, usize>,
}

impl JsonRows {
    /// Adds a row; `place` names it in problems.
    fn push(&mut self, row: &RawValue, place: fmt::Arguments<'_>) -> Result<(), TableError> {
        let added = if row.get().starts_with('{') {
            parsed(row.get()).and_then(|members: Members<'_>| {
                for (name, value) in members.0 {
                    self.set(&name, value, place)?;
                }
                Ok(())
            })
        } else {
            // The elements of a list of numbers or texts are the column `value`.
            self.set("value", row, place)
        };
        match added {
            Ok(()) => self.table.end_row(),
            Err(TableError::Json(error)) => {
                self.table.cells.drop_row();
                self.table.skip(format!("{place}: {error}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn set(
        &mut self,
        name: &str,
        value: &RawValue,
        place: fmt::Arguments<'_>,
    ) -> Result<(), TableError> {
        let full_length = name.len();
        let columns = &mut self.table.columns;
        let column = *self.indices.entry(name.to_lowercase()).or_insert_with(|| {
            let name = short_name(name);
            columns.push(if name.len() < full_length {
                unique(name.into_owned(), columns)
            } else {
                name.into_owned()
            });
            columns.len() - 1
        });
        if columns.len() > MAX_COLUMNS {
            return Err(TableError::TooManyColumns(columns.len()));
        }
        let text;
        let value = match value.get().as_bytes().first() {
            Some(b'"') => {
                text = parsed::<Cow<'_, str>>(value.get())?;
                CellValue::Text(&text)
            }
            Some(b'n') => CellValue::Null,
            Some(b't') => CellValue::Integer(1),
            Some(b'f') => CellValue::Integer(0),
            Some(b'[' | b'{') => CellValue::Text(value.get()),
            _ => number(value.get()).unwrap_or(CellValue::Text(value.get())),
        };
        if !self.table.cells.set(column, value) {
            let name = quoted(name);
            self.table.note(format!("{place} has the member {name:?} twice; the last one counts"));
        }
        Ok(())
    }

    fn finish(self) -> Result<Table, TableError> {
        if self.table.columns.is_empty() {
            return Err(TableError::Empty);
        }
        Ok(Table { name: "data".to_owned(), ..self.table })
    }
}

/// Returns the beginning of a name for a note.
fn quoted(name: &str) -> String {
    name.chars().take(QUOTED_NAME_CHARACTERS).collect()
}

/// The members of a JSON object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, TableError> {
    serde_json::from_str(json).map_err(|error| TableError::Json(error.to_string()))
}

/// Returns the number that a text is, if it is written as numbers are: no sign `+`, no leading
/// zero, no space. Identifiers such as `007` stay texts.
fn number(text: &str) -> Option<CellValue<'static>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if has_leading_zero || !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(CellValue::Integer(integer));
    }
    // More digits than a float has would be lost.
    let significant = digits.bytes().filter(u8::is_ascii_digit).count();
    let real = text.parse::<f64>().ok().filter(|real| real.is_finite() && significant <= 17)?;
    Some(CellValue::Real(real))
}

/// Returns the beginning of a long name.
fn short_name(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME_BYTES {
        return name.into();
    }
    format!("{}…", &name[..name.floor_char_boundary(MAX_NAME_BYTES)]).into()
}

/// Returns a name that no column has, regardless of case.
fn unique(name: String, columns: &[String]) -> String {
    let mut spelling = name.clone();
    let mut number = 1;
    while columns.iter().any(|column| column.eq_ignore_ascii_case(&spelling)) {
        number += 1;
        spelling = format!("{name}_{number}");
    }
    spelling
}

#[cfg(test)]
mod tests {
    use CellValue::{Integer, Null, Real, Text};
    use proptest::prelude::*;

    use super::*;

    fn rows(table: &Table) -> Vec<Vec<CellValue<'_>>> {
        let columns = table.columns.len();
        let row = |row| (0..columns).map(|column| table.cells.get(row, column)).collect();
        (0..table.row_count()).map(row).collect()
    }

    #[test]
    fn columns_of_numbers_are_numbers() {
        let table = Table::from_csv("id,zip,n\n1,007,2.5\n2,123,\n", b',').unwrap();
        assert_eq!(table.columns, ["id", "zip", "n"]);
        assert_eq!(
            rows(&table),
            [[Integer(1), Text("007"), Real(2.5)], [Integer(2), Text("123"), Null]]
        );
    }

    #[test]
    fn a_column_that_a_later_row_breaks_is_text_and_says_so() {
        let numbers: String = (0..2_000).map(|n| format!("{n}\n")).collect();
        let table = Table::from_csv(&format!("n\n{numbers}n/a\n7\n"), b',').unwrap();
        assert_eq!(table.cells.get(0, 0), Text("0"));
        assert_eq!(
            table.notes,
            [r#"column "n" is text, because row 2001 has "n/a"; compare CAST("n" AS REAL)"#]
        );
    }

    #[test]
    fn rows_of_another_length_are_reported() {
        let table = Table::from_csv("a;b\n1;2\n3\n4;5;6\n", b';').unwrap();
        assert_eq!(rows(&table), [[Integer(1), Integer(2)], [Integer(3), Null]]);
        assert_eq!((table.skipped, table.problems), (1, vec!["row 3 has 3 cells, not 2".into()]));
        assert_eq!(table.notes, ["1 rows have fewer cells than the header; the rest is null"]);
    }

    #[test]
    fn names_of_columns_are_unique() {
        let table = Table::from_csv("a,A,,a,column3\n1,2,3,4,5\n", b',').unwrap();
        assert_eq!(table.columns, ["a", "A_2", "column3", "a_3", "column3_2"]);
        let table = Table::from_csv("1,2\n3,4\n", b',').unwrap();
        assert_eq!((table.columns.len(), table.row_count(), table.notes.len()), (2, 2, 1));
    }

    #[test]
    fn long_names_are_cut() {
        let long = "ä".repeat(1_000_000);
        let cut = "ä".repeat(100) + "…";
        let second = cut.clone() + "_2";
        let table = Table::from_csv(&format!("{long},{long}x\n1,2\n"), b',').unwrap();
        assert_eq!(table.columns, [&*cut, &*second]);
        let json = format!(r#"[{{"{long}": 1, "{long}x": 2}}, {{"{long}x": 3, "{long}x": 4}}]"#);
        let table = Table::from_json(&json).unwrap();
        assert_eq!(table.columns, [&*cut, &*second]);
        assert_eq!(rows(&table), [[Integer(1), Integer(2)], [Null, Integer(4)]]);
        assert!(table.notes[0].len() < 500, "{:?}", table.notes);
        assert_eq!(Table::from_rows(&*long, [[(0, "a")]]).unwrap().name, cut);
    }

    #[test]
    fn rows_of_spreadsheets_may_have_gaps() {
        let sheet = [vec![(0, "id"), (2, "n")], vec![(0, "1")], vec![(2, "5"), (4, "x")]];
        let table = Table::from_rows("Sheet 1", sheet).unwrap();
        assert_eq!(table.columns, ["id", "column2", "n", "column4", "column5"]);
        assert_eq!(rows(&table)[1], [Null, Null, Integer(5), Null, Text("x")]);
        let far = [vec![(9_999, "x")]];
        assert_eq!(Table::from_rows("a", far), Err(TableError::TooManyColumns(10_000)));
    }

    #[test]
    fn json_rows_may_be_nested_and_have_different_members() {
        let text = r#"{"total": 2, "users": [{"id": 1, "tags": ["x"]}, {"name": "Ann", "ID": 2}]}"#;
        let table = Table::from_json(text).unwrap();
        assert_eq!(table.columns, ["id", "tags", "name"]);
        let want = [[Integer(1), Text(r#"["x"]"#), Null], [Integer(2), Null, Text("Ann")]];
        assert_eq!(rows(&table), want);
        assert_eq!(Table::from_json("[1, 2]").unwrap().columns, ["value"]);
        let table = Table::from_json(r#"[{"a": 1, "A": 2}, [true], "\u00e4"]"#).unwrap();
        assert_eq!(table.notes, [r#"row 1 has the member "A" twice; the last one counts"#]);
        assert_eq!(rows(&table)[1..], [[Null, Text("[true]")], [Null, Text("ä")]]);
    }

    #[test]
    fn nesting_is_no_problem() {
        let deep = "[".repeat(20_000) + &"]".repeat(20_000);
        let table = Table::from_json(&format!("[{{\"a\":{deep}}}]")).unwrap();
        assert_eq!(rows(&table), [[Text(&deep)]]);
        assert!(Table::from_json(&"[".repeat(20_000)).is_err());
    }

    #[test]
    fn a_broken_line_of_ndjson_is_reported() {
        let table = Table::from_json("{\"a\":1}\n\n{\"a\":\n{\"a\":3}\n").unwrap();
        assert_eq!((table.row_count(), table.skipped), (2, 1));
        assert!(table.problems[0].starts_with("line 3 is not JSON"), "{:?}", table.problems);
        let table = Table::from_json("{\"a\":1}\n{\"a\":\"\\ud800\"}\n").unwrap();
        assert_eq!((table.row_count(), table.skipped), (1, 1));
        assert!(table.problems[0].starts_with("line 2: "), "{:?}", table.problems);
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
        let wide: Vec<_> = (0..2_000).map(|n| format!("\"a{n}\":1")).collect();
        check(
            Table::from_json(&format!("[{{{}}}]", wide.join(","))),
            "the data has 1001 columns, more than the 1000 that can be queried",
        );
        let many = "a,b\n".to_owned() + &"1,2\n".repeat(4_000_001);
        check(
            Table::from_csv(&many, b','),
            "the data has more than the 8000000 cells that can be queried",
        );
        check(Table::from_json("[]"), "the data is empty");
        let no_rows = "the JSON has no rows: it is neither an array nor an object with an array";
        check(Table::from_json("7"), no_rows);
        check(Table::from_json("{}"), no_rows);
        assert!(Table::from_json("{oops").unwrap_err().to_string().starts_with("the text is not"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text in "[a-c0-9,;\"\n{}:\\[\\]]{0,200}") {
            let tables = [Table::from_csv(&text, b','), Table::from_json(&text)];
            for table in tables.into_iter().flatten() {
                let names: HashSet<_> = table.columns.iter().map(|it| it.to_lowercase()).collect();
                prop_assert_eq!(names.len(), table.columns.len());
                prop_assert_eq!(rows(&table).len(), table.row_count());
            }
        }
    }
}
