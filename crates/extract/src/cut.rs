//! Removes passages from a text, and adapts all spans in the text.

use std::ops::Range;

use crate::Extracted;

/// Removes these passages, which must be in order and on character boundaries.
pub(crate) fn cut_out(extracted: &mut Extracted, passages: &[Range<usize>]) {
    if passages.is_empty() {
        return;
    }
    let mut kept = String::with_capacity(extracted.content.len());
    let mut from = 0;
    for passage in passages {
        // A passage may begin within the previous one.
        kept.push_str(&extracted.content[from..passage.start.max(from)]);
        from = from.max(passage.end);
    }
    kept.push_str(&extracted.content[from..]);
    extracted.content = kept;

    let mut shift = Shift { passages, next: 0, removed: 0 };
    for page in &mut extracted.pages {
        page.span = shift.span(&page.span);
    }
    let mut shift = Shift { passages, next: 0, removed: 0 };
    for heading in &mut extracted.headings {
        heading.span = shift.span(&heading.span);
    }
    extracted.headings.retain(|heading| !heading.span.is_empty());
}

/// Maps positions before the cut to positions after it. Positions must be in ascending order.
struct Shift<'a> {
    passages: &'a [Range<usize>],
    next: usize,
    removed: usize,
}

impl Shift<'_> {
    fn span(&mut self, span: &Range<usize>) -> Range<usize> {
        let start = self.offset(span.start);
        start..self.offset(span.end).max(start)
    }

    fn offset(&mut self, original: usize) -> usize {
        while let Some(passage) =
            self.passages.get(self.next).filter(|passage| passage.end <= original)
        {
            self.removed += passage.len();
            self.next += 1;
        }
        let inside = self
            .passages
            .get(self.next)
            .map_or(0, |passage| original.saturating_sub(passage.start));
        original - self.removed - inside
    }
}
