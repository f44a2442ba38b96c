//! Shapes of slides and sheets: their text, tables, descriptions, charts and diagrams.

use marquetry_office_values::Numerals;
use quick_xml::events::BytesStart;

use super::{DrawnTexts, alternative_text, drawn_id};
use crate::{
    Heading,
    gather::{Alternatives, TextElements, end_line},
    package::attribute,
};

/// Which placeholders of a slide have text that a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// All: a slide, or a sheet.
    All,
    /// Only the body: notes of a slide, whose other placeholders repeat the slide.
    Body,
    /// None: a layout, whose placeholders have sample text.
    None,
}

/// Collects the text of shapes.
pub(crate) struct Shapes<'a> {
    pub(crate) text: String,
    pub(crate) titles: Vec<Heading>,
    /// Whether the slide is hidden.
    pub(crate) is_hidden: bool,
    /// Number of hidden shapes.
    pub(crate) hidden: usize,
    /// Whether the shapes of the layout are shown behind these.
    pub(crate) shows_layout: bool,
    placeholders: Placeholders,
    drawn: &'a DrawnTexts,
    /// Open shapes, and whether each is left out.
    shapes: Vec<bool>,
    /// Whether the open shape is the slide's title.
    is_title: bool,
    in_text: bool,
    in_table: bool,
    /// Start of the paragraph's text, once there is any.
    start: Option<usize>,
    /// The separator before the next text of a cell.
    mark: &'static str,
    /// Number of open elements whose text is left out.
    left_out: usize,
    alternatives: Alternatives,
    numbers: Numbers,
}

/// The automatic numbers of the paragraphs of a shape.
#[derive(Default)]
struct Numbers {
    /// Level of the open paragraph.
    level: usize,
    /// Format of the open paragraph's number, and its first number.
    scheme: Option<(String, u32)>,
    /// The last numbers by level.
    last: [u32; 9],
}

impl<'a> Shapes<'a> {
    pub(crate) fn new(placeholders: Placeholders, drawn: &'a DrawnTexts) -> Self {
        Self {
            text: String::new(),
            titles: Vec::new(),
            is_hidden: false,
            hidden: 0,
            shows_layout: true,
            placeholders,
            drawn,
            shapes: Vec::new(),
            is_title: false,
            in_text: false,
            in_table: false,
            start: None,
            mark: "",
            left_out: 0,
            alternatives: Alternatives::default(),
            numbers: Numbers::default(),
        }
    }

    /// Removes white space at the end.
    pub(crate) fn trim_end(&mut self) {
        self.text.truncate(self.text.trim_end().len());
        let length = self.text.len();
        self.titles.retain(|title| title.span.end <= length);
    }

    fn placeholder(&mut self, element: &BytesStart<'_>) {
        let kind = attribute(element, "type");
        self.is_title = matches!(kind.as_deref(), Some("title" | "ctrTitle"));
        let is_shown = match self.placeholders {
            Placeholders::All => true,
            Placeholders::Body => kind.is_none_or(|kind| kind == "body"),
            Placeholders::None => false,
        };
        if !is_shown {
            self.leave_out_shape();
        }
    }

    /// Leaves out the rest of the open shape; returns whether it was not left out before.
    fn leave_out_shape(&mut self) -> bool {
        let Some(is_left_out) = self.shapes.last_mut().filter(|it| !**it) else { return false };
        *is_left_out = true;
        self.left_out += 1;
        true
    }

    fn describe(&mut self, element: &BytesStart<'_>) {
        let is_hidden = matches!(attribute(element, "hidden").as_deref(), Some("1" | "true"));
        if is_hidden {
            self.hidden += usize::from(self.leave_out_shape());
        } else if self.placeholders != Placeholders::None
            && let Some(text) = alternative_text(element)
        {
            self.push_block(&text);
        }
    }

    /// Adds text as lines of its own.
    fn push_block(&mut self, text: &str) {
        if self.left_out == 0 {
            end_line(&mut self.text);
            self.text.push_str(text.trim_end());
            end_line(&mut self.text);
        }
    }

