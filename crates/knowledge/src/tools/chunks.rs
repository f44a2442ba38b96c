//! Previews of passages.

use std::{num::NonZeroUsize, sync::Arc};

use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{
    Chunk, ChunkOptions, Embedder, Extracted, Hint, StaticModel, Stop, Strategy,
    chunk_extracted_until, extract,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Answer, CHUNK, KnowledgeTools, size::AnswerSize, vectorize::ChunkType};
use crate::{
    failure::Failure,
    vectorize::Chunking,
    work::{DocumentSize, Job, worked},
};

/// Arguments of `am7_chunk_content`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChunkArguments {
    uri: Option<String>,
    /// A text, instead of uri.
    #[serde(default, deserialize_with = "text_or_null")]
    #[schemars(with = "Option<String>")]
    content: Option<Option<String>>,
    /// "SENTENCE" by default. "UNKNOWN" keeps the text in one piece.
    chunk_type: Option<ChunkType>,
    /// Sentences or words in a passage, 5 by default.
    chunk_size: Option<i64>,
    overlap: Option<usize>,
    /// 512 by default.
    max_tokens: Option<NonZeroUsize>,
    /// If false, makes the record searchable by these passages.
    #[serde(default)]
    preview: bool,
    /// The nextIndex of an earlier answer.
    #[serde(default)]
    from: usize,
    /// By default as many as 2,000 tokens hold.
    limit: Option<NonZeroUsize>,
}

