//! Reads the zip archive of an office document, and the XML of its parts.

mod content_types;
mod relationships;

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{Cursor, Read as _},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesRef, BytesStart, Event},
};
use zip::{HasZipMetadata as _, ZipArchive, result::ZipError};

use self::relationships::percent_decoded;
pub(crate) use self::{
    content_types::ContentTypes,
    relationships::{Relationships, resolved_path},
};
use crate::{
    ExtractError, Extracted, Limits, Source,
    budget::{Reservation, UNPACKED},
    decode::decode,
};

/// Returns whether the first or last bytes of a file contain a name, as a zip archive contains the
/// names of its files.
pub(crate) fn names(bytes: &[u8], name: &[u8]) -> bool {
    const DIRECTORY: usize = 1 << 16;
    contains(&bytes[bytes.len().saturating_sub(DIRECTORY)..], name)
        || contains(&bytes[..bytes.len().min(DIRECTORY)], name)
}

/// Returns whether this is a package of Office Open XML with a part in a folder. The folder
/// identifies the format; the names of the parts are free (ECMA-376 part 2), and SharePoint uses
/// `word/document2.xml`.
pub(crate) fn is_office_open_xml(bytes: &[u8], folder: &str) -> bool {
    if !bytes.starts_with(b"PK\x03\x04") {
        return false;
    }
    let Ok(archive) = ZipArchive::new(Cursor::new(bytes)) else { return false };
    let mut has_folder = false;
    let mut has_types = false;
    for name in archive.file_names().flatten() {
        let name = normalized(&name);
        has_folder |= name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        has_types |= name == "[content_types].xml";
    }
    has_folder && has_types
}

/// Returns whether this is an archive with a picture. Thumbnails are made from the document.
pub(crate) fn has_pictures(bytes: &[u8]) -> bool {
    const ENDINGS: [&str; 9] =
        [".png", ".jpeg", ".jpg", ".gif", ".tiff", ".bmp", ".emf", ".wmf", ".svg"];
    if !bytes.starts_with(b"PK\x03\x04") {
        return false;
    }
    let Ok(archive) = ZipArchive::new(Cursor::new(bytes)) else { return false };
    archive.file_names().flatten().map(|name| normalized(&name)).any(|name| {
        !name.contains("thumbnail") && ENDINGS.iter().any(|ending| name.ends_with(ending))
    })
}

/// Returns the form of a part's name by which it is found. Names differ in case (ECMA-376 part 2,
/// 6.2.2.3), some programs for Windows write backslashes, and either side may be percent-encoded.
fn normalized(name: &str) -> String {
    percent_decoded(&name.replace('\\', "/")).trim_start_matches('/').to_lowercase()
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

/// Returns whether this is an encrypted document: an OLE file with the package (MS-OFFCRYPTO).
pub(crate) fn is_encrypted(bytes: &[u8]) -> bool {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1") && names(bytes, &name)
}

/// Returns the size of all parts of an archive after unpacking, as it declares them.
pub(crate) fn declared_size(archive: &[u8]) -> Option<u64> {
    let archive = ZipArchive::new(Cursor::new(archive)).ok()?;
    let sizes = (0..archive.len()).map(|index| {
        let part = archive.by_index_data(index).ok()?;
        Some(part.get_metadata().uncompressed_size)
    });
    sizes.flatten().fold(0_u64, u64::saturating_add).into()
}

/// The parts of a document, which are unpacked on request.
pub(crate) struct Package<'a> {
    /// Name of the format in errors.
    format: &'static str,
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// The indices of the parts by their normalized names.
    parts: HashMap<String, usize>,
    source: Source<'a>,
    unpacked: u64,
    /// A reservation of the unpacked size that the archive declares; a package within another one
    /// is covered by the reservation of the outer one.
    _reservation: Option<Reservation>,
}

