//! Collects the text of a document.

use std::collections::{HashMap, HashSet};

use quick_xml::events::BytesStart;

use super::lists::Lists;
use crate::{
    Extracted, Heading, Page, Problem,
    document::{PART_BYTES, readings_left_out},
    gather::{TextElements, end_line},
    objects::{Objects, folder},
    package::attribute,
};

/// Collects the text. The styles come before the body.
pub(super) struct Body<'a> {
    text: String,
    headings: Vec<Heading>,
    /// Starts of slides.
    pages: Vec<usize>,
    objects: &'a Objects,
    is_in_body: bool,
    /// The style that is being read, and the styles of hidden text.
    style: String,
    hidden_styles: HashSet<String>,
    /// Levels of the styles of headings.
    heading_styles: HashMap<String, u8>,
    lists: Lists,
    /// Headers and footers, and which of them is open.
    headers: Vec<String>,
    footers: Vec<String>,
    margin: Option<Margin>,
    flow: Flow,
    /// The flows around the open text box.
    around: Vec<(String, Flow, usize)>,
    /// Whether the open element describes a drawing.
    in_description: bool,
    /// Number of open elements since the outermost hidden one.
    left_out: usize,
    /// Whether the open frame is the title of a slide.
    in_title: bool,
    hidden: usize,
    readings: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Margin {
    Header,
    Footer,
}

/// The state of a text of its own: the body, or a text box.
#[derive(Default)]
struct Flow {
    /// The open paragraphs (a note within a paragraph has its own).
    paragraphs: Vec<Paragraph>,
    items: usize,
    tables: usize,
    /// The separator before the next text.
    mark: String,
    /// The text of drawings and comments, which comes after the open paragraph.
    drawing: String,
}

#[derive(Default)]
struct Paragraph {
    level: Option<u8>,
    number: Option<String>,
    /// Start of the text, once there is any.
    start: Option<usize>,
}

impl<'a> Body<'a> {
    pub(super) fn new(objects: &'a Objects) -> Self {
        Self {
            text: String::new(),
            headings: Vec::new(),
            pages: Vec::new(),
            objects,
            is_in_body: false,
            style: String::new(),
            hidden_styles: HashSet::new(),
            heading_styles: HashMap::new(),
            lists: Lists::default(),
            headers: Vec::new(),
            footers: Vec::new(),
            margin: None,
            flow: Flow::default(),
            around: Vec::new(),
            in_description: false,
            left_out: 0,
            in_title: false,
            hidden: 0,
            readings: 0,
        }
    }

