//! Properties of the text of every document.

use std::ops::Range;

use marquetry_extract::{Extracted, Hint};
use proptest::{prelude::*, sample::select};

const NAMES: [&str; 22] = [
    "a.txt", "a.md", "a.html", "a.json", "a.jsonl", "a.xml", "a.csv", "a.tsv", "a.rs", "a.docx",
    "a.pdf", "a.xlsx", "a.ods", "a.epub", "a.odt", "a.pptx", "a.rtf", "a.eml", "a.mbox", "a.ipynb",
    "a.fodt", "a",
];

/// Pieces that mean something to one format or another.
const PIECES: [&str; 48] = [
    "<",
    ">",
    "</",
    "/>",
    "<p>",
    "</p>",
    "<div hidden>",
    "</div>",
    "<h1>",
    "</h1>",
    "<table>",
    "<td>",
    "<svg>",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "<pre>",
    "<title>",
    "&amp;",
    "&#0;",
    "&x;",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE x [",
    "<?xml version='1.0'?>",
    "# ",
    "## B\n",
    "```\n",
    "---\n",
    "title: x\n",
    "> ",
    "- ",
    "\n",
    "\n\n",
    "\t",
    "\u{C}",
    "\0",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\u{E0041}",
    "é",
    "\u{1F3F4}",
];

fn documents() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    let pieces = proptest::collection::vec(
        prop_oneof![4 => select(&PIECES[..]).prop_map(str::to_owned), 1 => "\\PC{0,6}"],
        0..40,
    );
    prop_oneof![
        3 => pieces.prop_map(|pieces| pieces.concat().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..400),
    ]
}

/// Spreadsheets whose parts consist of valid fragments.
#[cfg(feature = "spreadsheet")]
fn spreadsheets() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use super::support::spreadsheet::{tables, workbook};
    const EXCEL: [&str; 32] = [
        "<row>",
        "</row>",
        "<row hidden='1'>",
        "<c>",
        "</c>",
        "<c r='B1' t='s'>",
        "<c r='XFD9' s='1'>",
        "<c t='b'>",
        "<c r='A1' t='inlineStr'>",
        "<is>",
        "</is>",
        "<t>",
        "</t>",
        "<rPh>",
        "</rPh>",
        "<v>",
        "</v>",
        "0",
        "1",
        "7.5",
        "1e99",
        "-3",
        "a\u{E0041}b",
        "\u{1F3F4}",
        "_x0000_",
        "&amp;",
        "&#0;",
        "<f>",
        "</f>",
        "<col min='1' max='2' hidden='1'/>",
        "<si>",
        "</si>",
    ];
    const OPEN: [&str; 24] = [
        "<table:table table:name='One'>",
        "<table:table table:style-name='h'>",
        "</table:table>",
        "<table:table-row>",
        "<table:table-row table:number-rows-repeated='3'>",
        "</table:table-row>",
        "<table:table-cell>",
        "<table:table-cell table:number-columns-repeated='3' office:value='7'>",
        "</table:table-cell>",
        "<table:covered-table-cell>",
        "</table:covered-table-cell>",
        "<text:p>",
        "</text:p>",
        "<text:s/>",
        "a",
        "é",
        "7",
        "&lt;",
        "<office:annotation>",
        "</office:annotation>",
        "<table:table-row table:visibility='collapse'>",
        "<table:table-column table:visibility='collapse' table:number-columns-repeated='9'/>",
        "<table:table-column/>",
        "\u{E0041}",
    ];
    let of = |pieces: &'static [&'static str]| {
        proptest::collection::vec(select(pieces), 0..30).prop_map(|pieces| pieces.concat())
    };
    let excel = (of(&EXCEL), of(&EXCEL), of(&EXCEL)).prop_map(|(first, second, strings)| {
        let styles =
            "<styleSheet><cellXfs><xf numFmtId='0'/><xf numFmtId='14'/></cellXfs></styleSheet>";
        let parts = [("xl/sharedStrings.xml", &*strings), ("xl/styles.xml", styles)];
        workbook(&[("One", "", &first), ("Two", "", &second)], &parts)
    });
    prop_oneof![excel, of(&OPEN).prop_map(|content| tables("", &content, &[]))]
}

fn check(extracted: &Extracted) -> Result<(), TestCaseError> {
    let content = &extracted.content;
    prop_assert_eq!(extracted.character_count, content.chars().count());
    prop_assert!(!content.contains('\0'));
    let mut last = 0;
    let mut in_order = |span: &Range<usize>| {
        let is_fine =
            span.start >= last && span.start <= span.end && content.get(span.clone()).is_some();
        last = span.start;
        is_fine
    };
    for page in &extracted.pages {
        prop_assert!(in_order(&page.span), "{:?}", extracted);
    }
    last = 0;
    let mut in_order = |span: &Range<usize>| {
        let is_fine =
            span.start >= last && span.start < span.end && content.get(span.clone()).is_some();
        last = span.end;
        is_fine
    };
    for heading in &extracted.headings {
        prop_assert!(in_order(&heading.span), "{:?}", extracted);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_input_panics_and_spans_are_valid(bytes in documents(), name in select(&NAMES[..])) {
        if let Ok(extracted) = marquetry_extract::extract(&bytes, &Hint::file(name)) {
            check(&extracted)?;
        }
    }

    #[cfg(feature = "spreadsheet")]
    #[test]
    fn spreadsheets_of_any_kind_have_right_places(sheets in spreadsheets()) {
        if let Ok(extracted) = marquetry_extract::extract(&sheets, &Hint::default()) {
            check(&extracted)?;
        }
    }

    /// Without control characters: two letters and then some of them may be another format's
    /// beginning, and are refused as such (`%!`, "MZ").
    #[test]
    fn text_of_any_encoding_is_itself(text in "[^\\p{Cc}\u{E0000}-\u{E007F}\u{FEFF}]{0,40}") {
        let bytes: Vec<u8> = std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let extracted = marquetry_extract::extract(&bytes, &Hint::file("a.txt")).unwrap();
        prop_assert_eq!(&extracted.content, &text);
        let extracted = marquetry_extract::extract(text.as_bytes(), &Hint::file("a.rs")).unwrap();
        prop_assert_eq!(&extracted.content, &text);
    }
}
