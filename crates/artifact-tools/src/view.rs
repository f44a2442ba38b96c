//! Reads parts of an artifact that fit a model.
//!
//! Each view has a limit, so that an artifact that was saved for its size is never returned whole.

use std::ops::Range;

/// Lines of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinesView<'a> {
    /// The lines with their line ends, cut at the limit.
    pub text: &'a str,
    /// Number of the first line, from 1; if no line is shown, the number of lines plus one.
    pub first_line: u64,
    /// Number of the last line, whole or cut; if no line is shown, one less than `first_line`.
    pub last_line: u64,
    /// Number of lines of the whole text. A last line without a line end counts; an empty text has
    /// none.
    pub total_lines: u64,
    /// The last line is cut.
    pub is_cut: bool,
    /// The line to continue with; none at the end. It is never the cut line again: read that one by
    /// bytes.
    pub next_line: Option<u64>,
    /// Position of the view in the text, in bytes.
    pub bytes: Range<u64>,
}

/// Bytes of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BytesView<'a> {
    /// The bytes.
    pub content: Piece<'a>,
    /// Position of the first byte.
    pub start: u64,
    /// Position after the last byte.
    pub end: u64,
    /// Size of the whole artifact in bytes.
    pub total_bytes: u64,
    /// The position to continue with; none at the end.
    pub next_start: Option<u64>,
}

/// Part of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Whole characters of a text.
    Text(&'a str),
    /// Bytes of an artifact that is not text.
    Binary(&'a [u8]),
}

/// Error of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The bytes are not UTF-8.
    #[error("artifact is not text: byte {offset} is not UTF-8")]
    NotText {
        /// Position of the first invalid byte.
        offset: usize,
    },
    /// The first line was 0; lines count from 1.
    #[error("lines count from 1")]
    LineZero,
}

/// Returns `count` lines from line `first`, which counts from 1, up to `limit` bytes.
///
/// A line ends with `\n`. A first line that does not fit is cut.
///
/// ```
/// use marquetry_artifact_tools::view;
///
/// let view = view::lines(b"one\ntwo\nthree\n", 2, 10, 5)?;
/// assert_eq!((view.text, view.total_lines, view.next_line), ("two\n", 3, Some(3)));
/// # Ok::<(), view::ViewError>(())
/// ```
///
/// # Errors
/// Returns an error if the content is not UTF-8, or `first` is 0.
pub fn lines(
    content: &[u8],
    first: u64,
    count: u64,
    limit: usize,
) -> Result<LinesView<'_>, ViewError> {
    if first == 0 {
        return Err(ViewError::LineZero);
    }
    let text = std::str::from_utf8(content)
        .map_err(|error| ViewError::NotText { offset: error.valid_up_to() })?;
    let mut at = 0;
    let mut number = 0;
    let mut view = None::<Range<usize>>;
    let mut last = 0;
    let mut is_cut = false;
    for line in text.split_inclusive('\n') {
        number += 1;
        let line_end = at + line.len();
        if number >= first && number - first < count && !is_cut && (last == 0 || last + 1 == number)
        {
            let start = view.as_ref().map_or(at, |view| view.start);
            if line_end - start <= limit {
                view = Some(start..line_end);
                last = number;
            } else if view.is_none() {
                let end = at + line.floor_char_boundary(limit);
                view = Some(at..end);
                (last, is_cut) = (number, true);
            }
        }
        at = line_end;
    }
    let first_line = first.min(number + 1);
    let bytes = view.unwrap_or(if first > number { at..at } else { 0..0 });
    let last_line = if last == 0 { first_line - 1 } else { last };
    Ok(LinesView {
        text: &text[bytes.clone()],
        first_line,
        last_line,
        total_lines: number,
        is_cut,
        next_line: Some(last_line + 1).filter(|&next| next <= number),
        bytes: bytes.start as u64..bytes.end as u64,
    })
}

