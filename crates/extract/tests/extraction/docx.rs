//! Word's documents.

use marquetry_extract::{ExtractError, Hint, Problem};

use super::{
    file, refusal,
    support::docx::{body, document, package, paragraph},
};

fn styled(style: &str, text: &str) -> String {
    format!("<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

fn item(text: &str) -> String {
    format!(
        "<w:p><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"
    )
}

fn cell(text: &str) -> String {
    format!("<w:tc>{}</w:tc>", if text.is_empty() { "<w:p/>".to_owned() } else { paragraph(text) })
}

#[test]
fn paragraphs_headings_tables_and_notes_are_read() {
    let styles = "<w:styles xmlns:w='w'><w:style w:styleId='berschrift1'><w:name w:val='heading 1'/></w:style>\
        <w:style w:styleId='Own'><w:name w:val='Own'/><w:pPr><w:outlineLvl w:val='1'/></w:pPr></w:style></w:styles>";
    let body = [
        styled("berschrift1", "Bread &amp; wine"),
        "<w:p><w:r><w:t xml:space='preserve'>Flour, </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>water</w:t></w:r>\
         <w:del><w:r><w:delText>beer</w:delText></w:r></w:del><w:r><w:t>.</w:t><w:br/><w:t>Salt.</w:t></w:r></w:p>".to_owned(),
        item("one"),
        item("two"),
        styled("Own", "Table"),
        format!(
            "<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}{}</w:tr></w:tbl>",
            cell("When"), cell("What"), cell("noon"), cell(""), cell("rest")
        ),
        paragraph("End."),
    ]
    .concat();
    let core = "<cp:coreProperties xmlns:cp='c' xmlns:dc='d'><dc:title>Food</dc:title><dc:creator>A. Baker</dc:creator></cp:coreProperties>";
    let notes = format!(
        "<w:footnotes xmlns:w='w'><w:footnote>{}</w:footnote></w:footnotes>",
        paragraph("A note.")
    );
    let page = file(
        "a.docx",
        package(&[
            ("word/document.xml", &document(&body)),
            ("word/styles.xml", styles),
            ("word/footnotes.xml", &notes),
            ("docProps/core.xml", core),
        ]),
    );
    assert_eq!(
        page.content.trim_end(),
        "Bread & wine\n\nFlour, water.\nSalt.\n\n- one\n- two\n\nTable\n\n| When | What\n| noon | | rest\n\nEnd.\n\nA note."
    );
    let headings: Vec<_> = page
        .headings
        .iter()
        .map(|heading| (heading.level, &page.content[heading.span.clone()]))
        .collect();
    assert_eq!(headings, [(1, "Bread & wine"), (2, "Table")]);
    assert_eq!(page.title.as_deref(), Some("Food"));
    assert_eq!(page.metadata["author"], "A. Baker");
    assert_eq!((page.page_count, page.encoding), (None, None));
}

#[test]
fn pages_are_where_word_has_seen_them() {
    let rendered = "<w:p><w:r><w:t>One</w:t></w:r></w:p><w:p><w:r><w:lastRenderedPageBreak/><w:t>Two</w:t></w:r></w:p>";
    let page = file("a.docx", body(rendered));
    assert_eq!(page.page_count, Some(2));
    let texts: Vec<_> =
        page.pages.iter().map(|found| page.content[found.span.clone()].trim()).collect();
    assert_eq!(texts, ["One", "Two"]);

    let app = "<Properties><Pages>7</Pages></Properties>";
    let page = file(
        "a.docx",
        package(&[("word/document.xml", &document(rendered)), ("docProps/app.xml", app)]),
    );
    assert_eq!((page.page_count, page.pages.len()), (Some(7), 2));

    let app = "<Properties><Pages>1</Pages></Properties>";
    let page = file(
        "a.docx",
        package(&[("word/document.xml", &document(rendered)), ("docProps/app.xml", app)]),
    );
    assert_eq!(page.page_count, Some(2));

    let asked = "<w:p><w:r><w:t>One</w:t><w:br w:type='page'/><w:t>Two</w:t></w:r></w:p>";
    assert_eq!(file("a.docx", body(asked)).page_count, Some(2));
}

#[test]
fn hidden_text_of_word_is_left_out() {
    let hidden = "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r>\
        <w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t>seen</w:t></w:r>\
        <w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom></w:p>";
    let page = file("a.docx", body(hidden));
    assert_eq!(page.content.trim(), "seen");
    assert_eq!(page.problems, [Problem::Hidden { count: 1 }]);
}

#[test]
fn text_boxes_are_read_once() {
    let text = paragraph("box");
    let body_ = format!(
        "<w:p><w:r><w:t>before</w:t></w:r><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>{text}</w:txbxContent></mc:Choice>\
         <mc:Fallback><w:txbxContent>{text}</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r><w:r><w:t>after</w:t></w:r></w:p>"
    );
    let page = file("a.docx", body(&body_));
    assert_eq!(page.content.matches("box").count(), 1, "{}", page.content);
    assert!(page.content.starts_with("before") && page.content.trim_end().ends_with("after"));
}

#[test]
fn a_docx_is_recognised_by_its_bytes() {
    let page = file("download", body(&paragraph("Hello")));
    assert_eq!(
        page.mime_type,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    );
    let other = package(&[("visio/document.xml", "<document/>")]);
    assert!(matches!(refusal(other, &Hint::file("a.vsdx")), ExtractError::Unsupported { .. }));
}

#[test]
fn damaged_documents_are_reported() {
    let whole = body(&paragraph("Hello"));
    let error = refusal(&whole[..whole.len() / 2], &Hint::file("a.docx"));
    assert!(error.to_string().starts_with("invalid DOCX: "), "{error}");
    let error = refusal(package(&[]), &Hint::file("a.docx"));
    assert_eq!(error.to_string(), "invalid DOCX: it has no word/document.xml");
    let error = refusal(package(&[("word/document.xml", "<a><b></a>")]), &Hint::file("a.docx"));
    assert!(error.to_string().starts_with("invalid DOCX: word/document.xml, byte "), "{error}");
    let mut encrypted = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
    encrypted.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(refusal(encrypted, &Hint::file("a.docx")), ExtractError::Encrypted);
}

#[test]
fn a_bomb_is_refused_before_it_fills_the_memory() {
    let bomb = body(&" ".repeat(64 << 20));
    assert!(bomb.len() < 1 << 20);
    let mut hint = Hint::file("a.docx");
    hint.limits.max_unpacked_bytes = 1 << 20;
    let error = refusal(bomb, &hint);
    assert_eq!(
        error.to_string(),
        "the limit max_unpacked_bytes is 1048576, the document has 67109015 or more"
    );
}

#[test]
fn depth_and_entities_do_no_harm() {
    let deep = format!(
        "{}{}{}",
        "<w:tbl><w:tr><w:tc>".repeat(50_000),
        paragraph("core"),
        "</w:tc></w:tr></w:tbl>".repeat(50_000)
    );
    assert!(file("a.docx", body(&deep)).content.contains("core"));
    let entities = "<!DOCTYPE w [<!ENTITY a 'secret'>]><w:document xmlns:w='w'><w:p><w:r><w:t>x&a;y</w:t></w:r></w:p></w:document>";
    assert_eq!(file("a.docx", package(&[("word/document.xml", entities)])).content.trim(), "xy");
}
