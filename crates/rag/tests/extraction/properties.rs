//! What holds of every document.

use std::ops::Range;

use marquetry_rag::{ChunkOptions, Extracted, Hint, Strategy, chunk_extracted, count_words};
use proptest::{prelude::*, sample::select, strategy::Strategy as _};

const NAMES: [&str; 12] = [
    "a.txt", "a.md", "a.html", "a.json", "a.jsonl", "a.xml", "a.csv", "a.tsv", "a.rs", "a.docx",
    "a.pdf", "a",
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
    for strategy in [Strategy::Sentence, Strategy::Word, Strategy::Chapter] {
        let chunks =
            chunk_extracted(extracted, &ChunkOptions::new(strategy, 3).unwrap(), count_words)
                .unwrap();
        for chunk in chunks {
            prop_assert!(content.get(chunk.span.clone()).is_some());
            prop_assert_eq!(
                chunk.page.is_some(),
                extracted.pages.first().is_some_and(|page| page.span.start <= chunk.span.start)
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_panics_and_places_are_right(bytes in documents(), name in select(&NAMES[..])) {
        if let Ok(extracted) = marquetry_rag::extract(&bytes, &Hint::file(name)) {
            check(&extracted)?;
        }
    }

    #[test]
    fn text_of_any_encoding_is_itself(text in "[^\0\u{E0000}-\u{E007F}\u{FEFF}\u{C}]{0,40}") {
        let bytes: Vec<u8> = std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let extracted = marquetry_rag::extract(&bytes, &Hint::file("a.txt")).unwrap();
        prop_assert_eq!(&extracted.content, &text);
        let extracted = marquetry_rag::extract(text.as_bytes(), &Hint::file("a.rs")).unwrap();
        prop_assert_eq!(&extracted.content, &text);
    }
}
