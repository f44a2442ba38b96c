//! Postings (the chunks of each term), in blocks.
//!
//! A row of the table has the postings of one term in one block of documents, which has some
//! thousand chunks. Smaller blocks would make questions read more rows; larger ones would make
//! replacing a document write more.

use crate::{
    ranking::{Term, bm25},
    types::{Matching, StoreError},
};

/// Number of chunks after which the next document begins a new block.
pub(super) const CHUNKS_IN_BLOCK: i64 = 4_096;

/// A chunk with a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Posting {
    pub(super) document: u32,
    pub(super) place: u32,
    /// Term frequency; 255 also represents larger ones.
    pub(super) count: u8,
    /// Number of terms of the chunk.
    pub(super) length: u32,
}

/// Encodes postings, which are in order: numbers in groups of seven bits, documents as the distance
/// to the one before.
pub(super) fn encode(postings: &[Posting]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(postings.len() * 5);
    let mut last = 0;
    for posting in postings {
        write(posting.document - last, &mut bytes);
        last = posting.document;
        write(posting.place, &mut bytes);
        bytes.push(posting.count);
        write(posting.length, &mut bytes);
    }
    bytes
}

/// Decodes the output of [`encode`], and appends it.
pub(super) fn decode(mut bytes: &[u8], postings: &mut Vec<Posting>) -> Result<(), StoreError> {
    let mut document = 0_u32;
    while !bytes.is_empty() {
        let posting = posting(&mut bytes, document)
            .ok_or_else(|| StoreError::damaged("failed to decode the postings of a term"))?;
        document = posting.document;
        postings.push(posting);
    }
    Ok(())
}

fn posting(bytes: &mut &[u8], last: u32) -> Option<Posting> {
    Some(Posting {
        document: last.checked_add(read(bytes)?)?,
        place: read(bytes)?,
        count: *bytes.split_off_first()?,
        length: read(bytes)?,
    })
}

fn write(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    let mut shift = 0;
    loop {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(number).ok();
        }
        shift += 7;
        if shift > 28 {
            return None;
        }
    }
}

/// A term of a question: its chunks, in order, and its weight.
pub(super) struct List {
    pub(super) term: Term,
    pub(super) weight: f32,
    /// Index of the term's word in the question.
    pub(super) word: usize,
    pub(super) postings: Vec<Posting>,
}

/// A chunk with its BM25 score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoredChunk {
    pub(super) document: u32,
    pub(super) place: u32,
    pub(super) score: f32,
}

impl ScoredChunk {
    /// Returns the order of chunks: document, then index in it.
    fn place(&self) -> (u32, u32) {
        (self.document, self.place)
    }
}

/// Returns the chunks that have any or all of the `words`, in order, with their scores. Scores are
/// added in the order of the terms, as in the other stores.
pub(super) fn score(
    lists: &[List],
    words: usize,
    matching: Matching,
    average: f32,
) -> Vec<ScoredChunk> {
    let mut scores: Vec<ScoredChunk> = Vec::new();
    let mut from = 0;
    for word in 0..words {
        let count = lists[from..].iter().take_while(|list| list.word == word).count();
        let of_word = &lists[from..from + count];
        from += count;
        let mut found: Vec<ScoredChunk> = Vec::new();
        for list in of_word {
            let of_term: Vec<ScoredChunk> = list
                .postings
                .iter()
                .map(|&Posting { document, place, count, length }| {
                    let score = 0.0 + bm25(list.weight, count, length, average);
                    ScoredChunk { document, place, score }
                })
                .collect();
            found =
                if found.is_empty() { of_term } else { merged(&found, &of_term, Matching::Any) };
        }
        scores = if word == 0 { found } else { merged(&scores, &found, matching) };
    }
    scores
}

/// Returns the union or the intersection of two lists, which are in order.
fn merged(left: &[ScoredChunk], right: &[ScoredChunk], matching: Matching) -> Vec<ScoredChunk> {
    let mut merged = Vec::with_capacity(match matching {
        Matching::Any => left.len() + right.len(),
        Matching::All => left.len().min(right.len()),
    });
    let mut before = left.iter().copied().peekable();
    for &new in right {
        while let Some(other) = before.next_if(|other| other.place() < new.place()) {
            if matching == Matching::Any {
                merged.push(other);
            }
        }
        match before.next_if(|other| other.place() == new.place()) {
            Some(other) => merged.push(ScoredChunk { score: other.score + new.score, ..other }),
            None if matching == Matching::Any => merged.push(new),
            None => {}
        }
    }
    if matching == Matching::Any {
        merged.extend(before);
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn postings() -> impl Strategy<Value = Vec<Posting>> {
        let numbers = (0_u32..1 << 31, any::<u32>(), any::<u8>(), any::<u32>());
        prop::collection::btree_set(numbers, 0..40).prop_map(|set| {
            set.into_iter()
                .map(|(document, place, count, length)| Posting { document, place, count, length })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn postings_round_trip(postings in postings()) {
            let mut got = Vec::new();
            decode(&encode(&postings), &mut got).unwrap();
            prop_assert_eq!(got, postings);
        }

        #[test]
        fn any_bytes_are_postings_or_an_error(bytes: Vec<u8>) {
            let _ = decode(&bytes, &mut Vec::new());
        }
    }

    #[test]
    fn all_matches_fewer_chunks_than_any() {
        let lists = [list(0, &[1, 3, 5]), list(1, &[2, 3, 9]), list(2, &[3, 5, 9])];
        let [any, all] = [Matching::Any, Matching::All].map(|matching| {
            let scored = score(&lists, 3, matching, 3.0);
            scored.iter().map(|at| (at.document, at.score.round() as u32)).collect::<Vec<_>>()
        });
        assert_eq!(any, [(1, 1), (2, 1), (3, 3), (5, 2), (9, 2)]);
        assert_eq!(all, [(3, 3)]);
        // Two terms of one word.
        let lists = [list(0, &[1, 3]), list(0, &[2]), list(1, &[2, 3])];
        let both = score(&lists, 2, Matching::All, 3.0);
        assert_eq!(both.iter().map(|at| at.document).collect::<Vec<_>>(), [2, 3]);
    }

    fn list(word: usize, documents: &[u32]) -> List {
        let postings = documents
            .iter()
            .map(|&document| Posting { document, place: 0, count: 1, length: 3 })
            .collect();
        List { term: 0, weight: 1.0, word, postings }
    }
}
