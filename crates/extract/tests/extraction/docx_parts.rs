//! The parts of Word's documents: where they are, and which text they have.

use marquetry_extract::{ExtractError, Hint, Problem};

use super::{
    file, refusal,
    support::docx::{document, package, paragraph},
};

const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

fn relationships(items: &[(&str, &str, &str)]) -> String {
    let items: Vec<String> = items
        .iter()
        .map(|(id, kind, target)| {
            format!("<Relationship Id='{id}' Type='{OFFICE}/{kind}' Target='{target}'/>")
        })
        .collect();
    format!("<Relationships>{}</Relationships>", items.concat())
}

/// A document with this body, and these further parts with their relationships.
fn with_parts(body: &str, related: &[(&str, &str, &str)], parts: &[(&str, &str)]) -> Vec<u8> {
    let main = document(body);
    let related = relationships(related);
    let mut all = vec![("word/document.xml", &*main), ("word/_rels/document.xml.rels", &*related)];
    all.extend(parts);
    package(&all)
}

#[test]
fn the_main_part_is_found_by_its_relationship() {
    let text = document(&paragraph("Flour"));
    for (name, target) in [
        ("word/document2.xml", "word/document2.xml"),
        ("word/document2.xml", "/word/document2.xml"),
        ("Word/Document.XML", "word/document.xml"),
        ("word\\document.xml", "word\\document.xml"),
        ("text/main part.xml", "text/main%20part.xml"),
    ] {
        let root = relationships(&[("a", "officeDocument", target)]);
        let bytes = package(&[("_rels/.rels", &root), (name, &text)]);
        assert_eq!(file("a.docx", &bytes).content.trim(), "Flour", "{name}");
        assert_eq!(file("download.docx", bytes).content.trim(), "Flour", "{name}");
    }
    let strict = "<Relationships><Relationship Id='a' Target='word/d.xml' \
        Type='http://purl.oclc.org/ooxml/officeDocument/relationships/officeDocument'/></Relationships>";
    let bytes = package(&[("_rels/.rels", strict), ("word/d.xml", &text)]);
    assert_eq!(file("download", bytes).content.trim(), "Flour");
}

fn styled(style: &str) -> String {
    format!("<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr><w:r><w:t>{style}</w:t></w:r></w:p>")
}

#[test]
fn styles_inherit() {
    let styles = "<w:styles xmlns:w='w'>\
        <w:style w:styleId='H1'><w:name w:val='heading 1'/></w:style>\
        <w:style w:styleId='Corp'><w:name w:val='Corp'/><w:basedOn w:val='H1'/></w:style>\
        <w:style w:styleId='Deep'><w:basedOn w:val='Corp'/></w:style>\
        <w:style w:styleId='Toc'><w:basedOn w:val='H1'/><w:pPr><w:outlineLvl w:val='9'/></w:pPr></w:style>\
        <w:style w:styleId='Ring'><w:basedOn w:val='Ring'/></w:style>\
        <w:style w:styleId='Secret'><w:rPr><w:vanish/></w:rPr></w:style>\
        <w:style w:styleId='Quiet'><w:basedOn w:val='Secret'/></w:style></w:styles>";
    let body = ["Corp", "Deep", "Toc", "Ring", "Heading2", "Quiet"].map(styled).concat()
        + "<w:p><w:r><w:rPr><w:rStyle w:val='Quiet'/></w:rPr><w:t>hidden</w:t></w:r></w:p>";
    let read = file("a.docx", with_parts(&body, &[], &[("word/styles.xml", styles)]));
    let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
    // Some programs do not write the built-in styles.
    assert_eq!(headings, [(1, "Corp"), (1, "Deep"), (2, "Heading2")]);
    assert!(!read.content.contains("Quiet") && !read.content.contains("hidden"));
    assert_eq!(read.problems, [Problem::Hidden { count: 2 }]);
}

fn level(number: u8, format: &str, text: &str) -> String {
    format!(
        "<w:lvl w:ilvl='{number}'><w:start w:val='1'/><w:numFmt w:val='{format}'/><w:lvlText w:val='{text}'/></w:lvl>"
    )
}

