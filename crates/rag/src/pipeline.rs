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
        let chunks = self.prepare(&document, true, Arc::new(extracted.clone()), options).await?;
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
        extracted: Arc<Extracted>,
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
        extracted: Arc<Extracted>,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        let chunks = self.cut_until(extracted, options, stop).await?;
        self.with_vectors(document, is_kept, chunks).await
    }

    /// Cuts a text into chunks without vectors, until it is stopped. Dropping the future also stops
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the text cannot be cut, or if it was stopped ([`ChunkError::Time`],
    /// [`ChunkError::Stopped`]).
    pub async fn cut_until(
        &self,
        extracted: Arc<Extracted>,
        options: &ChunkOptions,
        stop: &Stop,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        // Cutting counts tokens, which blocks for a long time on a long text.
        let embedder = Arc::clone(&self.embedder);
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
        Ok(cut??.into_iter().map(|chunk| chunk.with_vector(Vec::new())).collect())
    }

    /// Returns the chunks of a document with their vectors, for [`ChunkStore::replace_all`]. If the
    /// document is already stored (`is_kept`), embeds only its new chunks.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or embedding fails.
    pub async fn with_vectors(
        &self,
        document: &Document,
        is_kept: bool,
        mut chunks: Vec<NewChunk>,
    ) -> Result<Vec<NewChunk>, PipelineError> {
        let known = if is_kept { self.vectors_of(&document.uri).await? } else { HashMap::new() };
        self.set_vectors(document, &mut chunks, known).await?;
        Ok(chunks)
    }

    /// Sets the vectors of the chunks of a document. Each text is embedded once, in portions: the
    /// texts of a large document, with the headings in each, have several times its size.
    async fn set_vectors(
        &self,
        document: &Document,
        chunks: &mut [NewChunk],
        mut known: HashMap<TextHash, Vec<f32>>,
    ) -> Result<(), PipelineError> {
        const PORTION_BYTES: usize = 4 << 20;
        const PORTION: usize = 1 << 14;
        let context = document.context();
        let mut first_with: HashMap<TextHash, usize> = HashMap::new();
        let mut start = 0;
        while start < chunks.len() {
            let mut new = Portion::default();
            let mut end = start;
            while end < chunks.len() && end - start < PORTION && new.bytes < PORTION_BYTES {
                let text = context.embedded(&chunks[end]);
                let hash = blake3::hash(text.as_bytes());
                let first = *first_with.entry(hash).or_insert(end);
                if first == end {
                    match known.remove(&hash) {
                        Some(vector) => chunks[end].vector = vector,
                        None => new.push(end, text),
                    }
                } else {
                    new.repeated.push((first, end));
                }
                end += 1;
            }
            if !new.texts.is_empty() {
                let vectors = self.embed(&new.texts).await?;
                for (place, vector) in new.places.into_iter().zip(vectors) {
                    chunks[place].vector = vector;
                }
            }
            for (first, place) in new.repeated {
                let vector = chunks[first].vector.clone();
                chunks[place].vector = vector;
            }
            start = end;
        }
        Ok(())
    }

    /// Returns the vectors of the texts that a document already has.
    async fn vectors_of(&self, uri: &str) -> Result<HashMap<TextHash, Vec<f32>>, PipelineError> {
        let Some(old) = self.store.document(uri).await? else { return Ok(HashMap::new()) };
        let context = old.context();
        let chunks = self.store.embedded(uri).await?.into_iter();
        Ok(chunks
            .map(|chunk| (blake3::hash(context.embedded(&chunk).as_bytes()), chunk.vector))
            .collect())
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
            let known = self.vectors_of(&document.uri).await?;
            self.set_vectors(&document, &mut chunks, known).await?;
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
        let mut known = self.vectors_of(uri).await?;
        let hashes: Vec<TextHash> =
            texts.iter().map(|text| blake3::hash(text.as_bytes())).collect();
        let new: BTreeSet<&String> = texts
            .iter()
            .zip(&hashes)
            .filter(|(_, hash)| !known.contains_key(*hash))
            .map(|(text, _)| text)
            .collect();
        let new: Vec<String> = new.into_iter().cloned().collect();
        if !new.is_empty() {
            let vectors = self.embed(&new).await?;
            known.extend(new.iter().map(|text| blake3::hash(text.as_bytes())).zip(vectors));
        }
        Ok(hashes.iter().map(|hash| known[hash].clone()).collect())
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

/// The hash of an embedded text.
type TextHash = blake3::Hash;

/// Chunks that are embedded together.
#[derive(Default)]
struct Portion {
    /// The chunks of the texts.
    places: Vec<usize>,
    texts: Vec<String>,
    bytes: usize,
    /// Chunks with the text of an earlier one: that one, and the chunk.
    repeated: Vec<(usize, usize)>,
}

impl Portion {
    fn push(&mut self, place: usize, text: String) {
        self.bytes += text.len();
        self.places.push(place);
        self.texts.push(text);
    }
}
