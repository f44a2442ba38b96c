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
    assert_eq!(text("(foot.) Tj 200 300 Td (Column) Tj"), "foot.\n\nColumn");
}

/// Returns the text of a page with this content, in Helvetica.
fn text_of(content: &str) -> String {
    let mut writer = Writer::new();
    let content = writer.stream("", content.as_bytes());
    writer.page(content);
    file("a.pdf", writer.finish("")).content
}

/// Returns a page whose rows have a piece of text at each of these places.
fn rows(places: &[u32], rows: &[&[&str]]) -> String {
    let mut content = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (x, piece) in places.iter().zip(*row) {
            let y = 700 - 12 * number;
            content += &format!("BT /F 9 Tf {x} {y} Td ({piece}) Tj ET ");
        }
    }
    content
}

#[test]
fn columns_that_are_drawn_row_by_row_follow_each_other() {
    let left = [
        "Rye was sown in autumn and",
        "stood until the harvest of",
        "the next year on the fields",
        "that lay along the river.",
    ];
    let right = [
        "The mill was built after the",
        "flood and had two wheels, of",
        "which one was driven by the",
        "water of the upper pond.",
    ];
    let two: Vec<[&str; 2]> = left.into_iter().zip(right).map(<[&str; 2]>::from).collect();
    let two: Vec<&[&str]> = two.iter().map(<[&str; 2]>::as_slice).collect();
    let want = [left.join("\n"), right.join("\n")].join("\n\n");
    assert_eq!(text_of(&rows(&[60, 320], &two)), want);
    // The right one may be drawn first.
    let swapped: String = [(320, right), (60, left)]
        .into_iter()
        .map(|(x, lines)| rows(&[x], &lines.each_ref().map(std::slice::from_ref)))
        .collect();
    assert_eq!(text_of(&swapped), want);
    // Drawn at random.
    let mut lines: Vec<String> = Vec::new();
    for (row, (one, other)) in left.iter().zip(right).enumerate() {
        let y = 700 - 12 * row;
        lines.push(format!("BT /F 9 Tf 60 {y} Td ({one}) Tj ET "));
        lines.push(format!("BT /F 9 Tf 320 {y} Td ({other}) Tj ET "));
    }
    let random = [6, 2, 5, 3, 1, 0, 7, 4].map(|line| lines[line].clone()).concat();
    assert_eq!(text_of(&random), want);
    // Four columns.
    let four: Vec<[&str; 4]> =
        (0..4).map(|row| [left[row], right[row], left[row], right[row]]).collect();
    let four: Vec<&[&str]> = four.iter().map(<[&str; 4]>::as_slice).collect();
    let twice = format!("{want}\n\n{want}");
    assert_eq!(text_of(&rows(&[40, 175, 310, 445], &four)), twice);
    // A heading above, and three columns.
    let three: Vec<[&str; 3]> = (0..4).map(|row| [left[row], right[row], left[row]]).collect();
    let three: Vec<&[&str]> = three.iter().map(<[&str; 3]>::as_slice).collect();
    let heading = "BT /F 14 Tf 60 730 Td (The mills and the fields of the valley in the last two centuries) Tj ET ";
    let text = text_of(&format!("{heading}{}", rows(&[60, 220, 380], &three)));
    let columns = [left.join("\n"), right.join("\n"), left.join("\n")].join("\n\n");
    assert!(text.ends_with(&columns) && text.starts_with("The mills"), "{text}");
}

#[test]
fn tables_are_read_row_by_row() {
    let table: [&[&str]; 4] = [
        &["Name of the grain", "Harvest in tons"],
        &["Rye from the river", "Some two hundred"],
        &["Oats from the hill", "Nearly one hundred"],
        &["Wheat and its bran", "Three hundred tons"],
    ];
    let want = table.map(|row| row.join(" ")).join("\n");
    assert_eq!(text_of(&rows(&[60, 320], &table)), want);
}

#[test]
fn pages_that_are_drawn_upwards_are_read_from_the_top() {
    let content = "BT /F 10 Tf 72 600 Td (third) Tj 0 12 Td (second) Tj 0 12 Td (first) Tj ET";
    assert_eq!(text_of(content), "first\nsecond\nthird");
}

#[test]
fn words_that_are_broken_at_the_line_end_are_joined() {
    let content = "BT /F 10 Tf 72 700 Td (driving the cli-) Tj 0 -12 Td (mate in 2019-) Tj 0 -12 Td (2020, a well-) Tj 0 -12 Td (known risk) Tj ET";
    assert_eq!(text_of(content), "driving the climate in 2019-2020, a well-known risk");
}

