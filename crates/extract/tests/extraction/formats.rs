//! The text of each format.

use marquetry_extract::{ExtractError, Hint, Problem};

use super::{extract, file, refusal};

fn titles(extracted: &marquetry_extract::Extracted) -> Vec<(u8, &str)> {
    extracted.headings.iter().map(|heading| (heading.level, heading.title.as_str())).collect()
}

#[track_caller]
fn html(source: &str, expected: &str) {
    assert_eq!(extract(source, &Hint::media_type("text/html")).content, expected);
}

#[test]
fn html_gives_the_text_that_a_browser_shows() {
    let page = file(
        "page.html",
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Bread &amp; wine</title>\
         <meta name=author content='A. Baker'><style>p { color: red }</style><script>alert('x < y')</script></head>\
         <body><h1>Bread</h1><p>Flour  and\n<b>wa</b>ter.</p><ul><li>salt<li>yeast</ul>\
         <h2>How <i>long</i>?</h2><pre>\n  1 h\n  2 h</pre><p>Then<br>eat&hellip;\
         <table><tr><th>When<th>What<tr><td>noon<td><td>rest</table><!-- a comment --></body></html>",
    );
    assert_eq!(
        page.content,
        "Bread\n\nFlour and water.\n\n- salt\n- yeast\n\nHow long?\n\n  1 h\n  2 h\n\nThen\neat…\n\n\
         | When | What\n| noon | | rest"
    );
    assert_eq!(page.title.as_deref(), Some("Bread & wine"));
    assert_eq!(titles(&page), [(1, "Bread"), (2, "How long?")]);
    assert_eq!(&page.content[page.headings[1].span.clone()], "How long?");
    assert_eq!(page.metadata["author"], "A. Baker");
    assert_eq!(page.metadata["language"], "en");
    assert_eq!(page.problems, []);
}

#[test]
fn html_that_is_not_shown_is_left_out() {
    html("<p>seen<p hidden>secret<p>seen too", "seen\n\nseen too");
    html("a<span style='color: red; DISPLAY : none !important'>secret</span>b", "ab");
    html("a<span style='display:/**/none'>secret</span>b", "ab");
    html("a<span style='font-size:0px'>secret</span><i style='opacity: .0'>secret</i>b", "ab");
    html("a<span style='visibility:hidden'>secret</span>b", "ab");
    html("a<template>secret</template><noscript>secret</noscript><textarea>c</textarea>", "a\n\nc");
    html("<dialog>secret</dialog><dialog open>seen</dialog>", "seen");
    html("<div hidden>secret<div>secret</div>secret</div>seen", "seen");
    html("<ul><li hidden>secret<li>seen</ul>", "- seen");
    html(
        "<table><tr><td hidden>secret<td>seen<tr hidden><td>secret<tr><td>seen</table>",
        "| seen\n| seen",
    );
    html("a<svg><title>secret</title><g/><text>seen</text></svg>b", "aseenb");
    // Elements are closed as in a browser, so that no hidden text is extracted.
    html("<b><div hidden></b>secret</div>seen", "seen");
    html("<div><table hidden></div>secret</table>seen", "seen");
    html("<p><div hidden></p>secret</div>seen", "seen");
    html("<div hidden/>secret</div>seen", "seen");
    let page = file("a.html", "<p hidden>one</p>seen<p hidden>two");
    assert_eq!(page.problems, [Problem::Hidden { count: 2 }]);
}

#[test]
fn html_says_its_encoding() {
    let page = file(
        "a.html",
        b"<meta http-equiv=Content-Type content='text/html; charset=iso-8859-2'>\xB1",
    );
    assert_eq!((page.content.as_str(), page.encoding.as_deref()), ("ą", Some("ISO-8859-2")));
    let page = extract(b"<p>\xB1", &Hint::media_type("text/html;charset=\"ISO-8859-2\""));
    assert_eq!(page.content, "ą");
}

#[test]
fn markdown_is_itself_with_headings() {
    let text = "---\ntitle: \"Food\"\n---\n# Bread\n\nFlour.\n\nWine `red`\n====\n\n```\n# no heading\n```\n\n### *Deep* #\n";
    let page = file("food.md", text);
    assert_eq!(page.content, text);
    assert_eq!(titles(&page), [(1, "Bread"), (1, "Wine red"), (3, "Deep")]);
    assert_eq!(&page.content[page.headings[2].span.clone()], "### *Deep* #");
    assert_eq!(page.title.as_deref(), Some("Food"));
    assert_eq!(file("a.md", "Text\n\n# First\n# Second").title.as_deref(), Some("First"));
}

#[test]
fn markdown_that_is_not_shown_is_left_out() {
    let page = file(
        "a.md",
        "# A\n\nseen <!-- secret --> seen\n\n<!--\nsecret\n\nsecret -->\n\n<div hidden>\n\n# secret\n\nsecret\n\n</div>\n\n\
         a <span style=\"display:none\">secret</span> b\n\n# B\n\n`<!-- code -->`\n\n<span hidden>secret\n\nseen\n",
    );
    assert!(!page.content.contains("secret"), "{}", page.content);
    assert_eq!(page.content.matches("seen").count(), 3);
    assert!(page.content.contains("`<!-- code -->`"));
    assert_eq!(titles(&page), [(1, "A"), (1, "B")]);
    for heading in &page.headings {
        assert_eq!(page.content[heading.span.clone()], format!("# {}", heading.title));
    }
    assert_eq!(page.problems, [Problem::Hidden { count: 5 }]);
}

