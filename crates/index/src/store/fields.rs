//! The JSON form of a chunk without its text.

use std::{borrow::Cow, ops::Range};

use serde::{Deserialize, Serialize};

use crate::types::{Chapter, ChunkId, NewChunk, PageStart, StoredChunk};

/// The values of a chunk besides its text, as an array. The last element is missing if it is empty,
/// as in databases of earlier programs.
#[derive(Deserialize, Serialize)]
pub(crate) struct ChunkFields<'a>(
    Range<usize>,
    Option<u32>,
    Option<Cow<'a, Chapter>>,
    Cow<'a, [String]>,
    /// Page and offset of each [`PageStart`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    Vec<(u32, usize)>,
);

impl<'a> ChunkFields<'a> {
    pub(crate) fn of(chunk: &'a NewChunk) -> Self {
        let pages = chunk.page_starts.iter().map(|start| (start.page, start.offset)).collect();
        let chapter = chunk.chapter.as_ref().map(Cow::Borrowed);
        Self(chunk.span.clone(), chunk.page, chapter, Cow::Borrowed(&chunk.headings), pages)
    }

    /// Returns the chunk, with the number of chunks of its document.
    pub(crate) fn chunk(
        self,
        id: ChunkId,
        document: &str,
        content: String,
        count: u32,
    ) -> StoredChunk {
        let Self(span, page, chapter, headings, pages) = self;
        StoredChunk {
            id,
            document: document.to_owned(),
            content,
            span,
            page,
            page_starts: pages
                .into_iter()
                .map(|(page, offset)| PageStart { page, offset })
                .collect(),
            chapter: chapter.map(Cow::into_owned),
            headings: headings.into_owned(),
            index: id.index,
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, pages: &[PageStart]) {
        let fields: ChunkFields<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&fields).unwrap(), json);
        let chunk = fields.chunk(ChunkId { document: 1, index: 2 }, "a", "Rye.".to_owned(), 3);
        assert_eq!(
            (chunk.span, chunk.page, chunk.headings),
            (7..11, Some(4), vec!["B".to_owned()])
        );
        assert_eq!(chunk.page_starts, pages);
    }

    #[test]
    fn fields_of_earlier_programs_have_no_page_starts() {
        check(r#"[{"start":7,"end":11},4,{"number":1,"title":"A"},["B"]]"#, &[]);
        check(r#"[{"start":7,"end":11},4,null,["B"],[[5,2]]]"#, &[PageStart::new(5, 2)]);
    }
}
