//! PDF.

use std::time::{Duration, Instant};

use marquetry_extract::{ExtractError, Hint};

use super::{
    file, refusal,
    support::pdf::{Writer, deflate, pages},
};

#[test]
fn pages_are_read_with_their_places() {
    let mut writer = Writer::new();
    writer.text_page(&["Bread is made of flour and of yeast (and of", "water). It rises."]);
    let blank = writer.stream("", b" ");
    writer.page(blank);
    writer.text_page(&["Wine is made of grapes."]);
    let info = writer.object("<< /Title (Food) /Author <FEFF00C400> >>");
    let page = file("food.pdf", writer.finish(&format!("/Info {info} 0 R")));
    assert_eq!(
        page.content,
        "Bread is made of flour and of yeast (and of\nwater). It rises.\n\nWine is made of grapes."
    );
    assert_eq!(page.page_count, Some(3));
    let texts: Vec<_> = page.pages.iter().map(|found| &page.content[found.span.clone()]).collect();
    assert_eq!(
        texts,
        [
            "Bread is made of flour and of yeast (and of\nwater). It rises.",
            "",
            "Wine is made of grapes."
        ]
    );
    assert_eq!(page.title.as_deref(), Some("Food"));
    assert_eq!(page.mime_type, "application/pdf");
}

#[test]
fn words_and_lines_are_separated_by_position() {
    let text = |content: &str| {
        let mut writer = Writer::new();
        let content = writer.stream("", format!("BT /F 10 Tf 72 700 Td {content} ET").as_bytes());
        writer.page(content);
        file("a.pdf", writer.finish("")).content
    };
    assert_eq!(text("[(H) -20 (ello) -300 (w) 30 (orld)] TJ"), "Hello world");
    assert_eq!(text("(one) Tj 0 -12 Td (two) Tj 0 -40 Td (three) Tj"), "one\ntwo\n\nthree");
    assert_eq!(text("(x) Tj 4 Ts (2) Tj 0 Ts ( + y) Tj"), "x2 + y");
    assert_eq!(text("(left) Tj 200 0 Td (right) Tj"), "left right");
    assert_eq!(text("2 Tr (bold) Tj"), "bold");
    assert_eq!(text("(foot) Tj 0 300 Td (column) Tj"), "foot\n\ncolumn");
}

#[test]
fn damaged_documents_are_reported() {
    let whole = pages(&[&["One"], &["Two"]]);
    // The table at the end is gone; the pages are found without it.
    assert_eq!(file("a.pdf", &whole[..whole.len() - 100]).content, "One\n\nTwo");
    let error = refusal(&whole[..40], &Hint::file("a.pdf"));
    assert_eq!(error.to_string(), "invalid PDF: no page was found; it may be truncated");
    let error = refusal("Hello", &Hint::file("a.pdf"));
    assert_eq!(error.to_string(), "invalid PDF: it does not begin with %PDF-");
}

#[test]
fn a_password_is_asked_for() {
    let mut writer = Writer::new();
    writer.text_page(&["secret"]);
    let key = "00".repeat(32);
    let encrypt = writer.object(format!(
        "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -1 /O <{key}> /U <{key}> >>"
    ));
    let document = writer.finish(&format!("/Encrypt {encrypt} 0 R /ID [<00> <00>]"));
    assert_eq!(refusal(document, &Hint::file("a.pdf")), ExtractError::Encrypted);
}

#[test]
fn limits_are_named() {
    let mut hint = Hint::file("a.pdf");
    hint.limits.max_pages = 2;
    let error = refusal(pages(&[&["1"], &["2"], &["3"]]), &hint);
    assert_eq!(error.to_string(), "the limit max_pages is 2, the document has 3 or more");

    let mut hint = Hint::file("a.pdf");
    hint.limits.max_content_bytes = 10;
    let error = refusal(pages(&[&["more than ten", "characters"]]), &hint);
    assert!(matches!(error, ExtractError::Limit { limit: "max_content_bytes", .. }), "{error}");
}

#[test]
fn bombs_are_refused_before_they_fill_the_memory() {
    let once = deflate(&vec![b' '; 64 << 20]);
    let twice = deflate(&once);
    let text: String = once.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{text}>").into_bytes();
    let filters = [
        ("/FlateDecode", &once),
        ("[/FlateDecode /FlateDecode]", &twice),
        ("[/ASCIIHexDecode /FlateDecode]", &text),
    ];
    for (filter, data) in filters {
        let mut writer = Writer::new();
        let content = writer.stream(&format!("/Filter {filter}"), data);
        writer.page(content);
        let mut hint = Hint::file("a.pdf");
        hint.limits.max_unpacked_bytes = 1 << 20;
        let error = refusal(writer.finish(""), &hint);
        assert!(
            matches!(error, ExtractError::Limit { limit: "max_unpacked_bytes", .. }),
            "{error}"
        );
    }
}