    /// Returns the document: headers, body, footers.
    pub(super) fn finish(mut self) -> Extracted {
        self.write_drawing();
        let mut content = once_each(&self.headers);
        let shift = content.len();
        content.push_str(self.text.trim_end());
        let end = content.len();
        let footers = once_each(&self.footers);
        if !footers.is_empty() && !content.is_empty() {
            content.push_str("\n\n");
        }
        content.push_str(footers.trim_end());
        let mut extracted = Extracted::new(content);
        let headings = self.headings.into_iter().map(|heading| Heading {
            span: heading.span.start + shift..heading.span.end + shift,
            ..heading
        });
        extracted.headings = headings.filter(|heading| heading.span.end <= end).collect();
        if !self.pages.is_empty() {
            let starts = self.pages.iter().map(|start| (start + shift).min(end));
            let ends = starts.clone().skip(1).chain([extracted.content.len()]);
            let spans = (1..).zip(starts.zip(ends));
            extracted.pages =
                spans.map(|(number, (start, end))| Page { number, span: start..end }).collect();
            extracted.page_count = u32::try_from(extracted.pages.len()).ok();
        }
        if self.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden });
        }
        if self.readings > 0 {
            extracted.problems.push(readings_left_out(self.readings));
        }
        extracted
    }

    /// Begins an element of the styles.
    fn start_style(&mut self, name: &str, element: &BytesStart<'_>) {
        match name {
            "body" => self.is_in_body = true,
            "style" => {
                self.style = attribute(element, "name").unwrap_or_default();
                let parent = attribute(element, "parent-style-name");
                let parent = parent.as_deref().unwrap_or_default();
                if self.hidden_styles.contains(parent) {
                    self.hidden_styles.insert(self.style.clone());
                }
                let level = heading_level(&self.style).or(heading_level(parent));
                let level = level.or(self.heading_styles.get(parent).copied());
                self.heading_styles.extend(level.map(|level| (self.style.clone(), level)));
            }
            "text-properties" => match attribute(element, "display").as_deref() {
                Some("none") => _ = self.hidden_styles.insert(self.style.clone()),
                Some(_) => _ = self.hidden_styles.remove(&self.style),
                None => {}
            },
            "drawing-page-properties"
                if attribute(element, "visibility").as_deref() == Some("hidden") =>
            {
                self.hidden_styles.insert(self.style.clone());
            }
            "header" | "header-left" | "header-first" => self.start_margin(Margin::Header, element),
            "footer" | "footer-left" | "footer-first" => self.start_margin(Margin::Footer, element),
            _ => self.lists.style(element),
        }
    }

    fn start_margin(&mut self, margin: Margin, element: &BytesStart<'_>) {
        // LibreOffice keeps a header that was switched off.
        if attribute(element, "display").as_deref() == Some("false") {
            self.left_out = 1;
            return;
        }
        self.margin = Some(margin);
        match margin {
            Margin::Header => self.headers.push(String::new()),
            Margin::Footer => self.footers.push(String::new()),
        }
    }

    /// Returns whether an element and its content are not shown, or not where it stands.
    fn is_left_out(&mut self, name: &str, element: &BytesStart<'_>) -> bool {
        let style = attribute(element, "style-name");
        let is_hidden = match name {
            "p" | "h" | "span" | "page" => {
                style.is_some_and(|style| self.hidden_styles.contains(&style))
            }
            "section" => attribute(element, "display").as_deref() == Some("none"),
            // Boxes of a slide's notes repeat its number and date.
            "frame" => {
                let class = attribute(element, "class");
                return matches!(class.as_deref(), Some("page-number" | "date-time"));
            }
            "hidden-text" | "hidden-paragraph" => {
                attribute(element, "is-hidden").as_deref() != Some("false")
            }
            _ => false,
        };
        self.hidden += usize::from(is_hidden);
        self.readings += usize::from(name == "ruby-text");
        is_hidden
            || matches!(
                name,
                // Deleted text, numbers of notes, readings, names of commenters, and pictures.
                "tracked-changes"
                    | "note-citation"
                    | "ruby-text"
                    | "creator"
                    | "date"
                    | "creator-initials"
                    | "sender-initials"
                    | "date-string"
                    | "binary-data"
                    | "page-thumbnail"
                    | "forms"
            )
    }

    /// Begins a text box or a shape with text. Within a paragraph it is read apart.
    fn start_box(&mut self) {
        let text = std::mem::take(&mut self.text);
        let flow = std::mem::take(&mut self.flow);
        self.around.push((text, flow, self.headings.len()));
    }

    fn end_box(&mut self) {
        let Some((text, flow, headings)) = self.around.pop() else { return };
        let inner = std::mem::replace(&mut self.flow, flow);
        let of_box = std::mem::replace(&mut self.text, text) + &inner.drawing;
        if self.flow.paragraphs.is_empty() {
            // It stands apart already, as on a slide.
            if !of_box.trim().is_empty() {
                end_block(&mut self.text);
                let shift = self.text.len();
                self.text.push_str(&of_box);
                for heading in &mut self.headings[headings..] {
                    heading.span = heading.span.start + shift..heading.span.end + shift;
                }
            }
            return;
        }
        self.headings.truncate(headings);
        self.draw(&of_box);
    }

    /// Ends a comment, which stands in the margin beside the paragraph.
    fn end_comment(&mut self) {
        let Some((text, flow, headings)) = self.around.pop() else { return };
        let inner = std::mem::replace(&mut self.flow, flow);
        let comment = std::mem::replace(&mut self.text, text) + &inner.drawing;
        self.headings.truncate(headings);
        let comment = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        if !comment.is_empty() {
            self.draw(&format!("Comment: {comment}"));
        }
        self.write_drawing();
    }

    /// Adds text that comes after the open paragraph.
    fn draw(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.flow.drawing.push_str(text.trim());
            self.flow.drawing.push('\n');
        }
    }

    /// Writes the text of drawings, unless a paragraph is open.
    fn write_drawing(&mut self) {
        if self.flow.drawing.is_empty() || !self.flow.paragraphs.is_empty() || self.margin.is_some()
        {
            return;
        }
        let drawing = std::mem::take(&mut self.flow.drawing);
        if self.flow.tables > 0 {
            self.text.push(' ');
            self.text.push_str(&drawing.trim_end().replace('\n', "; "));
        } else {
            end_block(&mut self.text);
            self.text.push_str(&drawing);
            end_block(&mut self.text);
        }
    }

    fn start_paragraph(&mut self, level: Option<u8>) {
        self.flow.paragraphs.push(Paragraph { level, ..Paragraph::default() });
    }

    /// Begins a heading, which has a number unless it is in a list.
    fn start_heading(&mut self, level: u8) {
        let is_apart = self.flow.paragraphs.is_empty() && self.margin.is_none();
        let is_numbered = is_apart && self.flow.items == 0;
        let number = is_numbered.then(|| self.lists.start_heading(level)).flatten();
        self.flow.paragraphs.push(Paragraph { level: Some(level), number, start: None });
    }

    fn end_paragraph(&mut self) {
        let Some(paragraph) = self.flow.paragraphs.pop() else { return };
        let is_apart = self.flow.paragraphs.is_empty() && self.flow.tables == 0;
        if let Some(start) = paragraph.start {
            let written = self.text.get(start..).unwrap_or_default();
            let skipped = written.len() - written.trim_start().len();
            let length = written.trim().len();
            let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
            if let Some(level) = paragraph.level
                && !title.is_empty()
                && is_apart
            {
                let start = start + skipped;
                self.headings.push(Heading { level, title, span: start..start + length });
            }
            if is_apart {
                self.text.push_str(if self.flow.items > 0 { "\n" } else { "\n\n" });
            }
        }
        self.write_drawing();
    }

    /// Writes the separator before the first text of a paragraph.
    fn separate(&mut self) {
        let flow = &mut self.flow;
        let is_nested = flow.paragraphs.len() > 1;
        let Some(paragraph) = flow.paragraphs.last_mut() else { return };
        let in_line = !self.text.is_empty() && !self.text.ends_with('\n');
        if is_nested {
            // A further paragraph of a note.
            if in_line && !self.text.ends_with(['(', ' ']) {
                self.text.push(' ');
            }
        } else if in_line {
            self.text.push_str(if flow.tables > 0 { " " } else { "\n\n" });
        } else if flow.tables == 0
            && flow.items == 0
            && !self.text.is_empty()
            && !self.text.ends_with("\n\n")
        {
            self.text.push('\n');
        }
        let mark = std::mem::take(&mut flow.mark);
        // A heading in a list is not an item, but may have a number.
        let is_bullet = mark == "- " && paragraph.level.is_some();
        if !is_bullet && paragraph.level.is_none() {
            self.text.push_str(&mark);
        }
        paragraph.start = Some(self.text.len());
        if !is_bullet && paragraph.level.is_some() {
            self.text.push_str(&mark);
        }
        if let Some(number) = paragraph.number.take() {
            self.text.push_str(&number);
        }
    }
}

