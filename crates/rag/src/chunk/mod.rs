//! Cuts a text into chunks: pieces that are small enough to embed and show, with their exact spans
//! in the text.

mod abbreviations;
mod chapters;
mod code;
mod cutter;
mod sentences;

use std::{num::NonZeroUsize, ops::Range, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use marquetry_extract::{Extracted, Heading, Stop, Stopped, is_source_code};
use marquetry_index::{Chapter, NewChunk, PageStart};

pub use self::cutter::straighten_quotes;
use self::{
    abbreviations::FullStops,
    cutter::{Cutter, content},
    sentences::for_each_sentence,
};

/// The unit of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Strategy {
    /// Sentences, by the rules of Unicode (UAX #29) with corrections for abbreviations. For source
    /// code (`chunk_extracted`): blocks between blank lines, such as functions.
    #[default]
    Sentence,
    /// Words, with single spaces between them.
    Word,
    /// Sentences. No chunk crosses the boundary of a chapter; `size` counts sentences.
    Chapter,
    /// The whole text as one chunk, whatever the other options are. A text of more than
    /// [`max_bytes`](ChunkOptions::max_bytes) is an error. A model that reads fewer tokens embeds
    /// only the beginning.
    Unknown,
}

impl FromStr for Strategy {
    type Err = ChunkError;

    fn from_str(name: &str) -> Result<Self, ChunkError> {
        [
            ("SENTENCE", Self::Sentence),
            ("WORD", Self::Word),
            ("CHAPTER", Self::Chapter),
            ("UNKNOWN", Self::Unknown),
        ]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, strategy)| strategy)
        .ok_or_else(|| ChunkError::UnknownStrategy(name.to_owned()))
    }
}

/// Options for cutting a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ChunkOptions {
    /// The unit of chunks.
    pub strategy: Strategy,
    /// Maximum number of units (sentences or words) of a chunk; 5 by default.
    pub size: NonZeroUsize,
    /// Number of units that a chunk repeats from the one before it; less than `size`, 0 by default.
    pub overlap: usize,
    /// Maximum number of tokens of a chunk; no limit by default. A longer sentence is cut between
    /// words, and a longer word between characters. The tokens of a chunk are the sum of the tokens
    /// of its units and of the text between them.
    pub max_tokens: Option<NonZeroUsize>,
    /// Longest chunk, in bytes of the text; 16 KiB by default. Longer sentences and words are cut
    /// in the same way.
    pub max_bytes: NonZeroUsize,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        let size = NonZeroUsize::new(5).expect("five is not zero");
        let max_bytes = NonZeroUsize::new(16 << 10).expect("it is not zero");
        Self { strategy: Strategy::default(), size, overlap: 0, max_tokens: None, max_bytes }
    }
}

impl ChunkOptions {
    /// Maximum number of chunks of a text. Each chunk takes 1.5 KiB of memory until it is stored,
    /// most of it for its vector. The longest text has about as many chunks of five sentences.
    pub const MAX_CHUNKS: usize = 1 << 17;
    /// Largest total length of all chunks, as a multiple of the length of the text. Overlaps make
    /// chunks longer than the text. Not checked below 1 MiB of chunks.
    pub const MAX_REPEATS: usize = 8;
    /// Usual value of [`Self::max_tokens`] for documents: most embedding models read this many
    /// tokens.
    pub const USUAL_TOKENS: NonZeroUsize = NonZeroUsize::new(512).expect("it is not zero");

    /// Returns the options for chunks of this many units.
    ///
    /// # Errors
    ///
    /// Returns [`ChunkError::Size`] if `size` is 0 or below.
    pub fn new(strategy: Strategy, size: i64) -> Result<Self, ChunkError> {
        let size =
            usize::try_from(size).ok().and_then(NonZeroUsize::new).ok_or(ChunkError::Size(size))?;
        Ok(Self { strategy, size, ..Self::default() })
    }
}

/// The reason why a text cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The chunk size is below 1.
    #[error("the chunk size is {0}; it must be at least 1")]
    Size(i64),
    /// The overlap is not smaller than the chunk size.
    #[error("the overlap {overlap} is not smaller than the chunk size {size}")]
    Overlap {
        /// The overlap.
        overlap: usize,
        /// The chunk size.
        size: usize,
    },
    /// The text has more chunks than [`ChunkOptions::MAX_CHUNKS`].
    #[error("the text has more than {} chunks; use a larger chunk size", ChunkOptions::MAX_CHUNKS)]
    TooMany,
    /// Because of the overlap, the chunks together are longer than [`ChunkOptions::MAX_REPEATS`]
    /// times the text.
    #[error(
        "with an overlap of {overlap}, all chunks together are more than {} times as long as the text; use a smaller overlap",
        ChunkOptions::MAX_REPEATS
    )]
    Repeats {
        /// The overlap.
        overlap: usize,
    },
    /// The text is too long for the one chunk of [`Strategy::Unknown`].
    #[error(
        "the text has {bytes} bytes, and one chunk has at most {max}; cut it by SENTENCE, WORD or CHAPTER"
    )]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// The limit, [`ChunkOptions::max_bytes`].
        max: usize,
    },
    /// No strategy has this name.
    #[error("no chunk type {0:?}; the types are SENTENCE, WORD, CHAPTER and UNKNOWN")]
    UnknownStrategy(String),
    /// The time limit passed.
    #[error("cutting the text takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// The caller has gone.
    #[error("cutting the text was stopped: the caller disconnected")]
    Stopped,
}

