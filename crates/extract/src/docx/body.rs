//! Reads the body of a document.

use std::{collections::HashSet, ops::Range};

use marquetry_office_values::{symbol, with_symbols};
use quick_xml::events::BytesStart;

use super::{
    FORMAT,
    alternative::{Chunks, chunks},
    is_on,
    numbering::{Label, Numbering},
    outline_level,
    sections::Sections,
    styles::Styles,
};
use crate::{
    ExtractError, Extracted, Heading, Problem, Source,
    document::{PART_BYTES, readings_left_out},
    drawing::{DrawnTexts, alternative_text, drawn_id, drawn_texts},
    gather::{Alternatives, TextElements, end_line, gather},
    package::{Package, Relationships, attribute},
};

/// Collects the text of a document's parts.
pub(super) struct Body<'a> {
    styles: &'a Styles,
    numbering: Numbering,
    source: Source<'a>,
    text: String,
    headings: Vec<Heading>,
    /// Open paragraphs; a paragraph of a text box is within another one.
    paragraphs: Vec<Paragraph>,
    /// Number of open tables.
    tables: usize,
    /// The separator before the next text of a cell.
    cell_separator: &'static str,
    /// The text before the next paragraph of a comment.
    lead: String,
    /// Ends of pages in Word's last rendering.
    rendered_breaks: Vec<usize>,
    /// Page breaks that the author set.
    explicit_breaks: Vec<usize>,
    sections: Sections,
    /// Charts, diagrams and documents to which the open part refers.
    drawn: DrawnTexts,
    chunks: Chunks,
    alternatives: Alternatives,
    /// Bytes of the text of drawings.
    drawn_bytes: usize,
    /// Number of open elements whose text is skipped.
    skipped: usize,
    run: Run,
    /// The entries of an open list of choices, and the number of the chosen one.
    choices: (Vec<String>, usize),
    /// Number of hidden runs.
    hidden_runs: usize,
    /// Number of readings above characters.
    readings: usize,
    in_text: bool,
    problems: Vec<Problem>,
}

#[derive(Default)]
struct Paragraph {
    level: Option<u8>,
    style: String,
    /// The list and the level that the paragraph sets.
    list: Option<String>,
    list_level: Option<usize>,
    is_hidden: bool,
    /// The text of drawings that are anchored in the paragraph.
    drawn: String,
    /// The mark of an item, once there is any text.
    label: Option<Label>,
    /// Start of the paragraph's text, once there is any.
    start: Option<usize>,
}

/// The open run: characters of one format.
#[derive(Default)]
struct Run {
    is_open: bool,
    is_hidden: bool,
    font: String,
}

impl<'a> Body<'a> {
    pub(super) fn new(styles: &'a Styles, numbering: Numbering, source: Source<'a>) -> Self {
        Self {
            styles,
            numbering,
            source,
            text: String::new(),
            headings: Vec::new(),
            paragraphs: Vec::new(),
            tables: 0,
            cell_separator: "",
            lead: String::new(),
            rendered_breaks: Vec::new(),
            explicit_breaks: Vec::new(),
            sections: Sections::default(),
            drawn: DrawnTexts::new(),
            chunks: Chunks::new(),
            alternatives: Alternatives::default(),
            drawn_bytes: 0,
            skipped: 0,
            run: Run::default(),
            choices: (Vec::new(), 0),
            hidden_runs: 0,
            readings: 0,
            in_text: false,
            problems: Vec::new(),
        }
    }

    pub(super) fn read(
        &mut self,
        package: &mut Package<'_>,
        part: &str,
        xml: &[u8],
    ) -> Result<(), ExtractError> {
        let source = self.source;
        let related = package.relationships(part)?;
        self.drawn = drawn_texts(FORMAT, package, &related, &source)?;
        self.chunks = chunks(package, &related, &source, &mut self.problems)?;
        gather(FORMAT, part, xml, &source, 0, self)?;
        self.paragraphs.clear();
        self.alternatives = Alternatives::default();
        self.tables = 0;
        self.skipped = 0;
        self.in_text = false;
        Ok(())
    }

