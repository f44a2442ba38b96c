//! A store in memory. Its content is lost when it is dropped.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use async_trait::async_trait;

use super::{ChunkStore, blocking};
use crate::{
    EmbeddingModel,
    ranking::{
        Analyzer, ChunkTerms, Entry, FoundRow, Index, Language, PackedVector, Query, Row, Term,
        Word,
    },
    types::{
        ChunkId, Document, Filter, Hit, Kind, NewChunk, SearchRequest, StoreError, StoredChunk,
        check_documents, check_request, label, labels,
    },
};

/// A store in memory. Its content is lost when it is dropped.
pub struct MemoryStore {
    model: EmbeddingModel,
    shared: Arc<Shared>,
}

struct Shared {
    analyzer: Mutex<Analyzer>,
    /// The number of each term. Numbers are never removed.
    terms: RwLock<HashMap<Box<str>, Term>>,
    contents: RwLock<Contents>,
}

/// The chunks, and the index of them.
struct Contents {
    index: Index,
    /// The documents, by URI.
    documents: BTreeMap<String, StoredDocument>,
    /// The number of each present or former document.
    numbers: HashMap<String, u32>,
    /// The document of each number.
    uris: Vec<String>,
}

struct StoredDocument {
    document: Document,
    chunks: Vec<StoredChunk>,
}

impl MemoryStore {
    /// Returns an empty store for vectors of a model.
    pub fn new(model: EmbeddingModel) -> Self {
        let contents = Contents {
            index: Index::new(model.dimension),
            documents: BTreeMap::new(),
            numbers: HashMap::new(),
            uris: Vec::new(),
        };
        let shared = Shared {
            analyzer: Mutex::default(),
            terms: RwLock::default(),
            contents: RwLock::new(contents),
        };
        Self { model, shared: Arc::new(shared) }
    }
}

#[async_trait]
impl ChunkStore for MemoryStore {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError> {
        check_documents(&self.model, &documents)?;
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let documents: Vec<_> = documents
                .into_iter()
                .map(|(document, chunks)| {
                    let rows = shared.rows(&document, &chunks);
                    (document, chunks, rows)
                })
                .collect();
            let mut contents = shared.write();
            Ok(documents
                .into_iter()
                .map(|(document, chunks, rows)| contents.put(document, chunks, &rows))
                .sum())
        })
        .await
    }

    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError> {
        let mut contents = self.shared.write();
        let gone: Vec<u32> = contents
            .index
            .select(filter.scope_label(), filter.compile())
            .map(|(entry, _)| entry.number)
            .collect();
        let mut chunks = 0;
        for number in gone {
            chunks += contents.index.remove(number) as u64;
            let uri = contents.uris[number as usize].clone();
            contents.documents.remove(&uri);
        }
        Ok(chunks)
    }

    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError> {
        Ok(self.shared.read().documents.get(uri).map(|stored| stored.document.clone()))
    }

    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let contents = self.shared.read();
        let documents = contents.documents.range::<str, _>((from, Bound::Unbounded));
        Ok(documents
            .map(|(_, stored)| &stored.document)
            .filter(|document| filter.matches(document))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError> {
        let contents = self.shared.read();
        let chunks = contents.documents.get(uri).map_or(&[][..], |stored| &stored.chunks);
        Ok(chunks[..limit.min(chunks.len())].to_vec())
    }

    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError> {
        let contents = self.shared.read();
        let Some(stored) = contents.documents.get(uri) else { return Ok(Vec::new()) };
        let vectors = contents.index.vectors(contents.numbers[uri]);
        let chunks = stored.chunks.iter().cloned().zip(vectors);
        Ok(chunks.map(|(chunk, vector)| NewChunk::from_stored(chunk, vector)).collect())
    }

    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
        let contents = self.shared.read();
        let stored =
            contents.uris.get(id.document as usize).and_then(|uri| contents.documents.get(uri));
        Ok(stored.and_then(|stored| {
            let chunk = stored.chunks.get(id.index as usize)?;
            Some((stored.document.clone(), chunk.clone()))
        }))
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let contents = self.shared.read();
        let counts = contents.index.select(filter.scope_label(), filter.compile());
        Ok(counts.map(|(_, rows)| u64::from(rows)).sum())
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
        check_request(request, &self.model)?;
        let shared = Arc::clone(&self.shared);
        let request = request.clone();
        let model = self.model.clone();
        blocking(move || {
            let words = shared.words(&request.text);
            let contents = shared.read();
            let found = contents.index.search(&Query::new(&request, &words, &model));
            Ok(found.into_iter().map(|found| contents.hit(&request, found)).collect())
        })
        .await
    }
}