impl<'a> Package<'a> {
    pub(crate) fn open(format: &'static str, source: &Source<'a>) -> Result<Self, ExtractError> {
        let archive = ZipArchive::new(Cursor::new(source.bytes))
            .map_err(|error| malformed(format, &error))?;
        let mut declared = 0_u64;
        let mut parts = HashMap::new();
        for index in 0..archive.len() {
            let part = archive.by_index_data(index).map_err(|error| malformed(format, &error))?;
            declared = declared.saturating_add(part.get_metadata().uncompressed_size);
            if let Some(Ok(name)) = archive.name_for_index(index) {
                parts.insert(normalized(&name), index);
            }
        }
        let max = source.limits.max_unpacked_bytes;
        // A document within the document is unpacked as well.
        let has_package = parts.keys().any(|name| name.ends_with(".docx"));
        let bytes = if has_package { max } else { declared.min(max) };
        // A reader that holds a reservation must not wait for another one.
        let reservation = match source.depth {
            0 => Some(UNPACKED.reserve(bytes, source.limits, source.stop)?),
            _ => None,
        };
        Ok(Self { format, archive, parts, source: *source, unpacked: 0, _reservation: reservation })
    }

    /// Returns the limits for a document within this one.
    #[cfg(feature = "docx")]
    pub(crate) fn limits_left(&self) -> Limits {
        let limits = self.source.limits;
        let left = limits.max_unpacked_bytes.saturating_sub(self.unpacked);
        Limits { max_unpacked_bytes: left, ..*limits }
    }

    /// Returns the name of the main part: by the package's relationship, else by its content type.
    /// Some programs write neither; their main part has the usual name.
    pub(crate) fn main_part(&mut self, usual: &str) -> Result<String, ExtractError> {
        let package = self.relationships("")?;
        if let Some(main) = package.of_kind("officeDocument").next()
            && self.has(&main.target)
        {
            return Ok(main.target.clone());
        }
        if self.has(usual) {
            return Ok(usual.to_owned());
        }
        let main = ContentTypes::read(self)?.into_main();
        Ok(main.unwrap_or_else(|| usual.to_owned()))
    }

    /// Reads the relationships of a part; those of the package itself have no part's name.
    pub(crate) fn relationships(&mut self, part: &str) -> Result<Relationships, ExtractError> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let separator = if folder.is_empty() { "" } else { "/" };
        let of_part = format!("{folder}{separator}_rels/{name}.rels");
        let xml = self.optional(&of_part)?;
        Relationships::read(self.format, &of_part, folder, &xml)
    }

    /// Returns the normalized names of the parts with this name in any folder, in order.
    pub(crate) fn named(&self, name: &str) -> Vec<String> {
        let ending = format!("/{name}");
        let mut names: Vec<String> =
            self.parts.keys().filter(|part| part.ends_with(&ending)).cloned().collect();
        names.sort();
        names
    }

    fn has(&self, name: &str) -> bool {
        self.parts.contains_key(&normalized(name))
    }

    /// Unpacks a part; returns `None` if it does not exist. Counts the bytes. `zip` refuses a part
    /// that is larger than the archive declares, which is the size for which memory was reserved;
    /// therefore the bytes are never copied to a larger place.
    pub(crate) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, ExtractError> {
        self.source.stop.check()?;
        let exact = self.archive.index_for_name(name);
        let Some(index) = exact.or_else(|| self.parts.get(&normalized(name)).copied()) else {
            return Ok(None);
        };
        let mut part =
            self.archive.by_index(index).map_err(|error| malformed(self.format, &error))?;
        if part.encrypted() {
            return Err(ExtractError::Encrypted);
        }
        /// Maximum bytes that are unpacked between two checks of the time limit.
        const STEP: u64 = 1 << 20;
        let declared = part.size();
        self.source.limits.check_unpacked(self.unpacked.saturating_add(declared))?;
        let mut bytes = Vec::new();
        let capacity = usize::try_from(declared).unwrap_or(usize::MAX);
        bytes
            .try_reserve_exact(capacity)
            .map_err(|error| malformed_part(self.format, name, &error))?;
        while part
            .by_ref()
            .take(STEP)
            .read_to_end(&mut bytes)
            .map_err(|error| malformed_part(self.format, name, &error))?
            > 0
        {
            self.source.stop.check()?;
        }
        self.unpacked += bytes.len() as u64;
        Ok(Some(bytes))
    }

    /// Counts bytes of a part that are kept besides the part, before they are copied.
    #[cfg(feature = "spreadsheet")]
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), ExtractError> {
        self.source.stop.check()?;
        self.unpacked = self.unpacked.saturating_add(bytes as u64);
        self.source.limits.check_unpacked(self.unpacked)
    }

    /// Checks that an OpenDocument document is not encrypted.
    pub(crate) fn check_open_document(&mut self) -> Result<(), ExtractError> {
        const MANIFEST: &str = "META-INF/manifest.xml";
        each_event(self.format, MANIFEST, &self.optional(MANIFEST)?, |event| match event {
            Event::Start(element) | Event::Empty(element)
                if element.local_name().as_ref() == "encryption-data" =>
            {
                Err(ExtractError::Encrypted)
            }
            _ => Ok(()),
        })
    }

    /// Unpacks a part; returns an empty list if it is missing.
    pub(crate) fn optional(&mut self, name: &str) -> Result<Vec<u8>, ExtractError> {
        Ok(self.part(name)?.unwrap_or_default())
    }

    /// Unpacks a part that a valid document must have.
    pub(crate) fn required(&mut self, name: &str) -> Result<Vec<u8>, ExtractError> {
        let format = self.format;
        self.part(name)?
            .ok_or_else(|| ExtractError::Malformed { format, reason: format!("it has no {name}") })
    }
}

