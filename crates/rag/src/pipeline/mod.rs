//! The stages put together: what was extracted becomes chunks, vectors, and something to be found.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use marquetry_database::blocking;
use marquetry_embed::{EmbedError, Embedder};
use marquetry_extract::{Extracted, Stop};
use marquetry_index::{ChunkStore, Document, Hit, NewChunk, SearchRequest, StoreError};

use crate::chunk::{Chunk, ChunkError, ChunkOptions, chunk_extracted_until};

/// A store with the model that fills it and asks it.
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

/// Why a document was not indexed, or nothing was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The document cannot be cut as asked.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// There are no vectors.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The store failed, or is filled by another model.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Pipeline {
    /// A store and the model that it was opened for.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherModel`] if the store is another model's.
    pub fn new(
        store: Arc<dyn ChunkStore>,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self, PipelineError> {
        if store.model() != embedder.model() {
            let (stored, wanted) = (store.model().clone(), embedder.model().clone());
            return Err(StoreError::OtherModel { stored, wanted }.into());
        }
        Ok(Self { store, embedder })
    }

    /// Where the chunks are.
    pub fn store(&self) -> &Arc<dyn ChunkStore> {
        &self.store
    }

    /// What makes the vectors.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// The chunks that a document would have; nothing is stored.
    ///
    /// # Errors
    ///
    /// As [`chunk_extracted`](crate::chunk_extracted).
    pub fn preview(
        &self,
        extracted: &Extracted,
        options: &ChunkOptions,
    ) -> Result<Vec<Chunk>, ChunkError> {
        self.preview_until(extracted, options, &Stop::never())
    }

    /// As [`Self::preview`], unless it is stopped.
    ///
    /// # Errors
    ///
    /// As [`chunk_extracted_until`](crate::chunk_extracted_until).
    pub fn preview_until(
        &self,
        extracted: &Extracted,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<Chunk>, ChunkError> {
        chunk_extracted_until(extracted, options, stop, |text| self.embedder.count_tokens(text))
    }

    /// Keeps a document, in the place of what it had before, and says how many chunks it has. Only chunks are embedded
    /// that it had not before.
    ///
    /// # Errors
    ///
    /// Any stage fails; the document then has what it had before.
    pub async fn index(
        &self,
        document: Document,
        extracted: &Extracted,
        options: &ChunkOptions,
    ) -> Result<u64, PipelineError> {
        let chunks = self.prepare(&document, true, extracted, options).await?;
        Ok(self.store.replace(document, chunks).await?)
    }

    /// The chunks of a document with their vectors, for [`ChunkStore::replace_all`]. If the document is kept already, only
    /// chunks are embedded that it has not.
    ///
    /// Embedded is the text of a chunk after the folder, the name and the title of its document and the headings above it,
    /// so that a question that names those finds it. [`NewChunk::content`] is the text alone.
    ///
    /// # Errors
    ///
    /// The document cannot be cut as asked, the store fails, or there are no vectors.
    pub async fn prepare(
        &self,
        document: &Document,
        is_kept: bool,
        extracted: &Extracted,
        options: &ChunkOptions,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        self.prepare_until(document, is_kept, extracted, options, &Stop::never()).await
    }

    /// As [`Self::prepare`], unless it is stopped. It is also stopped when nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`], and [`ChunkError::Time`] and [`ChunkError::Stopped`] if it was stopped.
    pub async fn prepare_until(
        &self,
        document: &Document,
        is_kept: bool,
        extracted: &Extracted,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        // Cutting counts tokens, which takes long for a long text.
        let this = self.clone();
        let (extracted, options) = (extracted.clone(), *options);
        let cutting = stop.clone();
        let chunks = {
            let caller = stop.on_drop();
            let work =
                move || Ok::<_, StoreError>(this.preview_until(&extracted, &options, &cutting));
            let chunks = blocking(work).await;
            // What fails may be tried again with other options.
            caller.disarm();
            chunks??
        };
        let chunks: Vec<_> =
            chunks.into_iter().map(|chunk| chunk.with_vector(Vec::new())).collect();
        let context = document.context();
        let texts: Vec<String> = chunks.iter().map(|chunk| context.embedded(chunk)).collect();
        let vectors = match is_kept {
            true => self.embed_new(&document.uri, &texts).await?,
            false => self.embed(&texts).await?,
        };
        Ok(with_vectors(chunks, vectors))
    }

    /// Keeps a document that says something else of itself, with the chunks that it has. They are embedded anew where
    /// that is part of what is embedded, such as the title.
    ///
    /// # Errors
    ///
    /// The store fails, or there are no vectors.
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

    /// The vectors of texts as they are to be embedded for a document's chunks. Those that it has already are taken from
    /// the store; only the others are embedded, each once.
    ///
    /// # Errors
    ///
    /// The store fails, or there are no vectors.
    pub async fn embed_new(
        &self,
        uri: &str,
        texts: &[String],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let mut known: HashMap<String, Vec<f32>> = HashMap::new();
        if let Some(old) = self.store.document(uri).await? {
            let context = old.context();
            let kept = self.store.embedded(uri).await?;
            let kept = kept.into_iter().map(|chunk| (context.embedded(&chunk), chunk.vector));
            known.extend(kept);
        }
        let new: BTreeSet<&String> =
            texts.iter().filter(|text| !known.contains_key(*text)).collect();
        let new: Vec<String> = new.into_iter().cloned().collect();
        if !new.is_empty() {
            let vectors = self.embed(&new).await?;
            known.extend(new.into_iter().zip(vectors));
        }
        Ok(texts.iter().map(|text| known[text].clone()).collect())
    }

    /// One vector for each text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let vectors = self.embedder.embed(texts).await?;
        if vectors.len() != texts.len() {
            let model = self.embedder.model().identity.clone();
            let (wanted, got) = (texts.len(), vectors.len());
            return Err(EmbedError::Count { model, wanted, got }.into());
        }
        Ok(vectors)
    }

    /// Finds chunks by words and meaning. A request without a vector gets that of its text.
    ///
    /// # Errors
    ///
    /// The question has no vector, or the store refuses it.
    pub async fn search(&self, mut request: SearchRequest) -> Result<Vec<Hit>, PipelineError> {
        if request.vector.is_none() && request.text.len() <= SearchRequest::MAX_TEXT_BYTES {
            request.vector = Some(self.embedder.embed_query(&request.text).await?);
            request.coverage.get_or_insert_with(|| self.embedder.coverage(&request.text));
        }
        Ok(self.store.search(&request).await?)
    }
}

fn with_vectors(chunks: Vec<NewChunk>, vectors: Vec<Vec<f32>>) -> Vec<NewChunk> {
    let chunks = chunks.into_iter().zip(vectors);
    let with_vector = |(mut chunk, vector): (NewChunk, _)| {
        chunk.vector = vector;
        chunk
    };
    chunks.map(with_vector).collect()
}