impl Shared {
    /// Returns the words of a question, with the numbers of their terms.
    fn words(&self, question: &str) -> Vec<Word> {
        let numbers = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        let Ok(languages) =
            Language::of_store(|term| Ok::<_, Infallible>(numbers.contains_key(term)));
        let words = Analyzer::default().question(question, SearchRequest::MAX_TERMS, &languages);
        let Ok(words) = Word::all(&words, |term| Ok::<_, Infallible>(numbers.get(term).copied()));
        words
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self, document: &Document, chunks: &[NewChunk]) -> Vec<Row> {
        let mut analyzer = self.analyzer.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(counted) = analyzer
            .count_terms(document, chunks, |term| Ok::<_, Infallible>(self.number_of_term(term)));
        chunks
            .iter()
            .zip(counted)
            .map(|(chunk, ChunkTerms { terms, length })| Row {
                vector: PackedVector::new(&chunk.vector),
                terms,
                length,
            })
            .collect()
    }

    /// Returns the number of a term; a new term gets a number.
    fn number_of_term(&self, term: &str) -> Term {
        // Most terms are known, and searches read the numbers at the same time.
        let known = self.terms.read().unwrap_or_else(PoisonError::into_inner).get(term).copied();
        known.unwrap_or_else(|| {
            let mut terms = self.terms.write().unwrap_or_else(PoisonError::into_inner);
            let next = terms.len() as Term;
            *terms.entry(term.into()).or_insert(next)
        })
    }
}

impl Contents {
    /// Returns the hit of a found row.
    fn hit(&self, request: &SearchRequest, found: FoundRow) -> Hit {
        let stored = &self.documents[&self.uris[found.document as usize]];
        let chunk = stored.chunks[found.index as usize].clone();
        found.into_hit(request, &stored.document, chunk)
    }

    /// Replaces a document, and returns the number of its chunks.
    fn put(&mut self, document: Document, chunks: Vec<NewChunk>, rows: &[Row]) -> u64 {
        let next = self.uris.len() as u32;
        let number = *self.numbers.entry(document.uri.clone()).or_insert_with(|| {
            self.uris.push(document.uri.clone());
            next
        });
        let uri = label(Kind::Uri, &[&document.uri]);
        let entry = Entry { number, uri, labels: labels(&document) };
        let mut adding = self.index.add(entry);
        for row in rows {
            adding.row(row.as_ref());
        }
        let count = chunks.len() as u32;
        let chunks = (0..count).zip(chunks).map(|(index, chunk)| {
            let NewChunk { content, span, page, page_starts, chapter, headings, .. } = chunk;
            let id = ChunkId { document: number, index };
            let document = document.uri.clone();
            StoredChunk {
                id,
                document,
                content,
                span,
                page,
                page_starts,
                chapter,
                headings,
                index,
                count,
            }
        });
        let chunks = chunks.collect();
        self.documents.insert(document.uri.clone(), StoredDocument { document, chunks });
        u64::from(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        for dimension in [64, 384] {
            conformance::check(async || MemoryStore::new(EmbeddingModel::new("test", dimension)))
                .await;
        }
    }
}
