//! DOCX files of given parts.

pub(crate) use super::package::package;

/// A document with this body.
pub(crate) fn document(body: &str) -> String {
    let namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    format!(
        "<?xml version='1.0' encoding='UTF-8'?><w:document xmlns:w='{namespace}'><w:body>{body}</w:body></w:document>"
    )
}

/// A package with only this body.
pub(crate) fn body(body: &str) -> Vec<u8> {
    package(&[("word/document.xml", &document(body))])
}

/// A paragraph of one run.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<w:p><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>")
}
