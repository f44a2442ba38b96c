//! Combines sentences, words or blocks of code into chunks.

use std::{borrow::Cow, collections::VecDeque, ops::Range};

use super::{Chapter, Chunk, ChunkError, ChunkOptions, Strategy, count_words, words};
use crate::Stop;

/// Makes chunks from units that are added in order.
///
/// Each unit is measured once, and at most one chunk is open. Therefore time depends only on the
/// length of the text, and memory on the chunks, whatever the options are.
pub(super) struct Cutter<'a, F> {
    text: &'a str,
    options: &'a ChunkOptions,
    count_tokens: F,
    stop: &'a Stop,
    /// Tokens of an empty text: a model adds these to each passage.
    base_tokens: usize,
    /// Maximum number of bytes of several units in one chunk.
    joined_bytes: usize,
    /// Maximum number of bytes of all chunks together.
    room: usize,
    open: VecDeque<Unit>,
    /// Tokens of the open units and the text between them.
    open_tokens: usize,
    /// Number of open units that the previous chunk contains, too.
    repeated: usize,
    chapter: Option<Chapter>,
    /// Bytes that were measured since the last check of the time limit.
    unchecked: usize,
    chunk_bytes: usize,
    chunks: Vec<Chunk>,
}

/// A sentence, word or block of code.
struct Unit {
    span: Range<usize>,
    tokens: usize,
    /// Tokens between the previous unit and this one.
    gap_tokens: usize,
}

impl<'a, F: Fn(&str) -> usize> Cutter<'a, F> {
    pub(super) fn new(
        text: &'a str,
        options: &'a ChunkOptions,
        stop: &'a Stop,
        count_tokens: F,
    ) -> Result<Self, ChunkError> {
        let size = options.size.get();
        if options.overlap >= size {
            return Err(ChunkError::Overlap { overlap: options.overlap, size });
        }
        let base_tokens = options.max_tokens.map_or(0, |_| count_tokens(""));
        let room = text.len().saturating_mul(ChunkOptions::MAX_REPEATS).max(1 << 20);
        Ok(Self {
            text,
            options,
            count_tokens,
            stop,
            base_tokens,
            joined_bytes: options.max_bytes.get(),
            room,
            open: VecDeque::new(),
            open_tokens: 0,
            repeated: 0,
            chapter: None,
            unchecked: 0,
            chunk_bytes: 0,
            chunks: Vec::new(),
        })
    }

    /// Limits chunks of several units to this many bytes from here on. A unit longer than half of
    /// that becomes a separate chunk.
    pub(super) fn join_up_to(&mut self, bytes: usize) {
        self.joined_bytes = bytes.min(self.options.max_bytes.get());
    }

    /// Adds a section as one chunk, without the white space around it.
    pub(super) fn push_whole(&mut self, section: Range<usize>) -> Result<(), ChunkError> {
        let text = &self.text[section.clone()];
        let start = section.start + (text.len() - text.trim_start().len());
        let span = start..start + text.trim().len();
        let max = self.options.max_bytes.get();
        if span.len() > max {
            return Err(ChunkError::TooLong { bytes: span.len(), max });
        }
        if !span.is_empty() {
            self.open.push_back(Unit { span, tokens: 0, gap_tokens: 0 });
        }
        self.end_section()
    }

    /// Adds a unit as [`Self::push`] does; a large unit becomes a separate chunk.
    pub(super) fn push_block(&mut self, unit: Range<usize>) -> Result<(), ChunkError> {
        if unit.len() <= self.joined_bytes / 2 {
            return self.push(unit);
        }
        self.end_section()?;
        self.push(unit)?;
        self.end_section()
    }

