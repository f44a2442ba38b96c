//! XLSX: workbooks of Excel.

use std::{borrow::Cow, collections::HashMap};

use marquetry_office_values::NumberFormat;
use quick_xml::events::{BytesStart, Event};

use super::{
    super::{
        ExtractError, Extracted, Extractor, Source,
        package::{self, Package, Relationships, attribute, each_event, properties, resolved},
    },
    beside,
    sheets::Sheets,
};

// `calamine` 0.38 would add eight crates, and does not report hidden rows and columns
// (tafia/calamine#237, closed as not planned). A search must not find text that Excel hides.
/// Reads workbooks of Excel.
pub(crate) struct Xlsx;

const MEDIA_TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const MACROS: &str = "application/vnd.ms-excel.sheet.macroenabled.12";
const TEMPLATE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.template";
const MACRO_TEMPLATE: &str = "application/vnd.ms-excel.template.macroenabled.12";

/// Name of the format in errors.
const FORMAT: &str = "XLSX";

impl Extractor for Xlsx {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, MACROS, TEMPLATE, MACRO_TEMPLATE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("xlsx", MEDIA_TYPE), ("xlsm", MACROS), ("xltx", TEMPLATE), ("xltm", MACRO_TEMPLATE)]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        let is_workbook = package::is_office_open_xml(bytes, "xl");
        (is_workbook || package::is_encrypted(bytes)).then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut sheets = Sheets::new(*source);
        let mut package = read(source, &mut sheets)?;
        let mut extracted = sheets.finish();
        const CORE: &str = "docProps/core.xml";
        properties(FORMAT, CORE, &package.optional(CORE)?, &mut extracted)?;
        Ok(extracted)
    }
}

/// Reads the cells of the visible sheets of a workbook.
pub(super) fn read<'a>(
    source: &Source<'a>,
    sheets: &mut Sheets<'_>,
) -> Result<Package<'a>, ExtractError> {
    if package::is_encrypted(source.bytes) {
        return Err(ExtractError::Encrypted);
    }
    let mut package = Package::open(FORMAT, source)?;
    let main = package.main_part("xl/workbook.xml")?;
    let workbook = Workbook::read(&mut package, &main)?;
    let related = package.relationships(&main)?;
    let strings = part_of_kind(&related, "sharedStrings", "xl/sharedStrings.xml");
    let styles = part_of_kind(&related, "styles", "xl/styles.xml");
    let values = Values {
        strings: Strings::read(&mut package, strings)?,
        formats: read_formats(&package.optional(styles)?)?,
        since_1904: workbook.since_1904,
    };

    for sheet in &workbook.sheets {
        // Dialogs and macros are also sheets.
        let found = related.by_id(&sheet.relation);
        let found = found.filter(|it| matches!(it.kind.as_str(), "worksheet" | "chartsheet"));
        let Some(part) = found.map(|relationship| relationship.target.as_str()) else { continue };
        if sheet.is_hidden {
            sheets.count_hidden();
            continue;
        }
        sheets.start(&sheet.name);
        let cells = Cells {
            values: &values,
            sheets,
            row_is_hidden: false,
            next_column: 0,
            cell: Cell::default(),
            reads: Reads::Nothing,
            phonetic: 0,
        };
        cells.read(part, &package.optional(part)?)?;
        if !sheets.has_values() {
            beside::read(&mut package, part, source, sheets)?;
        }
    }
    Ok(package)
}

/// Returns the part of a kind that the workbook names, or else the one with the usual name.
fn part_of_kind<'a>(related: &'a Relationships, kind: &str, usual: &'a str) -> &'a str {
    related.of_kind(kind).next().map_or(usual, |relationship| &relationship.target)
}

/// The sheets of a workbook.
#[derive(Default)]
struct Workbook {
    sheets: Vec<Sheet>,
    since_1904: bool,
}

struct Sheet {
    name: String,
    relation: String,
    is_hidden: bool,
}

