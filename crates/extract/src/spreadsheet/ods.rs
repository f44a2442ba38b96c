//! ODS: spreadsheets of LibreOffice and others.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};

use super::{
    super::{
        ExtractError, Extracted, Extractor, Source,
        gather::end_line,
        objects::{Objects, folder, objects},
        package::{self, Package, attribute, each_event, properties, resolved},
    },
    sheets::{MAX_COLUMNS, Sheets},
};

/// Reads OpenDocument spreadsheets.
pub(crate) struct Ods;

const MEDIA_TYPE: &str = "application/vnd.oasis.opendocument.spreadsheet";
const TEMPLATE: &str = "application/vnd.oasis.opendocument.spreadsheet-template";

/// Name of the format in errors.
const FORMAT: &str = "ODS";

/// Maximum rows of a sheet.
const MAX_ROWS: usize = 1_048_576;

impl Extractor for Ods {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, TEMPLATE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("ods", MEDIA_TYPE), ("ots", TEMPLATE)]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        // The first part of the archive is the media type, without compression.
        let start = &bytes[..bytes.len().min(200)];
        let is_one = bytes.starts_with(b"PK\x03\x04")
            && package::names(start, b"application/vnd.oasis.opendocument.spreadsheet");
        is_one.then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut sheets = Sheets::new(*source);
        let mut package = read(source, &mut sheets)?;
        let mut extracted = sheets.finish();
        const META: &str = "meta.xml";
        properties(FORMAT, META, &package.optional(META)?, &mut extracted)?;
        Ok(extracted)
    }
}

/// Reads the cells of the visible sheets of a workbook.
pub(super) fn read<'a>(
    source: &Source<'a>,
    sheets: &mut Sheets<'_>,
) -> Result<Package<'a>, ExtractError> {
    let mut package = Package::open(FORMAT, source)?;
    package.check_open_document()?;
    let content = package.required("content.xml")?;
    let objects = if sheets.has_values() { Objects::new() } else { objects(&mut package, source)? };
    let mut cells = Cells {
        sheets,
        objects: &objects,
        beside: Beside::default(),
        hidden_styles: HashSet::new(),
        style: String::new(),
        tables: 0,
        is_hidden: false,
        row: Row::default(),
        column: 0,
        cell: None,
        paragraphs: 0,
        left_out: 0,
    };
    cells.read(&content)?;
    Ok(package)
}

/// Reads the cells of all sheets.
struct Cells<'s, 'l> {
    sheets: &'s mut Sheets<'l>,
    objects: &'s Objects,
    beside: Beside,
    /// The styles of hidden sheets, and the style that is being read.
    hidden_styles: HashSet<String>,
    style: String,
    /// Number of open tables; a cell may contain a table.
    tables: usize,
    is_hidden: bool,
    row: Row,
    /// The next column of the row, or of the descriptions of columns.
    column: usize,
    cell: Option<Cell>,
    /// Number of open paragraphs; a comment in a paragraph may contain another one.
    paragraphs: usize,
    /// Number of open elements whose text is not part of the cell.
    left_out: usize,
}

/// The open comment or drawing.
#[derive(Default)]
struct Beside {
    /// Number of open elements since it began.
    depth: usize,
    text: String,
    /// Whether the open text is that of a paragraph or of a description.
    in_text: bool,
}

#[derive(Default)]
struct Row {
    is_hidden: bool,
    repeated: usize,
}

struct Cell {
    repeated: usize,
    /// Displayed text; for a cell without a paragraph, its value.
    text: String,
    value: String,
    /// Value of a number, a time or a truth value, whatever is displayed.
    typed: Option<String>,
}

