//! Cutting a text into chunks: pieces small enough to embed and to show, each with its exact place in the text.

mod chapters;
#[cfg(feature = "extract")]
mod extracted;
mod sentences;

use std::{num::NonZeroUsize, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::quotes::straighten_quotes;

pub use chapters::Chapter;
#[cfg(feature = "extract")]
pub use extracted::chunk_extracted;

/// What chunks are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Strategy {
    /// Sentences, by Unicode's rules, mended for abbreviations.
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
    /// itself is cut between words, and a word between characters.
    pub max_tokens: Option<NonZeroUsize>,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        let size = NonZeroUsize::new(5).expect("five is not zero");
        Self { strategy: Strategy::default(), size, overlap: 0, max_tokens: None }
    }
}

impl ChunkOptions {
    /// How many chunks a text is cut into, at most: each costs a vector.
    pub const MAX_CHUNKS: usize = 1 << 20;
    /// How many times as long as the text all its chunks together may be, by way of the overlap. Texts whose chunks
    /// have less than a MiB together may have any.
    pub const MAX_REPEATS: usize = 8;

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
    /// The page that it begins on, from 1, where pages are known (`chunk_extracted`).
    pub page: Option<u32>,
    /// How many sentences it has, wholly or in part; 0 if it was made of words.
    pub sentences: usize,
    /// How many words it has.
    pub words: usize,
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
    cut(text, sections, true, options, count_tokens)
}

/// Cuts the sections of a text, none of which reaches into the next.
fn cut(
    text: &str,
    sections: Vec<(Range<usize>, Option<Chapter>)>,
    is_wrapped: bool,
    options: &ChunkOptions,
    count_tokens: impl Fn(&str) -> usize,
) -> Result<Vec<Chunk>, ChunkError> {
    let size = options.size.get();
    if options.overlap >= size {
        return Err(ChunkError::Overlap { overlap: options.overlap, size });
    }
    let room = text.len().saturating_mul(ChunkOptions::MAX_REPEATS).max(1 << 20);
    let cutter = Cutter { text, options, count_tokens, room };
    let mut chunks = Chunks::default();
    for (section, chapter) in sections {
        let units = match options.strategy {
            Strategy::Word => words(text, section),
            _ => sentences::sentences(text, section, is_wrapped),
        };
        cutter.cut(&cutter.divide(units), chapter.as_ref(), &mut chunks)?;
    }
    Ok(chunks.all)
}

/// How many words a text has: the cheapest measure for [`chunk`].
pub fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

struct Cutter<'a, F> {
    text: &'a str,
    options: &'a ChunkOptions,
    count_tokens: F,
    /// How many bytes all chunks together may have.
    room: usize,
}

#[derive(Default)]
struct Chunks {
    all: Vec<Chunk>,
    bytes: usize,
}

impl<F: Fn(&str) -> usize> Cutter<'_, F> {
    /// The units, with those that exceed the limit of tokens by themselves cut into smaller ones.
    fn divide(&self, units: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let Some(limit) = self.options.max_tokens else { return units };
        let fits =
            |span: &Range<usize>| (self.count_tokens)(&self.text[span.clone()]) <= limit.get();
        let mut divided = Vec::with_capacity(units.len());
        for unit in units {
            if fits(&unit) {
                divided.push(unit);
                continue;
            }
            let mut open: Option<Range<usize>> = None;
            for word in words(self.text, unit) {
                let longer = open.as_ref().map_or(word.start, |open| open.start)..word.end;
                if fits(&longer) {
                    open = Some(longer);
                    continue;
                }
                divided.extend(open.take());
                if fits(&word) {
                    open = Some(word);
                } else {
                    self.divide_word(word, &fits, &mut divided);
                }
            }
            divided.extend(open);
        }
        divided
    }

    /// Halves a word until its parts fit; a single character always does.
    fn divide_word(
        &self,
        word: Range<usize>,
        fits: &impl Fn(&Range<usize>) -> bool,
        divided: &mut Vec<Range<usize>>,
    ) {
        let middle = self.text[word.clone()].char_indices().map(|(at, _)| word.start + at);
        let half = word.start + word.len() / 2;
        match middle.filter(|&at| at > word.start).min_by_key(|at| at.abs_diff(half)) {
            Some(at) if !fits(&word) => {
                self.divide_word(word.start..at, fits, divided);
                self.divide_word(at..word.end, fits, divided);
            }
            _ => divided.push(word),
        }
    }

    /// Puts units together into chunks.
    fn cut(
        &self,
        units: &[Range<usize>],
        chapter: Option<&Chapter>,
        chunks: &mut Chunks,
    ) -> Result<(), ChunkError> {
        let fits = |first: usize, after: usize| {
            let text = || &self.text[units[first].start..units[after - 1].end];
            self.options.max_tokens.is_none_or(|limit| (self.count_tokens)(text()) <= limit.get())
        };
        let (mut first, mut done) = (0, 0);
        while done < units.len() {
            // A chunk holds at least one unit that is new, and for that gives up what it repeats.
            while first < done && !fits(first, done + 1) {
                first += 1;
            }
            let mut after = (first + self.options.size.get()).min(units.len());
            while after > done + 1 && !fits(first, after) {
                after -= 1;
            }
            let chunk = self.chunk(chunks.all.len(), &units[first..after], chapter);
            chunks.bytes += chunk.content.len();
            if chunks.bytes > self.room {
                return Err(ChunkError::Repeats { overlap: self.options.overlap });
            }
            if chunks.all.len() == ChunkOptions::MAX_CHUNKS {
                return Err(ChunkError::TooMany);
            }
            chunks.all.push(chunk);
            done = after;
            first = (first + 1).max(after.saturating_sub(self.options.overlap));
        }
        Ok(())
    }

    fn chunk(&self, index: usize, units: &[Range<usize>], chapter: Option<&Chapter>) -> Chunk {
        let span = units[0].start..units[units.len() - 1].end;
        let text = straighten_quotes(&self.text[span.clone()]);
        let is_words = self.options.strategy == Strategy::Word;
        let content = if is_words {
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        } else {
            text.into_owned()
        };
        Chunk {
            index,
            words: count_words(&content),
            sentences: if is_words { 0 } else { units.len() },
            content,
            span,
            chapter: chapter.cloned(),
            page: None,
        }
    }
}

/// The words of a part of the text, as places in the text.
fn words(text: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let start = part.start;
    let part = &text[part];
    part.split_whitespace()
        .map(|word| {
            let at = start + (word.as_ptr() as usize - part.as_ptr() as usize);
            at..at + word.len()
        })
        .collect()
}
