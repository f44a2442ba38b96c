//! DOCX (Office Open XML, ECMA-376): headers, paragraphs, headings, tables, drawings, notes and
//! comments, with the pages that Word has stored.

mod alternative;
mod body;
mod numbering;
mod sections;
mod styles;

use quick_xml::events::Event;

use self::{body::Body, numbering::Numbering, styles::Styles};
use crate::{
    ExtractError, Extracted, Extractor, Page, Source,
    package::{self, Package, Relationships, each_event, properties},
};

/// Reads documents of Word.
pub(crate) struct Docx;

const MEDIA_TYPE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
const WITH_MACROS: &str = "application/vnd.ms-word.document.macroenabled.12";
const TEMPLATE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.template";

/// Name of the format in errors.
const FORMAT: &str = "DOCX";

impl Extractor for Docx {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, WITH_MACROS, TEMPLATE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("docx", MEDIA_TYPE),
            ("docm", WITH_MACROS),
            ("dotx", TEMPLATE),
            ("dotm", "application/vnd.ms-word.template.macroenabled.12"),
        ]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        let is_document = package::is_office_open_xml(bytes, "word");
        (is_document || package::is_encrypted(bytes)).then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        if package::is_encrypted(source.bytes) {
            return Err(ExtractError::Encrypted);
        }
        let mut package = Package::open(FORMAT, source)?;
        let main = package.main_part("word/document.xml")?;
        let document = package.required(&main)?;
        let parts = DocumentParts::new(&mut package, &main)?;
        let styles = Styles::read(&parts.styles, &package.optional(&parts.styles)?)?;
        let numbering = Numbering::read(&parts.numbering, &package.optional(&parts.numbering)?)?;
        let mut body = Body::new(&styles, numbering, *source);
        body.read(&mut package, &main, &document)?;
        drop(document);
        let pages_end = body.text_len();
        for notes in &parts.notes {
            let xml = package.optional(notes)?;
            body.read(&mut package, notes, &xml)?;
        }
        body.read_headers_and_footers(&mut package, &parts.related)?;
        let breaks = body.breaks();
        source.limits.check_pages(breaks.len() + 1)?;

        const CORE: &str = "docProps/core.xml";
        let mut extracted = body.finish();
        properties(FORMAT, CORE, &package.optional(CORE)?, &mut extracted)?;
        let pages = page_count(&package.optional("docProps/app.xml")?)?;
        if !breaks.is_empty() || pages == Some(1) {
            // The page of endnotes is not known; they are added to the last page.
            let length = pages_end.max(extracted.content.len());
            let starts = std::iter::once(0).chain(breaks.iter().copied());
            let ends = breaks.iter().copied().chain([length]);
            let spans = starts.zip(ends).map(|(start, end)| start..end);
            extracted.pages =
                (1..).zip(spans).map(|(number, span)| Page { number, span }).collect();
        }
        // The stored count may come from a template, and be older than the pages.
        let seen = u32::try_from(extracted.pages.len()).ok().filter(|pages| *pages > 0);
        extracted.page_count = pages.max(seen);
        Ok(extracted)
    }
}

/// The parts of a document beside its main part. The relationships name them; without one, a part
/// has its usual name.
struct DocumentParts {
    related: Relationships,
    styles: String,
    numbering: String,
    notes: [String; 3],
}

impl DocumentParts {
    fn new(package: &mut Package<'_>, main: &str) -> Result<Self, ExtractError> {
        let related = package.relationships(main)?;
        let folder = main.rfind('/').map_or("", |end| &main[..=end]);
        let [styles, numbering, footnotes, endnotes, comments] =
            ["styles", "numbering", "footnotes", "endnotes", "comments"].map(|kind| match related
                .of_kind(kind)
                .next()
            {
                Some(part) => part.target.clone(),
                None => format!("{folder}{kind}.xml"),
            });
        Ok(Self { related, styles, numbering, notes: [footnotes, endnotes, comments] })
    }
}

/// Returns the level of an outline level, which counts from 0; 9 is body text (ECMA-376 part 1,
/// 17.3.1.20).
fn outline_level(value: Option<String>) -> Option<u8> {
    value?.parse::<u8>().ok().filter(|level| *level < 9).map(|level| level + 1)
}

/// Returns whether a property is on, which needs no value (ECMA-376 part 1, 17.17.4).
fn is_on(value: Option<&str>) -> bool {
    !matches!(value, Some("0" | "false" | "off"))
}

/// Returns the number of pages that the writing program has stored.
fn page_count(app: &[u8]) -> Result<Option<u32>, ExtractError> {
    let mut pages = None;
    let mut in_pages = false;
    each_event(FORMAT, "docProps/app.xml", app, |event| {
        match event {
            Event::Start(element) => in_pages = element.local_name().as_ref() == "Pages",
            Event::Text(text) if in_pages => {
                pages = text.trim().parse().ok().filter(|pages| *pages > 0);
            }
            _ => in_pages = false,
        }
        Ok(())
    })?;
    Ok(pages)
}
