//! Slides of PowerPoint, and the drawings of Excel.

use marquetry_extract::Problem;

use super::{file, support::package::package};

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

fn shape(properties: &str, text: &str) -> String {
    format!(
        "<p:sp><p:nvSpPr>{properties}</p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
}

fn tree(name: &str, shapes: &[String]) -> String {
    format!(
        "<p:{name} xmlns:p='p' xmlns:a='a'><p:cSld><p:spTree>{}</p:spTree></p:cSld></p:{name}>",
        shapes.concat()
    )
}

const CHART: &str = "<c:chartSpace xmlns:c='c' xmlns:a='a'><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title></c:chart></c:chartSpace>";

#[test]
fn slides_have_notes_comments_charts_and_layouts() {
    let numbered = "<p:sp><p:txBody><a:p><a:pPr><a:buAutoNum type='alphaLcParenR'/></a:pPr><a:r><a:t>mix</a:t></a:r></a:p>\
        <a:p><a:pPr lvl='1'><a:buAutoNum type='arabicPeriod' startAt='3'/></a:pPr><a:r><a:t>deep</a:t></a:r></a:p>\
        <a:p><a:pPr><a:buAutoNum type='alphaLcParenR'/></a:pPr><a:r><a:t>bake</a:t></a:r></a:p></p:txBody></p:sp>";
    let slide = tree(
        "sld",
        &[
            shape("<p:ph type='title'/>", "Bread"),
            numbered.to_owned(),
            shape("<p:cNvPr hidden='1'/>", "secret"),
            "<p:pic><p:nvPicPr><p:cNvPr descr='A loaf'/></p:nvPicPr></p:pic>".to_owned(),
            "<p:graphicFrame><a:graphic><c:chart r:id='c'/></a:graphic></p:graphicFrame>"
                .to_owned(),
        ],
    );
    let notes = tree(
        "notes",
        &[shape("<p:ph type='sldNum'/>", "1"), shape("<p:ph type='body'/>", "Speak slowly.")],
    );
    let layout = tree(
        "sldLayout",
        &[
            shape("<p:ph type='title'/>", "Click to edit"),
            shape("", "Bakers & Co".replace('&', "&amp;").as_str()),
        ],
    );
    let comments = "<p:cmLst xmlns:p='p'><p:cm><p:text>Too long.</p:text></p:cm></p:cmLst>";
    let root = relationships(&[("a", "officeDocument", "PPT/Show.xml")]);
    let show = "<p:presentation xmlns:p='p' xmlns:r='r'><p:sldIdLst><p:sldId id='256' r:id='s'/><p:sldId id='257' r:id='s2'/></p:sldIdLst></p:presentation>";
    let slides =
        relationships(&[("s", "slide", "slides\\one.xml"), ("s2", "slide", "slides/two.xml")]);
    let of_one = relationships(&[
        ("c", "chart", "../charts/chart1.xml"),
        ("n", "notesSlide", "../notes.xml"),
        ("m", "comments", "../comments.xml"),
        ("l", "slideLayout", "../layout.xml"),
    ]);
    let of_two = relationships(&[("l", "slideLayout", "../layout.xml")]);
    let two = tree("sld", &[shape("", "Second.")]);
    let bytes = package(&[
        ("_rels/.rels", &root),
        ("ppt/show.xml", show),
        ("ppt/_rels/show.xml.rels", &slides),
        ("ppt/slides/one.xml", &slide),
        ("ppt/slides/two.xml", &two),
        ("ppt/slides/_rels/one.xml.rels", &of_one),
        ("ppt/slides/_rels/two.xml.rels", &of_two),
        ("ppt/charts/chart1.xml", CHART),
        ("ppt/notes.xml", &notes),
        ("ppt/comments.xml", comments),
        ("ppt/layout.xml", &layout),
    ]);
    let read = file("download", bytes);
    assert_eq!(
        read.content,
        "Bread\na) mix\n3. deep\nb) bake\nA loaf\nSales\nBakers & Co\nSpeak slowly.\nComment: Too long.\n\nSecond."
    );
    assert_eq!(read.headings.len(), 1);
    assert_eq!(&read.content[read.pages[1].span.clone()], "Second.");
    assert_eq!(read.problems, [Problem::Hidden { count: 1 }]);
}

#[cfg(feature = "spreadsheet")]
#[test]
fn sheets_have_comments_text_boxes_charts_and_headers() {
    let root = relationships(&[("a", "officeDocument", "xl/book.xml")]);
    let book = "<workbook xmlns:r='r'><sheets><sheet name='Bread' r:id='s'/><sheet name='Plot' r:id='p'/></sheets></workbook>";
    let of_book =
        relationships(&[("s", "worksheet", "/XL/Sheets/One.xml"), ("p", "chartsheet", "plot.xml")]);
    let sheet = "<worksheet><sheetData><row><c t='inlineStr'><is><t>Rye</t></is></c></row></sheetData>\
        <headerFooter><oddHeader>&amp;C&amp;\"Arial\"Report</oddHeader><oddFooter>&amp;P</oddFooter></headerFooter></worksheet>";
    let of_sheet = relationships(&[
        ("d", "drawing", "../drawings/d.xml"),
        ("c", "comments", "../comments1.xml"),
        ("t", "threadedComment", "../threads.xml"),
    ]);
    let drawing = "<xdr:wsDr xmlns:xdr='x' xmlns:a='a'><xdr:sp><xdr:txBody><a:p><a:r><a:t>A box.</a:t></a:r></a:p></xdr:txBody></xdr:sp>\
        <xdr:graphicFrame><c:chart r:id='c'/></xdr:graphicFrame></xdr:wsDr>";
    let of_drawing = relationships(&[("c", "chart", "../chart.xml")]);
    let old = "<comments><commentList><comment ref='A1'><text><t>[Threaded comment]</t></text></comment></commentList></comments>";
    let threads = "<ThreadedComments><threadedComment ref='A1'><text>Which rye?</text></threadedComment>\
        <threadedComment ref='A1'><text>The old one.</text></threadedComment></ThreadedComments>";
    let of_plot = relationships(&[("d", "drawing", "drawings/d.xml")]);
    let bytes = package(&[
        ("_rels/.rels", &root),
        ("xl/book.xml", book),
        ("xl/_rels/book.xml.rels", &of_book),
        ("xl/sheets/one.xml", sheet),
        ("xl/sheets/_rels/one.xml.rels", &of_sheet),
        ("xl/plot.xml", "<chartsheet/>"),
        ("xl/_rels/plot.xml.rels", &of_plot),
        ("xl/drawings/d.xml", drawing),
        ("xl/drawings/_rels/d.xml.rels", &of_drawing),
        ("xl/chart.xml", CHART),
        ("xl/comments1.xml", old),
        ("xl/threads.xml", threads),
    ]);
    let read = file("download", bytes);
    assert_eq!(
        read.content,
        "Bread\n\nRye\n\nReport\nA box.\nSales\nComment (A1): Which rye?\nComment (A1): The old one.\n\nPlot\n\nA box.\nSales\n"
    );
}
