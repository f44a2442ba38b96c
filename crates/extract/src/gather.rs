//! Collects the text of the parts of word processors and presentations: DOCX, ODT, PPTX.

use quick_xml::events::{BytesStart, Event};

use crate::{
    ExtractError, Source,
    package::{each_event, resolved},
};

/// Collects the text of a part in which only certain elements have text.
pub(crate) trait TextElements {
    /// Begins an element.
    fn start(&mut self, element: &BytesStart<'_>);
    /// Ends an element of this name.
    fn end(&mut self, name: &str);
    /// Returns whether the open element contains text of the document.
    fn is_in_text(&self) -> bool;
    /// Adds text.
    fn push(&mut self, text: &str);
    /// Returns the number of collected bytes.
    fn len(&self) -> usize;
}

/// Collects the text of a part, within the limits of `source`; `before` is the number of bytes from
/// other parts.
pub(crate) fn gather(
    format: &'static str,
    part: &str,
    xml: &[u8],
    source: &Source<'_>,
    before: usize,
    text: &mut impl TextElements,
) -> Result<(), ExtractError> {
    each_event(format, part, xml, |event| {
        match event {
            Event::Start(element) => text.start(&element),
            Event::Empty(element) => {
                text.start(&element);
                text.end(element.local_name().as_ref());
            }
            Event::End(element) => text.end(element.local_name().as_ref()),
            // Checks the limit before the copy, because one event may be as large as the part.
            Event::Text(characters) if text.is_in_text() => {
                source.check(before + text.len() + characters.len())?;
                text.push(&characters);
            }
            Event::CData(characters) if text.is_in_text() => {
                source.check(before + text.len() + characters.len())?;
                text.push(&characters);
            }
            Event::GeneralRef(reference) if text.is_in_text() => {
                text.push(&resolved(&reference).unwrap_or_default());
            }
            _ => {}
        }
        source.check(before + text.len())
    })
}

/// Alternative contents (`mc:AlternateContent`), of which the last one is for older programs. It
/// repeats the others, unless they have no text that is understood here.
#[derive(Default)]
pub(crate) struct Alternatives(Vec<Alternative>);

struct Alternative {
    /// What was collected before it, in bytes.
    before: usize,
    is_skipped: bool,
}

impl Alternatives {
    /// Begins alternatives, after this number of collected bytes.
    pub(crate) fn start(&mut self, collected: usize) {
        self.0.push(Alternative { before: collected, is_skipped: false });
    }

    /// Begins the content for older programs; returns whether it must be skipped.
    pub(crate) fn start_fallback(&mut self, collected: usize) -> bool {
        let Some(open) = self.0.last_mut() else { return false };
        open.is_skipped = collected > open.before;
        open.is_skipped
    }

    /// Ends the content for older programs; returns whether it was skipped.
    pub(crate) fn end_fallback(&mut self) -> bool {
        self.0.last_mut().is_some_and(|open| std::mem::take(&mut open.is_skipped))
    }

    /// Ends the alternatives.
    pub(crate) fn end(&mut self) {
        self.0.pop();
    }
}

/// Ends the line, unless it is empty.
pub(crate) fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Stop};

    #[test]
    fn an_event_above_the_limit_is_not_copied() {
        #[derive(Default)]
        struct Longest(usize);
        impl TextElements for Longest {
            fn start(&mut self, _: &BytesStart<'_>) {}
            fn end(&mut self, _: &str) {}
            fn is_in_text(&self) -> bool {
                true
            }
            fn push(&mut self, text: &str) {
                self.0 = self.0.max(text.len());
            }
            fn len(&self) -> usize {
                0
            }
        }
        let limits = Limits { max_content_bytes: 10, ..Limits::default() };
        let stop = Stop::default();
        let source = Source {
            bytes: b"",
            media_type: "",
            charset: None,
            limits: &limits,
            stop: &stop,
            depth: 0,
        };
        let mut text = Longest::default();
        for xml in ["<a>12345678901</a>", "<a><![CDATA[12345678901]]></a>"] {
            let error = gather("DOCX", "p", xml.as_bytes(), &source, 0, &mut text).unwrap_err();
            assert!(matches!(error, ExtractError::Limit { found: 11, .. }), "{error}");
        }
        assert_eq!(text.0, 0);
    }
}
