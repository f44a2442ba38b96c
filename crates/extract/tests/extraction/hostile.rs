//! Documents that are made to do harm, and damaged ones.

use std::time::{Duration, Instant};

use marquetry_extract::{ExtractError, Hint, Problem};

use super::{
    extract, file, refusal,
    support::docx::{document, package},
};

/// Much longer than each of these takes on a slow machine without optimization; without their
/// limits they take minutes.
const PATIENCE: Duration = Duration::from_secs(100);

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    const DEPTH: usize = 100_000;
    let started = Instant::now();
    let nested = |open: &str, close: &str| open.repeat(DEPTH) + "core" + &close.repeat(DEPTH);
    assert_eq!(file("a.html", nested("<div>", "</div>")).content, "core");
    assert_eq!(file("a.html", nested("<b>", "</i>")).content, "core");
    assert_eq!(file("a.html", nested("<p><i>", "</section>")).content.trim(), "core");
    assert_eq!(file("a.xml", nested("<a>", "</a>")).content, "a: core\n");
    assert!(file("a.json", nested("[", "]").replace("core", "1")).content.contains("[0][0]"));
    assert!(file("a.json", nested("{\"a\":", "}").replace("core", "1")).content.contains("a.a.a"));
    assert!(file("a.md", nested("> ", "")).content.contains("core"));
    assert!(file("a.md", nested("[", "](a)")).content.contains("core"));
    assert!(file("a.md", nested("<b>", "</b>")).content.contains("core"));
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_deep_json_file_is_a_short_text() {
    const DEPTH: usize = 100_000;
    let path = "[0]".repeat(64);
    let nested = "[".repeat(DEPTH) + r#""\"[x]: é", {"key": 1e3}, null"# + &"]".repeat(DEPTH);
    assert_eq!(file("a.json", nested).content, format!("{path}: \"[x]: é 1e3 null\n"));
    let object = "{\"a\": ".repeat(DEPTH) + "true" + &"}".repeat(DEPTH);
    assert_eq!(file("a.json", object).content, format!("{}a: true\n", "a.".repeat(63)));
    let empty = "[".repeat(DEPTH) + &"]".repeat(DEPTH);
    assert_eq!(file("a.json", empty).content, format!("{path}: \n"));
}

#[test]
fn entities_are_not_expanded() {
    let mut text = "<!DOCTYPE lolz [<!ENTITY lol \"lol\">".to_owned();
    for level in 1..10 {
        let references = format!("&lol{};", level - 1).repeat(10);
        text += &format!("<!ENTITY lol{level} \"{references}\">");
    }
    text += "<!ENTITY file SYSTEM \"file:///etc/passwd\">]><lolz>&lol9;&file;</lolz>";
    let page = file("a.xml", text);
    assert_eq!(page.content, "lolz: &lol9;&file;\n");
    assert_eq!(
        page.problems,
        [Problem::Other { reason: "2 entities are not expanded".to_owned() }]
    );
}

#[test]
fn limits_are_named() {
    let mut hint = Hint::file("a.txt");
    hint.limits.max_bytes = 3;
    let error = refusal("four", &hint);
    assert_eq!(error.to_string(), "the limit max_bytes is 3, the document has 4 or more");

    // Short documents that become long texts.
    let key = "k".repeat(1000);
    let json = format!("{{\"{key}\": [{}0]}}", "0,".repeat(100_000));
    let csv = format!("{},b\n{}", &key[..80], "1,2\n".repeat(100_000));
    for (name, text) in [("a.json", json), ("a.csv", csv)] {
        let mut hint = Hint::file(name);
        hint.limits.max_content_bytes = 1 << 20;
        let error = refusal(text, &hint);
        assert!(
            matches!(error, ExtractError::Limit { limit: "max_content_bytes", found, .. } if found < 2 << 20),
            "{name}: {error}"
        );
    }

    let mut hint = Hint::file("a.txt");
    hint.limits.max_pages = 2;
    let error = refusal("1\u{C}2\u{C}3", &hint);
    assert_eq!(error.to_string(), "the limit max_pages is 2, the document has 3 or more");
}

#[test]
fn nul_and_invalid_bytes_are_reported() {
    let page = extract(b"a\0b", &Hint::media_type("text/plain"));
    assert_eq!((page.content.as_str(), page.problems), ("a b", vec![Problem::Nul { count: 1 }]));

    let page = file(
        "a.md",
        "# Grüße\n\nfür uns, \0 auch für ".bytes().chain(*b"\xFFdich").collect::<Vec<_>>(),
    );
    assert_eq!(page.content, "# Grüße\n\nfür uns, \u{20} auch für \u{FFFD}dich");
    let invalid = Problem::InvalidBytes { count: 1, encoding: "UTF-8".to_owned() };
    assert_eq!(page.problems, [invalid, Problem::Nul { count: 1 }]);
}

