//! What OpenDocument documents have beside their paragraphs.

use marquetry_extract::Problem;

use super::{file, support::package::open_document};

const TEXT: &str = "application/vnd.oasis.opendocument.text";
const SLIDES: &str = "application/vnd.oasis.opendocument.presentation";

const STYLES: &str = "<office:document-styles><office:styles>\
    <text:outline-style><text:outline-level-style text:level='1' style:num-format='1' style:num-suffix='.'/>\
    <text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style>\
    <text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='a' style:num-suffix=')' text:start-value='2'/></text:list-style>\
    <style:style style:name='Gone'><style:text-properties text:display='none'/></style:style>\
    <style:style style:name='heading-2'/><style:style style:name='Own' style:parent-style-name='heading-2'/></office:styles>\
    <office:master-styles><style:master-page><style:header><text:p>Letterhead</text:p></style:header>\
    <style:header-first style:display='false'><text:p>Old</text:p></style:header-first>\
    <style:footer><text:p>Page <text:page-number>1</text:page-number></text:p></style:footer></style:master-page></office:master-styles></office:document-styles>";

fn content(kind: &str, body: &str) -> String {
    format!(
        "<office:document-content><office:automatic-styles><style:style style:name='P' style:parent-style-name='Gone'/></office:automatic-styles>\
         <office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
}

#[test]
fn texts_have_headers_numbers_boxes_charts_and_comments() {
    let body = "<text:h text:outline-level='1'>Bread</text:h><text:h text:outline-level='2'>Rye</text:h><text:h text:outline-level='2'>Wheat</text:h>\
        <text:p>One<draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box><svg:desc>A loaf</svg:desc></draw:frame>\
        <draw:frame><draw:object xlink:href='./Object 1'/></draw:frame>\
        <office:annotation><dc:creator>Ada</dc:creator><text:p>Too</text:p><text:p>salty.</text:p></office:annotation> sentence.</text:p>\
        <text:list text:style-name='L'><text:list-item><text:p>mix</text:p></text:list-item><text:list-item><text:p>bake</text:p></text:list-item></text:list>\
        <text:p>新<text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby>駅</text:p>\
        <text:p text:style-name='P'>secret</text:p><text:section text:display='none'><text:p>secret</text:p></text:section>\
        <text:list text:style-name='L' text:continue-numbering='true'><text:list-item><text:p>eat</text:p></text:list-item></text:list>\
        <text:p text:style-name='Own'>Styled</text:p>";
    let chart = "<office:document-content><office:chart><chart:title><text:p>Sales</text:p></chart:title>\
        <table:table><table:table-row><table:table-cell><text:p>May</text:p></table:table-cell><table:table-cell><text:p>7</text:p></table:table-cell></table:table-row></table:table>\
        </office:chart></office:document-content>";
    let content = content("text", body);
    let parts =
        [("content.xml", &*content), ("Styles.xml", STYLES), ("Object 1/content.xml", chart)];
    let read = file("a.odt", open_document(TEXT, &parts));
    assert_eq!(
        read.content,
        "Letterhead\n\n1. Bread\n\n1.1 Rye\n\n1.2 Wheat\n\nOne sentence.\n\nIn a box.\nA loaf\nSales\nMay 7\nComment: Too salty.\n\n\
         b) mix\nc) bake\n\n新東京駅\n\nd) eat\n\nStyled\n\nPage 1"
    );
    let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
    assert_eq!(headings, [(1, "1. Bread"), (2, "1.1 Rye"), (2, "1.2 Wheat"), (2, "Styled")]);
    assert_eq!(&read.content[read.headings[1].span.clone()], "1.1 Rye");
    assert!(read.problems.contains(&Problem::Hidden { count: 2 }), "{:?}", read.problems);
}

#[test]
fn presentations_are_read_by_slides() {
    let body = "<draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>Bread</text:p></draw:text-box></draw:frame>\
        <draw:custom-shape><text:p>Flour.</text:p></draw:custom-shape><draw:frame><draw:image/><svg:title>A loaf</svg:title></draw:frame>\
        <presentation:notes><draw:frame><draw:text-box><text:p>Speak slowly.</text:p></draw:text-box></draw:frame>\
        <draw:frame presentation:class='page-number'><draw:text-box><text:p>7</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>\
        <draw:page><draw:frame><draw:text-box><text:p>Second.</text:p></draw:text-box></draw:frame></draw:page>";
    let content = content("presentation", body);
    let bytes = open_document(SLIDES, &[("content.xml", &*content)]);
    for name in ["a.odp", "download"] {
        let read = file(name, &bytes);
        assert_eq!(read.content, "Bread\n\nFlour.\n\nA loaf\n\nSpeak slowly.\n\nSecond.");
        assert_eq!(read.page_count, Some(2));
        assert_eq!(&read.content[read.pages[1].span.clone()], "Second.");
        assert_eq!(read.headings[0].title, "Bread");
        assert_eq!(read.mime_type, SLIDES);
    }
}

#[test]
fn flat_documents_are_read() {
    let text = "<?xml version='1.0'?><office:document><office:meta><dc:title>Food</dc:title></office:meta><office:body><office:text>\
        <text:p>Flour.<draw:image><office:binary-data>iVBORw0KGgo</office:binary-data></draw:image></text:p></office:text></office:body></office:document>";
    let read = file("a.fodt", text);
    assert_eq!((&*read.content, read.title.as_deref()), ("Flour.", Some("Food")));
}
