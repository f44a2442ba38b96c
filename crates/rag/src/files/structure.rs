//! Stores the pages and headings of a file, whose record has only its text.

use std::{borrow::Cow, collections::BTreeMap};

use marquetry_index::Document;
use serde::{Deserialize, Serialize};

use crate::{Extracted, Heading, Page};

/// The pages and headings of a text.
#[derive(Serialize, Deserialize)]
struct Structure<'a> {
    /// BLAKE3 hash of the text, in hexadecimal: the record may have another text by now.
    text: String,
    wrapped: bool,
    /// The pages, from [`packed`].
    pages: Vec<usize>,
    /// Level, title, start and end of each heading.
    headings: Vec<(u8, Cow<'a, str>, usize, usize)>,
}

/// The key of the structure in the metadata of a document. The value is one string of JSON: each
/// search reads the metadata of its documents, and a string is read faster than thousands of
/// values, into less memory.
const STRUCTURE: &str = "structure";

/// Maximum size of a structure, in bytes: 10,000 pages, which are the most by default, take about
/// 90 KiB.
const MAX_BYTES: usize = 128 << 10;

/// Minimum size of a page, in bytes: `1,0,0,`.
const MIN_PAGE: usize = 6;

/// Minimum size of a heading without its title, in bytes: `[1,"",0,1]`.
const MIN_HEADING: usize = 10;

/// Adds the pages and headings of a file to the metadata of its document.
///
/// Headings are left out if the structure is too large, those of the deepest level first. If the
/// pages alone are too large, nothing is added: with the first pages alone, passages of later ones
/// would be cited with the last of these.
pub(super) fn add(document: &mut Document, extracted: &Extracted) {
    let Extracted { content, wrapped, pages, headings, .. } = extracted;
    if pages.len() > MAX_BYTES / MIN_PAGE {
        return;
    }
    let Some(pages) = packed(pages) else { return };
    // A text may have millions of headings, which are not copied only to be left out.
    let deepest = deepest_level(headings);
    let headings = headings
        .iter()
        .filter(|heading| heading.level <= deepest)
        .map(|Heading { level, title, span, .. }| {
            (*level, Cow::Borrowed(title.as_str()), span.start, span.end)
        })
        .collect();
    let mut structure = Structure { text: hash(content), wrapped: *wrapped, pages, headings };
    while !(structure.pages.is_empty() && structure.headings.is_empty()) {
        let Ok(json) = serde_json::to_string(&structure) else { return };
        if json.len() <= MAX_BYTES {
            document.metadata.insert(STRUCTURE.to_owned(), json.into());
            return;
        }
        let Some(deepest) = structure.headings.iter().map(|(level, ..)| *level).max() else {
            return;
        };
        structure.headings.retain(|(level, ..)| *level < deepest);
    }
}

/// Returns the deepest level of the headings that may fit into a structure; 0 if not even the
/// highest level fits.
fn deepest_level(headings: &[Heading]) -> u8 {
    let mut sizes = BTreeMap::new();
    for heading in headings {
        *sizes.entry(heading.level).or_insert(0) += MIN_HEADING + heading.title.len();
    }
    let mut total = 0;
    let fitting = sizes.into_iter().take_while(|(_, size)| {
        total += size;
        total <= MAX_BYTES
    });
    fitting.last().map_or(0, |(level, _)| level)
}

/// Returns three values for each page: the difference to the number of the page before, the bytes
/// between both, and the bytes of the page. They take half the space of numbers, starts and ends.
/// Returns [`None`] if the pages are not in their order.
fn packed(pages: &[Page]) -> Option<Vec<usize>> {
    let mut last = 0;
    let mut end = 0;
    let mut packed = Vec::with_capacity(3 * pages.len());
    for Page { number, span, .. } in pages {
        let step = number.checked_sub(last)? as usize;
        packed.extend([step, span.start.checked_sub(end)?, span.end.checked_sub(span.start)?]);
        last = *number;
        end = span.end;
    }
    Some(packed)
}

