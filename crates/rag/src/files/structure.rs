//! Keeps the pages and headings of a file, whose record has only its text.

use marquetry_index::Document;
use serde::{Deserialize, Serialize};

use crate::{Extracted, Heading, Page};

/// The pages and headings of a text.
#[derive(Serialize, Deserialize)]
struct Structure {
    /// BLAKE3 hash of the text, in hexadecimal: the record may have another text by now.
    text: String,
    wrapped: bool,
    /// Number, start and end of each page.
    pages: Vec<(u32, usize, usize)>,
    /// Level, title, start and end of each heading.
    headings: Vec<(u8, String, usize, usize)>,
}

/// The key of the structure in the metadata of a document. The value is one string of JSON: each search reads the
/// metadata of its documents, and a string is read faster than thousands of values, into less memory.
const STRUCTURE: &str = "structure";

/// Maximum size of a structure, in bytes: about 3,000 pages, or 1,000 pages with 500 headings.
const MAX_BYTES: usize = 64 << 10;

/// Adds the pages and headings of a file to the metadata of its document.
///
/// Headings are left out if the structure is too large, those of the lowest level first. If the pages alone are too
/// large, nothing is added.
pub(super) fn keep(document: &mut Document, extracted: &Extracted) {
    let Extracted { content, wrapped, pages, headings, .. } = extracted;
    if pages.is_empty() && headings.is_empty() {
        return;
    }
    let page = |Page { number, span, .. }: &Page| (*number, span.start, span.end);
    let heading = |Heading { level, title, span, .. }: &Heading| {
        (*level, title.clone(), span.start, span.end)
    };
    let mut structure = Structure {
        text: hash(content),
        wrapped: *wrapped,
        pages: pages.iter().map(page).collect(),
        headings: headings.iter().map(heading).collect(),
    };
    loop {
        let Ok(json) = serde_json::to_string(&structure) else { return };
        if json.len() <= MAX_BYTES {
            document.metadata.insert(STRUCTURE.to_owned(), json.into());
            return;
        }
        let Some(lowest) = structure.headings.iter().map(|(level, ..)| *level).max() else {
            return;
        };
        structure.headings.retain(|(level, ..)| *level < lowest);
        if structure.headings.is_empty() && structure.pages.is_empty() {
            return;
        }
    }
}

/// Sets the pages and headings of the text of an indexed file to those of the file. `document` is the document of
/// the file's record. Does nothing if the record has another text by now.
pub fn restore_structure(document: &Document, extracted: &mut Extracted) {
    let Some(structure) = read(document).filter(|it| it.text == hash(&extracted.content)) else {
        return;
    };
    let page = |(number, start, end)| Page::new(number, start..end);
    let heading = |(level, title, start, end)| Heading::new(level, title, start..end);
    extracted.wrapped = structure.wrapped;
    extracted.pages = structure.pages.into_iter().map(page).collect();
    extracted.headings = structure.headings.into_iter().map(heading).collect();
    extracted.page_count = u32::try_from(extracted.pages.len()).ok().filter(|count| *count > 0);
}

/// Removes the pages and headings of another text from the document of a record, whose text is `content`.
pub fn remove_other_structure(document: &mut Document, content: &str) {
    let is_other = |structure: Structure| structure.text != hash(content);
    if document.metadata.contains_key(STRUCTURE) && read(document).is_none_or(is_other) {
        document.metadata.remove(STRUCTURE);
    }
}

fn read(document: &Document) -> Option<Structure> {
    serde_json::from_str(document.metadata.get(STRUCTURE)?.as_str()?).ok()
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extracted(pages: usize, headings: &[(u8, usize)]) -> Extracted {
        let mut extracted = Extracted::new("a".to_owned());
        extracted.pages =
            (0..pages).map(|at| Page::new(at as u32 + 1, at * 2_000..at * 2_000 + 1_990)).collect();
        extracted.page_count = (pages > 0).then_some(pages as u32);
        let titled = |level| Heading::new(level, format!("{level} {}", "é\"".repeat(30)), 9..99);
        let levels = headings.iter().flat_map(|(level, count)| vec![*level; *count]);
        extracted.headings = levels.map(titled).collect();
        extracted
    }

    /// Returns the numbers of pages and of headings that come back.
    #[track_caller]
    fn check(pages: usize, headings: &[(u8, usize)], expected: (usize, usize)) {
        let extracted = extracted(pages, headings);
        let mut document = Document::new("a");
        keep(&mut document, &extracted);
        let size = serde_json::to_string(&document.metadata).unwrap().len();
        assert!(size < 2 * MAX_BYTES, "{size}");
        let mut found = Extracted::new(extracted.content);
        restore_structure(&document, &mut found);
        assert_eq!((found.pages.len(), found.headings.len()), expected);
        assert_eq!(found.pages, extracted.pages[..expected.0]);
        assert_eq!(found.headings, extracted.headings[..expected.1]);
    }

    #[test]
    fn a_structure_has_a_size_limit() {
        check(0, &[], (0, 0));
        check(300, &[(1, 10), (2, 100)], (300, 110));
        check(1_000, &[(1, 10), (2, 90), (3, 2_000)], (1_000, 100));
        check(1_000, &[(1, 2_000)], (1_000, 0));
        check(0, &[(1, 2_000)], (0, 0));
        check(20_000, &[(1, 1)], (0, 0));
    }

    #[test]
    fn the_structure_of_another_text_is_removed() {
        let mut document = Document::new("a");
        let extracted = extracted(2, &[]);
        keep(&mut document, &extracted);
        remove_other_structure(&mut document, &extracted.content);
        assert_eq!(document.metadata.len(), 1);
        remove_other_structure(&mut document, "b");
        assert!(document.metadata.is_empty());
        // As earlier programs wrote it.
        document.metadata.insert(STRUCTURE.to_owned(), serde_json::json!({"text": hash("b")}));
        remove_other_structure(&mut document, "b");
        assert!(document.metadata.is_empty());
    }
}
