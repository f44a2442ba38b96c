//! The functions of the fuzz targets in `fuzz/`. Compiled only for them and for the test that
//! replays their corpora.

use std::ops::Range;

use crate::{Extracted, Hint, extract};

/// A fuzz target: extracts its input, and panics if the text is wrong.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("extract", document),
    #[cfg(feature = "pdf")]
    ("pdf", pdf),
];

/// The names that the first byte of the input selects. PDF has a separate target, because it takes
/// a thousand times as long.
const NAMES: [&str; 20] = [
    "a", "a.txt", "a.md", "a.html", "a.json", "a.jsonl", "a.xml", "a.csv", "a.rs", "a.docx",
    "a.xlsx", "a.ods", "a.epub", "a.odt", "a.pptx", "a.rtf", "a.eml", "a.mbox", "a.ipynb",
    "a.fodt",
];

/// Extracts any bytes, and checks all places in the text.
pub fn document(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(*choice) % NAMES.len()];
    let mut hint = Hint::file(name);
    hint.limits.max_unpacked_bytes = 1 << 20;
    hint.limits.max_content_bytes = 1 << 20;
    if let Ok(extracted) = extract(bytes, &hint) {
        places_are_right(&extracted);
    }
}

/// As [`document`], for PDF.
#[cfg(feature = "pdf")]
pub fn pdf(data: &[u8]) {
    let mut hint = Hint::file("a.pdf");
    hint.limits.max_unpacked_bytes = 1 << 20;
    hint.limits.max_content_bytes = 1 << 20;
    hint.limits.max_pages = 100;
    hint.limits.max_time = std::time::Duration::from_secs(5);
    let started = std::time::Instant::now();
    if let Ok(extracted) = extract(data, &hint) {
        places_are_right(&extracted);
    }
    // It is bounded by the limit, whatever the reader does.
    assert!(started.elapsed() < 2 * hint.limits.max_time);
}

fn places_are_right(extracted: &Extracted) {
    let content = extracted.content.as_str();
    assert_eq!(extracted.character_count, content.chars().count());
    assert!(!content.contains('\0'));
    check_spans(extracted, extracted.pages.iter().map(|page| &page.span));
    check_spans(extracted, extracted.headings.iter().map(|heading| &heading.span));
}

/// Checks that spans are in order and within the content.
fn check_spans<'a>(extracted: &Extracted, spans: impl Iterator<Item = &'a Range<usize>>) {
    let mut last = 0;
    for span in spans {
        let text = extracted.content.get(span.clone());
        assert!(last <= span.start && text.is_some(), "{extracted:?}");
        last = span.end;
    }
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once made a target fail, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
