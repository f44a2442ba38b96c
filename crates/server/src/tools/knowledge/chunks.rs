//! Cutting texts into passages, to be looked at.

use std::{num::NonZeroUsize, sync::Arc};

use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{
    Chunk, ChunkOptions, Embedder, Extracted, Hint, StaticModel, Strategy, chunk_extracted, extract,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, CHUNK, KnowledgeTools, vectorize::ChunkType};
use crate::knowledge::{Chunking, ErrorCode, Failure, text_of, worked};

/// What `am7_chunk_content` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChunkArguments {
    /// am7:// URI of the content source.
    uri: Option<String>,
    /// Direct text content, instead of uri.
    content: Option<String>,
    /// What passages are made of: "SENTENCE" unless said.
    chunk_type: Option<ChunkType>,
    /// Sentences or words a passage: 5 unless said.
    #[schemars(range(min = 1))]
    chunk_size: Option<i64>,
    /// How many of them a passage repeats from the one before it: 0 unless said.
    overlap: Option<usize>,
    /// How many tokens a passage has at most; as many as it takes unless said.
    max_tokens: Option<NonZeroUsize>,
    /// Preview only, do not store. Without it, what uri names is also made findable by these passages, as am7_vectorize does.
    #[serde(default)]
    preview: bool,
}

/// What `am7_chunk_content` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Chunked {
    /// The passages in their order.
    chunks: Vec<ChunkView>,
    /// How many there are.
    total_chunks: usize,
    /// What they are made of.
    chunk_type: ChunkType,
    /// Of how many, at most.
    chunk_size: usize,
    /// Whether searches find them now.
    stored: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ChunkView {
    /// Its place, from 0.
    index: usize,
    /// What it says.
    content: String,
    metadata: ChunkMetadata,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChunkMetadata {
    /// The number of the chapter that it is in, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    chapter: Option<usize>,
    /// The title of that chapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    chapter_title: Option<String>,
    /// The page that it begins on, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    /// How many sentences it has; 0 if it is made of words.
    sentence_count: usize,
    /// How many words it has.
    word_count: usize,
    /// Where it begins in the text, in bytes.
    start: usize,
    /// Where it ends there.
    end: usize,
    /// What it is from.
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
        let chunking = Chunking {
            strategy: arguments.chunk_type.map(Strategy::from),
            size: arguments.chunk_size,
            overlap: arguments.overlap,
            max_tokens: arguments.max_tokens,
        };
        let options = chunking.options()?;
        match (arguments.uri, arguments.content) {
            (Some(uri), None) => {
                let access = self.read(cx, &uri).await?;
                let record = access.knowledge.records.get(&access.caller, &uri).await?;
                if !arguments.preview {
                    access.check_writable(&record).await?;
                }
                let uri = record.uri().unwrap_or_default();
                let content = access.knowledge.records.content(&access.caller, &uri).await?;
                let extracted = text_of(&record, content).await?;
                let embedder = access.knowledge.pipeline.embedder().clone();
                let count = move |text: &str| embedder.count_tokens(text);
                let mut chunked = self.cut(extracted.clone(), options, Some(uri), count).await?;
                if !arguments.preview {
                    access.knowledge.vectorize(&record, extracted, options).await?;
                    chunked.stored = true;
                }
                Ok(chunked)
            }
            (None, Some(content)) => {
                let embedder: Arc<dyn Embedder> = match self.library.if_there(cx).await {
                    Ok(Some(access)) => access.knowledge.pipeline.embedder().clone(),
                    // What counts where nothing else is configured; near enough where it is, or cannot be reached.
                    Ok(None) | Err(_) => Arc::new(StaticModel::built_in()),
                };
                let work =
                    move || Ok(extract(content.as_bytes(), &Hint::media_type("text/plain"))?);
                let extracted = worked("reading the text", work).await?;
                let count = move |text: &str| embedder.count_tokens(text);
                self.cut(extracted, options, None, count).await
            }
            _ => Err(Failure::invalid("give either uri or content")),
        }
    }

    async fn cut(
        &self,
        extracted: Extracted,
        options: ChunkOptions,
        source_uri: Option<String>,
        count_tokens: impl Fn(&str) -> usize + Send + 'static,
    ) -> Result<Chunked, Failure> {
        /// What a passage takes beside its text, roughly.
        const EACH: usize = 256;
        let most = self.limits.max_resource_bytes.get();
        let work = move || {
            let chunks = chunk_extracted(&extracted, &options, count_tokens)?;
            let bytes: usize = chunks.iter().map(|chunk| chunk.content.len() + EACH).sum();
            if bytes > most {
                let count = chunks.len();
                let message = format!(
                    "{count} passages of about {bytes} bytes are more than limits.max_resource_bytes ({most}); \
                     am7_vectorize makes them findable without showing them, and a larger chunkSize gives fewer"
                );
                return Err(Failure::new(ErrorCode::LimitExceeded, message));
            }
            let view = |chunk| ChunkView::of(chunk, source_uri.clone());
            Ok(chunks.into_iter().map(view).collect::<Vec<_>>())
        };
        let chunks = worked("cutting the text", work).await?;
        Ok(Chunked {
            total_chunks: chunks.len(),
            chunks,
            chunk_type: ChunkType::of(options.strategy),
            chunk_size: options.size.get(),
            stored: false,
        })
    }
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

const DESCRIPTION: &str = "Split content into chunks for vectorization: shows the passages that a text is cut into, with their places in it. Preview \
     chunks without creating embeddings by setting preview.";
