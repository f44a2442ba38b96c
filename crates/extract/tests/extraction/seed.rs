//! The tests of seed 003 under their ids.

use marquetry_extract::{Hint, Note};

use super::extract;

/// seed: 003/DocumentUtilExtractionTest.testExtractFromTextData
#[test]
fn plain_text_is_itself() {
    assert_eq!(extract("Hello world", &Hint::media_type("text/plain")).content, "Hello world");
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromJsonData
#[test]
fn json_keeps_its_keys() {
    let extracted = extract(r#"{"key": "value"}"#, &Hint::media_type("application/json"));
    assert_eq!(extracted.content, "key: value\n");
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromNoteWithTextField
#[test]
fn a_note_is_its_text() {
    let note: Note = serde_json::from_str(r#"{"text": "Note content here."}"#).unwrap();
    assert_eq!(note.extract().content, "Note content here.");
}

/// The null record itself is tested where JSON arrives:
/// `tests/scenarios/knowledge/extract_from_null.yaml`.
#[test]
fn a_note_whose_text_is_null_or_absent_has_no_text() {
    for json in [r#"{"name": "Empty", "text": null}"#, r#"{"name": "Empty"}"#] {
        let note: Note = serde_json::from_str(json).unwrap();
        let extracted = note.extract();
        assert_eq!((&*extracted.content, extracted.character_count), ("", 0), "{json}");
        assert_eq!(extracted.title.as_deref(), Some("Empty"), "{json}");
    }
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromEmptyDataReturnsEmpty
#[test]
fn an_empty_document_is_an_empty_text() {
    let extracted = extract("", &Hint::media_type("text/plain"));
    assert_eq!((extracted.content.as_str(), extracted.character_count), ("", 0));
    for media_type in
        ["text/html", "text/markdown", "application/json", "text/xml", "text/csv", "text/x-rust"]
    {
        assert_eq!(extract("", &Hint::media_type(media_type)).content, "", "{media_type}");
    }
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromXmlData
#[test]
fn xml_keeps_its_text() {
    let extracted = extract("<root><item>value</item></root>", &Hint::media_type("text/xml"));
    assert_eq!(extracted.content, "item: value\n");
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromJavascriptData
#[test]
fn source_code_is_itself() {
    let code = "function test() { return 1; }";
    assert_eq!(extract(code, &Hint::media_type("application/x-javascript")).content, code);
}

/// seed: 003/DocumentUtilExtractionTest.testStructuredExtractionIncludesMetadata
#[test]
fn metadata_of_a_document_is_returned() {
    let hint = Hint {
        source_uri: Some("am7://default/data.data/doc-1"),
        ..Hint::media_type("text/plain")
    };
    let extracted = extract("Test content ü", &hint);
    assert_eq!(extracted.content, "Test content ü");
    assert_eq!(extracted.mime_type, "text/plain");
    assert_eq!(extracted.source_uri.as_deref(), Some("am7://default/data.data/doc-1"));
    assert_eq!(extracted.character_count, 14);
    assert_eq!(extracted.encoding.as_deref(), Some("UTF-8"));
    let json = serde_json::to_value(&extracted).unwrap();
    assert_eq!(json["mimeType"], "text/plain");
    assert_eq!(serde_json::from_value::<marquetry_extract::Extracted>(json).unwrap(), extracted);
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromPdfBytes
#[cfg(feature = "pdf")]
#[test]
fn a_pdf_is_its_text() {
    let document = super::support::pdf::pages(&[&["Hello world"]]);
    assert_eq!(extract(document, &Hint::default()).content, "Hello world");
}

/// seed: 003/DocumentUtilExtractionTest.testStructuredExtractionPdfPageCount
#[cfg(feature = "pdf")]
#[test]
fn the_pages_of_a_pdf_are_counted() {
    let document = super::support::pdf::pages(&[&["One"], &["Two"], &["Three"]]);
    let extracted = extract(document, &Hint::media_type("application/pdf"));
    assert_eq!(extracted.page_count, Some(3));
    assert_eq!(extracted.mime_type, "application/pdf");
}

/// seed: 003/DocumentUtilExtractionTest.testExtractFromWordDocument
#[cfg(feature = "docx")]
#[test]
fn a_word_document_is_its_text() {
    use super::support::docx::{body, paragraph};

    let document = body(&paragraph("Hello world"));
    assert_eq!(extract(document, &Hint::default()).content.trim_end(), "Hello world");
}
