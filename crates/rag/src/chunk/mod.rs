//! Cutting a text into chunks: pieces small enough to embed and to show, each with its exact place in the text.

mod chapters;
mod code;
mod cutter;
mod extracted;
mod sentences;

use std::{num::NonZeroUsize, ops::Range, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use marquetry_extract::{Stop, Stopped};
use marquetry_index::{Chapter, NewChunk};

use cutter::Cutter;
use sentences::each_sentence;

pub use extracted::{chunk_extracted, chunk_extracted_until};

/// What chunks are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Strategy {
    /// Sentences, by Unicode's rules, mended for abbreviations. Of a document that is source code (`chunk_extracted`):
    /// blocks between blank lines, such as functions.
    #[default]
    Sentence,
    /// Words, with single spaces between them.
    Word,
    /// Sentences that never cross from one chapter into the next; `size` counts sentences.
    Chapter,
}

impl FromStr for Strategy {
    type Err = ChunkError;

    fn from_str(name: &str) -> Result<Self, ChunkError> {
        let known =
            [("SENTENCE", Self::Sentence), ("WORD", Self::Word), ("CHAPTER", Self::Chapter)];
        let found = known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found
            .map(|(_, strategy)| strategy)
            .ok_or_else(|| ChunkError::UnknownStrategy(name.to_owned()))
    }
}

/// How a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ChunkOptions {
    /// What chunks are made of.
    pub strategy: Strategy,
    /// How many sentences or words are in a chunk, at most; 5 by default.
    pub size: NonZeroUsize,
    /// How many of them a chunk repeats from the one before it; less than `size`, 0 by default.
    pub overlap: usize,
    /// How many tokens a chunk may have, whatever its size; without a limit by default. What is longer than this by
    /// itself is cut between words, and a word between characters. Sentences, words and what is between them are counted
    /// by themselves, and added up.
    pub max_tokens: Option<NonZeroUsize>,
    /// How many bytes of the text a chunk may have, whatever its size; 16 KiB by default. What is longer is cut in the
    /// same way.
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
    /// How many chunks a text is cut into, at most: each costs a vector.
    pub const MAX_CHUNKS: usize = 1 << 20;
    /// How many times as long as the text all its chunks together may be, by way of the overlap. Texts whose chunks
    /// have less than a MiB together may have any.
    pub const MAX_REPEATS: usize = 8;
    /// How many tokens a chunk of a document has at most where nobody says how many: as much as most models of vectors
    /// read.
    pub const USUAL_TOKENS: NonZeroUsize = NonZeroUsize::new(512).expect("it is not zero");

    /// Chunks of so many sentences or words.
    ///
    /// # Errors
    ///
    /// [`ChunkError::Size`] if `size` is 0 or below.
    pub fn new(strategy: Strategy, size: i64) -> Result<Self, ChunkError> {
        let size =
            usize::try_from(size).ok().and_then(NonZeroUsize::new).ok_or(ChunkError::Size(size))?;
        Ok(Self { strategy, size, ..Self::default() })
    }
}

/// Why a text is not cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// A chunk would hold nothing.
    #[error("the chunk size is {0}; it must be at least 1")]
    Size(i64),
    /// The next chunk would not begin after this one.
    #[error("the overlap {overlap} is not smaller than the chunk size {size}")]
    Overlap {
        /// The overlap asked for.
        overlap: usize,
        /// The size asked for.
        size: usize,
    },
    /// There would be more chunks than [`ChunkOptions::MAX_CHUNKS`].
    #[error(
        "there would be more than {} chunks; take a larger chunk size",
        ChunkOptions::MAX_CHUNKS
    )]
    TooMany,
    /// The overlap repeats so much that the chunks together would be longer than [`ChunkOptions::MAX_REPEATS`] times
    /// the text.
    #[error(
        "with an overlap of {overlap} the chunks together are longer than {} times the text; take a smaller overlap",
        ChunkOptions::MAX_REPEATS
    )]
    Repeats {
        /// The overlap asked for.
        overlap: usize,
    },
    /// There is no such strategy.
    #[error("there is no chunk type {0:?}; there are SENTENCE, WORD and CHAPTER")]
    UnknownStrategy(String),
    /// It took longer than it may.
    #[error("cutting the text takes longer than {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// Its caller has gone.
    #[error("cutting the text was stopped: its caller has gone")]
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

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// Its place among the chunks of the text, from 0.
    pub index: usize,
    /// What is embedded, searched and shown: the text at `span` with straight quotes, and single spaces where it is
    /// made of words.
    pub content: String,
    /// Where it stands in the text, in bytes.
    pub span: Range<usize>,
    /// The chapter that it is in.
    pub chapter: Option<Chapter>,
    /// The headings above it, the highest first, where headings are known (`chunk_extracted`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// The page that it begins on, from 1, where pages are known (`chunk_extracted`).
    pub page: Option<u32>,
    /// How many sentences, or blocks of source code, it has, wholly or in part; 0 if it was made of words.
    pub sentences: usize,
    /// How many words it has.
    pub words: usize,
}

impl Chunk {
    /// Returns the chunk with its vector, to be stored.
    pub fn with_vector(self, vector: Vec<f32>) -> NewChunk {
        let Self { content, span, page, chapter, headings, .. } = self;
        let mut chunk = NewChunk::of_text(content, vector);
        (chunk.span, chunk.page, chunk.chapter, chunk.headings) = (span, page, chapter, headings);
        chunk
    }
}

/// Cuts a text. Blank text gives no chunks.
///
/// `count_tokens` says how many tokens some text has; it is asked only if [`ChunkOptions::max_tokens`] is set.
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
/// [`ChunkError::Overlap`] if the overlap is not smaller than the size, [`ChunkError::Repeats`] and
/// [`ChunkError::TooMany`] if the chunks would be too much.
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

/// Cuts the sections of a text, none of which reaches into the next.
fn cut(
    text: &str,
    sections: Vec<(Range<usize>, Option<Chapter>)>,
    form: Form,
    options: &ChunkOptions,
    stop: &Stop,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    let mut cutter = Cutter::new(text, options, stop, count_tokens)?;
    for (section, chapter) in sections {
        cutter.begin_section(chapter)?;
        match (options.strategy, form) {
            (Strategy::Word, _) => {
                for word in words(text, section) {
                    cutter.push(word)?;
                }
            }
            (_, Form::Code) => code::push_blocks(text, section, &mut cutter)?,
            (_, Form::Lines | Form::Wrapped) => {
                let is_wrapped = form == Form::Wrapped;
                each_sentence(text, section, is_wrapped, |sentence| cutter.push(sentence))?;
            }
        }
    }
    cutter.finish()
}

/// The kind of text that is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A sentence may go on after a line break.
    Wrapped,
    /// Each line stands for itself.
    Lines,
    /// A program.
    Code,
}

/// How many words a text has: the cheapest measure for [`chunk`].
pub fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The words of a part of the text, as places in the text.
fn words(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let start = part.start;
    let part = &text[part];
    part.split_whitespace().map(move |word| {
        let at = start + (word.as_ptr() as usize - part.as_ptr() as usize);
        at..at + word.len()
    })
}
