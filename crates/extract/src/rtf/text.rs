//! The texts of a document: its body, and what stands at the edges of its pages.

use std::collections::HashSet;

use crate::{ExtractError, Extracted, Heading, Limits, Page, Problem, document::PART_BYTES};

/// A destination of text (RTF 1.9.1, "Destinations").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Text,
    Header,
    Footer,
    /// Footnotes and endnotes.
    Note,
    Comment,
    CommentAuthor,
    /// Text boxes, and descriptions of pictures. They come after the paragraph at which they are.
    Drawing,
    Title,
    Author,
    FontTable,
    StyleSheet,
    /// The name of a property of a drawing.
    PropertyName,
    Ignored,
}

/// Collects the texts.
#[derive(Default)]
pub(super) struct Texts {
    body: String,
    headings: Vec<Heading>,
    /// Start of the open paragraph.
    paragraph: usize,
    page_starts: Vec<usize>,
    headers: Vec<String>,
    footers: Vec<String>,
    /// Bytes of headers and footers.
    margins: usize,
    notes: String,
    comments: String,
    pub(super) comment_author: String,
    drawing: String,
    title: String,
    author: String,
    pub(super) property_name: String,
    pub(super) hidden: usize,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        let parts = self.headings.len() + self.headers.len() + self.footers.len();
        let beside = self.notes.len() + self.comments.len() + self.drawing.len() + self.margins;
        self.body.len() + beside + parts * PART_BYTES
    }

    /// Begins a destination.
    pub(super) fn start(&mut self, destination: Destination) {
        match destination {
            Destination::Header => self.headers.push(String::new()),
            Destination::Footer => self.footers.push(String::new()),
            Destination::CommentAuthor => self.comment_author.clear(),
            Destination::PropertyName => self.property_name.clear(),
            Destination::Comment => {
                end_line(&mut self.comments);
                let author = self.comment_author.trim();
                let lead = format!("Comment ({author}): ").replace(" ()", "");
                self.comments.push_str(&lead);
            }
            Destination::Note | Destination::Drawing => self.end_line(destination),
            _ => {}
        }
    }

    pub(super) fn push(&mut self, destination: Destination, text: &str) {
        /// Longest title, in bytes. Longer paragraphs are not titles.
        const MAX_TITLE_BYTES: usize = 1_024;
        if let Some(buffer) = self.buffer(destination) {
            buffer.push_str(text);
            if matches!(destination, Destination::Header | Destination::Footer) {
                self.margins += text.len();
            }
            return;
        }
        let short = match destination {
            Destination::Title => &mut self.title,
            Destination::Author => &mut self.author,
            Destination::CommentAuthor => &mut self.comment_author,
            Destination::PropertyName => &mut self.property_name,
            _ => return,
        };
        if short.len() < MAX_TITLE_BYTES {
            short.push_str(text);
        }
    }

    /// Ends a line of a destination other than the body.
    pub(super) fn end_line(&mut self, destination: Destination) {
        if destination != Destination::Text
            && let Some(buffer) = self.buffer(destination)
        {
            end_line(buffer);
        }
    }

    /// Removes the spaces at the end of a cell. Those of earlier paragraphs stay: pages and
    /// paragraphs begin after them.
    pub(super) fn end_cell(&mut self, destination: Destination) {
        let start = if destination == Destination::Text { self.paragraph } else { 0 };
        if let Some(buffer) = self.buffer(destination) {
            let end = buffer.trim_end_matches(' ').len();
            buffer.truncate(end.max(start));
        }
    }

    fn buffer(&mut self, destination: Destination) -> Option<&mut String> {
        match destination {
            Destination::Text => Some(&mut self.body),
            Destination::Header => self.headers.last_mut(),
            Destination::Footer => self.footers.last_mut(),
            Destination::Note => Some(&mut self.notes),
            Destination::Comment => Some(&mut self.comments),
            Destination::Drawing => Some(&mut self.drawing),
            _ => None,
        }
    }

    /// Ends a paragraph of the body, which may be a heading.
    pub(super) fn end_paragraph(&mut self, level: Option<u8>) {
        let written = &self.body[self.paragraph..];
        let skipped = written.len() - written.trim_start().len();
        let length = written.trim().len();
        if let Some(level) = level.filter(|_| length > 0) {
            let title = with_single_spaces(written);
            let start = self.paragraph + skipped;
            self.headings.push(Heading { level, title, span: start..start + length });
        }
        if length > 0 {
            self.body.push_str("\n\n");
        }
        let drawing = std::mem::take(&mut self.drawing);
        if !drawing.trim().is_empty() {
            self.body.push_str(drawing.trim());
            self.body.push_str("\n\n");
        }
        self.paragraph = self.body.len();
    }

    /// Begins a page.
    pub(super) fn start_page(&mut self, limits: &Limits) -> Result<(), ExtractError> {
        limits.check_pages(self.page_starts.len() + 2)?;
        self.page_starts.push(self.body.len());
        Ok(())
    }

    /// Returns the document: headers, body, notes, comments and footers.
    pub(super) fn finish(self) -> Extracted {
        let mut content = once_each(self.headers);
        let shift = content.len();
        content.push_str(&self.body);
        let mut length = content.trim_end().len();
        content.truncate(length);
        for text in [self.notes, self.comments, once_each(self.footers)] {
            if !text.trim().is_empty() {
                content.push_str("\n\n");
                content.push_str(text.trim());
                length = content.len();
            }
        }
        let mut extracted = Extracted::new(content);
        extracted.headings = self
            .headings
            .into_iter()
            .map(|heading| Heading {
                span: heading.span.start + shift..heading.span.end + shift,
                ..heading
            })
            .filter(|heading| heading.span.end <= length)
            .collect();
        if !self.page_starts.is_empty() {
            let later = self.page_starts.iter().map(|start| (start + shift).min(length));
            let starts = std::iter::once(0).chain(later.clone());
            let pages = (1..).zip(starts.zip(later.chain([length])));
            extracted.pages =
                pages.map(|(number, (start, end))| Page { number, span: start..end }).collect();
            extracted.page_count = u32::try_from(extracted.pages.len()).ok();
        }
        extracted.title = Some(with_single_spaces(&self.title)).filter(|title| !title.is_empty());
        let author = with_single_spaces(&self.author);
        if !author.is_empty() {
            extracted.metadata.insert("author".to_owned(), author);
        }
        if self.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden });
        }
        extracted
    }
}

/// Joins the headers or footers of all sections, each once. Most footers are only the number of the
/// page.
fn once_each(texts: Vec<String>) -> String {
    let mut seen = HashSet::new();
    let mut joined = String::new();
    for text in texts {
        let text = text.trim();
        if text.contains(char::is_alphabetic) && seen.insert(text.to_owned()) {
            joined.push_str(text);
            joined.push_str("\n\n");
        }
    }
    joined
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
