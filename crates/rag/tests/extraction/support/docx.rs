//! DOCX files of given parts.

use std::io::{Cursor, Write as _};

use zip::{ZipWriter, write::SimpleFileOptions};

/// A package of these parts.
pub(crate) fn package(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let types = "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'/>";
    for (name, content) in [("[Content_Types].xml", types)].iter().chain(parts) {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A document with this body.
pub(crate) fn document(body: &str) -> String {
    let namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    format!(
        "<?xml version='1.0' encoding='UTF-8'?><w:document xmlns:w='{namespace}'><w:body>{body}</w:body></w:document>"
    )
}

/// A package with this body alone.
pub(crate) fn body(body: &str) -> Vec<u8> {
    package(&[("word/document.xml", &document(body))])
}

/// A paragraph of one run.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<w:p><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>")
}
