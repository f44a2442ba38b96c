//! DOCX (Office Open XML, ECMA-376): paragraphs, headings, tables and notes, with the pages that
//! Word has stored.

mod body;

use std::collections::HashMap;

use quick_xml::events::Event;

use self::body::Body;
use crate::{
    ExtractError, Extracted, Extractor, Page, Source,
    gather::TextElements as _,
    package::{self, Package, attribute, each_event, properties},
};

/// Reads documents of Word.
pub(crate) struct Docx;

const MEDIA_TYPE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// Name of the format in errors.
const FORMAT: &str = "DOCX";

impl Extractor for Docx {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE, "application/vnd.ms-word.document.macroenabled.12"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("docx", MEDIA_TYPE), ("docm", "application/vnd.ms-word.document.macroenabled.12")]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        let is_document =
            bytes.starts_with(b"PK\x03\x04") && package::names(bytes, b"word/document.xml");
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
        let document = package.required("word/document.xml")?;
        let levels = heading_levels(&package.optional("word/styles.xml")?)?;
        let mut body = Body::new(&levels, *source);
        body.read("word/document.xml", &document)?;
        drop(document);
        let breaks = body.breaks();
        let length = body.len();
        for notes in ["word/footnotes.xml", "word/endnotes.xml"] {
            body.read(notes, &package.optional(notes)?)?;
        }
        source.limits.check_pages(breaks.len() + 1)?;

        const CORE: &str = "docProps/core.xml";
        let mut extracted = body.finish();
        properties(FORMAT, CORE, &package.optional(CORE)?, &mut extracted)?;
        let pages = page_count(&package.optional("docProps/app.xml")?)?;
        if !breaks.is_empty() || pages == Some(1) {
            // The page of endnotes is not known; they are added to the last page.
            let length = length.max(extracted.content.len());
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

/// Returns the levels of heading styles by their ids. Word translates the ids of styles, but not
/// their names.
fn heading_levels(styles: &[u8]) -> Result<HashMap<String, u8>, ExtractError> {
    let mut levels = HashMap::new();
    let mut style = String::new();
    each_event(FORMAT, "word/styles.xml", styles, |event| {
        let (Event::Start(element) | Event::Empty(element)) = event else { return Ok(()) };
        match element.local_name().as_ref() {
            "style" => style = attribute(&element, "styleId").unwrap_or_default(),
            "name" => {
                let name = attribute(&element, "val").unwrap_or_default().to_ascii_lowercase();
                let level = match name.strip_prefix("heading ") {
                    Some(level) => level.parse().ok().filter(|level| (1..=9).contains(level)),
                    None => (name == "title").then_some(1),
                };
                levels.extend(level.map(|level| (style.clone(), level)));
            }
            "outlineLvl" => {
                levels.extend(
                    outline_level(attribute(&element, "val")).map(|level| (style.clone(), level)),
                );
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(levels)
}

/// Returns the level of an outline level, which counts from 0; 9 is body text (ECMA-376 part 1,
/// 17.3.1.20).
fn outline_level(value: Option<String>) -> Option<u8> {
    value?.parse::<u8>().ok().filter(|level| *level < 9).map(|level| level + 1)
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
