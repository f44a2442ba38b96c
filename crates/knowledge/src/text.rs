//! The text of records.

use marquetry_rag::{Extracted, FILE_MEDIA_TYPE, Hint, Note, Record, Stop, extract};
use serde_json::Value;

use crate::{
    failure::Failure,
    work::{Job, worked},
};

/// Returns the text of a record: extracted from its content, or else taken from its attributes.
///
/// # Errors
///
/// The content is not a document, or there is no text.
pub(crate) async fn text_of(
    job: &Job,
    record: &Record,
    content: Option<Vec<u8>>,
) -> Result<Extracted, Failure> {
    let uri = record.uri();
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        let text = attributes(record);
        if text.trim().is_empty() {
            let what = uri.unwrap_or_else(|| record.kind.clone());
            return Err(Failure::invalid(format!(
                "{what} has no content, and no text among its attributes"
            )));
        }
        return Ok(Note { name: Some(record.name.clone()), text, uri }.extract());
    };
    // For an indexed file the extracted text is stored, whatever format its name suggests.
    let is_text_of_file = record.attributes.contains_key(FILE_MEDIA_TYPE);
    let file_name = record.attributes.get("fileName").and_then(Value::as_str);
    let file_name = file_name.unwrap_or(&record.name);
    let file_name = if is_text_of_file { "" } else { file_name }.to_owned();
    let media_type = record.media_type.clone();
    let limits = job.extract_limits();
    let work = move |stop: &Stop| {
        let mut hint = Hint::file(&file_name);
        hint.media_type = media_type.as_deref();
        hint.source_uri = uri.as_deref();
        (hint.limits, hint.stop) = (limits, Some(stop));
        Ok(extract(&content, &hint)?)
    };
    worked(job, "reading the document", work).await
}

/// Joins the attributes that contain text.
fn attributes(record: &Record) -> String {
    let texts = ["text", "content", "description", "narrative"]
        .iter()
        .filter_map(|name| record.attributes.get(*name)?.as_str())
        .filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}
