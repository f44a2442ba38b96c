//! PPTX (Office Open XML, ECMA-376): the text of each slide with its notes and comments, in the
//! order of the presentation.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};

use crate::{
    ExtractError, Extracted, Extractor, Heading, Page, Problem, Source,
    drawing::{Placeholders, Shapes, drawn_texts},
    gather::{TextElements, end_line, gather},
    package::{self, Package, Relationships, each_event, properties},
};

/// Reads presentations of PowerPoint.
pub(crate) struct Pptx;

const MEDIA_TYPE: &str =
    "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const WITH_MACROS: &str = "application/vnd.ms-powerpoint.presentation.macroenabled.12";
const SHOW: &str = "application/vnd.openxmlformats-officedocument.presentationml.slideshow";
const SHOW_WITH_MACROS: &str = "application/vnd.ms-powerpoint.slideshow.macroenabled.12";
const TEMPLATE: &str = "application/vnd.openxmlformats-officedocument.presentationml.template";

/// Name of the format in errors.
const FORMAT: &str = "PPTX";

impl Extractor for Pptx {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, WITH_MACROS, SHOW, SHOW_WITH_MACROS, TEMPLATE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("pptx", MEDIA_TYPE),
            ("pptm", WITH_MACROS),
            ("ppsx", SHOW),
            ("ppsm", SHOW_WITH_MACROS),
            ("potx", TEMPLATE),
        ]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        package::is_office_open_xml(bytes, "ppt").then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        if package::is_encrypted(source.bytes) {
            return Err(ExtractError::Encrypted);
        }
        let mut package = Package::open(FORMAT, source)?;
        let main = package.main_part("ppt/presentation.xml")?;
        let order = order(&main, &package.required(&main)?)?;
        let parts = package.relationships(&main)?;
        source.limits.check_pages(order.len())?;
        let mut slides = Slides::new(*source);
        for (number, id) in (1..).zip(&order) {
            let part = parts.by_id(id).map(|slide| slide.target.as_str()).unwrap_or_default();
            match package.part(part)? {
                Some(xml) => slides.read(&mut package, part, &xml, number)?,
                None => slides.missing += 1,
            }
        }
        let mut extracted = slides.finish();
        extracted.page_count = Some(order.len() as u32);
        const CORE: &str = "docProps/core.xml";
        properties(FORMAT, CORE, &package.optional(CORE)?, &mut extracted)?;
        Ok(extracted)
    }
}

/// Collects the slides.
struct Slides<'a> {
    source: Source<'a>,
    extracted: Extracted,
    /// The layouts and masters that were read.
    layouts: HashSet<String>,
    /// Number of hidden slides and shapes.
    hidden: usize,
    /// Number of slides without a part.
    missing: usize,
}

impl<'a> Slides<'a> {
    fn new(source: Source<'a>) -> Self {
        let extracted = Extracted::default();
        Self { source, extracted, layouts: HashSet::new(), hidden: 0, missing: 0 }
    }

    /// Reads a slide, what its layout adds to it, its notes, and its comments.
    fn read(
        &mut self,
        package: &mut Package<'_>,
        part: &str,
        xml: &[u8],
        number: u32,
    ) -> Result<(), ExtractError> {
        let related = package.relationships(part)?;
        let drawn = drawn_texts(FORMAT, package, &related, &self.source)?;
        let mut slide = Shapes::new(Placeholders::All, &drawn);
        let before = self.extracted.content.len();
        gather(FORMAT, part, xml, &self.source, before, &mut slide)?;
        if slide.is_hidden {
            self.hidden += 1;
            return Ok(());
        }
        slide.trim_end();
        let start = self.append(&slide, "\n\n");
        self.hidden += slide.hidden;
        if slide.shows_layout {
            self.read_layout(package, &related)?;
        }
        for notes in related.of_kind("notesSlide") {
            self.read_shapes(package, &notes.target, Placeholders::Body)?;
        }
        for comments in related.of_kind("comments") {
            let part = &comments.target;
            let xml = package.optional(part)?;
            let mut comments = Comments::default();
            gather(FORMAT, part, &xml, &self.source, self.extracted.content.len(), &mut comments)?;
            self.push(&comments.text, "\n");
        }
        let span = start..self.extracted.content.len();
        self.extracted.pages.push(Page { number, span });
        Ok(())
    }

    /// Reads the text of the layout and of its master, which stand on every slide, once.
    fn read_layout(
        &mut self,
        package: &mut Package<'_>,
        slide: &Relationships,
    ) -> Result<(), ExtractError> {
        for layout in slide.of_kind("slideLayout") {
            if !self.layouts.insert(layout.target.clone()) {
                continue;
            }
            let related = self.read_shapes(package, &layout.target, Placeholders::None)?;
            for master in related.of_kind("slideMaster") {
                if self.layouts.insert(master.target.clone()) {
                    self.read_shapes(package, &master.target, Placeholders::None)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the shapes of another part to the slide; returns the part's relationships.
    fn read_shapes(
        &mut self,
        package: &mut Package<'_>,
        part: &str,
        placeholders: Placeholders,
    ) -> Result<Relationships, ExtractError> {
        let related = package.relationships(part)?;
        let drawn = drawn_texts(FORMAT, package, &related, &self.source)?;
        let mut shapes = Shapes::new(placeholders, &drawn);
        let xml = package.optional(part)?;
        gather(FORMAT, part, &xml, &self.source, self.extracted.content.len(), &mut shapes)?;
        shapes.trim_end();
        self.hidden += shapes.hidden;
        self.push(&shapes.text, "\n");
        Ok(related)
    }

    /// Appends a slide; returns the start of its text.
    fn append(&mut self, slide: &Shapes<'_>, separator: &str) -> usize {
        let start = self.push(&slide.text, separator);
        let headings = slide.titles.iter().map(|heading| Heading {
            span: start + heading.span.start..start + heading.span.end,
            ..heading.clone()
        });
        self.extracted.headings.extend(headings);
        start
    }

    /// Appends a text; returns its start.
    fn push(&mut self, text: &str, separator: &str) -> usize {
        let content = &mut self.extracted.content;
        if !text.is_empty() && !content.is_empty() {
            content.push_str(separator);
        }
        let start = content.len();
        content.push_str(text.trim_end());
        start
    }

    fn finish(mut self) -> Extracted {
        let problems = &mut self.extracted.problems;
        if self.hidden > 0 {
            problems.push(Problem::Hidden { count: self.hidden });
        }
        if self.missing > 0 {
            let reason = format!("{} slides are named, and not there", self.missing);
            problems.push(Problem::Other { reason });
        }
        self.extracted
    }
}

/// Collects the comments of a slide, in both of PowerPoint's forms.
#[derive(Default)]
struct Comments {
    text: String,
    in_text: bool,
}

impl TextElements for Comments {
    fn start(&mut self, element: &BytesStart<'_>) {
        self.in_text = matches!(element.local_name().as_ref(), "text" | "t");
    }

    fn end(&mut self, name: &str) {
        self.in_text = false;
        if matches!(name, "text" | "p") {
            end_line(&mut self.text);
        }
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn push(&mut self, text: &str) {
        let is_new = self.text.is_empty() || self.text.ends_with('\n');
        self.text.push_str(if is_new { "Comment: " } else { "" });
        self.text.push_str(text);
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}

/// Returns the ids of the slides' relations, in the order of the presentation.
fn order(part: &str, xml: &[u8]) -> Result<Vec<String>, ExtractError> {
    let mut ids = Vec::new();
    each_event(FORMAT, part, xml, |event| {
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