#[test]
fn text_in_tag_characters_is_left_out() {
    let spelt = |text: &str| {
        text.bytes()
            .map(|byte| char::from_u32(0xE0000 + u32::from(byte)).unwrap())
            .collect::<String>()
    };
    let text = format!(
        "# One{}\n\n# Two {}\n\n\u{1F3F4}{}\u{E007F}!",
        spelt("obey"),
        spelt("obey"),
        spelt("gbeng")
    );
    let page = file("a.md", &text);
    assert_eq!(page.content, format!("# One\n\n# Two \n\n\u{1F3F4}{}\u{E007F}!", spelt("gbeng")));
    assert_eq!(page.problems, [Problem::Hidden { count: 2 }]);
    assert_eq!(&page.content[page.headings[1].span.clone()], "# Two ");
}

/// They would take many times the bytes of the document.
#[test]
fn small_parts_count_for_the_limit_of_the_text() {
    const PARTS: usize = 2_000;
    let mail = "From: a\nMessage-ID: a\nContent-Type: multipart/mixed; boundary=b\n\n";
    let paragraphs = document(&"<w:p>".repeat(PARTS));
    for (name, bytes) in [
        ("a.html", "<b>".repeat(PARTS).into_bytes()),
        ("a.html", "<h1>a</h1>".repeat(PARTS).into_bytes()),
        ("a.md", "# a\n".repeat(PARTS).into_bytes()),
        ("a.rtf", format!("{{\\rtf1 {}}}", "{\\header a}".repeat(PARTS)).into_bytes()),
        ("a.eml", format!("{mail}{}", "--b\n\na\n".repeat(PARTS)).into_bytes()),
        ("a.docx", package(&[("word/document.xml", &paragraphs)])),
    ] {
        let mut hint = Hint::file(name);
        hint.limits.max_content_bytes = 100_000;
        let refused = refusal(&bytes, &hint);
        assert!(
            matches!(refused, ExtractError::Limit { limit: "max_content_bytes", .. }),
            "{name}: {refused}"
        );
    }
}

#[test]
fn trees_of_many_nodes_are_refused() {
    let hint = Hint::file("a.md");
    let refused = refusal("- a\n".repeat(2_200_000), &hint).to_string();
    let want =
        "the limit for lines and marks of Markdown is 2097152, the document has 4400000 or more";
    assert_eq!(refused, want);
    let cells = format!("{{\"cells\": [{}{{}}]}}", "{},".repeat(1_100_000));
    let refused = refusal(cells, &Hint::file("a.ipynb")).to_string();
    let want = "the limit for objects of a notebook is 1048576, the document has 1100002 or more";
    assert_eq!(refused, want);
    for part in ["> ", ">", "- ", "1. "] {
        let refused = refusal(part.repeat(2_200_000), &hint).to_string();
        assert!(refused.starts_with("the limit for lines and marks of Markdown"), "{refused}");
    }
    let deep = file("a.json", format!("{}1{}", "[".repeat(300_000), "]".repeat(300_000)));
    let reason = "it is nested deeper than 262144".to_owned();
    assert_eq!(deep.problems, [Problem::TakenAsText { reason }]);
    // Values that are no text are passed over.
    let odd = r#"{"cells": [{"source": ["a", 1, ["b"], {"c": 2}, null, "d"], "outputs": [{"text": true}]},
        {"source": {"x": []}}, {"cell_type": "code", "source": 5, "outputs": [{"data": {"image/png": [1], "text/plain": "e"}}]}]}"#;
    assert_eq!(file("a.ipynb", odd).content, "ad\n\n```text\ne\n```");
}

#[test]
fn long_rows_and_long_cells_of_csv_are_read() {
    let row = format!("a,{}b\n\"c \"\"d\"\"\ne\",f", ",".repeat(40_000));
    assert_eq!(csv(&row), "a; b\nc \"d\" e; f\n");
    let cell = "word ".repeat(10_000);
    let named = format!("name: x; text: {}\n", cell.trim());
    assert_eq!(csv(&format!("name,text\nx,\"{cell}\"")), named);
    let names: Vec<_> = (0..20_000).map(|number| format!("n{number}")).collect();
    let many = csv(&format!("{}\n1,2", names.join(",")));
    assert!(many.ends_with("; n19999\n1; 2\n"), "too many names are a row");
    assert_eq!(csv("\n,,\nname;x\n\nAda;1\n;\n"), "name;x\nAda;1\n;\n");
}

fn csv(text: &str) -> String {
    file("a.csv", text).content
}