    /// Writes the headers before the text, and the footers after it. Sections often share them, or
    /// have equal ones, which are written once.
    pub(super) fn read_headers_and_footers(
        &mut self,
        package: &mut Package<'_>,
        related: &Relationships,
    ) -> Result<(), ExtractError> {
        let Sections { headers, footers, .. } = std::mem::take(&mut self.sections);
        self.read_margins(package, related, footers)?;
        let end = self.text.len();
        self.read_margins(package, related, headers)?;
        let headers = self.text.split_off(end);
        let shift = headers.len();
        self.text.insert_str(0, &headers);
        for heading in &mut self.headings {
            heading.span = heading.span.start + shift..heading.span.end + shift;
        }
        for end in self.rendered_breaks.iter_mut().chain(&mut self.explicit_breaks) {
            *end += shift;
        }
        Ok(())
    }

    /// Appends the text of headers or footers, without headings.
    fn read_margins(
        &mut self,
        package: &mut Package<'_>,
        related: &Relationships,
        ids: Vec<String>,
    ) -> Result<(), ExtractError> {
        let mut seen_ids = HashSet::new();
        let mut seen_texts = HashSet::new();
        let headings = self.headings.len();
        let breaks = (self.rendered_breaks.len(), self.explicit_breaks.len());
        for id in ids.iter().filter(|id| seen_ids.insert(*id)) {
            let Some(part) = related.by_id(id) else { continue };
            let start = self.text.len();
            let xml = package.optional(&part.target)?;
            self.read(package, &part.target, &xml)?;
            let text = self.text.split_off(start);
            // Most footers are the number of the page.
            if text.contains(char::is_alphabetic) && seen_texts.insert(text.clone()) {
                self.text.push_str(&text);
            }
        }
        self.headings.truncate(headings);
        self.rendered_breaks.truncate(breaks.0);
        self.explicit_breaks.truncate(breaks.1);
        Ok(())
    }

