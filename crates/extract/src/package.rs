//! The zip archive that an office document is, and the XML of its parts.

use std::{
    borrow::Cow,
    io::{Cursor, Read as _},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesRef, BytesStart, Event},
};
use zip::{ZipArchive, result::ZipError};

use crate::{ExtractError, Extracted, Source, decode::decode};

/// Whether a zip archive names this file, going by its directory, which is at its end.
pub(crate) fn names(bytes: &[u8], name: &[u8]) -> bool {
    const DIRECTORY: usize = 1 << 16;
    let has = |part: &[u8]| part.windows(name.len()).any(|window| window == name);
    has(&bytes[bytes.len().saturating_sub(DIRECTORY)..])
        || has(&bytes[..bytes.len().min(DIRECTORY)])
}

/// Whether this is a document with a password: an OLE file with the package inside (MS-OFFCRYPTO).
pub(crate) fn is_encrypted(bytes: &[u8]) -> bool {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1") && names(bytes, &name)
}

/// The parts of a document, unpacked as they are asked for.
pub(crate) struct Package<'a> {
    /// How errors call the document.
    format: &'static str,
    archive: ZipArchive<Cursor<&'a [u8]>>,
    source: Source<'a>,
    unpacked: u64,
}

impl<'a> Package<'a> {
    pub(crate) fn open(format: &'static str, source: &Source<'a>) -> Result<Self, ExtractError> {
        let archive = ZipArchive::new(Cursor::new(source.bytes))
            .map_err(|error| malformed(format, &error))?;
        Ok(Self { format, archive, source: *source, unpacked: 0 })
    }

    /// A part, if there is one of this name. What is unpacked is counted: the sizes that an archive states are its own.
    pub(crate) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, ExtractError> {
        self.source.stop.check()?;
        let part = match self.archive.by_name(name) {
            Ok(part) => part,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(malformed(self.format, &error)),
        };
        if part.encrypted() {
            return Err(ExtractError::Encrypted);
        }
        let left = self.source.limits.max_unpacked_bytes.saturating_sub(self.unpacked);
        let mut bytes = Vec::new();
        part.take(left.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| {
            ExtractError::Malformed { format: self.format, reason: format!("{name}: {error}") }
        })?;
        self.unpacked += bytes.len() as u64;
        self.source.limits.check_unpacked(self.unpacked)?;
        Ok(Some(bytes))
    }

    /// That a document of OpenDocument has no password.
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

    /// A part; nothing if there is none.
    pub(crate) fn optional(&mut self, name: &str) -> Result<Vec<u8>, ExtractError> {
        Ok(self.part(name)?.unwrap_or_default())
    }

    /// A part without which it is no such document.
    pub(crate) fn required(&mut self, name: &str) -> Result<Vec<u8>, ExtractError> {
        let format = self.format;
        self.part(name)?
            .ok_or_else(|| ExtractError::Malformed { format, reason: format!("it has no {name}") })
    }
}

fn malformed(format: &'static str, error: &ZipError) -> ExtractError {
    ExtractError::Malformed { format, reason: error.to_string() }
}

/// Hands on what a part is made of.
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

/// Decodes a part. UTF-8 is borrowed: a copy of the largest part would double the memory that it takes.
fn text_of(xml: &[u8]) -> Cow<'_, str> {
    let is_utf_16 = xml.iter().take(2).any(|byte| *byte == 0);
    match std::str::from_utf8(xml) {
        Ok(text) if !is_utf_16 => Cow::Borrowed(text.trim_start_matches('\u{FEFF}')),
        _ => Cow::Owned(decode(xml, None).into_text()),
    }
}

/// The value of an attribute, whatever its prefix.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let mut attributes = attributes.with_checks(false).flatten();
    let attribute = attributes.find(|attribute| attribute.key.local_name().into_inner() == name)?;
    Some(attribute.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
}

/// The text of a reference: a character by its number, or one of the five entities of XML.
pub(crate) fn resolved(reference: &BytesRef<'_>) -> Option<String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character.to_string());
    }
    quick_xml::escape::resolve_xml_entity(reference).map(str::to_owned)
}

/// What an office document says of itself, in Dublin Core's words.
pub(crate) fn properties(
    format: &'static str,
    part: &str,
    xml: &[u8],
    extracted: &mut Extracted,
) -> Result<(), ExtractError> {
    let mut name: Option<&str> = None;
    each_event(format, part, xml, |event| {
        match event {
            Event::Start(element) => {
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
            Event::Text(text) => {
                let text = text.trim();
                match name {
                    Some(_) if text.is_empty() => {}
                    Some("title") => extracted.title.get_or_insert_default().push_str(text),
                    Some(name) => {
                        extracted.metadata.entry(name.to_owned()).or_default().push_str(text)
                    }
                    None => {}
                }
            }
            Event::End(_) => name = None,
            _ => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
