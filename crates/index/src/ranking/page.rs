//! Finds the page of a match.

use super::highlight::{densest, highlights};
use crate::types::StoredChunk;

/// Returns the page with most of the [`densest`] words that match a question; the page on which the
/// chunk begins if no word matches.
pub(super) fn page_of_match(chunk: &StoredChunk, question: &str) -> Option<u32> {
    if chunk.page_starts.is_empty() {
        return chunk.page;
    }
    let found = highlights(&chunk.content, question);
    let pages: Vec<_> = densest(&found).iter().map(|word| chunk.page_at(word.start)).collect();
    // The words of a page are adjacent. `max_by_key` returns the last of several pages with the
    // same number of words; reversed, that is the first one.
    let best = pages.chunk_by(|left, right| left == right).rev().max_by_key(|page| page.len());
    best.map_or(chunk.page, |page| page[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ChunkId, PageStart};

    #[track_caller]
    fn check(question: &str, want: u32) {
        let first = "Bread is made of flour. ";
        let second = "Wine is made of grapes. ";
        let chunk = StoredChunk {
            id: ChunkId { document: 1, index: 0 },
            document: "a".to_owned(),
            content: format!("{first}{second}Beer is made of barley."),
            span: 0..100,
            page: Some(3),
            page_starts: vec![
                PageStart::new(4, first.len()),
                PageStart::new(6, first.len() + second.len()),
            ],
            chapter: None,
            headings: Vec::new(),
            index: 0,
            count: 1,
        };
        assert_eq!(page_of_match(&chunk, question), Some(want), "{question}");
    }

    #[test]
    fn the_page_with_most_matching_words_is_found() {
        check("flour", 3);
        check("grapes", 4);
        check("barley", 6);
        check("flour for beer of barley", 6);
        check("beer and bread", 3);
        check("cheese", 3);
    }
}
