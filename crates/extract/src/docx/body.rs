//! Reads the body of a document.

use std::{collections::HashMap, ops::Range};

use quick_xml::events::BytesStart;

use super::{
    super::{
        ExtractError, Extracted, Heading, Problem, Source,
        gather::{TextElements, end_line, gather},
        package::attribute,
    },
    FORMAT, outline_level,
};

/// Collects the text of a document's parts.
pub(super) struct Body<'a> {
    levels: &'a HashMap<String, u8>,
    source: Source<'a>,
    text: String,
    headings: Vec<Heading>,
    /// Open paragraphs; a paragraph of a text box is within another one.
    paragraphs: Vec<Paragraph>,
    /// Number of open tables.
    tables: usize,
    /// The separator before the next text of a cell.
    cell_separator: &'static str,
    /// Ends of pages in Word's last rendering.
    rendered_breaks: Vec<usize>,
    /// Page breaks that the author set.
    explicit_breaks: Vec<usize>,
    /// Number of open elements whose text is skipped.
    skipped: usize,
    in_run: bool,
    /// Whether the open run is hidden text.
    is_hidden: bool,
    /// Number of hidden runs.
    hidden_runs: usize,
    in_text: bool,
}

#[derive(Default)]
struct Paragraph {
    level: Option<u8>,
    is_item: bool,
    /// Start of the paragraph's text, once there is any.
    start: Option<usize>,
}

impl<'a> Body<'a> {
    pub(super) fn new(levels: &'a HashMap<String, u8>, source: Source<'a>) -> Self {
        Self {
            levels,
            source,
            text: String::new(),
            headings: Vec::new(),
            paragraphs: Vec::new(),
            tables: 0,
            cell_separator: "",
            rendered_breaks: Vec::new(),
            explicit_breaks: Vec::new(),
            skipped: 0,
            in_run: false,
            is_hidden: false,
            hidden_runs: 0,
            in_text: false,
        }
    }

    pub(super) fn read(&mut self, part: &str, xml: &[u8]) -> Result<(), ExtractError> {
        let source = self.source;
        gather(FORMAT, part, xml, &source, 0, self)?;
        self.paragraphs.clear();
        self.tables = 0;
        self.skipped = 0;
        self.in_text = false;
        Ok(())
    }

    /// Returns the ends of pages of Word's last rendering, or else those that the author set.
    pub(super) fn breaks(&self) -> Vec<usize> {
        let breaks = [&self.rendered_breaks, &self.explicit_breaks];
        let mut breaks =
            breaks.into_iter().find(|breaks| !breaks.is_empty()).cloned().unwrap_or_default();
        // A break before all text, or a second one at the same position, makes no page with text.
        // The number of pages comes from Word.
        breaks.dedup();
        breaks
    }

    pub(super) fn finish(self) -> Extracted {
        let mut extracted = Extracted::new(self.text);
        extracted.headings = self.headings;
        if self.hidden_runs > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden_runs });
        }
        extracted
    }

    fn set_level(&mut self, level: Option<u8>) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.level = level.or(paragraph.level);
        }
    }

    /// Writes the separator before the first text of a paragraph.
    fn separate(&mut self) {
        let in_table = self.tables > 0;
        let Some(paragraph) =
            self.paragraphs.last_mut().filter(|paragraph| paragraph.start.is_none())
        else {
            return;
        };
        let in_line = !self.text.is_empty() && !self.text.ends_with('\n');
        if in_table && in_line {
            self.text.push(' ');
        } else if in_line {
            self.text.push_str("\n\n");
        } else if !in_table
            && !paragraph.is_item
            && !self.text.ends_with("\n\n")
            && !self.text.is_empty()
        {
            // The previous element was a list or a table.
            self.text.push('\n');
        }
        self.text.push_str(std::mem::take(&mut self.cell_separator));
        if paragraph.is_item && paragraph.level.is_none() && !in_table {
            self.text.push_str("- ");
        }
        paragraph.start = Some(self.text.len());
    }

    fn end_paragraph(&mut self) {
        let Some(paragraph) = self.paragraphs.pop() else { return };
        if !std::mem::take(&mut self.cell_separator).is_empty() && paragraph.start.is_none() {
            // A cell without text.
            self.text.push_str(if self.text.is_empty() || self.text.ends_with('\n') {
                "|"
            } else {
                " |"
            });
        }
        let Some(start) = paragraph.start else { return };
        let written = self.text.get(start..).unwrap_or_default();
        let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(level) = paragraph.level
            && self.tables == 0
            && !title.is_empty()
        {
            let title_start = start + written.len() - written.trim_start().len();
            let title_end = start + written.trim_end().len();
            self.add_heading(level, title, title_start..title_end);
        }
        if self.tables == 0 {
            self.text.push_str(if paragraph.is_item { "\n" } else { "\n\n" });
        }
    }

    /// Adds a heading. A heading of a text box within another heading is left out.
    fn add_heading(&mut self, level: u8, title: String, span: Range<usize>) {
        if self.headings.last().is_none_or(|last| last.span.end <= span.start) {
            self.headings.push(Heading { level, title, span });
        }
    }
}

impl TextElements for Body<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            // `Fallback` repeats the content for older programs; `moveFrom` is text that was moved
            // to another place.
            "Fallback" | "moveFrom" => self.skipped += 1,
            "p" => self.paragraphs.push(Paragraph::default()),
            "pStyle" => {
                let level =
                    attribute(element, "val").and_then(|style| self.levels.get(&style).copied());
                self.set_level(level);
            }
            "outlineLvl" => self.set_level(outline_level(attribute(element, "val"))),
            "numPr" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.is_item = true;
                }
            }
            "tbl" => self.tables += 1,
            "tc" => self.cell_separator = "| ",
            "r" => {
                self.in_run = true;
                self.is_hidden = false;
            }
            "vanish" if self.in_run => {
                self.is_hidden =
                    !matches!(attribute(element, "val").as_deref(), Some("0" | "false" | "off"));
            }
            "t" => self.in_text = true,
            "tab" if self.in_run => self.push("\t"),
            "noBreakHyphen" => self.push("-"),
            "cr" => self.push("\n"),
            "br" if attribute(element, "type").as_deref() == Some("page") => {
                self.explicit_breaks.push(self.text.len());
            }
            "br" => self.push(if self.tables > 0 { " " } else { "\n" }),
            "lastRenderedPageBreak" => self.rendered_breaks.push(self.text.len()),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "Fallback" | "moveFrom" => self.skipped = self.skipped.saturating_sub(1),
            "p" => self.end_paragraph(),
            "tbl" => self.tables = self.tables.saturating_sub(1),
            "tr" => {
                self.cell_separator = "";
                end_line(&mut self.text);
            }
            "r" => {
                self.hidden_runs += usize::from(self.is_hidden);
                self.in_run = false;
                self.is_hidden = false;
            }
            "t" => self.in_text = false,
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.skipped > 0 || self.is_hidden || text.is_empty() {
            return;
        }
        self.separate();
        self.text.push_str(text);
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}