/// Returns the pages from [`packed`].
fn unpacked(packed: &[usize]) -> Option<Vec<Page>> {
    let mut number = 0_u32;
    let mut end = 0_usize;
    let mut pages = Vec::new();
    for [step, gap, length] in packed.as_chunks::<3>().0 {
        number = number.checked_add(u32::try_from(*step).ok()?)?;
        let start = end.checked_add(*gap)?;
        end = start.checked_add(*length)?;
        pages.push(Page::new(number, start..end));
    }
    Some(pages)
}

/// Sets the pages and headings of the text of an indexed file to those of the file. `document` is
/// the document of the file's record. Does nothing if the record has another text by now.
pub fn restore_structure(document: &Document, extracted: &mut Extracted) {
    let Some(structure) = read(document).filter(|it| it.text == hash(&extracted.content)) else {
        return;
    };
    let Some(pages) = unpacked(&structure.pages) else { return };
    extracted.wrapped = structure.wrapped;
    extracted.pages = pages;
    extracted.headings = structure
        .headings
        .into_iter()
        .map(|(level, title, start, end)| Heading::new(level, title, start..end))
        .collect();
    extracted.page_count = u32::try_from(extracted.pages.len()).ok().filter(|count| *count > 0);
}

/// Removes the pages and headings from the document of a record if they are not those of `content`,
/// the text of the record.
pub fn remove_stale_structure(document: &mut Document, content: &str) {
    if document.metadata.contains_key(STRUCTURE)
        && read(document).is_none_or(|structure| structure.text != hash(content))
    {
        document.metadata.remove(STRUCTURE);
    }
}

fn read(document: &Document) -> Option<Structure<'_>> {
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
        let levels = headings.iter().flat_map(|(level, count)| vec![*level; *count]);
        extracted.headings = levels
            .map(|level| Heading::new(level, format!("{level} {}", "é\"".repeat(30)), 9..99))
            .collect();
        extracted
    }

    /// Returns the numbers of pages and of headings that come back.
    #[track_caller]
    fn check(pages: usize, headings: &[(u8, usize)], expected: (usize, usize)) {
        let extracted = extracted(pages, headings);
        let mut document = Document::new("a");
        add(&mut document, &extracted);
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
        check(10_000, &[(1, 100)], (10_000, 100));
        check(20_000, &[(1, 1)], (0, 0));
        check(30_000, &[(1, 1)], (0, 0));
    }

    /// Each title has few bytes, and far more in JSON.
    #[test]
    fn escaped_titles_count_as_they_are_stored() {
        let mut extracted = extracted(0, &[(1, 1)]);
        extracted.headings.extend((0..5_000).map(|_| Heading::new(2, "\u{1}".repeat(10), 9..99)));
        let mut document = Document::new("a");
        add(&mut document, &extracted);
        restore_structure(&document, &mut extracted);
        assert_eq!(extracted.headings.len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn millions_of_headings_are_not_copied() {
        fn peak_memory() -> usize {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
        }
        let mut extracted = extracted(0, &[]);
        extracted.headings = vec![Heading::new(1, "", 0..1); 3_000_000];
        let mut document = Document::new("a");
        let before = peak_memory();
        add(&mut document, &extracted);
        let taken = peak_memory() - before;
        assert!(taken < 64 << 20, "{taken}");
        assert!(document.metadata.is_empty());
    }

    #[test]
    fn pages_may_be_empty_or_missing() {
        let pages = [(1, 0..0), (3, 0..20), (7, 22..22), (8, 30..99)]
            .map(|(number, span)| Page::new(number, span))
            .to_vec();
        assert_eq!(unpacked(&packed(&pages).unwrap()), Some(pages));
        assert_eq!(packed(&[Page::new(1, 5..9), Page::new(2, 7..12)]), None);
        assert_eq!(unpacked(&[1, 1, usize::MAX]), None);
    }

    #[test]
    fn the_structure_of_another_text_is_removed() {
        let mut document = Document::new("a");
        let extracted = extracted(2, &[]);
        add(&mut document, &extracted);
        remove_stale_structure(&mut document, &extracted.content);
        assert_eq!(document.metadata.len(), 1);
        remove_stale_structure(&mut document, "b");
        assert!(document.metadata.is_empty());
        // As earlier programs wrote it.
        document.metadata.insert(STRUCTURE.to_owned(), serde_json::json!({"text": hash("b")}));
        remove_stale_structure(&mut document, "b");
        assert!(document.metadata.is_empty());
    }
}