/// Returns the level of a style by its name: `Heading_20_2`, `heading-2`.
fn heading_level(style: &str) -> Option<u8> {
    let name = style.to_ascii_lowercase().replace("_20_", " ").replace(['-', '_'], " ");
    let level = name.strip_prefix("heading ")?.parse().ok()?;
    (1..=9).contains(&level).then_some(level)
}

/// Ends a block of text with an empty line, unless there is no text.
fn end_block(text: &mut String) {
    end_line(text);
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
}

/// Joins the headers or footers of all page styles, each once. Most footers are only the number of
/// the page.
fn once_each(texts: &[String]) -> String {
    let mut seen = HashSet::new();
    let mut joined = String::new();
    for text in texts.iter().map(|text| text.trim()) {
        if text.contains(char::is_alphabetic) && seen.insert(text) {
            joined.push_str(text);
            joined.push_str("\n\n");
        }
    }
    joined
}

/// Returns whether an element is a text box, or a shape that has text itself.
fn is_box(name: &str) -> bool {
    matches!(
        name,
        "text-box"
            | "caption"
            | "circle"
            | "connector"
            | "custom-shape"
            | "ellipse"
            | "line"
            | "measure"
            | "path"
            | "polygon"
            | "polyline"
            | "rect"
            | "regular-polygon"
    )
}