    pub(super) fn text_len(&self) -> usize {
        self.text.len()
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
        extracted.problems = self.problems;
        if self.hidden_runs > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden_runs });
        }
        if self.readings > 0 {
            extracted.problems.push(readings_left_out(self.readings));
        }
        extracted
    }

    /// Writes the separator and the mark before the first text of a paragraph.
    fn separate(&mut self) {
        if self.paragraphs.last().is_none_or(|paragraph| paragraph.start.is_some()) {
            return;
        }
        let label = self.label();
        let in_table = self.tables > 0;
        let in_line = !self.text.is_empty() && !self.text.ends_with('\n');
        let Some(paragraph) = self.paragraphs.last_mut() else { return };
        paragraph.label = label;
        if in_table && in_line {
            self.text.push(' ');
        } else if in_line {
            self.text.push_str("\n\n");
        } else if !in_table
            && paragraph.label.is_none()
            && !self.text.ends_with("\n\n")
            && !self.text.is_empty()
        {
            // The previous element was a list or a table.
            self.text.push('\n');
        }
        self.text.push_str(std::mem::take(&mut self.cell_separator));
        self.text.push_str(&std::mem::take(&mut self.lead));
        let start = self.text.len();
        match &paragraph.label {
            Some(Label::Bullet) if paragraph.level.is_none() && !in_table => {
                self.text.push_str("- ");
            }
            Some(Label::Number(number)) => {
                self.text.push_str(number);
                self.text.push(' ');
            }
            _ => {}
        }
        paragraph.start = Some(start);
    }

    /// Counts the open paragraph, if it is in a list; returns its mark.
    fn label(&mut self) -> Option<Label> {
        let paragraph = self.paragraphs.last()?;
        let of_style = self.styles.list(&paragraph.style);
        let list = paragraph.list.as_deref().or(of_style.map(|(list, _)| list))?;
        let level = paragraph.list_level.or(of_style.and_then(|(_, level)| level));
        self.numbering.next(self.styles, list, level, &paragraph.style)
    }

    fn end_paragraph(&mut self) {
        let in_list = self.paragraphs.last().is_some_and(|it| it.start.is_none());
        if in_list && self.skipped == 0 {
            // Items without text count as well.
            self.label();
        }
        let Some(paragraph) = self.paragraphs.pop() else { return };
        if !std::mem::take(&mut self.cell_separator).is_empty() && paragraph.start.is_none() {
            // A cell without text.
            self.text.push_str(if self.text.is_empty() || self.text.ends_with('\n') {
                "|"
            } else {
                " |"
            });
        }
        let Some(start) = paragraph.start else {
            self.write_drawn(&paragraph.drawn);
            return;
        };
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
            let is_item = paragraph.label.is_some() && paragraph.level.is_none();
            self.text.push_str(if is_item { "\n" } else { "\n\n" });
        }
        self.write_drawn(&paragraph.drawn);
    }

    /// Sets the properties of the open paragraph.
    fn paragraph_property(&mut self, name: &str, element: &BytesStart<'_>) {
        let Some(paragraph) = self.paragraphs.last_mut() else { return };
        let value = attribute(element, "val");
        match name {
            "pStyle" => {
                let style = value.unwrap_or_default();
                paragraph.level = self.styles.level(&style);
                paragraph.is_hidden |= self.styles.is_hidden(&style);
                paragraph.style = style;
            }
            "outlineLvl" => paragraph.level = outline_level(value),
            "numId" => paragraph.list = value,
            "ilvl" => paragraph.list_level = value.and_then(|level| level.parse().ok()),
            _ => {}
        }
    }

    /// Writes the text of a drawing after the open paragraph, whose sentences go on after it.
    fn push_drawn(&mut self, text: &str) {
        let text = text.trim();
        if self.skipped > 0 || self.run.is_hidden || text.is_empty() {
            return;
        }
        self.drawn_bytes += text.len();
        if let Some(paragraph) = self.paragraphs.first_mut() {
            paragraph.drawn.push_str(text);
            paragraph.drawn.push('\n');
        } else {
            end_block(&mut self.text);
            self.text.push_str(text);
            end_block(&mut self.text);
        }
    }

    fn write_drawn(&mut self, drawn: &str) {
        if drawn.is_empty() {
            return;
        }
        if self.tables > 0 {
            self.text.push(' ');
            self.text.push_str(&drawn.trim_end().replace('\n', "; "));
        } else {
            end_block(&mut self.text);
            self.text.push_str(drawn);
            end_block(&mut self.text);
        }
    }

    /// Writes the text of an alternative chunk, with its headings.
    fn push_chunk(&mut self, id: &str) {
        let Some(chunk) = self.chunks.get(id).filter(|_| self.skipped == 0) else { return };
        end_block(&mut self.text);
        let start = self.text.len();
        self.text.push_str(chunk.content.trim_end());
        let end = self.text.len();
        let headings = chunk.headings.iter().map(|heading| Heading {
            span: start + heading.span.start..start + heading.span.end,
            ..heading.clone()
        });
        self.headings.extend(headings.filter(|heading| heading.span.end <= end));
        end_block(&mut self.text);
    }

    /// Adds a heading. A heading of a text box within another heading is left out.
    fn add_heading(&mut self, level: u8, title: String, span: Range<usize>) {
        if self.headings.last().is_none_or(|last| last.span.end <= span.start) {
            self.headings.push(Heading { level, title, span });
        }
    }
}

/// Ends a block of text with an empty line, unless there is no text.
fn end_block(text: &mut String) {
    end_line(text);
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
}