#[test]
fn text_that_is_drawn_twice_is_read_once() {
    let twice = "BT /F 12 Tf 72 700 Td (Bold text) Tj ET BT /F 12 Tf 72.4 700 Td (Bold text) Tj ET";
    assert_eq!(text_of(twice), "Bold text");
    let shadow = "BT /F 12 Tf 73 699 Td (Shadow) Tj ET BT /F 12 Tf 72 700 Td (Shadow) Tj ET";
    assert_eq!(text_of(shadow), "Shadow");
    assert_eq!(text_of("BT /F 12 Tf 72 700 Td (illicit balloon ...) Tj ET"), "illicit balloon ...");
}

#[test]
fn replacement_texts_are_read() {
    let content = "BT /F 12 Tf 72 700 Td (see ) Tj /Span << /ActualText (eight) >> BDC (8) Tj EMC ( and ) Tj \
        /Span << /ActualText <FEFF00E9> >> BDC (xy) Tj EMC ( or) Tj ET";
    assert_eq!(text_of(content), "see eight and é or");
}

#[test]
fn accents_that_are_drawn_by_themselves_belong_to_letters() {
    // \250 is a diaeresis, which TeX draws over the letter.
    let content = "BT /F 12 Tf 72 700 Td [(M) (\\250) 445 (uller)] TJ ET";
    assert_eq!(text_of(content), "Müller");
}

#[test]
fn values_of_forms_and_notes_are_read() {
    let mut writer = Writer::new();
    let content = writer.stream(
        "",
        b"BT /F 12 Tf 72 700 Td (Name:) Tj 0 -20 Td (City:) Tj 0 -40 Td (Signed) Tj ET",
    );
    let mut annotations = String::new();
    for entries in [
        "/Subtype /Widget /FT /Tx /V (Miller) /Rect [110 696 300 712]",
        "/Subtype /Widget /FT /Ch /Opt [[(b) (Berlin)] [(r) (Rome)]] /V (r) /Rect [110 676 300 692]",
        "/Subtype /Widget /FT /Tx /Ff 8192 /V (secret) /Rect [110 500 300 512]",
        "/Subtype /Widget /FT /Tx /F 2 /V (hidden) /Rect [110 480 300 492]",
        "/Subtype /FreeText /Contents (Typed on the page) /Rect [72 600 300 620]",
        "/Subtype /Highlight /Contents (A note) /Rect [72 600 300 620]",
        "/Subtype /Link /Contents (A link) /Rect [72 600 300 620]",
    ] {
        let annotation = writer.object(format!("<< /Type /Annot {entries} >>"));
        annotations += &format!("{annotation} 0 R ");
    }
    let page = writer.object(format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R \
         /Resources << /Font << /F 3 0 R >> >> /Annots [{annotations}] >>"
    ));
    let content = file("a.pdf", writer.finish_with(&[page])).content;
    assert_eq!(content, "Name: Miller\nCity: Rome\n\nSigned\n\nTyped on the page\n\nA note");
}

/// Returns a document with this content and a font whose codes of two bytes are characters.
fn unicode_pdf(encoding: &str, content: &str) -> String {
    let mut writer = Writer::new();
    let map = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def \
        1 begincodespacerange <0000> <FFFF> endcodespacerange \
        1 beginbfrange <0000> <FFFF> <0000> endbfrange endcmap end end";
    let map = writer.stream("", map.as_bytes());
    let descriptor = writer.object(
        "<< /Type /FontDescriptor /FontName /X /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 \
         /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>",
    );
    let descendant = writer.object(format!(
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 1000 /CIDToGIDMap /Identity \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> \
         /FontDescriptor {descriptor} 0 R >>"
    ));
    let font = writer.object(format!(
        "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /{encoding} \
         /DescendantFonts [{descendant} 0 R] /ToUnicode {map} 0 R >>"
    ));
    let content = writer.stream("", content.as_bytes());
    let page = writer.object(format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R \
         /Resources << /Font << /F {font} 0 R >> >> >>"
    ));
    file("a.pdf", writer.finish_with(&[page])).content
}

/// Returns the codes of a text.
fn codes(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("{unit:04X}")).collect()
}