fn malformed(format: &'static str, error: &ZipError) -> ExtractError {
    ExtractError::Malformed { format, reason: error.to_string() }
}

fn malformed_part(
    format: &'static str,
    name: &str,
    reason: &dyn std::fmt::Display,
) -> ExtractError {
    ExtractError::Malformed { format, reason: format!("{name}: {reason}") }
}

/// Calls `see` for each event of an XML part.
pub(crate) fn each_event(
    format: &'static str,
    part: &str,
    xml: &[u8],
    mut see: impl FnMut(Event<'_>) -> Result<(), ExtractError>,
) -> Result<(), ExtractError> {
    let xml = text_of(xml);
    let mut reader = Reader::from_str(&xml);
    loop {
        match reader.read_event() {
            Ok(Event::Eof) => return Ok(()),
            Ok(event) => see(event)?,
            Err(error) => {
                let reason = format!("{part}, byte {}: {error}", reader.error_position());
                return Err(ExtractError::Malformed { format, reason });
            }
        }
    }
}

/// Decodes a part. UTF-8 is borrowed, because a copy of the largest part would double the memory.
fn text_of(xml: &[u8]) -> Cow<'_, str> {
    let is_utf_16 = xml.iter().take(2).any(|byte| *byte == 0);
    match std::str::from_utf8(xml) {
        Ok(text) if !is_utf_16 => Cow::Borrowed(text.trim_start_matches('\u{FEFF}')),
        _ => Cow::Owned(decode(xml, None).into_text()),
    }
}

/// Returns the value of an attribute, whatever its namespace prefix.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let mut attributes = attributes.with_checks(false).flatten();
    let attribute = attributes.find(|attribute| attribute.key.local_name().into_inner() == name)?;
    Some(attribute.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
}

/// Returns the text of a character reference, or of one of the five entities of XML.
pub(crate) fn resolved(reference: &BytesRef<'_>) -> Option<String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character.to_string());
    }
    quick_xml::escape::resolve_xml_entity(reference).map(str::to_owned)
}

/// Longest value of the metadata of an office document, in bytes. A longer one is cut.
const MAX_PROPERTY: usize = 64 << 10;

/// Adds text to a property, up to [`MAX_PROPERTY`].
fn push(value: &mut String, text: &str) {
    let text = if value.is_empty() { text.trim_start() } else { text };
    let room = MAX_PROPERTY.saturating_sub(value.len());
    value.push_str(&text[..text.floor_char_boundary(room)]);
}

/// Adds a value to a property. Some documents have several authors and keywords, each in an
/// element.
fn add(values: &mut String, value: &str) {
    if !values.is_empty() {
        push(values, ", ");
    }
    push(values, value);
}