impl Workbook {
    /// Reads the list of sheets. Each entry counts as unpacked bytes, since a [`Sheet`] takes more
    /// memory than its XML element.
    fn read(package: &mut Package<'_>, part: &str) -> Result<Self, ExtractError> {
        let xml = package.required(part)?;
        let mut workbook = Self::default();
        each_event(FORMAT, part, &xml, |event| {
            let (Event::Start(element) | Event::Empty(element)) = event else { return Ok(()) };
            match element.local_name().as_ref() {
                "workbookPr" => workbook.since_1904 = is_set(&element, "date1904"),
                "sheet" => {
                    package.count(size_of::<Sheet>())?;
                    workbook.sheets.push(Sheet {
                        name: attribute(&element, "name").unwrap_or_default(),
                        relation: attribute(&element, "id").unwrap_or_default(),
                        is_hidden: attribute(&element, "state")
                            .is_some_and(|state| state != "visible"),
                    });
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(workbook)
    }
}

/// The shared texts, to which cells refer by number.
#[derive(Default)]
struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// Reads the texts. They and their ends count as unpacked bytes, and not as text of the
    /// document, because perhaps only hidden sheets refer to them, or no sheet.
    fn read(package: &mut Package<'_>, part: &str) -> Result<Self, ExtractError> {
        let xml = package.optional(part)?;
        let mut strings = Self::default();
        let mut in_text = false;
        let mut phonetic = 0_usize;
        let mut item = String::new();
        each_event(FORMAT, "shared strings", &xml, |event| {
            match event {
                Event::Start(element) => match element.local_name().as_ref() {
                    "t" => in_text = phonetic == 0,
                    "rPh" => phonetic += 1,
                    _ => {}
                },
                Event::End(element) => match element.local_name().as_ref() {
                    "t" => in_text = false,
                    "rPh" => phonetic = phonetic.saturating_sub(1),
                    "si" => {
                        package.count(size_of::<usize>())?;
                        strings.text.push_str(&unescaped(&item));
                        strings.ends.push(strings.text.len());
                        item.clear();
                    }
                    _ => {}
                },
                Event::Empty(element) if element.local_name().as_ref() == "si" => {
                    package.count(size_of::<usize>())?;
                    strings.ends.push(strings.text.len());
                }
                Event::Text(text) if in_text => push_counted(package, &mut item, &text)?,
                Event::CData(text) if in_text => push_counted(package, &mut item, &text)?,
                Event::GeneralRef(reference) if in_text => {
                    push_counted(package, &mut item, &resolved(&reference).unwrap_or_default())?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(strings)
    }

    fn get(&self, number: usize) -> Option<&str> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }
}

/// Adds a text whose bytes count as unpacked.
fn push_counted(
    package: &mut Package<'_>,
    item: &mut String,
    text: &str,
) -> Result<(), ExtractError> {
    package.count(text.len())?;
    item.push_str(text);
    Ok(())
}

/// Returns the number format of each cell style (`cellXfs`), by index.
fn read_formats(styles: &[u8]) -> Result<Vec<NumberFormat>, ExtractError> {
    let mut codes: HashMap<u32, NumberFormat> = HashMap::new();
    let mut formats = Vec::new();
    let mut in_cell_formats = false;
    each_event(FORMAT, "styles", styles, |event| {
        match event {
            Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                "cellXfs" => in_cell_formats = true,
                "numFmt" => {
                    let code = attribute(&element, "formatCode").unwrap_or_default();
                    codes.extend(format_id(&element).map(|id| (id, NumberFormat::of_code(&code))));
                }
                "xf" if in_cell_formats => {
                    let id = format_id(&element).unwrap_or_default();
                    formats.push(
                        codes.get(&id).copied().unwrap_or_else(|| NumberFormat::built_in(id)),
                    );
                }
                _ => {}
            },
            Event::End(element) if element.local_name().as_ref() == "cellXfs" => {
                in_cell_formats = false;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(formats)
}

fn format_id(element: &BytesStart<'_>) -> Option<u32> {
    attribute(element, "numFmtId")?.parse().ok()
}

/// The tables that determine the displayed text of a value.
struct Values {
    strings: Strings,
    formats: Vec<NumberFormat>,
    since_1904: bool,
}

impl Values {
    /// Returns the displayed text of a cell, or the number of a percentage if values are wanted.
    fn text<'t>(&'t self, cell: &'t Cell, has_values: bool) -> Cow<'t, str> {
        let format = match self.formats.get(cell.format).copied() {
            Some(NumberFormat::Percent) if has_values => NumberFormat::Number,
            format => format.unwrap_or(NumberFormat::Number),
        };
        let value = cell.value.as_str();
        match &*cell.kind {
            _ if format == NumberFormat::Hidden => Cow::Borrowed(""),
            "s" => {
                let number = value.trim().parse().ok();
                Cow::Borrowed(
                    number.and_then(|number| self.strings.get(number)).unwrap_or_default(),
                )
            }
            "b" if value.trim() == "1" => Cow::Borrowed("TRUE"),
            "b" if value.trim() == "0" => Cow::Borrowed("FALSE"),
            "" | "n" if !value.is_empty() => Cow::Owned(format.text(value, self.since_1904)),
            "str" | "inlineStr" => unescaped(value),
            // Errors and ISO 8601 dates are displayed unchanged.
            _ => Cow::Borrowed(value),
        }
    }
}

/// Reads the cells of a sheet.
struct Cells<'a, 'l> {
    values: &'a Values,
    sheets: &'a mut Sheets<'l>,
    row_is_hidden: bool,
    next_column: usize,
    cell: Cell,
    reads: Reads,
    /// Number of open phonetic readings of East Asian text, which are displayed beside it.
    phonetic: usize,
}

#[derive(Default)]
struct Cell {
    column: usize,
    /// Type of the value; a number by default.
    kind: String,
    format: usize,
    value: String,
}

/// The meaning of the text between two tags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Nothing,
    /// The value of a cell; for a formula, its last result.
    Value,
    /// A part of `<is>` outside `<t>`, which is ignored.
    Inline,
    /// The text in `<t>` of an inline string.
    InlineText,
    /// A header or footer of the printed sheet.
    Margin,
}

impl Cells<'_, '_> {
    fn read(mut self, part: &str, xml: &[u8]) -> Result<(), ExtractError> {
        each_event(FORMAT, part, xml, |event| {
            match event {
                Event::Start(element) => self.start(&element),
                Event::Empty(element) => {
                    self.start(&element);
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

    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "col" if is_set(element, "hidden") => {
                if let (Some(first), Some(last)) =
                    (zero_based(element, "min"), zero_based(element, "max"))
                {
                    self.sheets.hide_columns(first, last);
                }
            }
            "row" => {
                self.row_is_hidden = is_set(element, "hidden");
                self.next_column = 0;
            }
            "c" => {
                let column = attribute(element, "r")
                    .and_then(|reference| column(&reference))
                    .unwrap_or(self.next_column);
                self.next_column = column + 1;
                self.cell = Cell {
                    column,
                    kind: attribute(element, "t").unwrap_or_default(),
                    format: attribute(element, "s")
                        .and_then(|it| it.parse().ok())
                        .unwrap_or_default(),
                    value: String::new(),
                };
                self.reads = Reads::Nothing;
            }
            "v" => self.reads = Reads::Value,
            "is" => self.reads = Reads::Inline,
            "oddHeader" | "evenHeader" | "firstHeader" | "oddFooter" | "evenFooter"
            | "firstFooter" => {
                self.cell.value.clear();
                self.reads = Reads::Margin;
            }
            "rPh" => self.phonetic += 1,
            "t" if self.reads == Reads::Inline && self.phonetic == 0 => {
                self.reads = Reads::InlineText;
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) -> Result<(), ExtractError> {
        match name {
            "t" if self.reads == Reads::InlineText => self.reads = Reads::Inline,
            "v" | "is" => self.reads = Reads::Nothing,
            "oddHeader" | "evenHeader" | "firstHeader" | "oddFooter" | "evenFooter"
            | "firstFooter" => {
                self.reads = Reads::Nothing;
                let text = std::mem::take(&mut self.cell.value);
                self.sheets.add_beside(&beside::without_codes(&text))?;
            }
            "rPh" => self.phonetic = self.phonetic.saturating_sub(1),
            "c" => {
                let cell = std::mem::take(&mut self.cell);
                self.reads = Reads::Nothing;
                let has_values = self.sheets.has_values();
                self.sheets.cell(cell.column, &self.values.text(&cell, has_values))?;
            }
            "row" => self.sheets.end_row(self.row_is_hidden, 1)?,
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), ExtractError> {
        if matches!(self.reads, Reads::Value | Reads::InlineText | Reads::Margin) {
            self.sheets.check(self.cell.value.len() + text.len())?;
            self.cell.value.push_str(text);
        }
        Ok(())
    }
}

fn is_set(element: &BytesStart<'_>, name: &str) -> bool {
    attribute(element, name).is_some_and(|value| matches!(&*value, "1" | "true" | "on"))
}

/// Returns the number in an attribute, which is counted from 1, counted from 0.
fn zero_based(element: &BytesStart<'_>, name: &str) -> Option<usize> {
    attribute(element, name)?.parse::<usize>().ok()?.checked_sub(1)
}

/// Returns the column, counted from 0, of a cell reference such as `AB12`.
fn column(reference: &str) -> Option<usize> {
    let letters = reference.bytes().take_while(u8::is_ascii_alphabetic);
    let number = letters.take(4).fold(0, |number, letter| {
        number * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1
    });
    number.checked_sub(1)
}

/// Returns a text with its `_x000D_` escapes decoded, which represent characters that XML forbids
/// (ECMA-376 part 1, 22.9.2.19).
fn unescaped(text: &str) -> Cow<'_, str> {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("_x") {
        let (before, found) = rest.split_at(start);
        unescaped.push_str(before);
        if let Some(character) = leading_escape(found) {
            unescaped.push(character);
            rest = &found[ESCAPE_LENGTH..];
        } else {
            unescaped.push_str("_x");
            rest = &found[2..];
        }
    }
    if unescaped.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    unescaped.push_str(rest);
    Cow::Owned(unescaped)
}

const ESCAPE_LENGTH: usize = "_x000D_".len();

/// Returns the character whose escape a text begins with. Halves of surrogate pairs stay escaped.
fn leading_escape(text: &str) -> Option<char> {
    let code = text.get(..ESCAPE_LENGTH)?.strip_prefix("_x")?.strip_suffix('_')?;
    code.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    char::from_u32(u32::from_str_radix(code, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_letters() {
        for (reference, expected) in [
            ("A1", Some(0)),
            ("z9", Some(25)),
            ("AA1", Some(26)),
            ("XFD1048576", Some(16_383)),
            ("1", None),
            ("", None),
            ("ZZZZZZZZZZZZZZZZ", Some(475_253)),
        ] {
            assert_eq!(column(reference), expected, "{reference}");
        }
    }

    #[test]
    fn escapes_are_resolved() {
        for (text, expected) in [
            ("a_x000D_b", "a\rb"),
            ("_x0041__x0042_", "AB"),
            ("_x005F_x000D_", "_x000D_"),
            ("_x", "_x"),
            ("_x12_", "_x12_"),
            ("_xD800_", "_xD800_"),
            ("_x+041_", "_x+041_"),
            ("é_xé000_", "é_xé000_"),
            ("", ""),
        ] {
            assert_eq!(unescaped(text), expected, "{text}");
        }
    }
}