    /// Ends the open chunk, and sets the chapter of the next units.
    pub(super) fn begin_section(&mut self, chapter: Option<Chapter>) -> Result<(), ChunkError> {
        self.end_section()?;
        self.chapter = chapter;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<Chunk>, ChunkError> {
        self.end_section()?;
        Ok(self.chunks)
    }

    fn end_section(&mut self) -> Result<(), ChunkError> {
        if self.open.len() > self.repeated {
            self.emit()?;
        }
        self.open.clear();
        self.open_tokens = 0;
        self.repeated = 0;
        Ok(())
    }

    /// Returns the number of tokens in a part of the text, without those that a model adds to each
    /// passage.
    pub(super) fn tokens(&mut self, span: Range<usize>) -> Result<usize, ChunkError> {
        // A check reads the clock, which takes longer than to measure a short unit.
        const BYTES_PER_CHECK: usize = 1 << 16;
        self.unchecked += span.len() + 64;
        if self.unchecked > BYTES_PER_CHECK {
            self.unchecked = 0;
            self.stop.check()?;
        }
        Ok(match self.options.max_tokens {
            Some(_) if !span.is_empty() => {
                (self.count_tokens)(&self.text[span]).saturating_sub(self.base_tokens)
            }
            _ => 0,
        })
    }

    /// Returns the number of tokens in a line. A line that is too long for any chunk is not
    /// measured.
    pub(super) fn tokens_of_line(&mut self, line: Range<usize>) -> Result<usize, ChunkError> {
        if line.len() > self.options.max_bytes.get() { Ok(usize::MAX) } else { self.tokens(line) }
    }

    /// Returns whether a chunk may have this many bytes and tokens.
    pub(super) fn fits(&self, bytes: usize, tokens: usize) -> bool {
        bytes <= self.options.max_bytes.get()
            && self
                .options
                .max_tokens
                .is_none_or(|limit| self.base_tokens.saturating_add(tokens) <= limit.get())
    }

    /// Adds a unit. A unit over a limit is cut between words, and a word over a limit between
    /// characters.
    pub(super) fn push(&mut self, unit: Range<usize>) -> Result<(), ChunkError> {
        // A unit with too many bytes is not measured as a whole.
        if unit.len() <= self.options.max_bytes.get() {
            let tokens = self.tokens(unit.clone())?;
            if self.fits(unit.len(), tokens) {
                return self.add(unit, tokens);
            }
        }
        let mut open: Option<(Range<usize>, usize)> = None;
        for word in words(self.text, unit) {
            if word.len() > self.options.max_bytes.get() {
                if let Some((span, tokens)) = open.take() {
                    self.add(span, tokens)?;
                }
                self.push_word(word)?;
                continue;
            }
            let tokens = self.tokens(word.clone())?;
            if let Some((span, so_far)) = open.take() {
                let longer = span.start..word.end;
                let gap = self.gap(span.end..word.start)?;
                let sum = so_far.saturating_add(gap).saturating_add(tokens);
                if self.fits(longer.len(), sum) {
                    open = Some((longer, sum));
                    continue;
                }
                self.add(span, so_far)?;
            }
            if self.fits(word.len(), tokens) {
                open = Some((word, tokens));
            } else {
                self.push_word(word)?;
            }
        }
        match open {
            Some((span, tokens)) => self.add(span, tokens),
            None => Ok(()),
        }
    }

    /// Halves a word until its parts fit. A single character always fits.
    fn push_word(&mut self, word: Range<usize>) -> Result<(), ChunkError> {
        let mut parts = vec![word];
        while let Some(part) = parts.pop() {
            let is_long = part.len() > self.options.max_bytes.get();
            let tokens = if is_long { usize::MAX } else { self.tokens(part.clone())? };
            match middle(self.text, &part) {
                Some(at) if is_long || !self.fits(part.len(), tokens) => {
                    parts.push(at..part.end);
                    parts.push(part.start..at);
                }
                _ => self.add(part, tokens)?,
            }
        }
        Ok(())
    }

    /// Returns the number of tokens in the white space between two units.
    fn gap(&mut self, gap: Range<usize>) -> Result<usize, ChunkError> {
        // Units with more white space between them are never joined, so that it need not be
        // measured.
        if gap.len() > self.options.max_bytes.get() {
            return Ok(usize::MAX);
        }
        self.tokens(gap)
    }

    /// Adds a unit that fits into a chunk.
    fn add(&mut self, span: Range<usize>, tokens: usize) -> Result<(), ChunkError> {
        let gap_tokens = match self.open.back() {
            Some(last) => self.gap(last.span.end..span.start)?,
            None => 0,
        };
        let mut unit = Unit { span, tokens, gap_tokens };
        if self.open.len() > self.repeated && !self.takes(&unit) {
            self.emit()?;
        }
        // A chunk contains at least one new unit. Repeated units are dropped to make room for it.
        while !self.open.is_empty() && !self.takes(&unit) {
            self.drop_first();
        }
        if self.open.is_empty() {
            unit.gap_tokens = 0;
        }
        self.open_tokens =
            self.open_tokens.saturating_add(unit.gap_tokens).saturating_add(unit.tokens);
        self.open.push_back(unit);
        Ok(())
    }

    /// Returns whether the open chunk has room for this unit.
    fn takes(&self, unit: &Unit) -> bool {
        let Some(first) = self.open.front() else { return true };
        let bytes = unit.span.end - first.span.start;
        let tokens = self.open_tokens.saturating_add(unit.gap_tokens).saturating_add(unit.tokens);
        self.open.len() < self.options.size.get()
            && bytes <= self.joined_bytes
            && self.fits(bytes, tokens)
    }

    fn drop_first(&mut self) {
        let Some(first) = self.open.pop_front() else { return };
        self.open_tokens = self.open_tokens.saturating_sub(first.tokens);
        if let Some(next) = self.open.front_mut() {
            self.open_tokens =
                self.open_tokens.saturating_sub(std::mem::take(&mut next.gap_tokens));
        }
        self.repeated = self.repeated.saturating_sub(1);
    }

    /// Makes a chunk from the open units, and keeps those open that the next chunk repeats.
    fn emit(&mut self) -> Result<(), ChunkError> {
        let (Some(first), Some(last)) = (self.open.front(), self.open.back()) else {
            return Ok(());
        };
        let span = first.span.start..last.span.end;
        let chunk = self.chunk(span);
        self.chunk_bytes += chunk.content.len();
        if self.chunk_bytes > self.room {
            return Err(ChunkError::Repeats { overlap: self.options.overlap });
        }
        if self.chunks.len() == ChunkOptions::MAX_CHUNKS {
            return Err(ChunkError::TooMany);
        }
        self.chunks.push(chunk);
        self.stop.check()?;
        // A chunk that is smaller than requested repeats fewer units, so that it does not repeat
        // nearly all of itself.
        let length = self.open.len();
        let shared = self.options.overlap.saturating_mul(length).div_ceil(self.options.size.get());
        let repeated = shared.min(length - 1);
        self.repeated = length;
        while self.open.len() > repeated {
            self.drop_first();
        }
        Ok(())
    }

    fn chunk(&self, span: Range<usize>) -> Chunk {
        let content = content(&self.text[span.clone()], self.options.strategy);
        let has_sentences = !matches!(self.options.strategy, Strategy::Word | Strategy::Unknown);
        Chunk {
            index: self.chunks.len(),
            words: count_words(&content),
            sentences: if has_sentences { self.open.len() } else { 0 },
            content,
            span,
            chapter: self.chapter.clone(),
            headings: Vec::new(),
            page: None,
            page_starts: Vec::new(),
        }
    }
}

/// Returns the content of a chunk of this text.
pub(super) fn content(text: &str, strategy: Strategy) -> String {
    let text = straighten_quotes(text);
    if strategy == Strategy::Word {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        text.into_owned()
    }
}

/// Returns the boundary between characters nearest to the middle of a word; `None` for a single
/// character.
fn middle(text: &str, word: &Range<usize>) -> Option<usize> {
    let half = word.start + word.len() / 2;
    let before = text.floor_char_boundary(half);
    let after = text.ceil_char_boundary(half);
    let at = if half - before <= after - half { before } else { after };
    [at, before, after].into_iter().find(|at| (word.start + 1..word.end).contains(at))
}

/// Replaces typographic quotes by straight ones (seed 003, `replaceSmartQuotes`), because people
/// type straight quotes in searches.
///
/// ```
/// assert_eq!(marquetry_rag::straighten_quotes("“Hello” and ‘World’"), "\"Hello\" and 'World'");
/// ```
pub fn straighten_quotes(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| straight(character).is_some()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| straight(character).unwrap_or(character)).collect())
}

fn straight(character: char) -> Option<char> {
    match character {
        '\u{2018}'..='\u{201B}' => Some('\''),
        '\u{201C}'..='\u{201F}' => Some('"'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// seed: 003/DocumentUtilExtractionTest.testSmartQuoteNormalization
    #[test]
    fn quotes_are_straightened() {
        assert_eq!(
            straighten_quotes("\u{201C}Hello\u{201D} and \u{2018}World\u{2019}"),
            "\"Hello\" and 'World'"
        );
    }
}
