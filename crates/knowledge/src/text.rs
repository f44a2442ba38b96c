//! The text of records.

use marquetry_rag::{
    Caller, ChunkOptions, Extracted, FILE_MEDIA_TYPE, Hint, Note, Record, Stop, extract,
    extraction::unpacked_size, files::restore_structure,
};
use serde_json::Value;

use crate::{
    failure::Failure,
    knowledge::Knowledge,
    vectorize::SIZE,
    work::{DocumentSize, Job, worked},
};

const READING: &str = "reading the document";

impl Knowledge {
    /// Reads the text of a record within the memory that documents may take, after a wait for it.
    /// `reader` must be allowed to read it, if there is one; `chunks` are the options with which
    /// the text is then cut and embedded. The returned database holds the memory for further steps.
    ///
    /// # Errors
    ///
    /// Returns an error if the reader may not read the record, if [`text_of`] returns one, or if
    /// the memory is not free in time.
    pub(crate) async fn document(
        &self,
        record: &Record,
        reader: Option<&Caller>,
        chunks: Option<&ChunkOptions>,
    ) -> Result<(Self, Extracted), Failure> {
        let uri = record.uri().unwrap_or_default();
        let texts = attributes(record).len() as u64;
        let declared = record.attributes.get(SIZE).and_then(Value::as_u64).unwrap_or(0);
        let mut size = DocumentSize { bytes: declared.max(texts), chunks };
        loop {
            let job = self.job.with_memory(size, READING).await?;
            let content = match reader {
                Some(reader) => self.records.content(reader, &uri).await?,
                None => self.records.store().content(&uri).await?,
            };
            size.bytes = content.as_deref().map_or(texts, unpacked_size);
            if job.has_memory(size) {
                let knowledge = Self { job, ..self.clone() };
                let extracted = knowledge.text_of(record, content).await?;
                return Ok((knowledge, extracted));
            }
            // The content is packed, or the attribute says another size. A wait for more memory
            // while some is held might never end, so both are given back first.
        }
    }

    /// Returns the text of a record as [`text_of`] does; for an indexed file, with its pages and
    /// headings.
    ///
    /// # Errors
    ///
    /// Returns an error if [`text_of`] does, or if the database fails.
    pub(crate) async fn text_of(
        &self,
        record: &Record,
        content: Option<Vec<u8>>,
    ) -> Result<Extracted, Failure> {
        let mut extracted = text_of(&self.job, record, content).await?;
        if record.attributes.contains_key(FILE_MEDIA_TYPE)
            && let Some(document) = self.document_of(record).await?
        {
            restore_structure(&document, &mut extracted);
        }
        Ok(extracted)
    }
}

/// Returns the text of a record: extracted from its content, or else taken from its attributes.
///
/// # Errors
///
/// Returns an error if the content is not a document, or if there is no text.
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
    let file_name =
        record.attributes.get("fileName").and_then(Value::as_str).unwrap_or(&record.name);
    let file_name = if is_text_of_file { "" } else { file_name }.to_owned();
    let media_type = record.media_type.clone();
    let limits = job.extract_limits();
    worked(job, READING, move |stop: &Stop| {
        let mut hint = Hint::file(&file_name);
        hint.media_type = media_type.as_deref();
        hint.source_uri = uri.as_deref();
        hint.limits = limits;
        hint.stop = Some(stop);
        Ok(extract(&content, &hint)?)
    })
    .await
}

/// Joins the attributes that contain text.
fn attributes(record: &Record) -> String {
    let texts = ["text", "content", "description", "narrative"]
        .iter()
        .filter_map(|name| record.attributes.get(*name)?.as_str())
        .filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use marquetry_rag::{
        Caller, ContentChange, EmbeddingModel, FileOptions, Indexer, MemoryRecords, MemoryStore,
        Pipeline, RecordPatch, Records, StaticModel, file_record_uri,
    };

    use super::*;

    async fn stored_text(knowledge: &Knowledge, me: &Caller, uri: &str) -> Extracted {
        let record = knowledge.records.get(me, uri).await.unwrap();
        let content = knowledge.records.content(me, uri).await.unwrap();
        knowledge.text_of(&record, content).await.unwrap()
    }

    async fn has_structure(knowledge: &Knowledge, uri: &str) -> bool {
        let document = knowledge.pipeline.store().document(uri).await.unwrap().unwrap();
        document.metadata.contains_key("structure")
    }

    #[tokio::test]
    async fn the_text_of_a_file_keeps_its_pages_and_headings() {
        let store = Arc::new(MemoryStore::new(EmbeddingModel::default()));
        let knowledge = Knowledge {
            records: Records::new(Arc::new(MemoryRecords::new())),
            pipeline: Pipeline::new(store, Arc::new(StaticModel::built_in())).unwrap(),
            organization: "default".to_owned(),
            is_read_only: false,
            job: Job::new(&Default::default(), "local"),
        };
        let me = knowledge.local().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("wine.rtf", r"{\rtf1 Grapes.\page Barrels.}"),
            ("bread.html", "<h1>Bread</h1><p>Flour.</p><h2>Rye</h2>"),
        ];
        let records = Arc::new(knowledge.records.clone());
        let options = FileOptions::default();
        let mut indexer = Indexer::new(knowledge.pipeline.clone(), records, me.clone(), options);
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            indexer.run(&[path.clone().into()], |_| ()).await.unwrap();
            let uri = file_record_uri(&me, path.as_os_str()).unwrap();
            let of_file = extract(text.as_bytes(), &Hint::file(name)).unwrap();
            let found = stored_text(&knowledge, &me, &uri).await;
            assert_eq!(found.pages.len(), of_file.pages.len(), "{name}");
            assert_eq!(
                (&found.content, found.page_count, &found.pages, &found.headings),
                (&of_file.content, of_file.page_count, &of_file.pages, &of_file.headings)
            );

            let mut patch = RecordPatch::new();
            patch.content = ContentChange::Set(b"Another text.".to_vec());
            knowledge.records.update(&me, &uri, patch).await.unwrap();
            let found = stored_text(&knowledge, &me, &uri).await;
            assert!(found.pages.is_empty() && found.headings.is_empty(), "{found:?}");

            assert!(has_structure(&knowledge, &uri).await, "{name}");
            let record = knowledge.records.get(&me, &uri).await.unwrap();
            knowledge.renew(&record).await.unwrap();
            assert!(
                !has_structure(&knowledge, &uri).await,
                "{name} keeps the structure of its former text"
            );
        }
    }
}
