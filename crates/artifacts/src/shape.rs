//! Budgets the shown part of an answer, and cuts text.

/// Mark at the end of a cut text.
pub(crate) const CUT_MARK: &str = "\n[cut here: the answer is too large]";

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
}

impl Budget {
    /// Creates a budget of `limit` bytes, and of `images` bytes of images, which do not count
    /// towards the limit.
    pub(crate) fn new(limit: u64, images: u64) -> Self {
        Self { left: limit, items_left: MAX_SHOWN_ITEMS, images_left: images, shown: 0 }
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
    pub(crate) fn text<'t>(&mut self, text: &'t str, beside: u64) -> Shown<'t> {
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
        let (kept, mark) = cut(text, room);
        self.shown += kept.len() as u64;
        if kept.is_empty() { Shown::Nothing } else { Shown::Start(kept, mark) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown<'t> {
    Whole,
    /// The start of the text, and the mark of the cut if it fits.
    Start(&'t str, &'static str),
    Nothing,
}

/// Cuts a text that is longer than `room`. Its start and the mark fit in `room` together.
fn cut(text: &str, room: usize) -> (&str, &'static str) {
    let mark = if room >= 2 * CUT_MARK.len() { CUT_MARK } else { "" };
    let start = &text[..text.floor_char_boundary(room - mark.len())];
    // Cuts at a line end, unless that would lose half of the room.
    match start.rfind('\n') {
        Some(newline) if newline >= start.len() / 2 => (&start[..newline], mark),
        _ => (start, mark),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_cut_at_line_ends() {
        let lines = "0123456789\n".repeat(20);
        assert_eq!(cut(&lines, 120), (&lines[..76], CUT_MARK));
        let line = "0123456789".repeat(20);
        assert_eq!(cut(&line, 120), (&line[..84], CUT_MARK));
        assert_eq!(cut(&line, 71), (&line[..71], ""));
        assert_eq!(cut("ääää", 3), ("ä", ""));
        assert_eq!(cut("ä", 1), ("", ""));
        assert_eq!(cut("ä", 0), ("", ""));
    }

    #[test]
    fn texts_after_a_cut_text_are_not_shown() {
        let mut budget = Budget::new(10, 0);
        assert_eq!(budget.text("abc", 0), Shown::Whole);
        assert_eq!(budget.text("0123456789", 0), Shown::Start("0123456", ""));
        assert_eq!(budget.text("a", 0), Shown::Nothing);
        assert!(!budget.take(1));
        assert_eq!(budget.shown, 10);
        assert_eq!(Budget::new(5, 0).text("abc", 3), Shown::Start("ab", ""));
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
        fn the_limit_holds(texts in proptest::collection::vec("(\\PC{0,10}\n?){0,12}", 0..6), limit in 0_u64..200) {
            let mut budget = Budget::new(limit, 0);
            let mut total = 0;
            for text in &texts {
                total += match budget.text(text, 0) {
                    Shown::Whole => text.len(),
                    Shown::Start(start, mark) => {
                        prop_assert!(text.starts_with(start));
                        start.len() + mark.len()
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