impl From<Stopped> for ChunkError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Time(time) => Self::Time(time),
            _ => Self::Stopped,
        }
    }
}

/// A chunk of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// Index among the chunks of the text, from 0.
    pub index: usize,
    /// The text to embed, search and show: the text at `span` with straight quotes; with
    /// [`Strategy::Word`], also with single spaces.
    pub content: String,
    /// Span in the text, in bytes of UTF-8.
    pub span: Range<usize>,
    /// The chapter.
    pub chapter: Option<Chapter>,
    /// The headings above the chunk, outermost first, if headings are known (`chunk_extracted`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// The page on which the chunk begins, from 1, if pages are known (`chunk_extracted`).
    pub page: Option<u32>,
    /// The pages that begin inside the chunk, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_starts: Vec<PageStart>,
    /// Number of sentences, or blocks of source code, in the chunk, including partial ones; 0 with
    /// [`Strategy::Word`] and [`Strategy::Unknown`].
    pub sentences: usize,
    /// Number of words.
    pub words: usize,
}

impl Chunk {
    /// Returns the chunk with this vector, ready to be stored.
    pub fn with_vector(self, vector: Vec<f32>) -> NewChunk {
        let Self { content, span, page, page_starts, chapter, headings, .. } = self;
        let mut chunk = NewChunk::of_text(content, vector);
        chunk.span = span;
        chunk.page = page;
        chunk.page_starts = page_starts;
        chunk.chapter = chapter;
        chunk.headings = headings;
        chunk
    }
}

/// Cuts a text into chunks. A blank text has no chunks.
///
/// `count_tokens` returns the number of tokens of a text; it is called only if
/// [`ChunkOptions::max_tokens`] is set.
///
/// ```
/// use marquetry_rag::{ChunkOptions, Strategy, chunk, count_words};
///
/// let text = "Dr. Smith went to Washington. He met the president. Nobody knows why.";
/// let chunks = chunk(text, &ChunkOptions::new(Strategy::Sentence, 2)?, count_words)?;
/// assert_eq!(chunks[0].content, "Dr. Smith went to Washington. He met the president.");
/// assert_eq!(&text[chunks[1].span.clone()], "Nobody knows why.");
/// # Ok::<(), marquetry_rag::ChunkError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the overlap is not smaller than the size ([`ChunkError::Overlap`]), if the
/// chunks would be too long or too many ([`ChunkError::Repeats`], [`ChunkError::TooMany`]), or if
/// the text does not fit into the one chunk of [`Strategy::Unknown`] ([`ChunkError::TooLong`]).
pub fn chunk(
    text: &str,
    options: &ChunkOptions,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    let sections = match options.strategy {
        Strategy::Chapter => chapters::sections(text),
        _ => vec![(0..text.len(), None)],
    };
    cut(text, sections, Form::Wrapped, options, &Stop::never(), count_tokens)
}

/// Cuts the text of a document as [`chunk`] does. Chunks also have a page and
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

/// Cuts the sections of a text. No chunk crosses the boundary of a section.
fn cut(
    text: &str,
    sections: Vec<(Range<usize>, Option<Chapter>)>,
    form: Form,
    options: &ChunkOptions,
    stop: &Stop,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    let mut cutter = Cutter::new(text, options, stop, count_tokens)?;
    let full_stops = FullStops::of(text);
    for (section, chapter) in sections {
        cutter.begin_section(chapter)?;
        match (options.strategy, form) {
            (Strategy::Word, _) => {
                for word in words(text, section) {
                    cutter.push(word)?;
                }
            }
            (Strategy::Unknown, _) => cutter.push_whole(section)?,
            (_, Form::Code) => code::push_blocks(text, section, &mut cutter)?,
            (_, Form::Lines | Form::Wrapped) => {
                let is_wrapped = form == Form::Wrapped;
                for_each_sentence(text, section, is_wrapped, full_stops, |sentence| {
                    cutter.push(sentence)
                })?;
            }
        }
    }
    cutter.finish()
}

/// The form of a text, which determines where sentences end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A sentence may continue after a line break.
    Wrapped,
    /// Each line is a unit.
    Lines,
    /// Source code.
    Code,
}

/// Returns the number of words in a text: the cheapest measure for [`chunk`].
pub fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Returns the words of a part of the text, as spans of the text.
fn words(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let start = part.start;
    let part = &text[part];
    part.split_whitespace().map(move |word| {
        let at = start + (word.as_ptr() as usize - part.as_ptr() as usize);
        at..at + word.len()
    })
}
