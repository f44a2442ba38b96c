//! Budgets the shown part of an answer, and cuts text.

use crate::{
    elide::{self, Elided},
    report::Truncated,
};

/// Mark in place of the middle of a text, with the number of bytes that are left out.
fn mark(left_out: usize) -> String {
    format!("\n[… {left_out} bytes are left out here …]\n")
}

/// Longest mark, in bytes.
const MAX_MARK_BYTES: usize = 64;

/// Items that are shown of an answer over the limit, however small they are.
pub(crate) const MAX_SHOWN_ITEMS: usize = 1000;

/// A budget of bytes and items, spent in the order of the answer.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    items_left: usize,
    images_left: u64,
    /// Bytes of the answer's own text that are shown.
    pub(crate) shown: u64,
    /// Bytes of it before the first gap, if there is a gap.
    head: Option<u64>,
}

impl Budget {
    /// Creates a budget of `limit` bytes, and of `images` bytes of images, which do not count
    /// towards the limit.
    pub(crate) fn new(limit: u64, images: u64) -> Self {
        Self { left: limit, items_left: MAX_SHOWN_ITEMS, images_left: images, shown: 0, head: None }
    }

    /// Counts a text that is shown whole, for which bytes were taken before.
    pub(crate) fn show_whole(&mut self, text: &str) {
        self.shown += text.len() as u64;
    }

    /// Returns the bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Takes bytes for an item that is not text; false when too few are left.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.left && self.items_left > 0;
        if fits {
            self.left -= bytes;
            self.items_left -= 1;
        }
        fits
    }

    /// Takes the place of an item whose bytes do not count; false when too many items are shown.
    pub(crate) fn take_item(&mut self) -> bool {
        self.take(0)
    }

    /// Takes bytes for an image; false when too few are left.
    pub(crate) fn take_image(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.images_left;
        if fits {
            self.images_left -= bytes;
        }
        fits
    }

    /// Takes bytes for a text item, and returns the part that may be shown. `beside` are bytes that
    /// every part costs as well.
    pub(crate) fn text(&mut self, text: &str, beside: u64) -> Shown {
        if beside > self.left || self.items_left == 0 {
            self.left = 0;
            return Shown::Nothing;
        }
        self.left -= beside;
        if self.take(text.len() as u64) {
            self.shown += text.len() as u64;
            return Shown::Whole;
        }
        // No text may follow a cut text, because a reader would mistake it for the continuation.
        let room = usize::try_from(std::mem::take(&mut self.left)).unwrap_or(usize::MAX);
        let Cut { shown, head, tail } = cut(text, room);
        self.head.get_or_insert(self.shown + head as u64);
        self.shown += (head + tail) as u64;
        if shown.is_empty() { Shown::Nothing } else { Shown::Parts(shown) }
    }

    /// Returns what is shown of the answer's text, which has `total_bytes`.
    pub(crate) fn truncated(&self, total_bytes: u64) -> Truncated {
        let shown_bytes = self.shown;
        Truncated { total_bytes, shown_bytes, head_bytes: self.head.unwrap_or(shown_bytes) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Whole,
    /// The beginning and the end of the text with a mark between them; in little room the beginning
    /// alone.
    Parts(String),
    Nothing,
}

/// Cuts a text that is longer than `room` to its beginning (70 % of the room), a mark, and its end,
/// which fit in `room` together. JSON stays JSON, if possible.
///
/// A model that sees the end knows what the data comes to: the last rows of a table, the summary of
/// a log.
fn cut(text: &str, room: usize) -> Cut {
    if room < 4 * MAX_MARK_BYTES {
        let start = &text[..text.floor_char_boundary(room)];
        return Cut { shown: start.to_owned(), head: start.len(), tail: 0 };
    }
    let room = room - MAX_MARK_BYTES;
    let elided = elide::without_middle(text, room / 10 * 7, room / 10 * 3);
    if let Some(Elided { shown, head, tail }) = elided {
        return Cut { shown, head, tail };
    }
    let start = whole_lines(&text[..text.floor_char_boundary(room / 10 * 7)]);
    let from = text.ceil_char_boundary(text.len() - (room - start.len()).min(room / 10 * 3));
    let end = lines_after(&text[from..]);
    let head = start.len();
    let tail = end.len();
    Cut { shown: format!("{start}{}{end}", mark(text.len() - head - tail)), head, tail }
}

/// A text that was cut, with the sizes of its parts.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    shown: String,
    head: usize,
    tail: usize,
}

