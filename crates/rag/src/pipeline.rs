//! The pipeline: cuts texts into chunks, embeds them, stores them and searches them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use marquetry_database::blocking;
use marquetry_embed::{EmbedError, Embedder};
use marquetry_extract::{Extracted, Stop};
use marquetry_index::{ChunkStore, Document, Hit, NewChunk, SearchRequest, StoreError};

use crate::chunk::{ChunkError, ChunkOptions, chunk_extracted_until};

/// A store of chunks with the model that embeds chunks and questions.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
/// use marquetry_rag::{
///     ChunkOptions, Document, EmbeddingModel, Hint, MemoryStore, Pipeline, SearchRequest, StaticModel, extract,
/// };
///
/// let store = MemoryStore::new(EmbeddingModel::default());
/// let pipeline = Pipeline::new(Arc::new(store), Arc::new(StaticModel::built_in()))?;
/// let bread = extract(b"# Bread\n\nBread is made of flour and water.", &Hint::file("bread.md"))?;
/// pipeline.index(Document::new("bread.md"), &bread, &ChunkOptions::default()).await?;
///
/// let hits = pipeline.search(SearchRequest::new("What is in bread?", None)).await?;
/// assert_eq!(hits[0].chunk.document, "bread.md");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Pipeline {
    store: Arc<dyn ChunkStore>,
    embedder: Arc<dyn Embedder>,
}

/// An error of indexing or searching.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The text could not be cut into chunks.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// Embedding failed.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The store failed, or was filled by another model.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Pipeline {
    /// Creates a pipeline from a store and the model for which it was opened.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::OtherModel`] if the store was opened for another model.
    pub fn new(
        store: Arc<dyn ChunkStore>,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self, PipelineError> {
        if store.model() != embedder.model() {
            let stored = store.model().clone();
            let wanted = embedder.model().clone();
            return Err(StoreError::OtherModel { stored, wanted }.into());
        }
        Ok(Self { store, embedder })
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn ChunkStore> {
        &self.store
    }

    /// Returns the model.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Indexes a document in place of its former version, and returns the number of its chunks.
    /// Embeds only new chunks.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails; the document is then unchanged.
    pub async fn index(
        &self,
        document: Document,
        extracted: &Extracted,
        options: &ChunkOptions,
    ) -> Result<u64, PipelineError> {
        let chunks = self.prepare(&document, true, extracted, options).await?;
        Ok(self.store.replace(document, chunks).await?)
    }

    /// Returns the chunks of a document with their vectors, for [`ChunkStore::replace_all`]. If the
    /// document is already stored (`is_kept`), embeds only its new chunks.
    ///
    /// The embedded text of a chunk begins with the folder, the name and the title of its document
    /// and the headings above the chunk, so that questions with these words find it.
    /// [`NewChunk::content`] is the text without them.
    ///
    /// # Errors
    ///
    /// Returns an error if the text cannot be cut, or the store or embedding fails.
    pub async fn prepare(
        &self,
        document: &Document,
        is_kept: bool,
        extracted: &Extracted,
        options: &ChunkOptions,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        self.prepare_until(document, is_kept, extracted, options, &Stop::never()).await
    }

    /// Prepares as [`Self::prepare`] does, until it is stopped. Dropping the future also stops it.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::prepare`] would, or if it was stopped ([`ChunkError::Time`],
    /// [`ChunkError::Stopped`]).
    pub async fn prepare_until(
        &self,
        document: &Document,
        is_kept: bool,
        extracted: &Extracted,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        // Cutting counts tokens, which blocks for a long time on a long text.
        let embedder = Arc::clone(&self.embedder);
        let extracted = extracted.clone();
        let options = *options;
        let cutting = stop.clone();
        let caller = stop.on_drop();
        let cut = blocking(move || {
            Ok::<_, StoreError>(chunk_extracted_until(&extracted, &options, &cutting, |text| {
                embedder.count_tokens(text)
            }))
        })
        .await;
        // The caller may try again with other options.
        caller.disarm();
        let chunks: Vec<_> = cut??.into_iter().map(|chunk| chunk.with_vector(Vec::new())).collect();
        let context = document.context();
        let texts: Vec<String> = chunks.iter().map(|chunk| context.embedded(chunk)).collect();
        let vectors = if is_kept {
            self.embed_new(&document.uri, &texts).await?
        } else {
            self.embed(&texts).await?
        };
        Ok(with_vectors(chunks, vectors))
    }

    /// Replaces the metadata of a document and keeps its chunks. Embeds the chunks again if
    /// embedded metadata changed, such as the title.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or embedding fails.
    pub async fn relabel(&self, document: Document) -> Result<u64, PipelineError> {
        let mut chunks = self.store.embedded(&document.uri).await?;
        let old = self.store.document(&document.uri).await?;
        let context = document.context();
        if old.is_some_and(|old| old.context() != context) {
            let texts: Vec<String> = chunks.iter().map(|chunk| context.embedded(chunk)).collect();
            let vectors = self.embed_new(&document.uri, &texts).await?;
            chunks = with_vectors(chunks, vectors);
        }
        Ok(self.store.replace(document, chunks).await?)
    }

    /// Returns the vectors of texts to embed for the chunks of a document. Vectors of texts that
    /// the document already has come from the store; the other texts are embedded, each once.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or embedding fails.
    pub async fn embed_new(
        &self,
        uri: &str,
        texts: &[String],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let mut known: HashMap<String, Vec<f32>> = HashMap::new();
        if let Some(old) = self.store.document(uri).await? {
            let context = old.context();
            for chunk in self.store.embedded(uri).await? {
                known.insert(context.embedded(&chunk), chunk.vector);
            }
        }
        let distinct: BTreeSet<&String> =
            texts.iter().filter(|text| !known.contains_key(*text)).collect();
        let new: Vec<String> = distinct.into_iter().cloned().collect();
        if !new.is_empty() {
            let vectors = self.embed(&new).await?;
            known.extend(new.into_iter().zip(vectors));
        }
        Ok(texts.iter().map(|text| known[text].clone()).collect())
    }

    /// Returns one vector for each text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let vectors = self.embedder.embed(texts).await?;
        if vectors.len() != texts.len() {
            let model = self.embedder.model().identity.clone();
            let wanted = texts.len();
            let got = vectors.len();
            return Err(EmbedError::Count { model, wanted, got }.into());
        }
        Ok(vectors)
    }

    /// Returns chunks by words and meaning. If the request has no vector, its text is embedded.
    ///
    /// # Errors
    ///
    /// Returns an error if embedding the question fails, or the store fails or refuses the search.
    pub async fn search(&self, mut request: SearchRequest) -> Result<Vec<Hit>, PipelineError> {
        if request.vector.is_none() && request.text.len() <= SearchRequest::MAX_TEXT_BYTES {
            request.vector = Some(self.embedder.embed_query(&request.text).await?);
            request.coverage.get_or_insert_with(|| self.embedder.coverage(&request.text));
        }
        Ok(self.store.search(&request).await?)
    }
}

fn with_vectors(chunks: Vec<NewChunk>, vectors: Vec<Vec<f32>>) -> Vec<NewChunk> {
    chunks
        .into_iter()
        .zip(vectors)
        .map(|(mut chunk, vector)| {
            chunk.vector = vector;
            chunk
        })
        .collect()
}
