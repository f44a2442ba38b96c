//! ODT: text documents of LibreOffice and others (OpenDocument 1.3, part 3).

use std::collections::HashSet;

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Extracted, Extractor, Heading, Problem, Source,
    gather::{TextElements, end_line, gather},
    package::{self, Package, attribute, properties},
};

/// Reads OpenDocument texts.
pub(crate) struct Odt;

const MEDIA_TYPE: &str = "application/vnd.oasis.opendocument.text";
const TEMPLATE: &str = "application/vnd.oasis.opendocument.text-template";

/// Name of the format in errors.
const FORMAT: &str = "ODT";

impl Extractor for Odt {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, TEMPLATE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("odt", MEDIA_TYPE), ("ott", TEMPLATE)]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        // The first part of the archive is the media type, without compression.
        let start = &bytes[..bytes.len().min(200)];
        let is_one =
            bytes.starts_with(b"PK\x03\x04") && package::names(start, MEDIA_TYPE.as_bytes());
        is_one.then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut package = Package::open(FORMAT, source)?;
        package.check_open_document()?;
        let content = package.required("content.xml")?;
        let mut body = Body::default();
        gather(FORMAT, "content.xml", &content, source, 0, &mut body)?;
        body.text.truncate(body.text.trim_end().len());
        let mut extracted = Extracted { headings: body.headings, ..Extracted::new(body.text) };
        if body.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: body.hidden });
        }
        const META: &str = "meta.xml";
        properties(FORMAT, META, &package.optional(META)?, &mut extracted)?;
        Ok(extracted)
    }
}

/// Collects the text.
#[derive(Default)]
struct Body {
    text: String,
    headings: Vec<Heading>,
    /// Whether the body was reached; styles come before it.
    is_in_body: bool,
    /// The style that is being read, and the styles of hidden text.
    style: String,
    hidden_styles: HashSet<String>,
    /// The open paragraphs (a note within a paragraph has its own), each with its level if it is a
    /// heading, and the start of its text.
    paragraphs: Vec<(Option<u8>, Option<usize>)>,
    /// Number of open elements since the outermost hidden one.
    left_out: usize,
    items: usize,
    tables: usize,
    /// The separator before the next text.
    mark: &'static str,
    hidden: usize,
}

impl TextElements for Body {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let name: &str = name.as_ref();
        if self.left_out > 0 {
            self.left_out += 1;
            return;
        }
        if !self.is_in_body {
            match name {
                "body" => self.is_in_body = true,
                "style" => self.style = attribute(element, "name").unwrap_or_default(),
                "text-properties" if attribute(element, "display").as_deref() == Some("none") => {
                    self.hidden_styles.insert(std::mem::take(&mut self.style));
                }
                _ => {}
            }
            return;
        }
        let is_hidden = matches!(name, "p" | "h" | "span")
            && attribute(element, "style-name").is_some_and(|it| self.hidden_styles.contains(&it));
        self.hidden += usize::from(is_hidden);
        // Deleted text, comments, numbers of notes, and hidden text.
        if is_hidden || matches!(name, "tracked-changes" | "annotation" | "note-citation") {
            self.left_out = 1;
            return;
        }
        match name {
            "p" => self.paragraphs.push((None, None)),
            "h" => {
                let level = attribute(element, "outline-level").and_then(|it| it.parse().ok());
                self.paragraphs.push((Some(level.unwrap_or(1)), None));
            }
            "list-item" => {
                self.items += 1;
                self.mark = "- ";
            }
            "table" => self.tables += 1,
            "table-cell" => self.mark = "| ",
            "note" => self.push(" ("),
            "tab" => self.push("\t"),
            "line-break" => self.push(if self.tables > 0 { " " } else { "\n" }),
            "s" => {
                /// Maximum spaces that are written; documents with more use them to fill a page, or to
                /// exhaust memory.
                const MAX_SPACES: usize = 80;
                let count = attribute(element, "c").and_then(|count| count.parse().ok());
                self.push(&" ".repeat(count.unwrap_or(1).min(MAX_SPACES)));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        if !self.is_in_body {
            return;
        }
        match name {
            "p" | "h" => self.end_paragraph(),
            "list-item" => self.items = self.items.saturating_sub(1),
            "table" => {
                self.tables = self.tables.saturating_sub(1);
                self.mark = "";
            }
            "table-row" => {
                self.mark = "";
                end_line(&mut self.text);
            }
            "note" => self.push(")"),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.left_out > 0 || text.is_empty() {
            return;
        }
        let is_nested = self.paragraphs.len() > 1;
        let Some((_, start)) = self.paragraphs.last_mut() else { return };
        if start.is_none() {
            // White space between elements does not begin a text.
            if text.trim().is_empty() {
                return;
            }
            let in_line = !self.text.is_empty() && !self.text.ends_with('\n');
            if !is_nested && in_line {
                self.text.push_str(if self.tables > 0 { " " } else { "\n\n" });
            } else if !is_nested
                && self.tables == 0
                && self.items == 0
                && !self.text.is_empty()
                && !self.text.ends_with("\n\n")
            {
                self.text.push('\n');
            }
            self.text.push_str(std::mem::take(&mut self.mark));
            *start = Some(self.text.len());
        }
        self.text.push_str(text);
    }

    fn is_in_text(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}

impl Body {
    fn end_paragraph(&mut self) {
        let Some((level, start)) = self.paragraphs.pop() else { return };
        let Some(start) = start else { return };
        let written = self.text.get(start..).unwrap_or_default();
        let skipped = written.len() - written.trim_start().len();
        let length = written.trim().len();
        let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_apart = self.paragraphs.is_empty() && self.tables == 0;
        if let Some(level) = level
            && !title.is_empty()
            && is_apart
        {
            let start = start + skipped;
            self.headings.push(Heading { level, title, span: start..start + length });
        }
        if is_apart {
            self.text.push_str(if self.items > 0 { "\n" } else { "\n\n" });
        }
    }
}