/// Copies the metadata of an office document, whose names are those of Dublin Core.
pub(crate) fn properties(
    format: &'static str,
    part: &str,
    xml: &[u8],
    extracted: &mut Extracted,
) -> Result<(), ExtractError> {
    let mut name = None::<&str>;
    let mut value = String::new();
    let mut nested = 0_usize;
    each_event(format, part, xml, |event| {
        match event {
            // Its text belongs to the element around it.
            Event::Start(_) if name.is_some() => nested += 1,
            Event::Start(element) => {
                value.clear();
                name = match element.local_name().as_ref() {
                    "creator" => Some("author"),
                    "created" | "creation-date" => Some("date"),
                    "description" => Some("description"),
                    "keyword" | "keywords" => Some("keywords"),
                    "language" => Some("language"),
                    "subject" => Some("subject"),
                    "title" => Some("title"),
                    _ => None,
                };
            }
            Event::Text(text) if name.is_some() => push(&mut value, &text),
            Event::CData(text) if name.is_some() => push(&mut value, &text),
            Event::GeneralRef(reference) if name.is_some() => {
                push(&mut value, &resolved(&reference).unwrap_or_default());
            }
            Event::End(_) if nested > 0 => nested -= 1,
            Event::End(_) => {
                let text = value.trim_end();
                match name.take() {
                    Some("title") if !text.is_empty() => {
                        add(extracted.title.get_or_insert_default(), text);
                    }
                    Some(name) if !text.is_empty() => {
                        add(extracted.metadata.entry(name.to_owned()).or_default(), text);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a Word document with one part.
    #[cfg(feature = "docx")]
    fn document(text: &str) -> Vec<u8> {
        use std::io::Write as _;

        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("word/document.xml", zip::write::SimpleFileOptions::default()).unwrap();
        write!(zip, "<document><body><p><r><t>{text}</t></r></p></body></document>").unwrap();
        zip.finish().unwrap().into_inner()
    }

    #[cfg(feature = "docx")]
    #[test]
    fn a_document_waits_while_others_hold_the_memory() {
        use std::{thread, time::Duration};

        use crate::{Hint, Limits, Stop, extract};

        let limits = Limits::default();
        let all = limits.max_unpacked_bytes_at_once;
        let held = UNPACKED.reserve(all, &limits, &Stop::never()).unwrap();
        let waiting = thread::spawn(|| extract(&document("Flour."), &Hint::file("a.docx")));
        thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.join().unwrap().unwrap().content.trim(), "Flour.");
    }

    /// Memory is reserved for the sizes that an archive declares.
    #[cfg(feature = "docx")]
    #[test]
    fn an_archive_that_declares_too_few_bytes_is_refused() {
        use crate::{Hint, extract};

        let mut bytes = document(&"Flour. ".repeat(100));
        let entry = memchr::memmem::rfind(&bytes, b"PK\x01\x02").unwrap();
        // The size of the part, in the archive's directory (APPNOTE 4.3.12).
        bytes[entry + 24..entry + 28].copy_from_slice(&10_u32.to_le_bytes());
        let error = extract(&bytes, &Hint::file("a.docx")).unwrap_err().to_string();
        assert!(error.contains("larger than its declared uncompressed size"), "{error}");
    }

    #[cfg(feature = "docx")]
    fn main_part(
        bytes: &[u8],
        limits: &crate::Limits,
        stop: &crate::Stop,
    ) -> Result<Vec<u8>, ExtractError> {
        let source = Source { bytes, media_type: "", charset: None, limits, stop, depth: 0 };
        Package::open("DOCX", &source)?.required("word/document.xml")
    }

    #[cfg(feature = "docx")]
    #[test]
    fn a_part_is_unpacked_into_its_declared_size() {
        use crate::{Limits, Stop};

        let bytes = document(&"Flour. ".repeat(500_000));
        let stop = Stop::never();
        let mut limits = Limits::default();
        let unpacked = main_part(&bytes, &limits, &stop).unwrap();
        assert_eq!(unpacked.capacity(), unpacked.len());
        limits.max_unpacked_bytes = unpacked.len() as u64;
        main_part(&bytes, &limits, &stop).unwrap();
        limits.max_unpacked_bytes -= 1;
        let error = main_part(&bytes, &limits, &stop).unwrap_err();
        let found = unpacked.len() as u64;
        assert!(matches!(error, ExtractError::Limit { found: it, .. } if it == found), "{error}");
    }

    #[test]
    fn utf_8_is_not_copied() {
        assert!(matches!(text_of(b"<a>\xC3\xBC</a>"), Cow::Borrowed("<a>\u{fc}</a>")));
        assert!(matches!(text_of(b"\xEF\xBB\xBF<a/>"), Cow::Borrowed("<a/>")));
    }

    #[test]
    fn other_encodings_are_decoded() {
        let little: Vec<u8> = "<a>\u{fc}</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let with_mark = [&b"\xFF\xFE"[..], &little].concat();
        assert_eq!(text_of(&with_mark), "<a>\u{fc}</a>");
        assert!(matches!(text_of(&little), Cow::Owned(_)));
    }
}