impl TextElements for Body<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            "AlternateContent" => self.alternatives.start(self.collected()),
            "Fallback" => {
                let collected = self.collected();
                self.skipped += usize::from(self.alternatives.start_fallback(collected));
            }
            // Text that was moved to another place.
            "moveFrom" => self.skipped += 1,
            "rt" => {
                self.readings += 1;
                self.skipped += 1;
            }
            "p" => {
                // A text box is within a run.
                let Run { is_hidden, .. } = std::mem::take(&mut self.run);
                self.paragraphs.push(Paragraph { is_hidden, ..Paragraph::default() });
            }
            "tbl" => self.tables += 1,
            "tc" => self.cell_separator = "| ",
            "comment" => {
                let author = attribute(element, "author").unwrap_or_default();
                self.lead = format!("Comment ({}): ", author.trim()).replace(" ()", "");
            }
            "altChunk" => self.push_chunk(&attribute(element, "id").unwrap_or_default()),
            "r" => {
                let is_hidden = self.paragraphs.last().is_some_and(|it| it.is_hidden);
                self.run = Run { is_open: true, is_hidden, font: String::new() };
            }
            "t" => self.in_text = true,
            "lastRenderedPageBreak" => self.rendered_breaks.push(self.text.len()),
            "headerReference" | "footerReference" | "titlePg" => self.sections.start(element),
            "docPr" | "shape" | "textpath" | "chart" | "relIds" => self.drawing(element),
            name if self.run.is_open => self.run_element(name, element),
            name => self.paragraph_property(name, element),
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "AlternateContent" => self.alternatives.end(),
            "Fallback" => self.skipped -= usize::from(self.alternatives.end_fallback()),
            "moveFrom" | "rt" => self.skipped = self.skipped.saturating_sub(1),
            "p" => self.end_paragraph(),
            "tbl" => self.tables = self.tables.saturating_sub(1),
            "tr" => {
                self.cell_separator = "";
                end_line(&mut self.text);
            }
            "ddList" => {
                let (mut choices, chosen) = std::mem::take(&mut self.choices);
                if chosen < choices.len() {
                    self.push(&choices.swap_remove(chosen));
                }
            }
            "r" => {
                self.hidden_runs += usize::from(self.run.is_hidden);
                self.run = Run::default();
            }
            "t" => self.in_text = false,
            "sectPr" => self.sections.end(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.skipped > 0 || self.run.is_hidden || text.is_empty() {
            return;
        }
        self.separate();
        if self.run.font.is_empty() {
            self.text.push_str(text);
        } else {
            self.text.push_str(&with_symbols(&self.run.font, text));
        }
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn len(&self) -> usize {
        // A paragraph has more members than other parts.
        let parts = self.headings.len() + 2 * self.paragraphs.len() + self.choices.0.len();
        self.text.len() + self.drawn_bytes + parts * PART_BYTES
    }
}

impl Body<'_> {
    /// Returns a number that grows with all content, even if it is hidden.
    fn collected(&self) -> usize {
        self.text.len() + self.drawn_bytes + self.hidden_runs
    }

    /// Begins an element of a run, other than its text.
    fn run_element(&mut self, name: &str, element: &BytesStart<'_>) {
        let value = attribute(element, "val");
        match name {
            "rStyle" => self.run.is_hidden |= self.styles.is_hidden(&value.unwrap_or_default()),
            "vanish" => self.run.is_hidden = is_on(value.as_deref()),
            "rFonts" => {
                let font = attribute(element, "ascii").or_else(|| attribute(element, "hAnsi"));
                self.run.font = font.unwrap_or_default();
            }
            "sym" => self.symbol(element),
            "tab" => self.push("\t"),
            "noBreakHyphen" => self.push("-"),
            "cr" => self.push("\n"),
            "br" if attribute(element, "type").as_deref() == Some("page") => {
                self.explicit_breaks.push(self.text.len());
            }
            "br" => self.push(if self.tables > 0 { " " } else { "\n" }),
            "listEntry" => self.choices.0.extend(value),
            "result" => self.choices.1 = value.and_then(|it| it.parse().ok()).unwrap_or_default(),
            _ => {}
        }
    }

    fn symbol(&mut self, element: &BytesStart<'_>) {
        let font = attribute(element, "font").unwrap_or_default();
        let code = attribute(element, "char").and_then(|it| u32::from_str_radix(&it, 16).ok());
        let Some(code) = code else { return };
        let plain = char::from_u32(code).filter(|_| !(0xE000..0xF900).contains(&code));
        if let Some(character) = symbol(&font, code).or(plain) {
            self.push(character.encode_utf8(&mut [0; 4]));
        }
    }

    /// Writes the text that a drawing has beside its text boxes.
    fn drawing(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let text = match name.as_ref() {
            "docPr" => alternative_text(element),
            "shape" => attribute(element, "alt"),
            "textpath" => attribute(element, "string"),
            _ => drawn_id(element).and_then(|id| self.drawn.get(&id).cloned()),
        };
        if let Some(text) = text {
            self.push_drawn(&text);
        }
    }
}
