//! Cuts the text of a document into chunks with pages and headings.

use std::ops::Range;

use super::{
    Chapter, Chunk, ChunkError, ChunkOptions, Form, Strategy, chapters, cut, cutter::content,
};
use marquetry_extract::{Extracted, Heading, Stop, is_source_code};
use marquetry_index::PageStart;

/// Cuts the text of a document as [`chunk`](super::chunk) does. Chunks also have a page and
/// headings if the document has any. Spans refer to [`Extracted::content`].
///
/// With [`Strategy::Chapter`], no chunk crosses a heading; if the document has no headings, they
/// are looked for in the text. With [`Strategy::Unknown`], the document is one chunk. With the
/// other strategies, a chunk belongs to the chapter in which it begins, and ends before the next
/// heading, because a heading belongs to the text below it.
///
/// ```
/// use marquetry_rag::{ChunkOptions, Hint, Strategy, chunk_extracted, count_words, extract};
///
/// let extracted = extract(b"# Bread\n\nFlour and water.\n\n# Wine\n\nGrapes.", &Hint::file("food.md"))?;
/// let chunks = chunk_extracted(&extracted, &ChunkOptions::new(Strategy::Chapter, 9)?, count_words)?;
/// assert_eq!(chunks[1].chapter.as_ref().unwrap().title, "Wine");
/// assert_eq!(&extracted.content[chunks[1].span.clone()], "# Wine\n\nGrapes.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the overlap is not smaller than the size ([`ChunkError::Overlap`]), if the
/// chunks would be too long or too many ([`ChunkError::Repeats`], [`ChunkError::TooMany`]), or if
/// the text does not fit into the one chunk of [`Strategy::Unknown`] ([`ChunkError::TooLong`]).
pub fn chunk_extracted(
    extracted: &Extracted,
    options: &ChunkOptions,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    chunk_extracted_until(extracted, options, &Stop::never(), count_tokens)
}

/// Cuts as [`chunk_extracted`] does, until it is stopped.
///
/// # Errors
///
/// Returns an error if [`chunk_extracted`] would, or if it was stopped ([`ChunkError::Time`],
/// [`ChunkError::Stopped`]).
pub fn chunk_extracted_until(
    extracted: &Extracted,
    options: &ChunkOptions,
    stop: &Stop,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    let text = extracted.content.as_str();
    let chapters = chapters_of(extracted);
    let sections = match options.strategy {
        Strategy::Chapter if extracted.headings.is_empty() => chapters::sections(text),
        Strategy::Chapter => chapters.clone(),
        Strategy::Unknown => vec![(0..text.len(), None)],
        _ => parts(extracted),
    };
    let form = if is_source_code(&extracted.mime_type) {
        Form::Code
    } else if extracted.wrapped {
        Form::Wrapped
    } else {
        Form::Lines
    };
    let mut chunks = cut(text, sections, form, options, stop, count_tokens)?;
    let mut above = HeadingsAbove::new(extracted);
    for chunk in &mut chunks {
        let start = chunk.span.start;
        let page = extracted.pages.partition_point(|page| page.span.start <= start);
        chunk.page = page.checked_sub(1).map(|page| extracted.pages[page].number);
        chunk.page_starts = page_starts(extracted, page, chunk, options.strategy);
        if chunk.chapter.is_none() {
            chunk.chapter = chapter_at(&chapters, start);
        }
        chunk.headings = above.of(&chunk.span);
    }
    Ok(chunks)
}

/// Returns the pages that begin inside a chunk; `next` is the index of the first page after its
/// start.
fn page_starts(
    extracted: &Extracted,
    next: usize,
    chunk: &Chunk,
    strategy: Strategy,
) -> Vec<PageStart> {
    let text = extracted.content.as_str();
    let mut starts = Vec::<PageStart>::new();
    let mut offset = 0;
    let mut from = chunk.span.start;
    for page in &extracted.pages[next..] {
        let to = page.span.start;
        if to >= chunk.span.end {
            break;
        }
        // The content is shorter than the text, for example by its straight quotes.
        let before = &text[from..to];
        let after = &text[to..];
        offset += content(before, strategy).len();
        let is_space =
            before.ends_with(char::is_whitespace) || after.starts_with(char::is_whitespace);
        if strategy == Strategy::Word && is_space && !before.trim().is_empty() {
            offset += 1;
        }
        from = to;
        // No match is on a page without words.
        if before.trim().is_empty() {
            starts.pop();
        }
        starts.push(PageStart::new(page.number, offset));
    }
    starts
}

type Section = (Range<usize>, Option<Chapter>);

/// Returns the parts of a text between headings. A heading is in the same part as the text below
/// it; headings without text between them are in one part.
fn parts(extracted: &Extracted) -> Vec<Section> {
    let text = extracted.content.as_str();
    let mut starts = vec![0];
    let mut end = 0;
    for heading in &extracted.headings {
        let start = heading.span.start;
        if start >= end && !text[end..start].trim().is_empty() {
            // Markers of the heading, such as `##`, belong to it.
            let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
            starts.push(line.max(end));
        }
        end = end.max(heading.span.end);
    }
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| (*start..end, None)).collect()
}

/// Tracks the headings above passages. Passages must be visited in order.
struct HeadingsAbove<'a> {
    extracted: &'a Extracted,
    next: usize,
    /// The headings above the present position, outermost first.
    open: Vec<&'a Heading>,
}

impl<'a> HeadingsAbove<'a> {
    fn new(extracted: &'a Extracted) -> Self {
        Self { extracted, next: 0, open: Vec::new() }
    }

    /// Returns the headings above a passage, including those at its beginning.
    fn of(&mut self, span: &Range<usize>) -> Vec<String> {
        let mut end = span.start;
        while let Some(heading) = self.extracted.headings.get(self.next) {
            let start = heading.span.start;
            // Only white space and `#` may be between the beginning of the passage and a heading in
            // it.
            let is_above = start <= end
                || (start < span.end
                    && self.extracted.content[end..start]
                        .chars()
                        .all(|it| it.is_whitespace() || it == '#'));
            if !is_above {
                break;
            }
            while self.open.pop_if(|above| above.level >= heading.level).is_some() {}
            self.open.push(heading);
            end = end.max(heading.span.end);
            self.next += 1;
        }
        self.open.iter().map(|heading| heading.title.clone()).collect()
    }
}

/// Returns the chapters of the document, by its headings.
fn chapters_of(extracted: &Extracted) -> Vec<Section> {
    let headings: Vec<_> = extracted
        .headings
        .iter()
        .map(|heading| chapters::Heading {
            line: heading.span.clone(),
            title: chapters::title(beginning(&heading.title)).to_owned(),
        })
        .collect();
    chapters::divide(&extracted.content, &headings)
}

/// Shortens a title, because each chunk holds a copy of it.
fn beginning(title: &str) -> &str {
    const LONGEST: usize = 512;
    &title[..title.floor_char_boundary(LONGEST)]
}

fn chapter_at(chapters: &[Section], offset: usize) -> Option<Chapter> {
    let after = chapters.partition_point(|(section, _)| section.start <= offset);
    chapters.get(after.checked_sub(1)?)?.1.clone()
}