impl Cells<'_, '_> {
    fn read(&mut self, xml: &[u8]) -> Result<(), ExtractError> {
        each_event(FORMAT, "content.xml", xml, |event| {
            match event {
                Event::Start(element) => self.start(&element)?,
                Event::Empty(element) => {
                    self.start(&element)?;
                    self.end(element.local_name().as_ref())?;
                }
                Event::End(element) => self.end(element.local_name().as_ref())?,
                Event::Text(text) => self.push(&text)?,
                Event::CData(text) => self.push(&text)?,
                Event::GeneralRef(reference) => {
                    self.push(&resolved(&reference).unwrap_or_default())?;
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), ExtractError> {
        let name = element.local_name();
        let name = name.as_ref();
        if is_left_out(name) {
            self.left_out += 1;
        }
        if self.left_out > 0 {
            return Ok(());
        }
        if self.beside.depth > 0 || is_beside(name) {
            self.start_beside(name, element);
            return Ok(());
        }
        match name {
            "style" => self.style = attribute(element, "name").unwrap_or_default(),
            "table-properties"
                if attribute(element, "display").is_some_and(|display| display == "false") =>
            {
                self.hidden_styles.insert(self.style.clone());
            }
            "table" => {
                self.tables += 1;
                if self.tables == 1 {
                    let style = attribute(element, "style-name").unwrap_or_default();
                    self.is_hidden = self.hidden_styles.contains(&style);
                    if self.is_hidden {
                        self.sheets.count_hidden();
                    }
                    self.sheets.start(&attribute(element, "name").unwrap_or_default());
                    self.column = 0;
                }
            }
            // The text of a table in a cell belongs to that cell.
            _ if self.tables != 1 => self.mark(name),
            "table-column" => {
                let first = self.column;
                self.column += repeated(element, "number-columns-repeated", MAX_COLUMNS);
                self.column = self.column.min(MAX_COLUMNS);
                if is_collapsed(element) && self.column > first {
                    self.sheets.hide_columns(first, self.column - 1);
                }
            }
            "table-row" => {
                self.column = 0;
                self.row = Row {
                    is_hidden: is_collapsed(element),
                    repeated: repeated(element, "number-rows-repeated", MAX_ROWS),
                };
            }
            "table-cell" | "covered-table-cell" => {
                let text = attribute(element, "string-value");
                let values = ["date-value", "time-value", "boolean-value", "value"];
                let typed = values.iter().find_map(|name| attribute(element, name));
                self.cell = Some(Cell {
                    repeated: repeated(element, "number-columns-repeated", MAX_COLUMNS),
                    text: String::new(),
                    value: text.or_else(|| typed.clone()).unwrap_or_default(),
                    typed: typed.filter(|_| self.sheets.has_values() && is_typed(element)),
                });
                self.paragraphs = 0;
            }
            _ => self.mark(name),
        }
        Ok(())
    }

    /// Handles elements that represent white space in a cell, or mark displayed text.
    fn mark(&mut self, name: &str) {
        let Some(cell) = &mut self.cell else { return };
        match name {
            "p" | "h" => {
                self.paragraphs += 1;
                cell.value.clear();
                cell.text.push(' ');
            }
            // One space, however many the element represents.
            "s" | "tab" | "line-break" => cell.text.push(' '),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) -> Result<(), ExtractError> {
        if is_left_out(name) {
            self.left_out = self.left_out.saturating_sub(1);
            return Ok(());
        }
        if self.left_out > 0 {
            return Ok(());
        }
        if self.beside.depth > 0 {
            return self.end_beside(name);
        }
        match name {
            "table" => self.tables = self.tables.saturating_sub(1),
            "p" | "h" => self.paragraphs = self.paragraphs.saturating_sub(1),
            "covered-table-cell" if self.tables == 1 => {
                // The cell is covered by a merged one.
                if let Some(cell) = self.cell.take() {
                    self.column = (self.column + cell.repeated).min(MAX_COLUMNS);
                }
            }
            "table-cell" if self.tables == 1 => {
                let Some(cell) = self.cell.take() else { return Ok(()) };
                let first = self.column;
                self.column = (self.column + cell.repeated).min(MAX_COLUMNS);
                let displayed = if cell.value.is_empty() { &cell.text } else { &cell.value };
                let text = cell.typed.as_ref().unwrap_or(displayed);
                if !self.is_hidden && !text.trim().is_empty() {
                    for column in first..self.column {
                        self.sheets.cell(column, text)?;
                    }
                }
            }
            "table-row" if self.tables == 1 => {
                self.sheets.end_row(self.row.is_hidden, self.row.repeated)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn start_beside(&mut self, name: &str, element: &BytesStart<'_>) {
        if self.beside.depth == 0 && name == "annotation" {
            self.beside.text.push_str("Comment: ");
        }
        self.beside.depth += 1;
        match name {
            "p" | "h" | "title" | "desc" => self.beside.in_text = true,
            "s" | "tab" | "line-break" => self.beside.text.push(' '),
            "object" => {
                let object = attribute(element, "href").map(|it| folder(&it));
                if let Some(text) = object.and_then(|object| self.objects.get(&object)) {
                    self.beside.text.push_str(text);
                    end_line(&mut self.beside.text);
                }
            }
            _ => {}
        }
    }

    fn end_beside(&mut self, name: &str) -> Result<(), ExtractError> {
        self.beside.depth -= 1;
        if matches!(name, "p" | "h" | "title" | "desc") {
            self.beside.in_text = false;
            end_line(&mut self.beside.text);
        }
        if self.beside.depth == 0 {
            let Beside { text, .. } = std::mem::take(&mut self.beside);
            if !self.is_hidden {
                self.sheets.add_beside(&text)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), ExtractError> {
        if self.beside.depth > 0 {
            if self.beside.in_text && self.left_out == 0 {
                self.sheets.check(self.beside.text.len() + text.len())?;
                self.beside.text.push_str(text);
            }
            return Ok(());
        }
        if let Some(cell) = &mut self.cell
            && self.left_out == 0
            && self.paragraphs > 0
        {
            self.sheets.check(cell.text.len() + text.len())?;
            cell.text.push_str(text);
        }
        Ok(())
    }
}

/// Returns whether an element stands beside the cells: a comment, or a drawing.
fn is_beside(name: &str) -> bool {
    matches!(name, "annotation" | "shapes" | "frame" | "custom-shape" | "rect" | "ellipse" | "line")
}

/// Returns whether an element is left out: phonetic readings of East Asian text, tracked changes,
/// and the authors and dates of comments.
fn is_left_out(name: &str) -> bool {
    matches!(
        name,
        "ruby-text" | "tracked-changes" | "creator" | "date" | "creator-initials" | "binary-data"
    )
}

/// Returns whether a row or column is hidden, by itself or by a filter.
fn is_collapsed(element: &BytesStart<'_>) -> bool {
    attribute(element, "visibility").is_some_and(|it| matches!(&*it, "collapse" | "filter"))
}

/// Returns whether the value of a cell is another than its text.
fn is_typed(element: &BytesStart<'_>) -> bool {
    attribute(element, "value-type").is_some_and(|kind| kind != "string")
}

fn repeated(element: &BytesStart<'_>, name: &str, max: usize) -> usize {
    let number = attribute(element, name).and_then(|number| number.parse().ok());
    number.unwrap_or(1_usize).clamp(1, max)
}
