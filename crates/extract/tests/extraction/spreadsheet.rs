//! Spreadsheets: XLSX and ODS.

use std::time::{Duration, Instant};

use marquetry_extract::{ExtractError, Extracted, Hint, Problem, extract, sheets};

use super::{
    file, refusal,
    support::spreadsheet::{rows, tables, workbook},
};

/// Much longer than each of these takes on a slow machine without optimization; without their
/// limits they take minutes.
const PATIENCE: Duration = Duration::from_mins(1);

fn titles(extracted: &Extracted) -> Vec<&str> {
    extracted
        .headings
        .iter()
        .map(|heading| {
            assert_eq!(extracted.content[heading.span.clone()], heading.title);
            heading.title.as_str()
        })
        .collect()
}

#[test]
fn a_workbook_is_its_sheets_with_a_line_for_each_row() {
    let people = "<sheetData><row r='1'><c r='A1' t='s'><v>2</v></c></row>\
        <row r='2'><c r='A2' t='s'><v>0</v></c><c r='B2' t='s'><v>1</v></c><c r='C2' t='inlineStr'><is><t>alive</t></is></c></row>\
        <row r='3'><c r='A3' t='inlineStr'><is><r><t>Ada </t></r><r><t>&amp; Co</t></r><rPh><t>reading</t></rPh></is></c>\
          <c r='B3' s='1'><v>-30664</v></c><c r='C3' t='b'><v>0</v></c></row>\
        <row r='4'><c r='A4' t='str'><f>UPPER(\"grace\")</f><v>GRACE_x000D_\nHOPPER</v></c><c r='B4' s='1'><v>2536</v></c></row>\
        <row r='5'><c r='C5' t='e'><v>#N/A</v></c></row></sheetData>";
    let prices = "<sheetData><row><c><v>0.10000000000000001</v></c><c s='2'><v>0.07</v></c><c s='3'><v>45351.5</v></c>\
        <c s='4'><v>99</v></c><c s='5'><v>0.5</v></c><c t='d'><v>2024-02-29T12:00:00Z</v></c></row></sheetData>";
    let strings = "<sst uniqueCount='99999999999999999'><si><t>name</t></si><si><r><t>born</t></r><rPh><t>x</t></rPh></si>\
        <si><t xml:space='preserve'> People </t></si></sst>";
    let styles = "<styleSheet><numFmts><numFmt numFmtId='164' formatCode='yyyy-mm-dd hh:mm'/>\
        <numFmt numFmtId='165' formatCode=';;;'/></numFmts><cellStyleXfs><xf numFmtId='9'/></cellStyleXfs>\
        <cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='9'/><xf numFmtId='164'/><xf numFmtId='165'/>\
        <xf numFmtId='20'/></cellXfs></styleSheet>";
    let core = "<cp:coreProperties xmlns:dc='d'><dc:title>Figures</dc:title><dc:creator>A. Baker</dc:creator></cp:coreProperties>";
    let document = workbook(
        &[
            ("People", "", people),
            ("Nothing", "", "<sheetData/>"),
            ("Prices &amp; days", "", prices),
        ],
        &[
            ("xl/sharedStrings.xml", strings),
            ("xl/styles.xml", styles),
            ("docProps/core.xml", core),
        ],
    );
    let book = file("a.xlsx", &document);
    assert_eq!(
        book.content,
        "People\n\nPeople\nname: Ada & Co; born: -30664; alive: FALSE\nname: GRACE HOPPER; born: 1906-12-10\nalive: #N/A\n\n\
         Prices & days\n\n0.1; 7%; 2024-02-29 12:00:00; 12:00:00; 2024-02-29T12:00:00Z\n"
    );
    assert_eq!(titles(&book), ["People", "Prices & days"]);
    assert_eq!(book.title.as_deref(), Some("Figures"));
    assert_eq!(book.metadata["author"], "A. Baker");
    assert!(!book.wrapped);
    assert_eq!(book.problems, []);
    // Known by its bytes.
    assert_eq!(file("download", &document).content, book.content);
    assert_eq!(book.mime_type, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet");
}

#[test]
fn days_may_count_from_1904() {
    let sheet = "<sheetData><row><c s='0'><v>43889</v></c></row></sheetData>";
    let styles = "<styleSheet><cellXfs><xf numFmtId='14'/></cellXfs></styleSheet>";
    let book = "<workbook xmlns:r='r'><workbookPr date1904='1'/><sheets><sheet name='A' r:id='x'/></sheets></workbook>";
    let relations = "<Relationships><Relationship Id='x' Type='worksheet' Target='/sheet.xml'/></Relationships>";
    let parts = [
        ("xl/workbook.xml", book),
        ("xl/_rels/workbook.xml.rels", relations),
        ("xl/styles.xml", styles),
        ("sheet.xml", sheet),
    ];
    let book = file("a.xlsx", super::support::package::package(&parts));
    assert_eq!(book.content, "A\n\n2024-02-29\n");
}

#[test]
fn hidden_cells_of_excel_are_left_out() {
    let cell = |place: &str, text: &str| format!("<c r='{place}' t='str'><v>{text}</v></c>");
    let seen = format!(
        "<cols><col min='2' max='3' hidden='1'/><col min='5' max='99999' hidden='true'/><col min='0' max='1' hidden='1'/></cols>\
         <sheetData><row hidden='1'>{}</row><row>{}{}{}{}</row></sheetData>",
        cell("A1", "secret"),
        cell("A2", "one"),
        cell("B2", "secret"),
        cell("D2", "two"),
        cell("E2", "secret"),
    );
    let secret = format!("<sheetData><row>{}</row></sheetData>", cell("A1", "secret"));
    let book = file(
        "a.xlsx",
        workbook(
            &[
                ("Seen", "", &seen),
                ("H", "state='hidden'", &secret),
                ("V", "state='veryHidden'", &secret),
            ],
            &[],
        ),
    );
    assert_eq!(book.content, "Seen\n\none; two\n");
    assert_eq!(book.problems, [Problem::Hidden { count: 5 }]);
}

#[test]
fn an_open_document_is_read_alike() {
    let styles = "<style:style style:name='ta1'><style:table-properties table:display='true'/></style:style>\
        <style:style style:name='ta2'><style:table-properties table:display='false'/></style:style>";
    let cell = |text: &str| {
        format!("<table:table-cell office:value='7'><text:p>{text}</text:p></table:table-cell>")
    };
    let row = |cells: &[String]| format!("<table:table-row>{}</table:table-row>", cells.concat());
    let empty = "<table:table-cell table:number-columns-repeated='2'/>".to_owned();
    let seen = [
        "<table:tracked-changes><table:table-cell><text:p>secret</text:p></table:table-cell></table:tracked-changes>".to_owned(),
        "<table:table table:name='People' table:style-name='ta1'><table:shapes><text:p>A box.</text:p></table:shapes>".to_owned(),
        "<table:table-column table:number-columns-repeated='3'/><table:table-column table:visibility='collapse'/>".to_owned(),
        row(&[cell("name"), empty.clone(), "<table:table-cell/>".to_owned(), cell("born")]),
        row(&[
            cell("Ada<text:s text:c='3'/>&amp;<text:line-break/>Co<office:annotation><dc:creator>Ben</dc:creator><text:p>A remark.</text:p></office:annotation>!"),
            empty.clone(), cell("secret"), cell("10.12.15"),
        ]),
        "<table:table-row table:visibility='filter'>".to_owned() + &cell("secret") + "</table:table-row>",
        "<table:table-row table:number-rows-repeated='2'><table:table-cell office:value-type='boolean' office:boolean-value='true'/>\
         <table:covered-table-cell><text:p>secret</text:p></table:covered-table-cell></table:table-row>".to_owned(),
        "<table:table-row table:number-rows-repeated='1048000'><table:table-cell table:number-columns-repeated='16384'/></table:table-row>".to_owned(),
        "</table:table><table:table table:name='Secret' table:style-name='ta2'>".to_owned(),
        row(&[cell("secret")]),
        "</table:table><table:table table:name='Nested'>".to_owned(),
        row(&[format!("<table:table-cell><text:p>a</text:p><table:table>{}</table:table></table:table-cell>", row(&[cell("b")]))]),
        "</table:table>".to_owned(),
    ]
    .concat();
    let meta = "<office:document-meta xmlns:dc='d' xmlns:meta='m'><dc:title>Figures</dc:title><meta:keyword>x</meta:keyword></office:document-meta>";
    let document = tables(styles, &seen, &[("meta.xml", meta)]);
    let book = file("a.ods", &document);
    assert_eq!(
        book.content,
        "People\n\nname: Ada & Co!; born: 10.12.15\nname: true\nname: true\n\n\
         A box.\nComment: A remark.\n\nNested\n\na b\n"
    );
    assert_eq!(titles(&book), ["People", "Nested"]);
    assert_eq!((book.title.as_deref(), &*book.metadata["keywords"]), (Some("Figures"), "x"));
    assert_eq!(book.problems, [Problem::Hidden { count: 3 }]);
    assert_eq!(
        file("download", &document).mime_type,
        "application/vnd.oasis.opendocument.spreadsheet"
    );
}

/// Returns the sheets of a workbook, a line for each row.
fn cells(document: &[u8]) -> String {
    let mut text = String::new();
    for sheet in sheets(document, &Hint::default()).unwrap() {
        text += &format!("{}\n", sheet.name);
        for row in sheet.rows {
            let cells = row.iter().map(|(column, cell)| format!("{column}={cell}"));
            text += &format!("  {}\n", cells.collect::<Vec<_>>().join(" "));
        }
    }
    text
}

#[test]
fn sheets_are_rows_of_values() {
    let prices = "<cols><col min='4' max='4' hidden='1'/></cols><sheetData>\
        <row><c t='str'><v>day</v></c><c t='str'><v>rate</v></c></row><row hidden='1'><c><v>9</v></c></row>\
        <row><c s='1'><v>45351</v></c><c s='2'><v>0.07</v></c><c r='D3'><v>9</v></c><c r='F3'><v>1.50</v></c></row></sheetData>";
    let secret = "<sheetData><row><c><v>9</v></c></row></sheetData>";
    let styles =
        "<styleSheet><cellXfs><xf/><xf numFmtId='14'/><xf numFmtId='9'/></cellXfs></styleSheet>";
    let document = workbook(
        &[("Prices", "", prices), ("Empty", "", "<sheetData/>"), ("S", "state='hidden'", secret)],
        &[("xl/styles.xml", styles)],
    );
    assert_eq!(cells(&document), "Prices\n  0=day 1=rate\n  0=2024-02-29 1=0.07 5=1.5\n");

    let number = "<table:table-cell office:value-type='float' office:value='1234.5'><text:p>1.234,50 €</text:p></table:table-cell>";
    let text = "<table:table-cell office:value-type='string'><text:p>a</text:p></table:table-cell>";
    let day = "<table:table-cell office:value-type='date' office:date-value='2024-02-29'><text:p>29.02.24</text:p></table:table-cell>";
    let table = format!(
        "<table:table table:name='T'><table:table-row table:number-rows-repeated='2'>{text}{number}{day}</table:table-row></table:table>"
    );
    let document = tables("", &table, &[]);
    assert_eq!(cells(&document), "T\n  0=a 1=1234.5 2=2024-02-29\n  0=a 1=1234.5 2=2024-02-29\n");

    let mut hint = Hint::default();
    hint.limits.max_content_bytes = 100;
    assert!(matches!(sheets(&document, &hint), Err(ExtractError::Limit { .. })));
    assert!(sheets(b"no workbook", &Hint::default()).is_err());
}

#[test]
fn a_sheet_may_say_that_it_is_as_large_as_it_can_be() {
    let started = Instant::now();
    let corner = "<dimension ref='A1:XFD1048576'/><sheetData><row r='1'><c r='A1'><v>1</v></c></row>\
        <row r='1048576'><c r='XFD1048576'><v>2</v></c><c r='ZZZZ1'><v>3</v></c></row></sheetData>";
    assert_eq!(file("a.xlsx", workbook(&[("S", "", corner)], &[])).content, "S\n\n1\n2\n");
    // Each row has one cell, as far to the right as can be.
    let sparse = "<row><c r='XFD1'><v>1</v></c></row>".repeat(50_000);
    assert_eq!(file("a.xlsx", rows(&sparse)).content.len(), "Sheet1\n\n".len() + 2 * 50_000);
    // Each of many ranges covers all columns.
    let columns = "<col min='1' max='16384' hidden='1'/>".repeat(50_000);
    let sheet = format!("<cols>{columns}</cols><sheetData><row><c><v>1</v></c></row></sheetData>");
    assert_eq!(file("a.xlsx", workbook(&[("S", "", &sheet)], &[])).content, "");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_text_that_stands_in_many_cells_is_held_to_the_limit() {
    let started = Instant::now();
    let strings = format!("<sst><si><t>{}</t></si></sst>", "x".repeat(1 << 20));
    let one_row =
        format!("<sheetData><row>{}</row></sheetData>", "<c t='s'><v>0</v></c>".repeat(10_000));
    let excel = workbook(&[("S", "", &one_row)], &[("xl/sharedStrings.xml", &strings)]);
    let repeated = |rows: &str, columns: &str, text: &str| {
        tables(
            "",
            &format!(
                "<table:table table:name='S'><table:table-row table:number-rows-repeated='{rows}'>\
                 <table:table-cell table:number-columns-repeated='{columns}'><text:p>{text}</text:p></table:table-cell>\
                 </table:table-row></table:table>"
            ),
            &[],
        )
    };
    let wide = repeated("1", "16384", &"x".repeat(1 << 20));
    let tall = repeated("99999999999", "9", "many");
    for (name, document) in [("a.xlsx", excel), ("a.ods", wide), ("a.ods", tall)] {
        assert!(document.len() < 1 << 17, "{}", document.len());
        let mut hint = Hint::file(name);
        hint.limits.max_content_bytes = 4 << 20;
        let error = refusal(document, &hint);
        assert!(
            matches!(error, ExtractError::Limit { limit: "max_content_bytes", found, .. } if found < 6 << 20),
            "{name}: {error}"
        );
    }
    // Hidden repeated cells cost nothing.
    assert_eq!(file("a.ods", repeated("1048576", "16384", " ")).content, "");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_row_has_no_more_cells_than_columns() {
    let cells = "<c r='A1'><v>1</v></c>".repeat(16_384 + 1_000);
    let book = file("a.xlsx", rows(&format!("<row>{cells}</row><row><c><v>2</v></c></row>")));
    let expected = format!("Sheet1\n\n{}\n2\n", ["1"; 16_384].join("; "));
    assert!(book.content == expected, "{} bytes", book.content.len());
}

fn column(attributes: &str) -> String {
    format!("<table:table-column {attributes}/>")
}

/// Which columns are hidden is worked out once for a sheet, not again after each cell.
#[test]
fn columns_are_hidden_before_the_first_cell_or_not_at_all() {
    let started = Instant::now();
    let hidden = "<cols><col min='1' max='1' hidden='1'/><col min='4' max='5' hidden='1'/></cols>";
    let cells = "<row><c r='A1'><v>0</v></c><c r='B1'><v>1</v></c><c r='E1'><v>0</v></c></row>";
    let late = "<col min='2' max='16384' hidden='1'/><c r='B2'><v>2</v></c>".repeat(16_000);
    let sheet = format!("{hidden}<sheetData>{cells}<row>{late}</row></sheetData>");
    let excel = file("a.xlsx", workbook(&[("S", "", &sheet)], &[]));
    let expected = format!("S\n\n1\n{}\n", ["2"; 16_000].join("; "));
    assert!(excel.content == expected, "{} bytes", excel.content.len());
    assert_eq!(excel.problems, [Problem::Hidden { count: 2 }]);

    let cell = |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
    let row =
        |text: &str| format!("<table:table-row>{}{}</table:table-row>", cell("0"), cell(text));
    let collapsed = column("table:visibility='collapse'");
    let late = column("table:number-columns-repeated='16384' table:visibility='collapse'");
    let table =
        ["<table:table table:name='S'>", &collapsed, &row("1"), &late, &row("2"), "</table:table>"];
    let open = file("a.ods", tables("", &table.concat(), &[]));
    assert_eq!(open.content, "S\n\n1\n2\n");
    assert_eq!(open.problems, [Problem::Hidden { count: 2 }]);
    // Hidden columns cost little, whatever the number of sheets.
    let sheet = ["<table:table>", &collapsed, &row("1"), "</table:table>"].concat();
    let many = file("a.ods", tables("", &sheet.repeat(10_000), &[]));
    assert_eq!(many.problems, [Problem::Hidden { count: 10_000 }]);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn many_shared_strings_are_read_in_little_memory() {
    let strings = format!("<sst>{}<si><t>last</t></si></sst>", "<si/>".repeat(1_000_000));
    let sheet = "<sheetData><row><c t='s'><v>1000000</v></c><c t='s'><v>1000001</v></c><c t='s'><v>-1</v></c></row></sheetData>";
    let book = workbook(&[("S", "", sheet)], &[("xl/sharedStrings.xml", &strings)]);
    assert!(book.len() < 1 << 17, "{}", book.len());
    assert_eq!(file("a.xlsx", book).content, "S\n\nlast\n");
}

#[test]
fn a_bomb_is_refused_before_it_fills_the_memory() {
    let blank = " ".repeat(64 << 20);
    let bombs = [
        ("a.xlsx", rows(&blank)),
        ("a.xlsx", workbook(&[("S", "", "")], &[("xl/sharedStrings.xml", &blank)])),
        ("a.xlsx", workbook(&[("S", "", "")], &[("xl/styles.xml", &blank)])),
        ("a.ods", tables("", &blank, &[])),
        ("a.ods", tables("", "", &[("META-INF/manifest.xml", &blank)])),
    ];
    for (name, bomb) in bombs {
        assert!(bomb.len() < 1 << 20);
        let mut hint = Hint::file(name);
        hint.limits.max_unpacked_bytes = 1 << 20;
        let error = refusal(bomb, &hint);
        assert!(
            matches!(error, ExtractError::Limit { limit: "max_unpacked_bytes", .. }),
            "{error}"
        );
    }
    // A part that many sheets share is unpacked and counted for each sheet.
    let sheets = "<sheet name='S' r:id='rId1'/>".repeat(2000);
    let sheet = format!("<worksheet><sheetData>{}</sheetData></worksheet>", " ".repeat(1 << 10));
    let parts = [
        (
            "xl/workbook.xml",
            &*format!("<workbook xmlns:r='r'><sheets>{sheets}</sheets></workbook>"),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            "<R><Relationship Id='rId1' Type='/worksheet' Target='s.xml'/></R>",
        ),
        ("xl/s.xml", &*sheet),
    ];
    let mut hint = Hint::file("a.xlsx");
    hint.limits.max_unpacked_bytes = 1 << 20;
    let error = refusal(super::support::package::package(&parts), &hint);
    assert!(matches!(error, ExtractError::Limit { limit: "max_unpacked_bytes", .. }), "{error}");
}

#[test]
fn damaged_and_locked_spreadsheets_are_reported() {
    let whole = rows("<row><c><v>1</v></c></row>");
    let error = refusal(&whole[..whole.len() / 2], &Hint::file("a.xlsx"));
    assert!(error.to_string().starts_with("invalid XLSX: "), "{error}");
    let error = refusal(rows("<row></c>"), &Hint::file("a.xlsx"));
    assert!(
        error.to_string().starts_with("invalid XLSX: xl/worksheets/sheet1.xml, byte "),
        "{error}"
    );
    let error = refusal("no spreadsheet", &Hint::file("a.ods"));
    assert!(error.to_string().starts_with("invalid ODS: "), "{error}");
    let manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>";
    let locked = tables("", "", &[("META-INF/manifest.xml", manifest)]);
    assert_eq!(refusal(locked, &Hint::file("a.ods")), ExtractError::Encrypted);
    let mut locked = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
    locked.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(refusal(locked, &Hint::file("a.xlsx")), ExtractError::Encrypted);
}

/// A text may be as large as its part, and is not copied before its size is checked.
#[test]
fn texts_above_the_limit_are_refused() {
    let text = "x".repeat(2_000);
    let strings = format!("<sst><si><t>{text}</t></si></sst>");
    let shared = ("Sheet1", "", "<sheetData><row><c t='s'><v>0</v></c></row></sheetData>");
    let cell = format!("<row><c t='str'><v>{text}</v></c></row>");
    let paragraph = format!(
        "<table:table><table:table-row><table:table-cell><text:p>{text}</text:p></table:table-cell></table:table-row></table:table>"
    );
    for (name, document) in [
        ("a.xlsx", workbook(&[shared], &[("xl/sharedStrings.xml", &strings)])),
        ("b.xlsx", rows(&cell)),
        ("c.ods", tables("", &paragraph, &[])),
    ] {
        let mut hint = Hint::file(name);
        hint.limits.max_content_bytes = 1_000;
        let error = refusal(document, &hint);
        let is_limit = matches!(
            error,
            ExtractError::Limit { limit: "max_content_bytes", found: 2_000..2_010, .. }
        );
        assert!(is_limit, "{name}: {error}");
    }
}

/// Only text that is taken counts for the limit on text. What Excel keeps for all sheets counts as
/// unpacked.
#[test]
fn shared_texts_count_for_the_unpacked_bytes() {
    let text = "x".repeat(2_000);
    let strings = format!("<sst><si><t>{text}</t></si><si><t>few</t></si></sst>");
    let hidden = "<sheetData><row><c t='s'><v>0</v></c></row></sheetData>";
    let shown = "<sheetData><row><c t='s'><v>1</v></c></row></sheetData>";
    let sheets = [("A", "state='hidden'", hidden), ("B", "", shown)];
    let mut hint = Hint::file("a.xlsx");
    hint.limits.max_content_bytes = 1_000;
    let book = workbook(&sheets, &[("xl/sharedStrings.xml", &strings)]);
    assert_eq!(extract(&book, &hint).unwrap().content, "B\n\nfew\n");

    for text in ["x".repeat(40_000), "&#x1F35E;".repeat(10_000), "&lt;".repeat(40_000)] {
        let strings = format!("<sst><si><t>{text}</t></si></sst>");
        let book = workbook(&sheets, &[("xl/sharedStrings.xml", &strings)]);
        let mut hint = Hint::file("a.xlsx");
        hint.limits.max_unpacked_bytes = strings.len() as u64 + 20_000;
        let error = refusal(book, &hint);
        let limit = "max_unpacked_bytes";
        assert!(matches!(error, ExtractError::Limit { limit: it, .. } if it == limit), "{error}");
    }
}

fn texts(text: &str) -> String {
    format!("<sst>{}</sst>", text.repeat(20_000))
}

/// An element may be far smaller than what it takes in memory.
#[test]
fn empty_elements_count_for_the_unpacked_bytes() {
    let document = |strings: &str| workbook(&[("S", "", "")], &[("xl/sharedStrings.xml", strings)]);
    let mut workbooks: Vec<_> =
        ["<si/>", "<si></si>"].map(texts).map(|it| (document(&it), it)).into();
    let sheets = format!("<workbook><sheets>{}</sheets></workbook>", "<sheet/>".repeat(20_000));
    workbooks.push((super::support::package::package(&[("xl/workbook.xml", &sheets)]), sheets));
    for (document, part) in workbooks {
        let mut hint = Hint::file("a.xlsx");
        hint.limits.max_unpacked_bytes = part.len() as u64 + 20_000;
        let error = refusal(document.clone(), &hint);
        let limit = "max_unpacked_bytes";
        assert!(matches!(error, ExtractError::Limit { limit: it, .. } if it == limit), "{error}");
        extract(&document, &Hint::file("a.xlsx")).unwrap();
    }
}

#[test]
fn metadata_may_have_character_references() {
    let core = "<a><title> Salt &amp; Pepper&#33; </title><creator>B. &lt;b@c&gt;</creator></a>";
    let document = workbook(&[("Sheet1", "", "<sheetData/>")], &[("docProps/core.xml", core)]);
    let extracted = file("a.xlsx", document);
    assert_eq!(extracted.title.as_deref(), Some("Salt & Pepper!"));
    assert_eq!(extracted.metadata["author"], "B. <b@c>");
}

#[test]
fn metadata_may_have_several_values_and_nested_elements() {
    let core = "<a><title>Salt <b>and</b> <i>Pepper</i></title><b>x</b><creator> A </creator><creator/>\
        <creator>B<!-- --></creator><keyword>x</keyword><keyword>y z</keyword></a>";
    let document = workbook(&[("Sheet1", "", "<sheetData/>")], &[("docProps/core.xml", core)]);
    let extracted = file("a.xlsx", document);
    assert_eq!(extracted.title.as_deref(), Some("Salt and Pepper"));
    assert_eq!(extracted.metadata["author"], "A, B");
    assert_eq!(extracted.metadata["keywords"], "x, y z");
}

#[test]
fn long_metadata_is_cut() {
    let core = format!("<a><title>{}</title><creator>B.</creator></a>", "é".repeat(100_000));
    let document = workbook(&[("Sheet1", "", "<sheetData/>")], &[("docProps/core.xml", &core)]);
    let extracted = file("a.xlsx", document);
    assert_eq!(extracted.title.unwrap().len(), 64 << 10);
    assert_eq!(extracted.metadata["author"], "B.");
}
