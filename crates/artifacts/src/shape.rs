//! How much of an answer is shown, and where text is cut.

/// Ends a text that was cut.
pub(crate) const CUT_MARK: &str = "\n[cut here: the answer is too large]";

/// Of an answer over the limit, at most this many items are shown, however small they are.
pub(crate) const MAX_SHOWN_ITEMS: usize = 1000;

/// A share of the limit, spent from the front of the answer to its end.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    items_left: usize,
    images_left: u64,
    /// Bytes of the answer's own text that were let through.
    pub(crate) shown: u64,
}

impl Budget {
    /// A budget of `limit` bytes, and of so many bytes of images, which do not count towards the limit.
    pub(crate) fn new(limit: u64, images: u64) -> Self {
        Self { left: limit, items_left: MAX_SHOWN_ITEMS, images_left: images, shown: 0 }
    }

    /// What is left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Spends on an item that is not text.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.left && self.items_left > 0;
        if fits {
            self.left -= bytes;
            self.items_left -= 1;
        }
        fits
    }

    /// Spends on an image.
    pub(crate) fn take_image(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.images_left;
        if fits {
            self.images_left -= bytes;
        }
        fits
    }

    /// Spends on a text item: what of it may be shown. `beside` are further bytes that come with any part of it.
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
        // Nothing may follow what was cut: the reader would take it for the next thing.
        let room = usize::try_from(std::mem::take(&mut self.left)).unwrap_or(usize::MAX);
        let (kept, mark) = cut(text, room);
        self.shown += kept.len() as u64;
        if kept.is_empty() { Shown::Nothing } else { Shown::Front(kept, mark) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown<'t> {
    Whole,
    /// The front of the text, and the mark that tells of the cut, if there was room for it.
    Front(&'t str, &'static str),
    Nothing,
}

/// The front of a text that is longer than `room`, and a mark; together they fit in `room`.
fn cut(text: &str, room: usize) -> (&str, &'static str) {
    let mark = if room >= 2 * CUT_MARK.len() { CUT_MARK } else { "" };
    let most = &text[..text.floor_char_boundary(room - mark.len())];
    // Whole lines read better, as long as they do not cost half of what could be shown.
    match most.rfind('\n') {
        Some(newline) if newline >= most.len() / 2 => (&most[..newline], mark),
        _ => (most, mark),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_cut_where_it_reads_well() {
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
    fn nothing_follows_what_was_cut() {
        let mut budget = Budget::new(10, 0);
        assert_eq!(budget.text("abc", 0), Shown::Whole);
        assert_eq!(budget.text("0123456789", 0), Shown::Front("0123456", ""));
        assert_eq!(budget.text("a", 0), Shown::Nothing);
        assert!(!budget.take(1));
        assert_eq!(budget.shown, 10);
        assert_eq!(Budget::new(5, 0).text("abc", 3), Shown::Front("ab", ""));
        assert_eq!(Budget::new(5, 0).text("abc", 6), Shown::Nothing);
    }

    #[test]
    fn only_so_many_items_are_shown() {
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
                    Shown::Front(front, mark) => {
                        prop_assert!(text.starts_with(front));
                        front.len() + mark.len()
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