#[test]
fn right_to_left_text_is_read_in_logical_order() {
    for (text, drawn) in [
        ("שלום עולם זה מסמך", "ךמסמ הז םלוע םולש"),
        ("הגרסה Windows 11 יצאה ב-2021 (בסתיו)", ")ויתסב( 2021-ב האצי Windows 11 הסרגה"),
        ("السعر 1,500 ريال", "لاير 1,500 رعسلا"),
        // Forms of letters, from left to right.
        ("سلام", "\u{fee1}\u{fefc}\u{feb3}"),
        ("English with שלום עולם inside", "English with םלוע םולש inside"),
        ("פסקה של מסמך: word word", "word word :ךמסמ לש הקספ"),
        // Programs that know no right-to-left scripts draw the first letter on the left.
        ("שלום עולם מסמכים", "שלום עולם מסמכים"),
    ] {
        let content = format!("BT /F 12 Tf 10 700 Td <{}> Tj ET", codes(drawn));
        assert_eq!(unicode_pdf("Identity-H", &content), text);
    }
    // From right to left, glyph by glyph.
    let mut content = "BT /F 12 Tf 400 700 Td ".to_owned();
    for character in "שלום עולם".chars() {
        content += &format!("<{}> Tj -12 0 Td ", codes(&character.to_string()));
    }
    assert_eq!(unicode_pdf("Identity-H", &format!("{content} ET")), "שלום עולם");
}

#[test]
fn vertical_writing_is_read_from_the_right() {
    let columns = ["吾輩は猫である。", "名前はまだ無い。"];
    let content: String = columns
        .iter()
        .zip([500, 480])
        .map(|(column, x)| format!("BT /F 12 Tf {x} 700 Td <{}> Tj ET ", codes(column)))
        .collect();
    assert_eq!(unicode_pdf("Identity-V", &content), columns.join("\n"));
    // Browsers place each character of a horizontal font.
    let mut content = String::new();
    for (column, x) in columns.iter().zip([500, 480]) {
        for (at, character) in column.chars().enumerate() {
            let y = 700 - 12 * at;
            content +=
                &format!("BT /F 12 Tf {x} {y} Td <{}> Tj ET ", codes(&character.to_string()));
        }
    }
    assert_eq!(unicode_pdf("Identity-H", &content), columns.join("\n"));
}

#[test]
fn documents_without_their_end_are_read_as_far_as_they_go() {
    let mut writer = Writer::new();
    let font = writer.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>");
    for text in ["First page", "Second page"] {
        let content = writer.stream("", format!("BT /F 12 Tf 72 700 Td ({text}) Tj ET").as_bytes());
        writer.object(format!(
            "<< /Type /Page /MediaBox [0 0 595 842] /Contents {content} 0 R \
             /Resources << /Font << /F {font} 0 R >> >> >>"
        ));
    }
    let document = writer.finish("");
    // Many programs write the catalog and the tree of pages at the end.
    let start = document.windows(7).position(|window| window == b"4 0 obj").unwrap();
    let second = document.windows(11).position(|window| window == b"Second page").unwrap();
    let header = b"%PDF-1.7\n".to_vec();
    let whole = [header.as_slice(), &document[start..]].concat();
    let table = whole.windows(5).rposition(|window| window == b"xref\n").unwrap();
    assert_eq!(file("a.pdf", &whole[..table - 9]).content, "First page\n\nSecond page");
    let cut = [header.as_slice(), &document[start..second + 6]].concat();
    assert_eq!(file("a.pdf", cut).content, "First page");
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

/// A page that is a picture.
const PICTURE: &[u8] = b"q 90 0 0 90 9 9 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x80 EI Q";

/// Returns the problems of a document whose pages have these contents. All are losses.
fn losses(contents: &[&[u8]]) -> Vec<String> {
    let mut writer = Writer::new();
    for content in contents {
        let content = writer.stream("", content);
        writer.page(content);
    }
    let problems = file("a.pdf", writer.finish("")).problems;
    assert!(problems.iter().all(marquetry_extract::Problem::is_loss), "{problems:?}");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn pictures_without_text_are_reported() {
    let only = "page 1 has pictures and no text; text in pictures is not recognised";
    assert_eq!(losses(&[PICTURE]), [only]);
    // Letters that are drawn as shapes.
    assert_eq!(losses(&[b"9 9 m 90 9 l 9 90 l f"]), [only]);
    // In a text, a picture beside words and a line on an empty page are no problem.
    let word = b"BT /F 9 Tf 9 9 Td (One) Tj ET".as_slice();
    let both = [PICTURE, b" ", word].concat();
    assert!(losses(&[word, &both, b"9 9 m 90 9 l S"]).is_empty());
    let scans = [&[word][..], &[PICTURE; 11]].concat();
    let many = "11 pages (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …) have pictures and no text; text in \
                pictures is not recognised";
    assert_eq!(losses(&scans), [many]);
    // An empty page has nothing to read.
    assert!(losses(&[b" "]).is_empty());
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

/// Glyphs take more memory than their codes.
#[test]
fn pages_of_many_glyphs_are_read() {
    let content = format!("BT /F 9 Tf 9 9 Td {} ET", "(abcdefghi) Tj 0 20 Td ".repeat(40_000));
    let text = text_of(&content);
    assert_eq!(text.matches("abcdefghi").count(), 40_000);
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
