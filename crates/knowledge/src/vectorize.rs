//! Makes records searchable by their text, and keeps the index up to date.

use std::{num::NonZeroUsize, sync::Arc};

use marquetry_context_blocks::Am7Uri;
use marquetry_rag::{
    ChunkError, ChunkOptions, ContentChange, Document, Extracted, Filter, NewChunk, NewRecord,
    PipelineError, Record, RecordError, RecordPatch, Stop, Strategy, files::remove_stale_structure,
    is_current, record_document,
};
use serde_json::{Value, json};

use crate::{
    access::Access,
    failure::{ErrorCode, Failure},
    kinds::{CHAT, DATA, NOTE},
    knowledge::Knowledge,
    work::embedded,
};

/// The document's metadata key for its chunking options.
const CHUNKING: &str = "chunking";

/// Name of the step in errors about its time limit.
const EMBEDDING: &str = "cutting and embedding the text";

/// Chunking options in arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunking {
    pub(crate) strategy: Option<Strategy>,
    pub(crate) size: Option<i64>,
    pub(crate) overlap: Option<usize>,
    pub(crate) max_tokens: Option<NonZeroUsize>,
}

impl Chunking {
    /// Returns the options of the cutter. No passage has more than `max_bytes` bytes.
    pub(crate) fn options(&self, max_bytes: NonZeroUsize) -> Result<ChunkOptions, Failure> {
        let size = self.size.unwrap_or(ChunkOptions::default().size.get() as i64);
        let mut options = ChunkOptions::new(self.strategy.unwrap_or_default(), size)?;
        options.overlap = self.overlap.unwrap_or(0);
        options.max_bytes = max_bytes;
        // The same as for `marquetry index`, so that both give a document the same chunks.
        options.max_tokens = Some(self.max_tokens.unwrap_or(ChunkOptions::USUAL_TOKENS));
        Ok(options)
    }
}

impl Access {
    /// Reads the text of a record that the caller may read, as [`Knowledge::document`] does.
    pub(crate) async fn document(
        &self,
        record: &Record,
        chunks: Option<&ChunkOptions>,
    ) -> Result<(Knowledge, Extracted), Failure> {
        self.knowledge.document(record, Some(&self.caller), chunks).await
    }

    /// Makes a record searchable: cuts its text into passages, embeds them, and stores them in
    /// place of its earlier ones. Returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not read the record, if it has no text, or if the work
    /// exceeds its limits.
    pub async fn vectorize(&self, record: &Record, options: ChunkOptions) -> Result<u64, Failure> {
        let (knowledge, extracted) = self.document(record, Some(&options)).await?;
        knowledge.vectorize(record, extracted, options).await
    }
}

impl Knowledge {
    /// Indexes the text of a record in place of its earlier chunks, and returns the number of
    /// chunks.
    pub(crate) async fn vectorize(
        &self,
        record: &Record,
        extracted: Extracted,
        options: ChunkOptions,
    ) -> Result<u64, Failure> {
        let old = self.document_of(record).await?;
        let mut document = self.document_for(record, old);
        document.title = extracted.title.clone().or_else(|| Some(record.name.clone()));
        document.metadata.insert(CHUNKING.to_owned(), json!(options));
        document.media_type = Some(extracted.mime_type.clone());
        document.content_hash = None;
        remove_stale_structure(&mut document, &extracted.content);
        let extracted = Arc::new(extracted);
        let chunks = embedded(&self.job, EMBEDDING, async |stop: Stop| {
            self.cut_and_embed(&document, extracted, &options, &stop).await
        })
        .await?;
        self.store_passages(document, chunks).await
    }

