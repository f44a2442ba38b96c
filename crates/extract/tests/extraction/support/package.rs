//! The zip archives that office documents are.

use std::io::{Cursor, Write as _};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// A package of these parts.
pub(crate) fn package(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let types = "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'/>";
    let has_types = parts.iter().any(|(name, _)| name.eq_ignore_ascii_case("[Content_Types].xml"));
    let types = [("[Content_Types].xml", types)];
    let types = if has_types { &[][..] } else { &types };
    for (name, content) in types.iter().chain(parts) {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A package of OpenDocument, whose first part is its media type, as it stands.
pub(crate) fn open_document(media_type: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    zip.start_file("mimetype", stored).unwrap();
    zip.write_all(media_type.as_bytes()).unwrap();
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
