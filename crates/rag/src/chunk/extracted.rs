//! Cutting what was extracted from a document, whose pages and headings are known.

use std::ops::Range;

use super::{Chapter, Chunk, ChunkError, ChunkOptions, Form, Strategy, chapters, cut};
use marquetry_extract::{Extracted, Heading, Stop, is_source_code};

/// Cuts the text of a document as [`chunk`](super::chunk) does; chunks know their page where the document has pages, and
/// their chapter where it knows its headings. Spans are places in [`Extracted::content`].
///
/// With [`Strategy::Chapter`] no chunk reaches from one heading into the next; headings are looked for in the text if
/// the document names none. With the other strategies a chunk has the chapter that it begins in, and ends before a heading that
/// text stands above: a heading belongs to what follows it.
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
/// [`ChunkError::Overlap`] if the overlap is not smaller than the size, [`ChunkError::Repeats`] and
/// [`ChunkError::TooMany`] if the chunks would be too much.
pub fn chunk_extracted(
    extracted: &Extracted,
    options: &ChunkOptions,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    chunk_extracted_until(extracted, options, &Stop::never(), count_tokens)
}

/// As [`chunk_extracted`], unless it is stopped.
///
/// # Errors
///
/// As for [`chunk_extracted`], and [`ChunkError::Time`] and [`ChunkError::Stopped`] if it was stopped.
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
        _ => parts(extracted),
    };
    let form = match extracted.wrapped {
        _ if is_source_code(&extracted.mime_type) => Form::Code,
        true => Form::Wrapped,
        false => Form::Lines,
    };
    let mut chunks = cut(text, sections, form, options, stop, count_tokens)?;
    let mut above = Above::new(extracted);
    for chunk in &mut chunks {
        let place = chunk.span.start;
        let page = extracted.pages.partition_point(|page| page.span.start <= place);
        chunk.page = page.checked_sub(1).map(|page| extracted.pages[page].number);
        if chunk.chapter.is_none() {
            chunk.chapter = chapter_at(&chapters, place);
        }
        chunk.headings = above.of(&chunk.span);
    }
    Ok(chunks)
}

type Section = (Range<usize>, Option<Chapter>);

/// The parts of a text of which none begins before a heading and reaches over it, so that a heading is in one passage
/// with what follows it. Headings without text between them stay together.
fn parts(extracted: &Extracted) -> Vec<Section> {
    let text = extracted.content.as_str();
    let mut starts = vec![0];
    let mut end = 0;
    for heading in &extracted.headings {
        let start = heading.span.start;
        if start >= end && !text[end..start].trim().is_empty() {
            // What only marks the heading, such as `##`, belongs to it.
            let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
            starts.push(line.max(end));
        }
        end = end.max(heading.span.end);
    }
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| (*start..end, None)).collect()
}

/// Follows the headings above passages, which come in their order.
struct Above<'a> {
    extracted: &'a Extracted,
    next: usize,
    /// Those above the place that was reached, the highest first.
    open: Vec<&'a Heading>,
}

impl<'a> Above<'a> {
    fn new(extracted: &'a Extracted) -> Self {
        Self { extracted, next: 0, open: Vec::new() }
    }

    /// The headings above a passage, those that it begins with among them.
    fn of(&mut self, span: &Range<usize>) -> Vec<String> {
        let mut end = span.start;
        while let Some(heading) = self.extracted.headings.get(self.next) {
            let start = heading.span.start;
            let between = || &self.extracted.content[end..start];
            let begins_with_it =
                || start < span.end && between().chars().all(|it| it.is_whitespace() || it == '#');
            if start > end && !begins_with_it() {
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

/// The chapters that the document's own headings make.
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

/// What is kept of a title, since each chunk has a copy of it.
fn beginning(title: &str) -> &str {
    const LONGEST: usize = 512;
    &title[..title.floor_char_boundary(LONGEST)]
}

fn chapter_at(chapters: &[Section], place: usize) -> Option<Chapter> {
    let after = chapters.partition_point(|(section, _)| section.start <= place);
    chapters.get(after.checked_sub(1)?)?.1.clone()
}