    /// Returns the passages of a text with their vectors. Too many passages are not embedded.
    async fn cut_and_embed(
        &self,
        document: &Document,
        extracted: Arc<Extracted>,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<NewChunk>, Failure> {
        let passages = self.pipeline.cut_until(extracted, options, stop).await?;
        self.check_passages(document, passages.len()).await?;
        Ok(self.pipeline.with_vectors(document, true, passages).await?)
    }

    /// Returns the document of a record, if it is indexed.
    pub(crate) async fn document_of(&self, record: &Record) -> Result<Option<Document>, Failure> {
        Ok(self.pipeline.store().document(&record.uri().unwrap_or_default()).await?)
    }

    /// Removes a record from the index.
    pub(crate) async fn remove_from_index(&self, uri: &str) -> Result<u64, Failure> {
        Ok(self.pipeline.store().delete(&Filter::scope(uri)).await?)
    }

    /// Returns whether a document belongs to another state of its record.
    pub(crate) fn is_stale(document: &Document, record: &Record) -> bool {
        !is_current(document, record)
    }

    /// Returns whether a document was out of date before the last change of its record. Its chunks
    /// may then contain text that the record had earlier.
    fn is_older(document: &Document, record: &Record) -> bool {
        let made_of = document.metadata.get(Document::RECORD_REVISION).and_then(Value::as_u64);
        document.vector_model != Document::CHAT_HISTORY
            && made_of.is_some_and(|made_of| made_of.checked_add(1) != Some(record.revision))
    }

    /// Updates the index after a change of a record.
    async fn follow(&self, record: &Record, says_other: bool) -> Result<(), Failure> {
        match self.document_of(record).await? {
            None => Ok(()),
            Some(old) if says_other || Self::is_older(&old, record) => self.renew(record).await,
            Some(old) => self.relabel(record, old).await,
        }
    }

    /// Updates an outdated document of a record. It is outdated if a process died between the two
    /// writes, or if another process changed the record at the same time.
    pub(crate) async fn renew(&self, record: &Record) -> Result<(), Failure> {
        let Some(old) = self.document_of(record).await? else { return Ok(()) };
        let options = old
            .metadata
            .get(CHUNKING)
            .and_then(|chunking| serde_json::from_value::<ChunkOptions>(chunking.clone()).ok());
        let options = self.bounded(options.unwrap_or_default());
        match self.document(record, None, Some(&options)).await {
            Ok((knowledge, extracted)) => knowledge.recut(record, extracted, options).await,
            // The record has no text any more.
            Err(Failure { code: ErrorCode::InvalidParams, .. }) => {
                self.remove_from_index(&old.uri).await?;
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the options within the present limits: a text may have been cut with other settings.
    fn bounded(&self, mut options: ChunkOptions) -> ChunkOptions {
        options.max_bytes = options.max_bytes.min(self.job.max_passage_bytes());
        options.max_tokens.get_or_insert(ChunkOptions::USUAL_TOKENS);
        options
    }

    /// Cuts the present text of a record, and replaces its chunks. If the chunks are the same, they
    /// keep what only the indexer knows: pages, chapters and the hash of the file.
    async fn recut(
        &self,
        record: &Record,
        extracted: Extracted,
        options: ChunkOptions,
    ) -> Result<(), Failure> {
        let media_type = extracted.mime_type.clone();
        let uri = record.uri().unwrap_or_default();
        let Some(before) = self.document_of(record).await? else { return Ok(()) };
        let mut named = self.document_for(record, Some(before));
        named.title = extracted.title.clone().or_else(|| Some(record.name.clone()));
        let extracted = Arc::new(extracted);
        let (mut chunks, options) = embedded(&self.job, EMBEDDING, async |stop: Stop| {
            match self.pipeline.cut_until(extracted.clone(), &options, &stop).await {
                Err(PipelineError::Chunk(
                    problem @ (ChunkError::Time(_) | ChunkError::Stopped),
                )) => Err(problem.into()),
                // Options that fitted the old text may not fit the new one.
                Err(PipelineError::Chunk(problem)) => {
                    tracing::debug!(uri, %problem, "cutting a text with the default options");
                    let options = self.bounded(ChunkOptions::default());
                    let text = extracted.clone();
                    Ok((self.cut_and_embed(&named, text, &options, &stop).await?, options))
                }
                cut => {
                    let passages = cut?;
                    self.check_passages(&named, passages.len()).await?;
                    Ok((self.pipeline.with_vectors(&named, true, passages).await?, options))
                }
            }
        })
        .await?;
        // Another process may have done this with more knowledge: `index` has the file.
        let Some(old) = self.document_of(record).await? else { return Ok(()) };
        if !Self::is_stale(&old, record) {
            return Ok(());
        }
        let store = self.pipeline.store();
        let kept = store.embedded(&old.uri).await?;
        let says_same = kept.len() == chunks.len()
            && kept.iter().zip(&chunks).all(|(old, new)| old.content == new.content);
        let mut document = self.document_for(record, Some(old));
        if says_same {
            let vectors = chunks.into_iter().map(|chunk| chunk.vector);
            chunks = kept;
            for (chunk, vector) in chunks.iter_mut().zip(vectors) {
                chunk.vector = vector;
            }
        } else {
            document.title = named.title;
            document.metadata.insert(CHUNKING.to_owned(), json!(options));
            document.media_type = Some(media_type);
            document.content_hash = None;
        }
        remove_stale_structure(&mut document, &extracted.content);
        self.store_passages(document, chunks).await?;
        Ok(())
    }

    /// Updates the document's metadata from its record, and keeps its chunks.
    async fn relabel(&self, record: &Record, old: Document) -> Result<(), Failure> {
        let title = old.title.clone();
        let name = old.name.clone();
        let metadata = old.metadata.clone();
        let document = self.document_for(record, Some(old));
        // New vectors are needed only if one of these changes.
        if document.title == title && document.name == name && document.metadata == metadata {
            self.pipeline.relabel(document).await?;
        } else {
            embedded(&self.job, "embedding the passages under their new names", async |_: Stop| {
                Ok(self.pipeline.relabel(document).await?)
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the document for a record, with what only the indexer knows.
    fn document_for(&self, record: &Record, old: Option<Document>) -> Document {
        let mut document = record_document(record);
        if let Some(old) = old {
            document.vector_model = old.vector_model;
            document.media_type = old.media_type;
            document.content_hash = old.content_hash;
            // A title from the text; a title that equals the name was taken from the record.
            if old.title.is_some() && old.title != old.name {
                document.title = old.title;
            }
            // The record decides about its group.
            for (name, value) in old.metadata.into_iter().filter(|(name, _)| name != "group") {
                document.metadata.entry(name).or_insert(value);
            }
        }
        document
    }
}

/// Attribute of a `data.data` record with the size of its content in bytes.
pub(crate) const SIZE: &str = "size";

impl Access {
    /// Creates a record. A `data.data` record gets the size of its content as attribute `size`.
    ///
    /// # Errors
    ///
    /// Returns an error if the record is invalid, or cannot be stored.
    pub async fn create(&self, mut new: NewRecord) -> Result<Record, Failure> {
        if let (Some(content), DATA) = (&new.content, &*new.kind) {
            new.attributes.entry(SIZE).or_insert(content.len().into());
        }
        Ok(self.knowledge.records.create(&self.caller, new).await?)
    }

    /// Sets the text of a record: an attribute of a note, the content of other types.
    pub(crate) fn with_text(patch: &mut RecordPatch, record: &Record, text: String) {
        if record.kind == NOTE {
            patch.attributes.insert("text".to_owned(), text.into());
            return;
        }
        // Content that was binary is text from now on.
        if patch.media_type.is_none() && (record.is_media() || record.media_type.is_none()) {
            patch.media_type = Some(Some("text/plain".to_owned()));
        }
        patch.content = ContentChange::Set(text.into_bytes());
    }

    /// Changes a record without updating the index. Searches leave the record out until the index
    /// is updated.
    pub(crate) async fn change(&self, uri: &str, patch: RecordPatch) -> Result<Record, Failure> {
        Ok(self.knowledge.records.update(&self.caller, uri, sized(uri, patch)).await?)
    }

    /// Changes a record and renews its passages. A search in between leaves the record out.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be changed; or if it was changed but its passages
    /// could not be renewed, which the message then says.
    pub async fn update(&self, uri: &str, patch: RecordPatch) -> Result<Record, Failure> {
        let has_other_messages = patch.attributes.contains_key("messages");
        let says_other = patch.content != ContentChange::Keep
            || !patch.attributes.is_empty()
            || patch.media_type.is_some();
        let record = self.change(uri, patch).await?;
        // The text of a chat is its messages.
        let says_other = says_other && (record.kind != CHAT || has_other_messages);
        match self.knowledge.follow(&record, says_other).await {
            Ok(()) => Ok(record),
            Err(failure) => Err(failure.after(&format!(
                "{} is changed (revision {}), but its passages are not updated; the next search that would find it tries again",
                record.uri().unwrap_or_default(),
                record.revision
            ))),
        }
    }

    /// Removes a record with its passages, and returns it with their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be removed; or if it was removed but its passages were
    /// not, which the message then says.
    pub async fn delete(&self, uri: &str, revision: Option<u64>) -> Result<(Record, u64), Failure> {
        let record = self.knowledge.records.delete(&self.caller, uri, revision).await?;
        let uri = record.uri().unwrap_or_default();
        match self.knowledge.remove_from_index(&uri).await {
            Ok(chunks) => Ok((record, chunks)),
            Err(failure) => Err(failure.after(&format!(
                "{uri} is removed, but its passages are still stored; searches leave them out"
            ))),
        }
    }

    /// Checks that the caller may change a record.
    pub(crate) async fn check_writable(&self, record: &Record) -> Result<(), Failure> {
        if self.knowledge.records.may_write(&self.caller, record).await? {
            return Ok(());
        }
        let target = record.uri().unwrap_or_default();
        Err(RecordError::Forbidden { action: "change", target }.into())
    }
}

/// Adds the size of a new content to a change, if the type has one.
fn sized(uri: &str, mut patch: RecordPatch) -> RecordPatch {
    let is_data = Am7Uri::parse(uri).is_ok_and(|uri| uri.object_type() == Some(DATA));
    if is_data && !patch.attributes.contains_key(SIZE) {
        let size = match &patch.content {
            ContentChange::Set(content) => Some(content.len().into()),
            ContentChange::Remove => Some(Value::Null),
            ContentChange::Keep => None,
        };
        patch.attributes.extend(size.map(|size| (SIZE.to_owned(), size)));
    }
    patch
}