/// Cuts a beginning at a line end, unless that would lose half of it.
fn whole_lines(start: &str) -> &str {
    match start.rfind('\n') {
        Some(newline) if newline >= start.len() / 2 => &start[..newline],
        _ => start,
    }
}

/// Cuts an end at the beginning of a line, unless that would lose half of it.
fn lines_after(end: &str) -> &str {
    match end.find('\n') {
        Some(newline) if newline <= end.len() / 2 => &end[newline + 1..],
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn beginning_and_end_are_shown_in_whole_lines() {
        let lines: String = (10..99).map(|number| format!("line {number}\n")).collect();
        let Cut { shown, head, tail } = cut(&lines, 400);
        let middle = shown.find("\n[…").unwrap()..shown.find("…]\n").unwrap() + "…]\n".len();
        assert!(lines.starts_with(&shown[..middle.start]) && lines.ends_with(&shown[middle.end..]));
        assert!(
            shown[..middle.start].ends_with("line 37")
                && shown[middle.end..].starts_with("line 87")
        );
        assert!(shown.contains(&format!("[… {} bytes", lines.len() - head - tail)));
    }

    #[test]
    fn text_without_lines_is_cut_at_characters() {
        let Cut { shown, head, tail } = cut(&"ä".repeat(1_000), 401);
        assert!(shown.len() <= 401 && head > 200 && tail > 80, "{head} {tail}");
        assert_eq!(cut("ääää", 3), Cut { shown: "ä".to_owned(), head: 2, tail: 0 });
        assert_eq!(cut("ä", 1), Cut { shown: String::new(), head: 0, tail: 0 });
    }

    #[test]
    fn texts_after_a_cut_text_are_not_shown() {
        let mut budget = Budget::new(10, 0);
        assert_eq!(budget.text("abc", 0), Shown::Whole);
        assert_eq!(budget.text("0123456789", 0), Shown::Parts("0123456".to_owned()));
        assert_eq!(budget.text("a", 0), Shown::Nothing);
        assert!(!budget.take(1));
        assert_eq!(budget.shown, 10);
        assert_eq!(Budget::new(5, 0).text("abc", 3), Shown::Parts("ab".to_owned()));
        assert_eq!(Budget::new(5, 0).text("abc", 6), Shown::Nothing);
    }

    #[test]
    fn the_number_of_shown_items_is_bounded() {
        let mut budget = Budget::new(u64::MAX, 0);
        assert!(budget.take(1));
        for _ in 1..MAX_SHOWN_ITEMS {
            assert_eq!(budget.text("a", 0), Shown::Whole);
        }
        assert_eq!(budget.text("a", 0), Shown::Nothing);
        assert!(!budget.take(0));
        assert_eq!(budget.shown, MAX_SHOWN_ITEMS as u64 - 1);
    }

    proptest! {
        #[test]
        fn the_limit_holds(texts in proptest::collection::vec("(\\PC{0,10}\n?){0,12}", 0..6), limit in 0_u64..600) {
            let mut budget = Budget::new(limit, 0);
            let mut total = 0;
            for text in &texts {
                total += match budget.text(text, 0) {
                    Shown::Whole => text.len(),
                    Shown::Parts(parts) => {
                        let start = parts.split("\n[…").next().unwrap_or_default();
                        prop_assert!(text.starts_with(start));
                        parts.len()
                    }
                    Shown::Nothing => 0,
                };
            }
            prop_assert!(total as u64 <= limit);
            prop_assert!(budget.shown <= total as u64);
            if texts.iter().map(String::len).sum::<usize>() as u64 <= limit {
                prop_assert_eq!(budget.shown, total as u64);
            }
        }
    }
}