fn item(properties: &str, text: &str) -> String {
    format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

#[test]
fn items_and_headings_have_their_automatic_numbers() {
    let numbering = format!(
        "<w:numbering xmlns:w='w'><w:abstractNum w:abstractNumId='0'>{}{}</w:abstractNum>\
         <w:abstractNum w:abstractNumId='1'>{}</w:abstractNum>\
         <w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num>\
         <w:num w:numId='2'><w:abstractNumId w:val='0'/><w:lvlOverride w:ilvl='0'><w:startOverride w:val='5'/></w:lvlOverride></w:num>\
         <w:num w:numId='3'><w:abstractNumId w:val='1'/></w:num></w:numbering>",
        level(0, "upperRoman", "Article %1."),
        level(1, "lowerLetter", "%1.%2)"),
        level(0, "bullet", "\u{F0B7}"),
    );
    let styles = "<w:styles xmlns:w='w'><w:style w:styleId='H'><w:name w:val='heading 1'/><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>\
        <w:style w:styleId='H2'><w:basedOn w:val='H'/><w:pPr><w:numPr><w:ilvl w:val='1'/></w:numPr><w:outlineLvl w:val='1'/></w:pPr></w:style></w:styles>";
    let list =
        |list: u8| format!("<w:numPr><w:ilvl w:val='0'/><w:numId w:val='{list}'/></w:numPr>");
    let body = [
        item("<w:pStyle w:val='H'/>", "Flour"),
        item("<w:pStyle w:val='H2'/>", "Rye"),
        item("<w:pStyle w:val='H2'/>", "Wheat"),
        item("<w:pStyle w:val='H'/>", "Water"),
        item("<w:pStyle w:val='H2'/>", "Cold"),
        item(&list(3), "bullet"),
        item(&list(2), "five"),
        item(&list(2), "six"),
        item(&list(0), "none"),
    ]
    .concat();
    let parts = [("word/styles.xml", styles), ("word/numbering.xml", &*numbering)];
    let read = file("a.docx", with_parts(&body, &[], &parts));
    assert_eq!(
        read.content.trim_end(),
        "Article I. Flour\n\nI.a) Rye\n\nI.b) Wheat\n\nArticle II. Water\n\nII.a) Cold\n\n\
         - bullet\nArticle V. five\nArticle VI. six\n\nnone"
    );
    assert_eq!(read.headings[2].title, "I.b) Wheat");
    assert_eq!(&read.content[read.headings[2].span.clone()], "I.b) Wheat");
}

#[test]
fn what_stands_around_the_body_is_read() {
    let part =
        |name: &str, text: &str| format!("<w:{name} xmlns:w='w'>{}</w:{name}>", paragraph(text));
    let header = part("hdr", "Letterhead");
    let footer = part("ftr", "Register");
    let first = part("hdr", "Old draft");
    let number = part("ftr", "7");
    let comments = format!(
        "<w:comments xmlns:w='w'><w:comment w:author='Ada'>{}</w:comment></w:comments>",
        paragraph("Too salty.")
    );
    let heading = "<w:p><w:pPr><w:outlineLvl w:val='0'/></w:pPr><w:r><w:t>Bread</w:t></w:r></w:p>";
    let body = format!(
        "{heading}{}<w:sectPr><w:headerReference w:type='default' r:id='h'/><w:headerReference w:type='even' r:id='h2'/>\
         <w:headerReference w:type='first' r:id='h3'/><w:footerReference r:id='f'/><w:footerReference r:id='f2'/></w:sectPr>",
        paragraph("Flour.")
    );
    let related = [
        ("h", "header", "header1.xml"),
        ("h2", "header", "header2.xml"),
        ("h3", "header", "header3.xml"),
        ("f", "footer", "footer1.xml"),
        ("f2", "footer", "footer2.xml"),
        ("c", "comments", "remarks/all.xml"),
    ];
    let parts = [
        ("word/header1.xml", &*header),
        ("word/header2.xml", &header),
        ("word/header3.xml", &first),
        ("word/footer1.xml", &footer),
        ("word/footer2.xml", &number),
        ("word/remarks/all.xml", &comments),
    ];
    let read = file("a.docx", with_parts(&body, &related, &parts));
    // Equal headers once; neither the header of a first page that is not special, nor a number.
    assert_eq!(
        read.content.trim_end(),
        "Letterhead\n\nBread\n\nFlour.\n\nComment (Ada): Too salty.\n\nRegister"
    );
    assert_eq!(&read.content[read.headings[0].span.clone()], "Bread");
}

#[test]
fn drawings_are_read_after_their_paragraph() {
    let diagram = "<dgm:dataModel xmlns:dgm='d' xmlns:a='a'><dgm:ptLst>\
        <dgm:pt modelId='3'><dgm:t><a:p><a:r><a:t>second</a:t></a:r></a:p></dgm:t></dgm:pt>\
        <dgm:pt modelId='2'><dgm:t><a:p><a:r><a:t>first</a:t></a:r></a:p></dgm:t></dgm:pt><dgm:pt modelId='1' type='doc'/></dgm:ptLst>\
        <dgm:cxnLst><dgm:cxn srcId='1' destId='3' srcOrd='1'/><dgm:cxn srcId='1' destId='2' srcOrd='0'/></dgm:cxnLst></dgm:dataModel>";
    let chart = "<c:chartSpace xmlns:c='c' xmlns:a='a'><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title>\
        <c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Rye</c:v></c:pt></c:strCache></c:strRef></c:tx>\
        <c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>May</c:v></c:pt><c:pt idx='1'><c:v>June</c:v></c:pt></c:strCache></c:strRef></c:cat>\
        <c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>1.5</c:v></c:pt><c:pt idx='1'><c:v>2</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:barChart>\
        <c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>Tons</a:t></a:r></a:p></c:rich></c:tx></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>";
    let body = "<w:p><w:r><w:t>One</w:t></w:r><w:r><w:drawing><wp:inline><wp:docPr descr='A loaf'/></wp:inline></w:drawing></w:r>\
        <w:r><w:drawing><wp:inline><wp:docPr descr='image1.png'/><dgm:relIds r:dm='d' r:lo='x'/></wp:inline></w:drawing></w:r>\
        <w:r><w:drawing><c:chart r:id='c'/></w:drawing></w:r>\
        <w:r><w:pict><v:shape alt='A mill'><v:textpath string='WordArt'/></v:shape></w:pict></w:r><w:r><w:t> sentence.</w:t></w:r></w:p>";
    let related = [("d", "diagramData", "diagrams/data1.xml"), ("c", "chart", "charts/chart1.xml")];
    let parts = [("word/diagrams/data1.xml", diagram), ("word/charts/chart1.xml", chart)];
    let read = file("a.docx", with_parts(body, &related, &parts));
    assert_eq!(
        read.content.trim_end(),
        "One sentence.\n\nA loaf\nfirst\nsecond\nSales\nRye: May 1.5; June 2\nTons\nA mill\nWordArt"
    );
}

fn alternative(choice: &str, fallback: &str) -> String {
    format!(
        "<w:p><w:r><mc:AlternateContent><mc:Choice>{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
}

#[test]
fn a_fallback_is_read_if_nothing_else_is_understood() {
    let text = |text: &str| format!("<w:txbxContent>{}</w:txbxContent>", paragraph(text));
    let hidden = "<w:txbxContent><w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r></w:p></w:txbxContent>";
    let body = [
        alternative("<x:new/>", &text("old")),
        alternative(&text("new"), &text("new")),
        alternative(hidden, &text("secret")),
    ];
    let read = file("a.docx", with_parts(&body.concat(), &[], &[]));
    assert_eq!(read.content.split_whitespace().collect::<Vec<_>>(), ["old", "new"]);
}

#[test]
fn alternative_chunks_are_read_in_their_place() {
    let page = "<p>x</p><h2>Chapter</h2><p>From <b>HTML</b>.</p>";
    let mail = "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html\n\
        Content-Transfer-Encoding: quoted-printable\n\n<p>Gr=C3=BC=\n=C3=9Fe</p>\n--b--\n";
    let types = "<Types><Default Extension='dat' ContentType='text/html'/><Override PartName='/word/b.bin' ContentType='message/rfc822'/></Types>";
    let body = format!(
        "{}<w:altChunk r:id='a'/><w:altChunk r:id='m'/><w:altChunk r:id='r'/><w:altChunk r:id='bad'/>{}",
        paragraph("Before"),
        paragraph("After")
    );
    let related = [
        ("a", "aFChunk", "a.dat"),
        ("m", "aFChunk", "b.bin"),
        ("r", "aFChunk", "/word/c.rtf"),
        ("bad", "aFChunk", "gone.docx"),
    ];
    let parts = [
        ("[content_types].xml", types),
        ("word/a.dat", page),
        ("word/b.bin", mail),
        ("word/c.rtf", r"{\rtf1 Rich}"),
    ];
    let read = file("a.docx", with_parts(&body, &related, &parts));
    assert_eq!(
        read.content.trim_end(),
        "Before\n\nx\n\nChapter\n\nFrom HTML.\n\nGrüße\n\nRich\n\nAfter"
    );
    assert_eq!(&read.content[read.headings[0].span.clone()], "Chapter");
    assert!(read.problems[0].to_string().starts_with("word/gone.docx is left out"));
}

/// A document within a document within a document: the depth is limited, and no reader waits for
/// memory that an outer one holds.
#[test]
fn documents_within_documents_end() {
    use std::io::{Cursor, Write as _};

    use zip::{ZipWriter, write::SimpleFileOptions};

    let mut inner = with_parts(&paragraph("core"), &[], &[]);
    for depth in 0..6 {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let main = document(&format!("{}<w:altChunk r:id='a'/>", paragraph(&format!("d{depth}"))));
        let related = relationships(&[("a", "aFChunk", "in.docx")]);
        for (name, content) in [
            ("word/document.xml", main.as_bytes()),
            ("word/_rels/document.xml.rels", related.as_bytes()),
            ("word/in.docx", &inner),
        ] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        inner = zip.finish().unwrap().into_inner();
    }
    let mut hint = Hint::file("a.docx");
    hint.limits.max_unpacked_bytes_at_once = 1;
    let read = marquetry_extract::extract(&inner, &hint).unwrap();
    assert_eq!(read.content.split_whitespace().collect::<Vec<_>>(), ["d5", "d4", "d3", "d2"]);
    assert!(read.problems[0].to_string().contains("left out"), "{:?}", read.problems);
    hint.limits.max_unpacked_bytes = 4_000;
    let error = refusal(&inner, &hint);
    assert!(matches!(error, ExtractError::Limit { limit: "max_unpacked_bytes", .. }), "{error}");
}

#[test]
fn symbols_are_characters_and_readings_do_not_split_words() {
    let body = "<w:p><w:r><w:t xml:space='preserve'>x </w:t><w:sym w:font='Symbol' w:char='F0A3'/><w:t xml:space='preserve'> 3 </w:t>\
        <w:sym w:font='Wingdings' w:char='F0FC'/><w:sym w:font='Own' w:char='F041'/></w:r>\
        <w:r><w:rPr><w:rFonts w:ascii='Symbol'/></w:rPr><w:t>\u{F061}</w:t></w:r></w:p>\
        <w:p><w:r><w:t>新</w:t></w:r><w:r><w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r>\
        <w:r><w:t>駅</w:t></w:r></w:p><w:p><w:r><w:fldChar><w:ffData><w:ddList><w:result w:val='1'/><w:listEntry w:val='no'/><w:listEntry w:val='yes'/></w:ddList></w:ffData></w:fldChar></w:r></w:p>";
    let read = file("a.docx", with_parts(body, &[], &[]));
    assert_eq!(read.content.trim_end(), "x ≤ 3 ✓α\n\n新東京駅\n\nyes");
    let reason = "1 readings above characters (ruby) are left out".to_owned();
    assert_eq!(read.problems, [Problem::Other { reason }]);
}

#[test]
fn a_document_of_pictures_says_that_it_has_no_text() {
    let picture = [("word/media/image1.png", "picture")];
    let problems = file("a.docx", with_parts(&paragraph(""), &[], &picture)).problems;
    assert_eq!(problems, [Problem::Pictures { pages: Vec::new() }]);
    let text = "it has pictures and no text; text in pictures is not recognised";
    assert_eq!(problems[0].to_string(), text);
    assert!(file("a.docx", with_parts(&paragraph("One"), &[], &picture)).problems.is_empty());
    assert!(file("a.docx", with_parts(&paragraph(""), &[], &[])).problems.is_empty());
}