/// Returns the whole characters in part of a text, and the number of bytes before them of a
/// character that begins earlier. None when there is no whole character, or the part is not text.
///
/// This shows part of a large artifact without reading the rest. Bytes of an image may happen to be
/// letters, so ask [`is_text`](marquetry_artifacts::mime::is_text) first.
///
/// ```
/// use marquetry_artifact_tools::view;
///
/// let text = "aä€".as_bytes();
/// assert_eq!(view::characters(&text[2..5]), None);
/// assert_eq!(view::characters(&text[..5]), Some(("aä", 0)));
/// assert_eq!(view::characters(&text[2..]), Some(("€", 1)));
/// ```
pub fn characters(piece: &[u8]) -> Option<(&str, usize)> {
    // A character has at most three continuation bytes.
    let skipped = piece.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let text = match std::str::from_utf8(&piece[skipped..]) {
        Ok(text) => text,
        // Only the last character may be incomplete.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&piece[skipped..skipped + error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.is_empty()).then_some((text, skipped))
}

/// Returns the bytes of `range` that exist and fit in `limit`.
///
/// Text is returned in whole characters: a character at the start of the range is included whole,
/// one at its end is left out, and a range that is not empty gives at least one character, whatever
/// the limit.
///
/// ```
/// use marquetry_artifact_tools::view::{self, Piece};
///
/// let view = view::bytes("aä€".as_bytes(), 0..100, 5);
/// assert_eq!((view.content, view.next_start), (Piece::Text("aä"), Some(3)));
/// ```
pub fn bytes(content: &[u8], range: Range<u64>, limit: usize) -> BytesView<'_> {
    let total_bytes = content.len() as u64;
    let mut start = range.start.min(total_bytes) as usize;
    let last = start.saturating_add(limit).min(content.len());
    let mut end = (range.end.min(total_bytes) as usize).clamp(start, last);
    let piece = match std::str::from_utf8(content) {
        Ok(text) => {
            let is_empty = range.is_empty();
            start = text.floor_char_boundary(start);
            end = text.floor_char_boundary(end);
            if end <= start {
                let first = text[start..].chars().next().filter(|_| !is_empty);
                end = start + first.map_or(0, char::len_utf8);
            }
            Piece::Text(&text[start..end])
        }
        Err(_) => Piece::Binary(&content[start..end]),
    };
    let start = start as u64;
    let end = end as u64;
    BytesView {
        content: piece,
        start,
        end,
        total_bytes,
        next_start: Some(end).filter(|&end| end < total_bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_in_pieces() {
        let text = "one\ntwo\nthree\nfour";
        for (first, count, limit, want, last, is_cut, next) in [
            (1, 2, 100, "one\ntwo\n", 2, false, Some(3)),
            (3, 100, 100, "three\nfour", 4, false, None),
            (1, 100, 8, "one\ntwo\n", 2, false, Some(3)),
            (3, 1, 2, "th", 3, true, Some(4)),
            (4, 1, 2, "fo", 4, true, None),
            (1, 0, 100, "", 0, false, Some(1)),
            (5, 1, 100, "", 4, false, None),
            (u64::MAX, u64::MAX, 100, "", 4, false, None),
            (1, u64::MAX, 0, "", 1, true, Some(2)),
        ] {
            let view = lines(text.as_bytes(), first, count, limit).unwrap();
            let seen = (view.text, view.last_line, view.is_cut, view.next_line);
            assert_eq!(seen, (want, last, is_cut, next), "{first} {count} {limit}");
            assert_eq!(view.total_lines, 4);
        }
        assert_eq!(lines(b"", 1, 1, 1).unwrap().total_lines, 0);
        assert_eq!(lines(b"a\n\n", 1, 9, 9).unwrap().total_lines, 2);
        assert_eq!(lines(b"a", 0, 1, 1), Err(ViewError::LineZero));
        assert_eq!(lines(b"a\xff", 1, 1, 1), Err(ViewError::NotText { offset: 1 }));
    }

    #[test]
    fn bytes_in_pieces() {
        let text = "aä€".as_bytes();
        for (range, limit, want, next) in [
            (0..6, 100, Piece::Text("aä€"), None),
            (0..2, 100, Piece::Text("a"), Some(1)),
            (2..6, 100, Piece::Text("ä€"), None),
            (2..3, 100, Piece::Text("ä"), Some(3)),
            (3..6, 1, Piece::Text("€"), None),
            (0..0, 100, Piece::Text(""), Some(0)),
            (9..12, 100, Piece::Text(""), None),
            (0..6, 0, Piece::Text("a"), Some(1)),
        ] {
            let view = bytes(text, range.clone(), limit);
            assert_eq!((view.content, view.next_start), (want, next), "{range:?} {limit}");
        }
        assert_eq!(bytes(b"a\xffb", 0..2, 9).content, Piece::Binary(b"a\xff"));
    }

    #[test]
    fn characters_of_a_piece() {
        let text = "aä€".as_bytes();
        for (piece, want) in [
            (text, Some(("aä€", 0))),
            (&text[..5], Some(("aä", 0))),
            (&text[2..], Some(("€", 1))),
            (&text[3..5], None),
            (&text[4..], None),
            (b"", None),
            (b"a\xff", None),
            (&[0x80; 8], None),
        ] {
            assert_eq!(characters(piece), want, "{piece:?}");
        }
    }

    proptest! {
        #[test]
        fn characters_are_those_of_the_text(text in "\\PC{0,20}", start in 0_usize..90, length in 0_usize..90) {
            let bytes = text.as_bytes();
            let piece = bytes.get(start..).unwrap_or_default();
            let piece = &piece[..length.min(piece.len())];
            if let Some((seen, skipped)) = characters(piece) {
                prop_assert_eq!(text.get(start + skipped..start + skipped + seen.len()), Some(seen));
                prop_assert!(skipped + seen.len() + 3 >= piece.len());
            } else {
                prop_assert!(piece.len() <= 6);
            }
        }

        #[test]
        fn lines_one_after_another_give_the_text(text in "[a-z\u{e4}\n]{0,60}", count in 1_u64..5, limit in 0_usize..12) {
            let mut next = Some(1);
            let mut seen = 0;
            while let Some(first) = next {
                let view = lines(text.as_bytes(), first, count, limit).unwrap();
                prop_assert!(view.text.len() <= limit);
                prop_assert_eq!(&text[view.bytes.start as usize..view.bytes.end as usize], view.text);
                seen += view.text.len();
                prop_assert!(view.next_line.is_none_or(|next| next > first));
                next = view.next_line;
            }
            let longest = text.split_inclusive('\n').map(str::len).max().unwrap_or(0);
            prop_assert!(longest > limit || seen == text.len());
        }

        #[test]
        fn bytes_one_after_another_give_the_content(content in prop_oneof![
            any::<Vec<u8>>(), "\\PC{0,20}".prop_map(String::into_bytes)
        ], limit in 1_usize..7) {
            let mut seen = Vec::new();
            let mut next = Some(0).filter(|_| !content.is_empty());
            while let Some(start) = next {
                let view = bytes(&content, start..u64::MAX, limit);
                let piece = match view.content { Piece::Text(text) => text.as_bytes(), Piece::Binary(bytes) => bytes };
                prop_assert!(!piece.is_empty() && (piece.len() <= limit || piece.len() <= 4));
                seen.extend_from_slice(piece);
                next = view.next_start;
            }
            prop_assert_eq!(seen, content);
        }

        #[test]
        fn any_range_is_answered(content: Vec<u8>, start: u64, end: u64, limit: usize) {
            let view = bytes(&content, start..end, limit);
            prop_assert!(view.start <= view.end && view.end <= view.total_bytes);
        }
    }
}