#[test]
fn ten_thousand_pages_are_read() {
    let lines: Vec<String> = (0..10_000).map(|page| format!("Page {page} of many.")).collect();
    let lines: Vec<[&str; 1]> = lines.iter().map(|line| [line.as_str()]).collect();
    let lines: Vec<&[&str]> = lines.iter().map(<[&str; 1]>::as_slice).collect();
    let mut hint = Hint::file("a.pdf");
    // Without optimization on a machine with other work.
    hint.limits.max_time = Duration::from_mins(10);
    let document = pages(&lines);
    let page = super::extract(document, &hint);
    assert_eq!(page.page_count, Some(10_000));
    assert_eq!(&page.content[page.pages[9_999].span.clone()], "Page 9999 of many.");
}

/// A form that draws itself twice as often at each of many levels, which would take for ever.
#[test]
fn time_is_bounded() {
    let mut writer = Writer::new();
    let mut inner = writer.stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"0 0 1 1 re f");
    for _ in 0..12 {
        let entries = format!(
            "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {inner} 0 R >> >>"
        );
        inner = writer.stream(&entries, "/X Do ".repeat(100).as_bytes());
    }
    let content = writer.stream("", b"/X Do");
    let page = writer.object(format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents {content} 0 R /Resources << /XObject << /X {inner} 0 R >> >> >>"
    ));
    let document = writer.finish_with(&[page]);
    let mut hint = Hint::file("a.pdf");
    hint.limits.max_time = Duration::from_millis(500);
    let started = Instant::now();
    let error = refusal(document, &hint);
    assert_eq!(error.to_string(), "reading the document takes longer than 0.5 seconds");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn keywords_within_streams_are_not_read_again_and_again() {
    // The bytes before each keyword are searched and those after it unpacked: each time the rest of
    // the document.
    let bare = "stream\n".repeat(1 << 17);
    // A code of LZW without output, repeated many times.
    let cleared =
        format!("stream\n{}", "\u{1}@ \u{10}\u{8}\u{4}\u{2}\u{1}".repeat(20)).repeat(1 << 13);
    for text in [bare, cleared] {
        let bytes = [b"%PDF-1.4\n".as_slice(), text.as_bytes()].concat();
        let error = marquetry_extract::extract(&bytes, &Hint::file("a.pdf")).unwrap_err();
        assert!(error.to_string().contains("stand within one another"), "{error}");
    }
}

#[test]
fn reading_ends_when_the_caller_has_gone() {
    let stop = marquetry_extract::Stop::never();
    stop.now();
    let mut hint = Hint::file("a.pdf");
    hint.stop = Some(&stop);
    let bytes = [b"%PDF-1.4\n".as_slice(), &b"stream\n".repeat(1 << 10)].concat();
    assert_eq!(marquetry_extract::extract(&bytes, &hint).unwrap_err(), ExtractError::Stopped);
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    // For some of them, the time grows with the square of the depth.
    const DEPTH: usize = 20_000;
    let arrays = "[".repeat(DEPTH) + &"]".repeat(DEPTH);
    let dictionaries = "<</A ".repeat(DEPTH) + "1" + &">>".repeat(DEPTH);
    let blocks = "q ".repeat(DEPTH);
    let marks = "/A BMC ".repeat(DEPTH);
    for deep in [arrays, dictionaries, blocks, marks] {
        let mut writer = Writer::new();
        let info = writer.object(format!("<< /Title {deep} >>"));
        let content =
            writer.stream("", format!("{deep} BT /F 9 Tf 9 9 Td (core) Tj ET").as_bytes());
        writer.page(content);
        let page = writer.object(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox {deep} /Contents {content} 0 R /Resources {deep} /Annots {deep} >>"
        ));
        let mut document = writer.finish_with(&[page]);
        document.extend_from_slice(format!("trailer << /Info {info} 0 R /ID {deep} >>").as_bytes());
        // The result does not matter; the process must survive.
        let _ = marquetry_extract::extract(&document, &Hint::file("a.pdf"));
    }
    // Pages below pages, and each object the parent of the next.
    let mut writer = Writer::new();
    let mut below = writer.object("<< /Type /Page /MediaBox [0 0 9 9] >>");
    for _ in 0..2_000 {
        below = writer.object(format!("<< /Type /Pages /Count 1 /Kids [{below} 0 R] >>"));
    }
    let _ = marquetry_extract::extract(&writer.finish_with(&[below]), &Hint::file("a.pdf"));
}