#[test]
fn json_is_one_value_a_line() {
    let text = r#"{"a": {"b": [1, 2.50, {"c": null}]}, "empty": [], "text": "two\nlines", "big": 12345678901234567890123}"#;
    let expected = "a.b[0]: 1\na.b[1]: 2.50\na.b[2].c: null\nempty: []\ntext: two\nlines\nbig: 12345678901234567890123\n";
    assert_eq!(file("a.json", text).content, expected);
    assert_eq!(file("a.jsonl", "{\"a\":1}\n{\"a\":2}\n").content, "a: 1\na: 2\n");
    assert_eq!(extract("[true]", &Hint::media_type("application/ld+json")).content, "[0]: true\n");
    assert_eq!(
        file("a.json", r#"{"a\ud800": "b\ud800c"}"#).content,
        "a\u{FFFD}\u{FFFD}\u{FFFD}: b\u{FFFD}\u{FFFD}\u{FFFD}c\n"
    );
}

#[test]
fn json_that_is_none_is_text() {
    let page = file("a.json", "{\"a\": 1, oops}");
    assert_eq!(page.content, "{\"a\": 1, oops}");
    let reason = "key must be a string at line 1 column 10".to_owned();
    assert_eq!(page.problems, [Problem::TakenAsText { reason }]);
}

#[test]
fn xml_is_one_element_a_line() {
    let text = "<?xml version='1.0'?><!DOCTYPE list [<!ENTITY a \"secret\">]>\
        <list xmlns='urn:x'><!-- secret --><person id='7' born='1815'><name>Ada &lt;3</name><note/>\
        <p>She <b x='1'>wrote</b> &#x41;lgorithms.</p></person><person id='8'/><x><![CDATA[a < b]]></x>&a;</list>";
    let page = file("a.xml", text);
    assert_eq!(
        page.content,
        "person: id=7, born=1815\nname: Ada <3\np: She wrote Algorithms.\nperson: id=8\nx: a < b\n&a;\n"
    );
    assert_eq!(page.problems.len(), 1);
    let page = file("a.xml", b"<?xml version='1.0' encoding='iso-8859-1'?><a b='\xFC'>\xFC</a>");
    assert_eq!(page.content, "a (b=ü): ü\n");
}

#[test]
fn xml_that_is_none_is_text() {
    for text in ["<a><b></a>", "<a>", "<a", "a < b"] {
        let page = file("a.xml", text);
        assert_eq!(page.content, text);
        assert!(
            matches!(&page.problems[..], [Problem::TakenAsText { .. }]),
            "{text}: {:?}",
            page.problems
        );
    }
}

#[test]
fn csv_is_one_row_a_line() {
    let text = "name;born;\"first; name\"\nLovelace;1815;\"Ada\nAugusta\"\n;;\nHopper;1906\n";
    let expected =
        "name: Lovelace; born: 1815; first; name: Ada Augusta\nname: Hopper; born: 1906\n";
    assert_eq!(file("a.csv", text).content, expected);
    assert_eq!(file("a.tsv", "a\tb\n1\t2,5").content, "a: 1; b: 2,5\n");
    assert_eq!(file("a.csv", "1,2\n3,4,5\n").content, "1; 2\n3; 4; 5\n");
    assert_eq!(file("a.csv", "a,b\n").content, "a; b");
}

#[test]
fn form_feeds_end_pages() {
    let page = file("rfc.txt", "one\n\u{C}two\n\u{C}three\n\u{C}\n");
    assert_eq!(page.page_count, Some(3));
    let texts: Vec<_> = page.pages.iter().map(|page_| &page.content[page_.span.clone()]).collect();
    assert_eq!(texts, ["one\n\u{C}", "two\n\u{C}", "three"]);
    assert_eq!(file("a.txt", "one").page_count, None);
}

#[test]
fn the_right_reader_is_found() {
    let media_type = |name, media_type, bytes: &[u8]| {
        extract(bytes, &Hint { media_type, ..Hint::file(name) }).mime_type
    };
    assert_eq!(media_type("a.MD", None, b""), "text/markdown");
    assert_eq!(media_type("a.md", Some("text/plain"), b""), "text/markdown");
    assert_eq!(media_type("a.md", Some("text/html"), b""), "text/html");
    assert_eq!(media_type("a.rs", Some("application/octet-stream"), b""), "text/x-rust");
    assert_eq!(media_type("a.strange", None, b"  <!DOCTYPE html><p>"), "text/html");
    assert_eq!(
        media_type("a.strange", None, b"\xEF\xBB\xBF<?xml version='1.0'?><a/>"),
        "application/xml"
    );
    assert_eq!(
        media_type("BMW", None, b"BM is how some pictures begin, and this text."),
        "text/plain"
    );
    assert_eq!(media_type("a", Some("TEXT/X-Strange; charset=utf-8"), b"x"), "text/x-strange");
}

#[test]
fn binary_data_is_refused() {
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
    let unsupported =
        |media_type: &str| ExtractError::Unsupported { media_type: media_type.to_owned() };
    assert_eq!(refusal(image, &Hint::file("a.txt")), unsupported("image/png"));
    assert_eq!(refusal("x", &Hint::media_type("video/mp4")), unsupported("video/mp4"));
    let noise: Vec<u8> = (0..=255).cycle().take(4096).collect();
    assert_eq!(refusal(noise, &Hint::default()), unsupported("application/octet-stream"));
    assert_eq!(unsupported("image/png").to_string(), "the format image/png is not supported");
}