    fn end_paragraph(&mut self) {
        let Some(start) = self.start.take() else { return };
        let written = &self.text[start..];
        let skipped = written.len() - written.trim_start().len();
        let length = written.trim().len();
        if self.is_title && length > 0 {
            let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
            let start = start + skipped;
            self.titles.push(Heading { level: 1, title, span: start..start + length });
        }
        if !self.in_table {
            end_line(&mut self.text);
        }
    }
}

impl Numbers {
    /// Returns the number of the open paragraph, which has text.
    fn next(&mut self) -> Option<String> {
        let level = self.level;
        self.last[level + 1..].fill(0);
        let Some((scheme, first)) = &self.scheme else {
            self.last[level] = 0;
            return None;
        };
        self.last[level] = if self.last[level] == 0 { *first } else { self.last[level] + 1 };
        let numerals = match scheme.trim_start_matches("ea1").split_at_checked(7) {
            Some(("alphaUc", _)) => Numerals::UpperLetter,
            Some(("alphaLc", _)) => Numerals::LowerLetter,
            Some(("romanUc", _)) => Numerals::UpperRoman,
            Some(("romanLc", _)) => Numerals::LowerRoman,
            _ => Numerals::Decimal,
        };
        let number = numerals.write(self.last[level]);
        Some(if scheme.ends_with("ParenBoth") {
            format!("({number}) ")
        } else if scheme.ends_with("ParenR") {
            format!("{number}) ")
        } else {
            format!("{number}. ")
        })
    }
}

impl TextElements for Shapes<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            "sld" => {
                let show = attribute(element, "show");
                self.is_hidden = matches!(show.as_deref(), Some("0" | "false"));
                let layout = attribute(element, "showMasterSp");
                self.shows_layout = !matches!(layout.as_deref(), Some("0" | "false"));
            }
            "AlternateContent" => self.alternatives.start(self.text.len() + self.hidden),
            "Fallback" => {
                let collected = self.text.len() + self.hidden;
                self.left_out += usize::from(self.alternatives.start_fallback(collected));
            }
            "sp" | "pic" | "graphicFrame" | "grpSp" | "cxnSp" => {
                self.is_title = false;
                self.numbers = Numbers::default();
                self.shapes.push(false);
            }
            "cNvPr" => self.describe(element),
            "ph" => self.placeholder(element),
            "chart" | "relIds" => {
                let text = drawn_id(element).and_then(|id| self.drawn.get(&id));
                if let Some(text) = text {
                    self.push_block(text);
                }
            }
            "pPr" => {
                let level = attribute(element, "lvl").and_then(|level| level.parse().ok());
                self.numbers.level = level.unwrap_or(0_usize).min(8);
                self.numbers.scheme = None;
            }
            "buAutoNum" => {
                let first = attribute(element, "startAt").and_then(|first| first.parse().ok());
                let scheme = attribute(element, "type").unwrap_or_default();
                self.numbers.scheme = Some((scheme, first.unwrap_or(1)));
            }
            "p" => {
                self.numbers.level = 0;
                self.numbers.scheme = None;
            }
            "tbl" => self.in_table = true,
            "tc" => self.mark = "| ",
            "t" => self.in_text = true,
            "br" => self.push(if self.in_table { " " } else { "\n" }),
            "tab" => self.push("\t"),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "AlternateContent" => self.alternatives.end(),
            "Fallback" => self.left_out -= usize::from(self.alternatives.end_fallback()),
            "sp" | "pic" | "graphicFrame" | "grpSp" | "cxnSp" => {
                let is_left_out = self.shapes.pop().unwrap_or_default();
                self.left_out -= usize::from(is_left_out);
            }
            "t" => self.in_text = false,
            "p" => self.end_paragraph(),
            "tr" => {
                self.mark = "";
                end_line(&mut self.text);
            }
            "tbl" => self.in_table = false,
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.left_out > 0 || text.is_empty() || (self.start.is_none() && text.trim().is_empty())
        {
            return;
        }
        if self.start.is_none() {
            if self.in_table && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            self.text.push_str(std::mem::take(&mut self.mark));
            self.start = Some(self.text.len());
            if let Some(number) = self.numbers.next() {
                self.text.push_str(&number);
            }
        }
        self.text.push_str(text);
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}
