//! Converts records to documents of an index.

use marquetry_index::Document;
use marquetry_records::Record;

/// Returns the document for the chunks of a record, with the record's readers, so that searches
/// find it only for them.
pub fn record_document(record: &Record) -> Document {
    let uri = record.uri().unwrap_or_default();
    let mut document = Document::of_record(uri, &record.kind, &record.object_id);
    document.owner.clone_from(&record.owner);
    document.tags.clone_from(&record.tags);
    document.title = Some(record.name.clone());
    document.name = Some(record.name.clone());
    document.media_type.clone_from(&record.media_type);
    document.readers = record.readable_by();
    document.metadata.insert("organization".to_owned(), record.organization.clone().into());
    if let Some(group) = &record.group {
        document.metadata.insert("group".to_owned(), group.clone().into());
    }
    let revision = Document::RECORD_REVISION.to_owned();
    document.metadata.insert(revision, record.revision.into());
    document
}

/// Returns whether a document belongs to the present revision of this record. Otherwise it may have
/// an earlier text of the record, or the text of an earlier record with the same URI.
///
/// The document of a chat is replaced after each answer, and counts as current until then. A
/// document without a revision is current.
pub fn is_current(document: &Document, record: &Record) -> bool {
    let revision = document
        .metadata
        .get(Document::RECORD_REVISION)
        .filter(|_| document.vector_model != Document::CHAT_HISTORY);
    document.owner == record.owner
        && revision.is_none_or(|revision| revision.as_u64() == Some(record.revision))
}
