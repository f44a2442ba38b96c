//! ODT, ODP and ODG: texts, presentations and drawings of LibreOffice and others (OpenDocument 1.3,
//! part 3).

mod body;
mod lists;

use self::body::Body;
use crate::{
    ExtractError, Extracted, Extractor, Source,
    gather::gather,
    objects::{Objects, objects},
    package::{self, Package, properties},
};

/// Reads OpenDocument texts, presentations and drawings.
pub(crate) struct Odt;

const TEXT: &str = "application/vnd.oasis.opendocument.text";
const TEXT_TEMPLATE: &str = "application/vnd.oasis.opendocument.text-template";
const PRESENTATION: &str = "application/vnd.oasis.opendocument.presentation";
const PRESENTATION_TEMPLATE: &str = "application/vnd.oasis.opendocument.presentation-template";
const DRAWING: &str = "application/vnd.oasis.opendocument.graphics";
const FLAT_TEXT: &str = "application/vnd.oasis.opendocument.text-flat-xml";
const FLAT_PRESENTATION: &str = "application/vnd.oasis.opendocument.presentation-flat-xml";

/// Name of the format in errors.
const FORMAT: &str = "ODT";

impl Extractor for Odt {
    fn media_types(&self) -> &[&str] {
        &[
            TEXT,
            TEXT_TEMPLATE,
            PRESENTATION,
            PRESENTATION_TEMPLATE,
            DRAWING,
            FLAT_TEXT,
            FLAT_PRESENTATION,
        ]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("odt", TEXT),
            ("ott", TEXT_TEMPLATE),
            ("odp", PRESENTATION),
            ("otp", PRESENTATION_TEMPLATE),
            ("odg", DRAWING),
            ("fodt", FLAT_TEXT),
            ("fodp", FLAT_PRESENTATION),
        ]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        if !bytes.starts_with(b"PK\x03\x04") {
            return None;
        }
        // The first part of the archive is the media type, without compression.
        let start = &bytes[..bytes.len().min(200)];
        [TEXT, PRESENTATION, DRAWING]
            .into_iter()
            .find(|media_type| package::names(start, media_type.as_bytes()))
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        if matches!(source.media_type, FLAT_TEXT | FLAT_PRESENTATION)
            && !source.bytes.starts_with(b"PK")
        {
            let objects = Objects::new();
            let mut body = Body::new(&objects);
            gather(FORMAT, "the document", source.bytes, source, 0, &mut body)?;
            let mut extracted = body.finish();
            properties(FORMAT, "the document", source.bytes, &mut extracted)?;
            return Ok(extracted);
        }
        let mut package = Package::open(FORMAT, source)?;
        package.check_open_document()?;
        let content = package.required("content.xml")?;
        let objects = objects(&mut package, source)?;
        let mut body = Body::new(&objects);
        gather(FORMAT, "styles.xml", &package.optional("styles.xml")?, source, 0, &mut body)?;
        gather(FORMAT, "content.xml", &content, source, 0, &mut body)?;
        let mut extracted = body.finish();
        source.limits.check_pages(extracted.pages.len())?;
        const META: &str = "meta.xml";
        properties(FORMAT, META, &package.optional(META)?, &mut extracted)?;
        Ok(extracted)
    }
}
