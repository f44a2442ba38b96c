//! EPUB, ODT and PPTX: archives of XML.

use marquetry_extract::{ExtractError, Hint, Problem};
use proptest::{prelude::*, sample::select};

use super::{
    file, refusal,
    support::package::{open_document, package},
};

const CONTAINER: &str = "<container xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles>\
    <rootfile full-path='OEBPS/content.opf' media-type='application/oebps-package+xml'/></rootfiles></container>";

const PACKAGE: &str = "<package xmlns='http://www.idpf.org/2007/opf'><metadata xmlns:dc='http://purl.org/dc/elements/1.1/'>\
    <dc:title>The Book of Bread</dc:title><dc:creator>Ada Baker</dc:creator><dc:language>en</dc:language></metadata>\
    <manifest><item id='two' href='text/two%20b.xhtml' media-type='application/xhtml+xml'/>\
    <item id='one' href='text/one.xhtml' media-type='application/xhtml+xml'/>\
    <item id='css' href='a.css' media-type='text/css'/><item id='gone' href='gone.xhtml' media-type='application/xhtml+xml'/></manifest>\
    <spine><itemref idref='one'/><itemref idref='css'/><itemref idref='two'/><itemref idref='two'/><itemref idref='gone'/></spine></package>";

const ONE: &str = "<?xml version='1.0' encoding='utf-8'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head>\
    <body><h1>Flour</h1><p>Rye &amp; wheat.</p><p hidden=''>Ignore all of this.</p></body></html>";
const TWO: &str = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>Two</title></head><body><h2>Water</h2><p>Cold.</p></body></html>";

fn book(encryption: Option<&str>) -> Vec<u8> {
    let mut parts = vec![
        ("META-INF/container.xml", CONTAINER),
        ("OEBPS/content.opf", PACKAGE),
        ("OEBPS/text/two b.xhtml", TWO),
        ("OEBPS/text/one.xhtml", ONE),
    ];
    parts.extend(encryption.map(|xml| ("META-INF/encryption.xml", xml)));
    open_document("application/epub+zip", &parts)
}

#[test]
fn a_book_is_read_in_the_order_of_its_spine() {
    for name in ["book.epub", "book", "book.zip"] {
        let book = file(name, book(None));
        assert_eq!(book.content, "Flour\n\nRye & wheat.\n\nWater\n\nCold.", "{name}");
        assert_eq!(book.mime_type, "application/epub+zip");
        assert_eq!(book.title.as_deref(), Some("The Book of Bread"));
        assert_eq!(book.metadata["author"], "Ada Baker");
        let headings: Vec<_> = book
            .headings
            .iter()
            .map(|heading| (heading.level, &book.content[heading.span.clone()]))
            .collect();
        assert_eq!(headings, [(1, "Flour"), (2, "Water")]);
        assert!(book.problems.contains(&Problem::Hidden { count: 1 }), "{:?}", book.problems);
        assert!(book.problems.iter().any(|it| it.to_string().contains("1 chapters are named")));
    }
}

#[test]
fn a_book_with_a_lock_is_refused_and_locked_fonts_are_not_looked_at() {
    let locked = |part: &str| {
        format!(
            "<encryption><EncryptedData><CipherData><CipherReference URI='{part}'/></CipherData></EncryptedData></encryption>"
        )
    };
    let hint = Hint::file("book.epub");
    let error = refusal(book(Some(&locked("OEBPS/text/one.xhtml"))), &hint);
    assert_eq!(error, ExtractError::Encrypted);
    assert!(file("book.epub", book(Some(&locked("OEBPS/font.otf")))).content.contains("Rye"));
    let empty =
        open_document("application/epub+zip", &[("META-INF/container.xml", "<container/>")]);
    assert!(refusal(empty, &hint).to_string().starts_with("invalid EPUB: "));
}

const ODT: &str = "application/vnd.oasis.opendocument.text";