impl TextElements for Body<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let name: &str = name.as_ref();
        if self.left_out > 0 {
            self.left_out += 1;
            return;
        }
        if !self.is_in_body && self.margin.is_none() {
            self.start_style(name, element);
            return;
        }
        if self.is_left_out(name, element) {
            self.left_out = 1;
            return;
        }
        match name {
            "p" => {
                // AbiWord writes headings as paragraphs with a style.
                let style = attribute(element, "style-name").unwrap_or_default();
                let level = heading_level(&style);
                let level = level.or(self.heading_styles.get(&style).copied());
                self.start_paragraph(if self.in_title { Some(1) } else { level });
            }
            "footer-decl" | "header-decl" => self.start_paragraph(None),
            "h" => {
                let level = attribute(element, "outline-level").and_then(|it| it.parse().ok());
                self.start_heading(level.unwrap_or(1));
            }
            "list" => self.lists.start_list(element),
            "list-item" => {
                self.flow.items += 1;
                self.flow.mark = self.lists.start_item(element);
            }
            "list-header" => self.flow.items += 1,
            "page" => self.pages.push(self.text.len()),
            "frame" => {
                let class = attribute(element, "class");
                self.in_title = class.as_deref() == Some("title");
            }
            "title" | "desc" => self.in_description = true,
            "object" => {
                let object = attribute(element, "href").map(|it| folder(&it));
                if let Some(text) = object.and_then(|object| self.objects.get(&object)) {
                    self.draw(text);
                }
            }
            "table" => self.flow.tables += 1,
            "table-cell" => "| ".clone_into(&mut self.flow.mark),
            "note" => self.push(" ("),
            "annotation" => self.start_box(),
            "tab" => self.push("\t"),
            "line-break" => self.push(if self.flow.tables > 0 { " " } else { "\n" }),
            "s" => {
                /// Maximum spaces that are written; documents with more use them to fill a page, or
                /// to exhaust memory.
                const MAX_SPACES: usize = 80;
                let count = attribute(element, "c").and_then(|count| count.parse().ok());
                self.push(&" ".repeat(count.unwrap_or(1).min(MAX_SPACES)));
            }
            name if is_box(name) => self.start_box(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        if !self.is_in_body && self.margin.is_none() {
            return;
        }
        match name {
            "p" | "h" | "footer-decl" | "header-decl" => self.end_paragraph(),
            "list" => self.lists.end_list(),
            "list-item" | "list-header" => self.flow.items = self.flow.items.saturating_sub(1),
            "table" => {
                self.flow.tables = self.flow.tables.saturating_sub(1);
                self.flow.mark.clear();
            }
            "table-row" => {
                self.flow.mark.clear();
                end_line(&mut self.text);
            }
            "note" => self.push(")"),
            "annotation" => self.end_comment(),
            "title" | "desc" => self.in_description = false,
            "frame" => {
                self.in_title = false;
                self.write_drawing();
            }
            "page" => self.write_drawing(),
            "header" | "header-left" | "header-first" | "footer" | "footer-left"
            | "footer-first" => self.end_margin(),
            name if is_box(name) => self.end_box(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.left_out > 0 || text.is_empty() {
            return;
        }
        if self.in_description {
            self.draw(text);
            return;
        }
        let Some(paragraph) = self.flow.paragraphs.last() else { return };
        if paragraph.start.is_none() {
            // White space between elements does not begin a text.
            if text.trim().is_empty() {
                return;
            }
            self.separate();
        }
        self.text.push_str(text);
    }

    fn is_in_text(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        let around = self.around.last().map_or(0, |(text, ..)| text.len());
        let margins = self.headers.len() + self.footers.len();
        // A text box has its own paragraphs, tables and lists.
        let parts =
            self.headings.len() + margins + self.flow.paragraphs.len() + 2 * self.around.len();
        self.text.len() + self.flow.drawing.len() + around + parts * PART_BYTES
    }
}

impl Body<'_> {
    /// Ends a header or footer, whose text was collected as if it were the body.
    fn end_margin(&mut self) {
        let text = std::mem::take(&mut self.text) + &std::mem::take(&mut self.flow.drawing);
        self.flow = Flow::default();
        self.headings.clear();
        let margin = self.margin.take();
        let texts =
            if margin == Some(Margin::Header) { &mut self.headers } else { &mut self.footers };
        if let Some(last) = texts.last_mut() {
            *last = text;
        }
    }
}
