//! Making records findable by what they say, and keeping what is found true.

use std::num::NonZeroUsize;

use marquetry_rag::{
    ChunkOptions, ContentChange, Document, Extracted, Filter, NewChunk, Record, RecordError,
    RecordPatch, Records, Strategy,
};
use serde_json::{Value, json};

use super::{Access, ErrorCode, Failure, Knowledge, chat, text_of};

/// Under which name it says how it was cut.
const CHUNKING: &str = "chunking";

/// How a text is to be cut, as somebody says it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunking {
    pub(crate) strategy: Option<Strategy>,
    pub(crate) size: Option<i64>,
    pub(crate) overlap: Option<usize>,
    pub(crate) max_tokens: Option<NonZeroUsize>,
}

impl Chunking {
    pub(crate) fn options(&self) -> Result<ChunkOptions, Failure> {
        let size = self.size.unwrap_or(ChunkOptions::default().size.get() as i64);
        let mut options = ChunkOptions::new(self.strategy.unwrap_or_default(), size)?;
        options.overlap = self.overlap.unwrap_or(0);
        options.max_tokens = self.max_tokens;
        Ok(options)
    }
}

impl Knowledge {
    /// Makes a record findable by its text, in the place of what it was found by, and says how many chunks it has.
    pub(crate) async fn vectorize(
        &self,
        record: &Record,
        extracted: Extracted,
        options: ChunkOptions,
    ) -> Result<u64, Failure> {
        let old = self.document_of(record).await?;
        let mut document = self.document_for(record, old);
        document.metadata.insert(CHUNKING.to_owned(), json!(options));
        document.media_type = Some(extracted.mime_type.clone());
        document.content_hash = None;
        // Cutting and embedding may take long, and do so without waiting for anything.
        let pipeline = self.pipeline.clone();
        let runtime = tokio::runtime::Handle::current();
        let work = move || runtime.block_on(pipeline.index(document, &extracted, &options));
        match tokio::task::spawn_blocking(work).await {
            Ok(count) => Ok(count?),
            Err(_) => Err(Failure::new(ErrorCode::Internal, "the text could not be cut")),
        }
    }

    /// The document that a record is found by, if it is.
    pub(crate) async fn document_of(&self, record: &Record) -> Result<Option<Document>, Failure> {
        Ok(self.pipeline.store().document(&record.uri().unwrap_or_default()).await?)
    }

    /// Removes what a record is found by.
    pub(crate) async fn forget(&self, uri: &str) -> Result<u64, Failure> {
        Ok(self.pipeline.store().delete(&Filter::scope(uri)).await?)
    }

    /// Whether a document is made of another state of its record.
    pub(super) fn is_stale(document: &Document, record: &Record) -> bool {
        !Records::is_current(document, record)
    }

    /// Whether a document was left behind already before the last change of its record, so that its chunks may hold
    /// what the record no longer says.
    fn is_older(document: &Document, record: &Record) -> bool {
        let made_of = document.metadata.get(Document::RECORD_REVISION).and_then(Value::as_u64);
        document.vector_model != Document::CHAT_HISTORY
            && made_of.is_some_and(|made_of| made_of.checked_add(1) != Some(record.revision))
    }

    /// Makes the document of a record anew, which another state of the record has left behind: a process that died
    /// between the two, or another that changed the record at the same time.
    pub(super) async fn renew(&self, record: &Record) -> Result<(), Failure> {
        let Some(old) = self.document_of(record).await? else { return Ok(()) };
        let options = old
            .metadata
            .get(CHUNKING)
            .and_then(|chunking| serde_json::from_value::<ChunkOptions>(chunking.clone()).ok());
        let content = self.records.store().content(&record.uri().unwrap_or_default()).await?;
        match text_of(record, content).await {
            Ok(extracted) => {
                self.vectorize(record, extracted, options.unwrap_or_default()).await?;
            }
            // It says nothing any more.
            Err(Failure { code: ErrorCode::InvalidParams, .. }) => {
                self.forget(&old.uri).await?;
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Makes the document of a record say what the record says by now, with the chunks that it has.
    async fn relabel(&self, record: &Record, old: Document) -> Result<(), Failure> {
        let store = self.pipeline.store();
        let chunks = store.chunks(&old.uri).await?;
        let texts: Vec<String> = chunks.iter().map(|chunk| chunk.content.clone()).collect();
        let vectors = self.pipeline.embedder().embed(&texts).await;
        let vectors = vectors.map_err(marquetry_rag::PipelineError::from)?;
        let chunks = chunks.into_iter().zip(vectors).map(|(chunk, vector)| {
            let mut new = NewChunk::of_text(chunk.content, vector);
            (new.span, new.page, new.chapter) = (chunk.span, chunk.page, chunk.chapter);
            new
        });
        store.replace(self.document_for(record, Some(old)), chunks.collect()).await?;
        Ok(())
    }

    /// The document of a record, which keeps what only its maker knows.
    fn document_for(&self, record: &Record, old: Option<Document>) -> Document {
        let mut document = self.records.document(record);
        if let Some(old) = old {
            document.vector_model = old.vector_model;
            document.media_type = old.media_type;
            document.content_hash = old.content_hash;
            // Where a record lies is what the record says.
            for (name, value) in old.metadata.into_iter().filter(|(name, _)| name != "group") {
                document.metadata.entry(name).or_insert(value);
            }
        }
        document
    }
}

impl Access {
    /// Changes a record. What it was found by changes with it: nobody finds an old passage once this is done, and a
    /// search that comes in between leaves the record out.
    pub(crate) async fn update(&self, uri: &str, patch: RecordPatch) -> Result<Record, Failure> {
        let Self { knowledge, caller } = self;
        let has_other_messages = patch.attributes.contains_key("messages");
        let says_other = patch.content != ContentChange::Keep
            || !patch.attributes.is_empty()
            || patch.media_type.is_some();
        let record = knowledge.records.update(caller, uri, patch).await?;
        // What a chat says are its messages.
        let says_other = says_other && (record.kind != chat::CHAT || has_other_messages);
        if let Some(old) = knowledge.document_of(&record).await? {
            if says_other || Knowledge::is_older(&old, &record) {
                knowledge.renew(&record).await?;
            } else {
                knowledge.relabel(&record, old).await?;
            }
        }
        Ok(record)
    }

    /// Removes a record with what it was found by.
    pub(crate) async fn delete(
        &self,
        uri: &str,
        revision: Option<u64>,
    ) -> Result<(Record, u64), Failure> {
        let record = self.knowledge.records.delete(&self.caller, uri, revision).await?;
        let chunks = self.knowledge.forget(&record.uri().unwrap_or_default()).await?;
        Ok((record, chunks))
    }

    /// That the caller may change a record.
    pub(crate) async fn check_writable(&self, record: &Record) -> Result<(), Failure> {
        if self.knowledge.records.may_write(&self.caller, record).await? {
            return Ok(());
        }
        let target = record.uri().unwrap_or_default();
        Err(RecordError::Forbidden { action: "change", target }.into())
    }
}