/// Answer of `am7_chunk_content`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Chunked {
    /// The passages, in order.
    chunks: Vec<ChunkView>,
    /// Number of passages.
    total_chunks: usize,
    /// Pass it as from, with preview, to see more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_index: Option<usize>,
    /// Unit of the passages.
    chunk_type: ChunkType,
    /// Maximum units in a passage: the chunkSize that was used.
    chunk_size: usize,
    /// Says if another chunkSize was used than the given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Whether searches find them now.
    stored: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ChunkView {
    /// Index, from 0.
    index: usize,
    /// Text.
    content: String,
    metadata: ChunkMetadata,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChunkMetadata {
    /// Number of its chapter, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    chapter: Option<usize>,
    /// Title of its chapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    chapter_title: Option<String>,
    /// Page on which it begins, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    /// Number of sentences; 0 if it is made of words.
    sentence_count: usize,
    /// Number of words.
    word_count: usize,
    /// Start in the text, in bytes.
    start: usize,
    /// End in the text, in bytes.
    end: usize,
    /// URI of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_uri: Option<String>,
}

impl KnowledgeTools {
    pub(super) fn add_chunks(&self, toolbox: Toolbox) -> Toolbox {
        self.add(toolbox, (CHUNK, DESCRIPTION), |tools, arguments, cx| async move {
            Answer(tools.chunk(arguments, &cx).await)
        })
    }

    async fn chunk(
        &self,
        arguments: ChunkArguments,
        cx: &RequestContext,
    ) -> Result<Chunked, Failure> {
        // Any size gives a list (seed 003, VectorUtilChunkingTest.testChunkSizeZero and
        // testChunkSizeNegative).
        let size = arguments.chunk_size.map(|size| size.max(1));
        let chunking = Chunking {
            strategy: arguments.chunk_type.map(Strategy::from),
            size,
            overlap: arguments.overlap,
            max_tokens: arguments.max_tokens,
        };
        let options = chunking.options(self.service.max_passage_bytes())?;
        let shown = ShownPart { from: arguments.from, limit: arguments.limit };
        let mut chunked = match (arguments.uri, arguments.content) {
            (Some(uri), None | Some(None)) => {
                let access = self.read(cx, &uri).await?;
                let record = access.knowledge.records.get(&access.caller, &uri).await?;
                if !arguments.preview {
                    access.check_writable(&record).await?;
                }
                let uri = record.uri().unwrap_or_default();
                let (knowledge, extracted) = access.document(&record, Some(&options)).await?;
                let embedder = knowledge.pipeline.embedder().clone();
                let mut chunked = self
                    .cut(
                        &knowledge.job,
                        extracted.clone(),
                        options,
                        Some(uri),
                        shown,
                        move |text| embedder.count_tokens(text),
                    )
                    .await?;
                if !arguments.preview {
                    knowledge.vectorize(&record, extracted, options).await?;
                    chunked.stored = true;
                }
                chunked
            }
            (None, Some(content)) => {
                let content = content.unwrap_or_default();
                let embedder: Arc<dyn Embedder> = match self.service.open_existing(cx).await {
                    Ok(Some(access)) => access.knowledge.pipeline.embedder().clone(),
                    // The default model; a good approximation if another one is configured or
                    // cannot be reached.
                    Ok(None) | Err(_) => Arc::new(StaticModel::built_in()),
                };
                let size = DocumentSize { bytes: content.len() as u64, chunks: Some(&options) };
                let job = self.service.job(cx).with_memory(size, "reading the text").await?;
                let limits = job.extract_limits();
                let extracted = worked(&job, "reading the text", move |stop: &Stop| {
                    let mut hint = Hint::media_type("text/plain");
                    hint.limits = limits;
                    hint.stop = Some(stop);
                    Ok(extract(content.as_bytes(), &hint)?)
                })
                .await?;
                self.cut(&job, extracted, options, None, shown, move |text| {
                    embedder.count_tokens(text)
                })
                .await?
            }
            _ => return Err(Failure::invalid("give either uri or content")),
        };
        if let Some(given) = arguments.chunk_size
            && Some(given) != size
        {
            chunked.note = Some(format!("chunkSize {given} is below 1; 1 was used"));
        }
        Ok(chunked)
    }

    async fn cut(
        &self,
        job: &Job,
        extracted: Extracted,
        options: ChunkOptions,
        source_uri: Option<String>,
        shown: ShownPart,
        count_tokens: impl Fn(&str) -> usize + Send + 'static,
    ) -> Result<Chunked, Failure> {
        let ShownPart { from, limit } = shown;
        let size = AnswerSize::of(limit.is_some(), self.limits.max_answer_bytes.get());
        let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
        let (chunks, total_chunks) = worked(job, "cutting the text", move |stop: &Stop| {
            let chunks = chunk_extracted_until(&extracted, &options, stop, count_tokens)?;
            let total = chunks.len();
            let mut used = 0;
            let mut views = Vec::new();
            for chunk in chunks.into_iter().skip(from).take(limit) {
                let mut view = ChunkView::of(chunk, source_uri.clone());
                if views.is_empty() {
                    size.cut(&mut view.content, "limit: 1 gives all of it");
                }
                used += size.cost(&view);
                if used > size.room() && !views.is_empty() {
                    break;
                }
                views.push(view);
            }
            Ok((views, total))
        })
        .await?;
        let next = from.saturating_add(chunks.len());
        Ok(Chunked {
            total_chunks,
            next_index: (next < total_chunks).then_some(next),
            chunks,
            chunk_type: ChunkType::of(options.strategy),
            chunk_size: options.size.get(),
            note: None,
            stored: false,
        })
    }
}

/// The passages that an answer shows.
#[derive(Clone, Copy)]
struct ShownPart {
    /// Index of the first one.
    from: usize,
    /// Maximum number of them.
    limit: Option<NonZeroUsize>,
}

/// Reads a member that is there, so that null differs from an absent member.
fn text_or_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl ChunkView {
    fn of(chunk: Chunk, source_uri: Option<String>) -> Self {
        let metadata = ChunkMetadata {
            chapter: chunk.chapter.as_ref().map(|chapter| chapter.number),
            chapter_title: chunk.chapter.map(|chapter| chapter.title),
            page: chunk.page,
            sentence_count: chunk.sentences,
            word_count: chunk.words,
            start: chunk.span.start,
            end: chunk.span.end,
            source_uri,
        };
        Self { index: chunk.index, content: chunk.content, metadata }
    }
}

const DESCRIPTION: &str = "Cuts a text into passages, and returns them with their positions.";
