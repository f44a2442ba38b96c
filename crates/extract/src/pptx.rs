//! PPTX (Office Open XML, ECMA-376): the text of each slide, in the order of the presentation.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};

use crate::{
    ExtractError, Extracted, Extractor, Heading, Page, Problem, Source,
    gather::{TextElements, end_line, gather},
    package::{self, Package, attribute, each_event, properties},
};

/// Reads presentations of PowerPoint.
pub(crate) struct Pptx;

const MEDIA_TYPE: &str =
    "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const WITH_MACROS: &str = "application/vnd.ms-powerpoint.presentation.macroenabled.12";

/// Name of the format in errors.
const FORMAT: &str = "PPTX";

const PRESENTATION: &str = "ppt/presentation.xml";

impl Extractor for Pptx {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, WITH_MACROS]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("pptx", MEDIA_TYPE), ("pptm", WITH_MACROS)]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        let is_one =
            bytes.starts_with(b"PK\x03\x04") && package::names(bytes, PRESENTATION.as_bytes());
        is_one.then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        if package::is_encrypted(source.bytes) {
            return Err(ExtractError::Encrypted);
        }
        let mut package = Package::open(FORMAT, source)?;
        let order = order(&package.required(PRESENTATION)?)?;
        let parts = targets(&package.optional("ppt/_rels/presentation.xml.rels")?)?;
        source.limits.check_pages(order.len())?;
        let mut extracted = Extracted::default();
        let mut hidden = 0;
        let mut missing = 0;
        for (number, id) in (1..).zip(&order) {
            let Some(part) = parts.get(id) else {
                missing += 1;
                continue;
            };
            let Some(xml) = package.part(part)? else {
                missing += 1;
                continue;
            };
            let mut slide = Slide::default();
            slide.read(part, &xml, source, extracted.content.len())?;
            if slide.is_hidden {
                hidden += 1;
                continue;
            }
            append(&mut extracted, slide, number);
        }
        extracted.page_count = Some(order.len() as u32);
        if hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: hidden });
        }
        if missing > 0 {
            let reason = format!("{missing} slides are named, and not there");
            extracted.problems.push(Problem::Other { reason });
        }
        const CORE: &str = "docProps/core.xml";
        properties(FORMAT, CORE, &package.optional(CORE)?, &mut extracted)?;
        Ok(extracted)
    }
}

fn append(extracted: &mut Extracted, slide: Slide, number: u32) {
    let content = &mut extracted.content;
    if !slide.text.is_empty() && !content.is_empty() {
        content.push_str("\n\n");
    }
    let start = content.len();
    content.push_str(&slide.text);
    let headings = slide.titles.into_iter().map(|heading| Heading {
        span: start + heading.span.start..start + heading.span.end,
        ..heading
    });
    extracted.headings.extend(headings);
    extracted.pages.push(Page { number, span: start..content.len() });
}

/// Returns the ids of the slides' relations, in the order of the presentation.
fn order(xml: &[u8]) -> Result<Vec<String>, ExtractError> {
    let mut ids = Vec::new();
    each_event(FORMAT, PRESENTATION, xml, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "sldId"
        {
            // `id` is a number; `r:id` names the relation.
            let mut attributes = element.attributes();
            let relation = attributes.with_checks(false).flatten().find(|attribute| {
                let key: &str = attribute.key.as_ref();
                key.contains(':') && attribute.key.local_name().into_inner() == "id"
            });
            ids.extend(relation.map(|attribute| attribute.value.into_owned()));
        }
        Ok(())
    })?;
    Ok(ids)
}

/// Returns the parts of relations, by the ids of the relations.
fn targets(xml: &[u8]) -> Result<HashMap<String, String>, ExtractError> {
    let mut targets = HashMap::new();
    each_event(FORMAT, "ppt/_rels/presentation.xml.rels", xml, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "Relationship"
            && let (Some(id), Some(target)) =
                (attribute(&element, "Id"), attribute(&element, "Target"))
        {
            let part = match target.strip_prefix('/') {
                Some(whole) => whole.to_owned(),
                None => format!("ppt/{target}"),
            };
            targets.insert(id, part);
        }
        Ok(())
    })?;
    Ok(targets)
}

/// Collects the text of a slide.
#[derive(Default)]
struct Slide {
    text: String,
    titles: Vec<Heading>,
    is_hidden: bool,
    /// Whether the open shape is the slide's title.
    is_title: bool,
    in_text: bool,
    in_table: bool,
    /// Start of the paragraph's text, once there is any.
    start: Option<usize>,
    mark: &'static str,
    left_out: usize,
}

impl Slide {
    fn read(
        &mut self,
        part: &str,
        xml: &[u8],
        source: &Source<'_>,
        before: usize,
    ) -> Result<(), ExtractError> {
        gather(FORMAT, part, xml, source, before, self)?;
        self.text.truncate(self.text.trim_end().len());
        let length = self.text.len();
        self.titles.retain(|title| title.span.end <= length);
        Ok(())
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

impl TextElements for Slide {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            "sld" => {
                let show = attribute(element, "show");
                self.is_hidden = matches!(show.as_deref(), Some("0" | "false"));
            }
            // `Fallback` repeats the content for older programs.
            "Fallback" => self.left_out += 1,
            "sp" => self.is_title = false,
            "ph" => {
                let kind = attribute(element, "type");
                self.is_title = matches!(kind.as_deref(), Some("title" | "ctrTitle"));
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
            "Fallback" => self.left_out = self.left_out.saturating_sub(1),
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