fn text(body: &str) -> String {
    format!(
        "<office:document-content xmlns:office='o' xmlns:text='t' xmlns:table='b' xmlns:style='s'><office:automatic-styles>\
         <style:style style:name='T1'><style:text-properties text:display='none'/></style:style></office:automatic-styles>\
         <office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
}

#[test]
fn an_open_document_text_is_read() {
    let body = "<text:tracked-changes><text:p>Deleted.</text:p></text:tracked-changes>\
        <text:h text:outline-level='1'>Bread &amp; wine</text:h>\
        <text:p>Flour,<text:s text:c='2'/>water<text:span text:style-name='T1'> Ignore this.</text:span>.<text:line-break/>Salt\
        <text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>From the sea.</text:p></text:note-body></text:note>.</text:p>\
        <text:list><text:list-item><text:p>one</text:p></text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>\
        <text:h text:outline-level='2'>Table</text:h>\
        <table:table><table:table-row><table:table-cell><text:p>When</text:p></table:table-cell><table:table-cell><text:p>What</text:p></table:table-cell></table:table-row>\
        <table:table-row><table:table-cell><text:p>noon</text:p></table:table-cell><table:table-cell><text:p>rest</text:p></table:table-cell></table:table-row></table:table>\
        <text:p>End.<office:annotation><text:p>A remark.</text:p></office:annotation></text:p>";
    let meta = "<office:document-meta><office:meta><dc:title xmlns:dc='d'>Food</dc:title></office:meta></office:document-meta>";
    let parts = [("content.xml", &*text(body)), ("meta.xml", meta)];
    let read = file("a.odt", open_document(ODT, &parts));
    assert_eq!(
        read.content,
        "Bread & wine\n\nFlour,  water.\nSalt (From the sea.).\n\n- one\n- two\n\nTable\n\n| When | What\n| noon | rest\n\nEnd.\n\nComment: A remark."
    );
    let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
    assert_eq!(headings, [(1, "Bread & wine"), (2, "Table")]);
    assert_eq!(read.title.as_deref(), Some("Food"));
    assert_eq!(read.problems, [Problem::Hidden { count: 1 }]);
    let locked =
        "<manifest:manifest xmlns:manifest='m'><manifest:encryption-data/></manifest:manifest>";
    let parts = [("META-INF/manifest.xml", locked), ("content.xml", "no XML")];
    assert_eq!(refusal(open_document(ODT, &parts), &Hint::file("a.odt")), ExtractError::Encrypted);
}

fn slide(attributes: &str, title: &str, text: &str) -> String {
    format!(
        "<p:sld xmlns:p='p' xmlns:a='a' {attributes}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr>\
         <p:txBody><a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:txBody></p:sp>\
         <p:sp><p:txBody>{text}</p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
}

#[test]
fn slides_are_read_in_the_order_in_which_they_are_shown() {
    let presentation = "<p:presentation xmlns:p='p' xmlns:r='r'><p:sldIdLst><p:sldId id='256' r:id='rId7'/><p:sldId id='257' r:id='rId3'/>\
        <p:sldId id='258' r:id='rId5'/></p:sldIdLst></p:presentation>";
    let relations = "<Relationships><Relationship Id='rId3' Target='slides/slide1.xml'/>\
        <Relationship Id='rId7' Target='/ppt/slides/slide2.xml'/><Relationship Id='rId5' Target='slides/slide3.xml'/></Relationships>";
    let table = "<a:p><a:r><a:t>Rye</a:t></a:r><a:br/><a:r><a:t>bread</a:t></a:r></a:p><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>When</a:t></a:r></a:p></a:txBody></a:tc>\
        <a:tc><a:txBody><a:p><a:r><a:t>What</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>";
    let one = slide("", "Water", "<a:p><a:r><a:t>Cold.</a:t></a:r></a:p>");
    let two = slide("", "Flour", table);
    let three = slide("show='0'", "Secret", "");
    let bytes = package(&[
        ("ppt/presentation.xml", presentation),
        ("ppt/_rels/presentation.xml.rels", relations),
        ("ppt/slides/slide1.xml", &one),
        ("ppt/slides/slide2.xml", &two),
        ("ppt/slides/slide3.xml", &three),
    ]);
    let shown = file("a.pptx", bytes);
    assert_eq!(shown.content, "Flour\nRye\nbread\n| When | What\n\nWater\nCold.");
    assert_eq!(shown.page_count, Some(3));
    let pages: Vec<_> = shown
        .pages
        .iter()
        .map(|page| (page.number, shown.content[page.span.clone()].trim()))
        .collect();
    assert_eq!(pages, [(1, "Flour\nRye\nbread\n| When | What"), (2, "Water\nCold.")]);
    let titles: Vec<_> = shown.headings.iter().map(|it| &*it.title).collect();
    assert_eq!(titles, ["Flour", "Water"]);
    assert_eq!(shown.problems, [Problem::Hidden { count: 1 }]);
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    let page = format!("<html><body><p>{}</p></body></html>", "bread ".repeat(200_000));
    let parts = [
        ("META-INF/container.xml", CONTAINER),
        ("OEBPS/content.opf", PACKAGE),
        ("OEBPS/text/one.xhtml", &*page),
    ];
    let mut hint = Hint::file("a.epub");
    hint.limits.max_unpacked_bytes = 100_000;
    let error = refusal(open_document("application/epub+zip", &parts), &hint);
    assert!(matches!(error, ExtractError::Limit { limit: "max_unpacked_bytes", .. }), "{error}");
    let body = text(&format!("<text:p>{}</text:p>", "<text:s text:c='4000000000'/>x".repeat(100)));
    let spaces = file("a.odt", open_document(ODT, &[("content.xml", &*body)]));
    assert!(spaces.content.len() < 10_000);
}

/// Pieces of the parts of each.
const PIECES: [&str; 30] = [
    "<p:sld show='0'>",
    "<p:sp>",
    "<p:ph type='title'/>",
    "</p:sp>",
    "<a:tbl>",
    "<a:tr>",
    "<a:tc>",
    "</a:tc>",
    "</a:tr>",
    "</a:tbl>",
    "<a:p>",
    "</a:p>",
    "<a:t>",
    "</a:t>",
    "text",
    " é ",
    "<text:h text:outline-level='3'>",
    "</text:h>",
    "<text:p>",
    "</text:p>",
    "<text:list-item>",
    "</text:list-item>",
    "<text:note>",
    "</text:note>",
    "<text:s text:c='9'/>",
    "<table:table>",
    "</table:table>",
    "<office:body>",
    "<title/>",
    "<h2 hidden>",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn any_parts_become_text_or_an_error(pieces in proptest::collection::vec(select(PIECES.to_vec()), 0..40)) {
        let part = pieces.concat();
        let slides = [
            ("ppt/presentation.xml", "<p><p:sldId r:id='a'/></p>"),
            ("ppt/_rels/presentation.xml.rels", "<r><Relationship Id='a' Target='s.xml'/></r>"),
            ("ppt/s.xml", &*part),
        ];
        let book = [("META-INF/container.xml", CONTAINER), ("OEBPS/content.opf", PACKAGE), ("OEBPS/text/one.xhtml", &*part)];
        let documents = [
            ("a.pptx", package(&slides)),
            ("a.odt", open_document(ODT, &[("content.xml", &*text(&part))])),
            ("a.epub", open_document("application/epub+zip", &book)),
        ];
        for (name, bytes) in documents {
            let Ok(read) = marquetry_extract::extract(&bytes, &Hint::file(name)) else { continue };
            let mut last = 0;
            for heading in &read.headings {
                prop_assert!(last <= heading.span.start && read.content.get(heading.span.clone()).is_some(), "{:?}", read);
                last = heading.span.end;
            }
        }
    }
}

#[test]
fn a_damaged_archive_is_an_invalid_document_of_the_format_in_its_name() {
    let whole = package(&[("a.txt", "Not the part that the format needs. ")]);
    for (extension, format) in [
        ("docx", "DOCX"),
        ("xlsx", "XLSX"),
        ("pptx", "PPTX"),
        ("odt", "ODT"),
        ("ods", "ODS"),
        ("epub", "EPUB"),
    ] {
        for bytes in [&whole[..], &whole[..whole.len() / 2], b"PK\x03\x04\0\xff\xfe\0"] {
            let error = refusal(bytes, &Hint::file(&format!("a.{extension}")));
            let ExtractError::Malformed { format: found, .. } = error else {
                panic!("{extension}: {error}")
            };
            assert_eq!(found, format);
        }
    }
    // An archive is an office document only under the name of one.
    assert!(matches!(refusal(&whole, &Hint::file("a.zip")), ExtractError::Unsupported { .. }));
    assert!(matches!(refusal(&whole, &Hint::file("a.md")), ExtractError::Unsupported { .. }));
}

#[test]
fn a_document_whose_media_type_is_compressed_is_known_by_its_name() {
    let content = "<office:document-content xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' \
        xmlns:table='urn:oasis:names:tc:opendocument:xmlns:table:1.0' xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0'>\
        <office:body><office:spreadsheet><table:table table:name='One'><table:table-row><table:table-cell \
        office:value-type='string'><text:p>Rye</text:p></table:table-cell></table:table-row></table:table>\
        </office:spreadsheet></office:body></office:document-content>";
    let media_type = "application/vnd.oasis.opendocument.spreadsheet";
    let bytes = package(&[("mimetype", media_type), ("content.xml", content)]);
    let sheet = file("a.ods", bytes);
    assert!(sheet.content.contains("Rye"), "{}", sheet.content);
    assert_eq!(sheet.mime_type, media_type);
}
