//! Cutting what was extracted from a document, whose pages and headings are known.

use std::ops::Range;

use super::{
    Chapter, Chunk, ChunkError, ChunkOptions, Form, Strategy,
    chapters::{self, Heading},
    cut,
};
use crate::{
    Stop,
    extract::{Extracted, is_source_code},
};

/// Cuts the text of a document as [`chunk`](super::chunk) does; chunks know their page where the document has pages, and
/// their chapter where it knows its headings. Spans are places in [`Extracted::content`].
///
/// With [`Strategy::Chapter`] no chunk reaches from one heading into the next; headings are looked for in the text if
/// the document names none. With the other strategies a chunk has the chapter that it begins in.
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
        _ => vec![(0..text.len(), None)],
    };
    let form = match extracted.wrapped {
        _ if is_source_code(&extracted.mime_type) => Form::Code,
        true => Form::Wrapped,
        false => Form::Lines,
    };
    let mut chunks = cut(text, sections, form, options, stop, count_tokens)?;
    for chunk in &mut chunks {
        let place = chunk.span.start;
        let page = extracted.pages.partition_point(|page| page.span.start <= place);
        chunk.page = page.checked_sub(1).map(|page| extracted.pages[page].number);
        if chunk.chapter.is_none() {
            chunk.chapter = chapter_at(&chapters, place);
        }
    }
    Ok(chunks)
}

type Section = (Range<usize>, Option<Chapter>);

/// The chapters that the document's own headings make.
fn chapters_of(extracted: &Extracted) -> Vec<Section> {
    let headings: Vec<_> = extracted
        .headings
        .iter()
        .map(|heading| Heading {
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
